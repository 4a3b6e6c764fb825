package site

import (
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/site/conform"
)

// comparedRenderings is the number of renderings of an app that the page compares among siblings. `sluice conform` has
// no bound.
const comparedRenderings = 30

// conformance compares sibling clusters as their branches are.
func (b *reader) conformance() error {
	members := Members(b.out, b.fleet)
	var err error
	b.out.Conformance, err = conform.Compare(b.ctx, b.h.Store, b.fleet, members,
		conform.Options{Masker: b.mask, Most: comparedRenderings})
	return err
}

// Members lists the targets of a fleet with what the cluster branches hold.
func Members(read *Fleet, f *fleet.Fleet) []conform.Member {
	var out []conform.Member
	for _, c := range read.Clusters {
		cluster, ok := f.Cluster(c.Name)
		if !ok {
			continue
		}
		for _, p := range c.Apps {
			if a, ok := f.App(p.App.Name); ok {
				out = append(out, conform.Member{
					Target: fleet.Target{App: a, Cluster: cluster}, Tree: p.Tree,
					Commit: p.Commit.Hash,
				})
			}
		}
	}
	return out
}
