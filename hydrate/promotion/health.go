package promotion

import (
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// statusCache asks for the statuses of a commit once in a pass.
type statusCache struct {
	reader StatusReader
	known  map[string]statusAnswer
}

type statusAnswer struct {
	list    []promote.Status
	unknown string
}

func (c *statusCache) of(ctx context.Context, commit string) statusAnswer {
	if a, ok := c.known[commit]; ok {
		return a
	}
	var a statusAnswer
	if c.reader == nil {
		a.unknown = "no forge is configured here that knows commit statuses"
	} else if list, err := c.reader.Statuses(ctx, commit); err != nil {
		a.unknown = "its statuses cannot be read: " + err.Error()
	} else {
		a.list = list
	}
	c.known[commit] = a
	return a
}

// health reads the statuses on the tips of cluster branches.
func (p *pass) health(ctx context.Context, environment string, clusters []promote.ClusterState) error {
	for _, c := range p.fleet.ClustersOf(environment) {
		i := slices.IndexFunc(clusters, func(s promote.ClusterState) bool { return s.Name == c.Name })
		tip := p.refs[p.fleet.ClusterBranch(c)]
		if i < 0 || tip.IsZero() || c.State == "retired" {
			continue
		}
		a := p.statuses.of(ctx, tip.String())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		clusters[i].Statuses, clusters[i].StatusesUnknown = a.list, a.unknown
		apps, err := p.apps(ctx, tip)
		if err != nil {
			return err
		}
		clusters[i].Apps = apps
	}
	return nil
}

// apps are those that a cluster's branch holds: its folders. The result is never nil.
func (p *pass) apps(ctx context.Context, tip gitstore.Hash) ([]string, error) {
	commit, err := p.h.Store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	entries, err := p.h.Store.Tree(ctx, commit.Tree)
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out, err
}
