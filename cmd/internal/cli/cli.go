// Package cli is the command line. Each verb is one file: a struct of options, a constructor that binds flags to it,
// and a run method that calls the packages below. The package parses the call, prints the result and maps errors to
// exit statuses (errors.go); it decides nothing about fleets.
package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
)

// IO has the parts of its process that a command uses: streams, environment and working directory.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // Err is a terminal
	Env      app.Environment
	Dir      string // the working directory

	screen *phases // the progress report on the terminal; nil without one
}

// System returns the IO of the running process.
func System() IO {
	home, _ := os.UserHomeDir() // without a home folder, caches and credential files are in the working directory
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	dir, _ := os.Getwd() // verbs that need the folder fail when they open it
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("CI") == "" && os.Getenv("TERM") != "dumb"
	return IO{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: terminal,
		Env: app.Environment{Getenv: os.Getenv, Home: home, Executable: executable}, Dir: dir,
	}
}

// Main runs a command line and returns the exit status. It prints an error to o.Err and, with --output json, also to
// o.Out.
func Main(ctx context.Context, args []string, o IO) int {
	if o.Terminal {
		o.screen = &phases{out: o.Err}
		o.Out, o.Err = screen{o.Out, o.screen}, screen{o.Err, o.screen}
		defer func() { _, _ = o.Err.Write(nil) }() // clears the progress report
	}
	out := &written{Writer: o.Out}
	o.Out = out
	root := newRoot(o) //nolint:contextcheck // a completion has the context of its command
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err != nil {
		printError(o.Err, err)
		if failed := printErrorDocument(out, command, args, err); failed != nil {
			printError(o.Err, failed)
		}
	}
	return exitStatus(err)
}

// Groups of the root's help.
const (
	groupFleet   = "fleet"
	groupRender  = "render"
	groupPromote = "promote"
	groupRun     = "run"
)

type verb struct {
	group string
	add   func(IO) *cobra.Command
}

func verbs() []verb {
	return []verb{
		{groupFleet, newTry},
		{groupFleet, newInit},
		{groupFleet, newValidate},
		{groupFleet, newImport},
		{groupFleet, newEject},
		{groupFleet, newWhere},
		{groupFleet, newExplain},
		{groupFleet, newCapabilities},
		{groupFleet, newUpgrade},
		{groupFleet, newDeps},
		{groupFleet, newPolicy},
		{groupRender, newRender},
		{groupRender, newAffected},
		{groupRender, newDiff},
		{groupRender, newCheck},
		{groupRender, newHydrate},
		{groupRender, newVerify},
		{groupRender, newPublish},
		{groupPromote, newStatus},
		{groupPromote, newHistory},
		{groupPromote, newGate},
		{groupFleet, newSite},
		{groupFleet, newConform},
		{groupFleet, newCatalog},
		{groupFleet, newCluster},
		{groupPromote, newPromote},
		{groupPromote, newApprove},
		{groupPromote, newRollback},
		{groupPromote, newHalt},
		{groupPromote, newResume},
		{groupPromote, newFreeze},
		{groupPromote, newUnfreeze},
		{groupPromote, newRepair},
		{groupPromote, newBundle},
		{groupPromote, newReceipt},
		{groupRun, newCI},
		{groupRun, newServe},
		{groupRun, newBootstrap},
		{groupRun, newMCP},
		{"", newSchema},
		{"", newVersion},
		{"", newChild},
	}
}

func newRoot(o IO) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "sluice",
		Short: "Render a fleet of Kubernetes clusters into Git branches",
		Long: `Sluice renders layered Helm charts, Kustomize roots and manifests into plain manifests on Git branches, one per environment
and one per cluster, for Flux or Argo CD to sync. It shows what a change does before it is merged, and promotes commits
from environment to environment.

Exit status: 0 success; 1 failure; 2 usage error; 3 a difference was found (verify, conform --budget,
diff --exit-code); 4 timeout, 5 blocked (promote --wait); 130 interrupted.`,
		Example: `  sluice init && sluice validate            # start a fleet
  sluice diff                               # what the working tree changes, compared with the trunk
  sluice hydrate --push                     # render HEAD and push the branches
  sluice status                             # what each environment runs`,
		Version:       app.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetOut(o.Out) // before InitDefaultCompletionCmd, which keeps the writer
	root.SetErr(o.Err)
	root.AddGroup(
		&cobra.Group{ID: groupFleet, Title: "Fleet:"}, &cobra.Group{ID: groupRender, Title: "Rendering:"},
		&cobra.Group{ID: groupPromote, Title: "Promotion:"}, &cobra.Group{ID: groupRun, Title: "Operation:"},
	)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see `%s --help`)", flagError(c, err), c.CommandPath())
	})
	for _, v := range verbs() {
		command := v.add(o)
		command.GroupID = v.group
		root.AddCommand(command)
	}
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	// with an argument, cobra adds the command although it is not being executed
	root.InitDefaultCompletionCmd("completion")
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion.Name() == "completion" {
		group(completion)
		completion.Short = "Print the completion script for a shell"
	}
	addCompletions(root, o)
	checkCalls(root)
	return root
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Example: "  sluice help hydrate",
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return usagef("%w", unknownCommand(found, rest[0]))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if found, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range found.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, sub.Name()+"\t"+sub.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
