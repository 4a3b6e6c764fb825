package site

import (
	"slices"

	"github.com/sluice-gitops/sluice/promote"
)

const kubernetesPath = "kubernetes.html"

// kubernetes is what the page of the versions of Kubernetes fills in.
type kubernetes struct {
	Environments []string
	Rows         []promote.MinorRow
	Upgrades     []promote.Upgrade
	Behind       []promote.ClusterVersion
	More         int // clusters that are behind and not listed
	Unknown      int // clusters whose version is unknown although the trunk names one
}

const mostBehind = 500 // clusters that the page lists

func newKubernetes(f *Fleet) *kubernetes {
	out := &kubernetes{Upgrades: f.Versions.Upgrades}
	out.Environments, out.Rows = f.Versions.Matrix()
	for _, c := range f.Versions.Clusters {
		switch {
		case c.Behind():
			out.Behind = append(out.Behind, c)
		case c.Runs == "" && c.Wants != "":
			out.Unknown++
		}
	}
	if out.More = len(out.Behind) - mostBehind; out.More > 0 {
		out.Behind = out.Behind[:mostBehind]
	} else {
		out.More = 0
	}
	return out
}

// kubeVersions reads the versions of Kubernetes, if the fleet declares any.
func (b *reader) kubeVersions() error {
	declared := slices.ContainsFunc(b.out.Clusters, func(c *Cluster) bool { return c.KubeVersion != "" })
	if !declared {
		return nil
	}
	var err error
	b.out.Versions, err = promote.Versions(b.ctx, b.h, b.request.Trunk, b.request.Statuses, b.request.Now, b.request.Versions)
	return err
}
