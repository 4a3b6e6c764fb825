package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/fleet"
)

type capabilitiesOptions struct{ common }

func newCapabilities(o IO) *cobra.Command {
	var r capabilitiesOptions
	c := &cobra.Command{
		Use:   "capabilities [CLUSTER...]",
		Short: "Print the commands that write down what clusters serve",
		Long: `Prints, for each cluster, a command that calls kubectl and writes capabilities/CLUSTER.txt: the Kubernetes version of the cluster
and the APIs that it serves. Commit the file. Charts then see them as .Capabilities, and kubeVersion in sluice.yaml or in the
cluster's file is not needed. Run the command again after an upgrade of the cluster, and after new custom resource definitions.
Sluice itself never talks to a cluster.

The name of the kubectl context is the name of the cluster: edit the command if yours is another. With -o table or json, it
prints what Sluice knows of each cluster instead: the version and the number of APIs.`,
		Example: `  sluice capabilities prod-eu-1              # print the command for one cluster
  sluice capabilities | sh                   # run the commands for all clusters
  sluice capabilities -o table               # which versions does Sluice know?`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := r.check(); err != nil {
				return err
			}
			return r.run(c.Context(), o, args)
		},
	}
	r.readFlags(c, "shell", "table", "json")
	return c
}

// knownCapabilities is what Sluice knows of a cluster.
type knownCapabilities struct {
	Cluster     string `json:"cluster"`
	KubeVersion string `json:"kubeVersion"`
	Assumed     bool   `json:"assumed"` // nothing in the repository says the version
	APIVersions int    `json:"apiVersions"`
	File        string `json:"file"`
}

func (r *capabilitiesOptions) run(ctx context.Context, o IO, names []string) error {
	s, _, f, err := openFleet(ctx, o, &r.common, "")
	if err != nil {
		return err
	}
	defer s.Close()
	for _, name := range names {
		if err := mustKnow("cluster", name, clusterNames(f)); err != nil {
			return err
		}
	}
	out := []knownCapabilities{}
	for _, c := range f.Clusters {
		if len(names) == 0 || slices.Contains(names, c.Name) {
			out = append(out, knownCapabilities{
				c.Name, c.ChartVersion(), c.KubeVersion == "", len(c.APIVersions),
				fleet.CapabilitiesFile(c.Name),
			})
		}
	}
	switch {
	case r.structured():
		return r.encode(o.Out, out)
	case r.output == "table":
		return capabilitiesTable(o.Out, out)
	}
	fmt.Fprintf(o.Out, "mkdir -p %s\n", fleet.CapabilitiesDir)
	for _, c := range out {
		call := "kubectl --context " + c.Cluster // names of clusters need no quotes
		// a call that fails leaves the file as it was
		fmt.Fprintf(o.Out, "(%s version && %s api-versions && %s api-resources) > %s.new && mv %[4]s.new %[4]s\n",
			call, call, call, c.File)
	}
	return nil
}

func capabilitiesTable(w io.Writer, list []knownCapabilities) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tKUBERNETES\tAPIS\tFILE")
	for _, c := range list {
		version := c.KubeVersion
		if c.Assumed {
			version += " (assumed)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Cluster, version, thousands(c.APIVersions), c.File)
	}
	return table.Flush()
}
