package cli

import (
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
)

// common has the flags of every verb that opens a repository.
type common struct {
	app.Options
	memory  int // in MiB
	output  string
	formats []string // the values that --output accepts; none: the verb has no --output
	quiet   bool
	verbose bool
}

// flags adds the flags of a verb that renders. formats are the values of --output, the default first; a verb with
// json has yaml too.
func (c *common) flags(cmd *cobra.Command, formats ...string) {
	c.readFlags(cmd, formats...)
	c.renderFlags(cmd)
}

func (c *common) renderFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&c.Jobs, "jobs", c.Jobs, "number of `targets` to render in parallel")
	f.DurationVar(&c.RenderTimeout, "render-timeout", c.RenderTimeout, "time limit for one target")
	f.IntVar(&c.memory, "render-memory", c.memory, "memory limit of one render process, in `MiB`")
}

// readFlags adds the flags of a verb that reads a repository and renders nothing.
func (c *common) readFlags(cmd *cobra.Command, formats ...string) {
	c.repositoryFlags(cmd)
	f := cmd.Flags()
	f.BoolVarP(&c.quiet, "quiet", "q", false, "print no progress")
	f.BoolVarP(&c.verbose, "verbose", "v", false, "print each phase with its duration")
	cmd.MarkFlagsMutuallyExclusive("quiet", "verbose")
	c.outputFlag(cmd, formats...)
}

// repositoryFlags adds the flags that say which repository to read.
func (c *common) repositoryFlags(cmd *cobra.Command) {
	c.Jobs, c.RenderTimeout, c.memory = runtime.GOMAXPROCS(0), time.Minute, 1024
	f := cmd.Flags()
	f.StringVar(&c.Repo, "repo", ".", "source `repository`: a folder or a URL")
	f.StringSliceVar(&c.PlainHTTP, "plain-http", nil, "chart registry `hosts` to contact over HTTP instead of HTTPS")
	completeFlag(cmd, "repo", completeFolders)
	completeFlag(cmd, "plain-http", completeNothing)
}

// remoteFlag adds --remote: the name of a remote or, for a fleet without a Git repository for its branches, a place in a
// registry.
func (c *common) remoteFlag(f *pflag.FlagSet, name *string, usage string) {
	*name = "origin"
	f.Var(&remoteValue{name, &c.Output}, "remote", usage+", or oci://REGISTRY/PATH")
}

// remoteValue is a value of --remote.
type remoteValue struct{ name, registry *string }

// Set implements pflag.Value.
func (v *remoteValue) Set(text string) error {
	if !strings.HasPrefix(text, "oci://") {
		*v.name, *v.registry = text, ""
		return nil
	}
	*v.registry = text
	return fleet.CheckRegistry(text)
}

// String implements pflag.Value.
func (v *remoteValue) String() string {
	if v.registry != nil && *v.registry != "" {
		return *v.registry
	}
	if v.name == nil { // pflag asks a zero value for its text
		return ""
	}
	return *v.name
}

// Type implements pflag.Value.
func (*remoteValue) Type() string { return "string" }

// capabilityFlags adds the flags that say what charts see of every cluster.
func (c *common) capabilityFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.Assumed.KubeVersion, "kube-version", "",
		"Kubernetes `version` that charts see on every cluster, instead of the cluster's own")
	f.StringSliceVar(&c.Assumed.APIVersions, "api-versions", nil,
		"`APIs` that charts see on every cluster, in addition to the cluster's own")
	completeFlag(cmd, "kube-version", completeNothing)
	completeFlag(cmd, "api-versions", completeNothing)
}

// outputFlag adds --output.
func (c *common) outputFlag(cmd *cobra.Command, formats ...string) {
	if len(formats) == 0 {
		return
	}
	if i := slices.Index(formats, "json"); i >= 0 && !slices.Contains(formats, "yaml") {
		formats = slices.Insert(slices.Clone(formats), i+1, "yaml")
	}
	c.formats = formats
	cmd.Flags().StringVarP(&c.output, "output", "o", formats[0], "output `format`: "+either(formats))
	completeFlag(cmd, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// check validates the flags.
func (c *common) check(...string) error {
	if len(c.formats) > 0 && !slices.Contains(c.formats, c.output) {
		return usagef("--output must be %s, not %q", either(c.formats), c.output)
	}
	if v := c.Assumed.KubeVersion; v != "" {
		if err := fleet.CheckKubeVersion(v); err != nil {
			return usagef("--kube-version: %w, such as 1.33.2", err)
		}
		c.Assumed.KubeVersion = strings.TrimPrefix(v, "v")
	}
	for _, api := range c.Assumed.APIVersions {
		if err := fleet.CheckAPIVersion(api); err != nil {
			return usagef("--api-versions: %w, such as monitoring.coreos.com/v1/ServiceMonitor", err)
		}
	}
	if c.Jobs == 0 && c.memory == 0 { // a verb that opens no repository has no such flags
		return nil
	}
	c.RenderMemory = int64(c.memory) << 20
	switch {
	case c.Jobs < 1:
		return usagef("--jobs must be at least 1, not %d", c.Jobs)
	case c.memory < 64:
		return usagef("--render-memory must be at least 64 MiB, not %d", c.memory)
	case c.RenderTimeout <= 0:
		return usagef("--render-timeout must be positive, not %s", c.RenderTimeout)
	}
	return nil
}

// either joins words as "a, b or c".
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
