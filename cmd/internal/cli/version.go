package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
)

// build describes the binary.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a dirty working tree
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(o IO) *cobra.Command {
	var v common
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Example: `  sluice version
  sluice version -o json`,
		Args: noArgs(""),
		RunE: func(*cobra.Command, []string) error {
			if err := v.check(); err != nil {
				return err
			}
			b := readBuild()
			if v.structured() {
				return v.encode(o.Out, b)
			}
			fmt.Fprintf(o.Out, "sluice %s\n", b.Version)
			if b.Commit != "" {
				fmt.Fprintf(o.Out, "commit %s of %s%s\n", b.Commit, b.Date,
					map[bool]string{true: ", modified"}[b.Modified])
			}
			fmt.Fprintf(o.Out, "%s, %s\n", b.Go, b.Platform)
			return nil
		},
	}
	v.outputFlag(c, "text", "json")
	return c
}

func readBuild() build {
	b := build{Version: app.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
