package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// completion lists what an argument or the value of a flag can be.
type completion = cobra.CompletionFunc

// addCompletions gives every command of the tree the completions of its flags and arguments, by their names. The fleet is read
// from the working tree of --repo; where it cannot be read, nothing is offered.
func addCompletions(root *cobra.Command, o IO) {
	n := &names{io: o}
	clusters, apps := n.of(clusterNames), n.of(appNames)
	environments, waves := n.of(environmentNames), n.of(waveNames)
	targets := n.of(func(f *fleet.Fleet) []string { return slices.Concat(environmentNames(f), clusterNames(f)) })
	flags := map[string]completion{
		"cluster": clusters, "app": apps, "env": environments, "hydrate-env": environments, "from": environments, "allow-unmerged": environments,
		"wave": waves, "commit": n.revisions, "to": n.revisions, "against": n.against,
		"remote": completeNothing, "by": completeNothing, "reason": completeNothing, "until": completeNothing, "value": completeNothing,
		"jobs": completeNothing, "render-timeout": completeNothing, "render-memory": completeNothing,
	}
	arguments := map[string]completion{
		"promote": first(environments), "approve": first(environments), "rollback": first(environments), "halt": first(environments), "resume": first(environments),
		"status": first(environments), "history": first(environments), "freeze": first(targets), "unfreeze": first(targets),
		"diff": first(n.spans), "affected": first(n.spans), "check": first(n.revisions), "init": first(completeFolders),
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for name, complete := range flags {
			if _, has := c.GetFlagCompletionFunc(name); c.Flags().Lookup(name) != nil && !has {
				completeFlag(c, name, complete)
			}
		}
		if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() {
			c.ValidArgsFunction = arguments[c.Name()]
			if c.ValidArgsFunction == nil {
				c.ValidArgsFunction = completeNothing
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// completeFlag registers a completion. It fails only for flags that the command does not have.
func completeFlag(cmd *cobra.Command, flag string, complete completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

func completeNothing(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func completeFolders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// first completes the first argument only.
func first(complete completion) completion {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return completeNothing(c, args, typed)
		}
		return complete(c, args, typed)
	}
}

// names reads the names that completions offer.
type names struct{ io IO }

// open opens the folder of --repo. It never asks a remote: completions must be fast and work offline.
func (n *names) open(c *cobra.Command) (*app.Session, error) {
	options := app.Options{Repo: ".", Jobs: 1}
	if f := c.Flags().Lookup("repo"); f != nil {
		options.Repo = f.Value.String()
	}
	if strings.Contains(options.Repo, "://") {
		return nil, usagef("%s is not a folder", options.Repo)
	}
	options.Detect = true
	return app.OpenFolder(c.Context(), n.io.Env, options, nil)
}

func (n *names) of(list func(*fleet.Fleet) []string) completion {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		s, err := n.open(c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer s.Close()
		f, err := workingFleet(c.Context(), s, c.Flags().Lookup("repo").Value.String())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list(f), cobra.ShellCompDirectiveNoFileComp
	}
}

func workingFleet(ctx context.Context, s *app.Session, dir string) (*fleet.Fleet, error) {
	if root := s.Store.Worktree(); root != "" {
		dir = root
	}
	tree, err := s.Store.WorkingTree(ctx, dir)
	if err != nil {
		return nil, err
	}
	f, _, err := s.Fleet(ctx, tree)
	return f, err
}

// revisions lists the branches of the repository, without those that hold rendered output.
func (n *names) revisions(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := n.open(c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	branches, err := s.Store.Local().List(c.Context(), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := []string{"HEAD"}
	for _, name := range slices.Sorted(maps.Keys(branches)) {
		if !strings.HasPrefix(name, "cluster/") && !strings.HasPrefix(name, "env/") && !strings.HasPrefix(name, "sluice/") {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// spans completes BASE and BASE..HEAD.
func (n *names) spans(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	list, directive := n.revisions(c, args, typed)
	if base, _, ok := strings.Cut(typed, ".."); ok {
		for i := range list {
			list[i] = base + ".." + list[i]
		}
		return list, directive
	}
	return list, directive | cobra.ShellCompDirectiveNoSpace
}

// against completes the other side of diff: a cluster if --cluster names one, else an environment branch.
func (n *names) against(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if f := c.Flags().Lookup("cluster"); f != nil && f.Changed {
		return n.of(clusterNames)(c, args, typed)
	}
	return n.of(func(f *fleet.Fleet) []string {
		var out []string
		for _, e := range f.Spec.Environments {
			out = append(out, f.EnvironmentBranch(e.Name))
		}
		return out
	})(c, args, typed)
}

func clusterNames(f *fleet.Fleet) []string {
	out := make([]string, len(f.Clusters))
	for i, c := range f.Clusters {
		out[i] = c.Name
	}
	return out
}

func appNames(f *fleet.Fleet) []string {
	out := make([]string, len(f.Apps))
	for i, a := range f.Apps {
		out[i] = a.Name
	}
	return out
}

func environmentNames(f *fleet.Fleet) []string {
	out := make([]string, len(f.Spec.Environments))
	for i, e := range f.Spec.Environments {
		out[i] = e.Name
	}
	return out
}

func waveNames(f *fleet.Fleet) []string {
	var out []string
	for _, e := range f.Spec.Environments {
		for _, w := range e.Promotion.Waves {
			if !slices.Contains(out, w.Name) {
				out = append(out, w.Name)
			}
		}
	}
	return out
}
