package site

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// clusters reads the cluster branches of an environment in one request.
func (b *reader) clusters(e *Environment, st *branch.State) error {
	var tips []gitstore.Hash
	members := slices.DeleteFunc(b.fleet.ClustersOf(e.Name), (*fleet.Cluster).Retired)
	for _, c := range members {
		if tip := b.refs[b.fleet.ClusterBranch(c)]; !tip.IsZero() {
			tips = append(tips, tip)
		}
	}
	if len(tips) > 0 {
		if err := b.h.Branches.Fetch(b.ctx, tips...); err != nil {
			return err
		}
	}
	for _, c := range members {
		one := &Cluster{
			Name: c.Name, Environment: e, Class: c.Class, Labels: c.Labels, KubeVersion: c.KubeVersion,
			State: cmp.Or(c.State, "active"), Branch: b.fleet.ClusterBranch(c),
			Desired: st.Clusters[c.Name], Runs: e.Source.On(c.Name), file: fileName(c.Name),
		}
		if err := b.cluster(one, c); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		e.Clusters = append(e.Clusters, one)
		b.out.Clusters = append(b.out.Clusters, one)
	}
	return nil
}

func (b *reader) cluster(c *Cluster, registered *fleet.Cluster) error {
	var has map[string]gitstore.Hash
	if s := c.Environment.elsewhere(); s != nil {
		err := b.reported(c, s)
		if err == nil {
			has, err = b.trees(c.Tip.Tree)
		}
		if err != nil {
			return err
		}
	} else if tip := b.refs[c.Branch]; !tip.IsZero() {
		var err error
		if c.Tip, err = b.h.Store.Commit(b.ctx, tip); err != nil {
			return err
		}
		if c.Tip.Tree != c.Desired {
			c.Runs = runsOf(c.Tip, c.Runs)
		}
		if has, err = b.trees(c.Tip.Tree); err != nil {
			return err
		}
	}
	wanted, err := b.trees(c.Desired)
	if err != nil {
		return err
	}
	c.Commit = b.commit(c.Runs.Commit)
	b.trouble(c, registered)
	for _, name := range slices.Sorted(maps.Keys(union(has, wanted))) {
		p := &Placed{
			App: b.app(name), Cluster: c, Tree: has[name], Desired: wanted[name],
			Commit: b.commit(c.Runs.Of(name)),
		}
		p.Version = b.version(c, name, p.Commit.Hash)
		images, err := b.images(name, cmp.Or(p.Tree, p.Desired))
		if err != nil {
			return err
		}
		p.Image = images.Main
		p.App.Placed = append(p.App.Placed, p)
		c.Apps = append(c.Apps, p)
	}
	return nil
}

func union[V any](a, b map[string]V) map[string]bool {
	out := map[string]bool{}
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

// trouble says why a cluster branch is not what the environment branch asks for.
func (b *reader) trouble(c *Cluster, registered *fleet.Cluster) {
	if s := c.Environment.elsewhere(); s != nil {
		reportedTrouble(c, s)
		return
	}
	if c.Tip.Tree == c.Desired && !c.Tip.Hash.IsZero() {
		if registered.Frozen() {
			c.Planned = true
		}
		return
	}
	switch {
	case c.Desired.IsZero():
		c.Trouble = "the environment branch does not hold it yet"
	case c.Tip.Hash.IsZero():
		c.Trouble = "its branch does not exist"
	default:
		c.Trouble = "its branch holds other manifests than the environment branch"
	}
	if s := c.Environment.Status; s != nil {
		record := s.Decision.Record
		reason, ok := rollout.BehindAsPlanned(record, treeOf(b, c.Environment),
			rollout.Cluster{Name: c.Name, Labels: c.Labels, State: registered.State}, b.request.Now)
		if reason != "" {
			c.Trouble = reason
		}
		c.Planned = ok
	}
}

// treeOf is the tree of an environment branch.
func treeOf(b *reader, e *Environment) string {
	h, err := gitstore.ParseHash(e.Tip)
	if err != nil {
		return ""
	}
	c, err := b.h.Store.Commit(b.ctx, h)
	if err != nil {
		return ""
	}
	return c.Tree.String()
}

// runsOf reads which source commits a cluster branch holds from the trailers of its tip. Without trailers it is what
// the environment's record says.
func runsOf(tip gitstore.Commit, recorded rollout.ClusterSource) rollout.ClusterSource {
	out := rollout.ClusterSource{}
	for _, t := range gitstore.Trailers(tip.Message) {
		switch t.Key {
		case branch.TrailerSource:
			out.Commit = t.Value
		case branch.TrailerAppSource:
			if name, commit, ok := strings.Cut(t.Value, " "); ok {
				if out.Apps == nil {
					out.Apps = map[string]string{}
				}
				out.Apps[name] = commit
			}
		}
	}
	if out.Commit == "" {
		return recorded
	}
	return out
}

// trees lists the apps of a cluster's tree.
func (b *reader) trees(tree gitstore.Hash) (map[string]gitstore.Hash, error) {
	out := map[string]gitstore.Hash{}
	if tree.IsZero() {
		return out, nil
	}
	entries, err := branch.Apps(b.ctx, b.h.Store, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Mode == gitstore.ModeTree && !strings.HasPrefix(e.Name, ".") {
			out[e.Name] = e.Hash
		}
	}
	return out, nil
}
