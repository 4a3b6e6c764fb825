package artifacts

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/promote"
)

// admitted is a cluster whose branch may be published, with the commit of the branch.
type admitted struct {
	cluster *fleet.Cluster
	commit  gitstore.Commit
}

func (a admitted) subject(f *fleet.Fleet, repository string) subject {
	return subject{cluster: a.cluster.Name, branch: f.ClusterBranch(a.cluster), repository: repository, commit: a.commit}
}

// admit returns the clusters whose branches may be published, and notes the others as held.
func (p *publisher) admit(ctx context.Context, due []*fleet.Cluster) ([]admitted, error) {
	c := admission{config: p.Config, refs: p.refs, states: map[string]*stage{}}
	if err := c.fetch(ctx, due); err != nil {
		return nil, err
	}
	var out []admitted
	for _, cluster := range due {
		a, reason, err := c.check(ctx, cluster)
		if err != nil {
			return nil, err
		}
		if reason == "" {
			out = append(out, a)
			continue
		}
		p.note(Artifact{
			Cluster: cluster.Name, Repository: p.Fleet.Artifact(cluster), Commit: a.commit.Hash.String(), Status: Held,
			Reason: reason,
		}, a.commit.Hash)
	}
	return out, nil
}

// admission decides which branches may be published.
type admission struct {
	config Config
	refs   map[string]gitstore.Hash
	states map[string]*stage
}

// stage is what the check of an environment's clusters needs.
type stage struct {
	held     string                   // why none of its clusters is published
	clusters map[string]string        // why a cluster is not
	trees    map[string]gitstore.Hash // of an environment that follows the trunk: what its branch has
}

// fetch makes the commits of branches readable.
func (c *admission) fetch(ctx context.Context, clusters []*fleet.Cluster) error {
	f := c.config.Fleet
	var tips []gitstore.Hash
	seen := map[string]bool{}
	for _, one := range clusters {
		tips = append(tips, c.refs[f.ClusterBranch(one)])
		if name := f.EnvironmentBranch(one.Environment); !seen[name] && !c.refs[name].IsZero() {
			seen[name] = true
			tips = append(tips, c.refs[name])
		}
	}
	return c.config.Hydrator.Branches.Fetch(ctx, tips...)
}

// check returns the commit of a cluster's branch, and why it is not published; "" if it may be.
func (c *admission) check(ctx context.Context, cluster *fleet.Cluster) (admitted, string, error) {
	f, store := c.config.Fleet, c.config.Hydrator.Store
	name := f.ClusterBranch(cluster)
	commit, err := store.Commit(ctx, c.refs[name])
	if err != nil {
		return admitted{}, "", err
	}
	out := admitted{cluster, commit}
	origin, err := branch.Inspect(ctx, store, commit, branch.Owner{Environment: cluster.Environment, Cluster: cluster.Name},
		f.Signers())
	if err != nil {
		return out, "", err
	}
	if origin.Foreign != "" {
		return out, name + ": " + origin.Foreign, nil
	}
	s, err := c.stage(ctx, cluster.Environment)
	if err != nil {
		return out, "", err
	}
	switch want, ok := s.trees[cluster.Name]; {
	case s.held != "":
		return out, s.held, nil
	case s.clusters[cluster.Name] != "":
		return out, s.clusters[cluster.Name], nil
	case s.trees != nil && !cluster.Frozen() && (!ok || want != commit.Tree):
		return out, fmt.Sprintf("%s has not what %s records: the next `sluice hydrate --push` brings both to one state",
			name, f.EnvironmentBranch(cluster.Environment)), nil
	}
	return out, "", nil
}

// stage reads what an environment records. The clusters of one that follows the trunk have what its branch has; its
// branch moves after theirs. The branch of a promoted environment moves first, and a record says where branches were.
func (c *admission) stage(ctx context.Context, name string) (*stage, error) {
	if s := c.states[name]; s != nil {
		return s, nil
	}
	s, f, h := &stage{clusters: map[string]string{}}, c.config.Fleet, c.config.Hydrator
	c.states[name] = s
	e, ok := f.Environment(name)
	if !ok {
		return s, nil
	}
	ref := f.EnvironmentBranch(name)
	tip := c.refs[ref]
	switch {
	case tip.IsZero():
		s.held = fmt.Sprintf("the branch %s does not exist, so nothing says what its clusters should have", ref)
		return s, nil
	case len(e.After) == 0:
		st, err := branch.ReadState(ctx, h.Store, ref, name, tip, f.Signers())
		if err != nil {
			return nil, err
		}
		s.trees = st.Clusters
		return s, nil
	}
	record, err := promote.ReadRecord(ctx, h, name, f.Signers())
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		s.held = fmt.Sprintf("the record of %s cannot be read: %v", name, err)
		return s, nil
	}
	moved, err := promote.SetBacks(ctx, h, f, name, record, c.refs)
	for _, b := range moved {
		if b.Cluster != "" {
			s.clusters[b.Cluster] = fmt.Sprintf("%s (`sluice repair %s`)", b, name)
		}
	}
	return s, err
}
