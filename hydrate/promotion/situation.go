package promotion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// situation is what is known of an environment without asking anybody.
func (p *pass) situation(ctx context.Context, e fleet.Environment) (promote.Situation, error) {
	st := p.states[e.Name]
	s := promote.Situation{Environment: e, Trunk: p.trunk.order, Shallow: p.trunk.shallow, Record: p.records.known[e.Name], Now: p.r.Now, CommandPrefix: p.r.CommandPrefix, Unprotected: p.r.Unprotected}
	s.Running = promote.Running{Source: st.Source(), Commit: hashText(st.Tip.Hash), Foreign: st.Foreign}
	merged, err := p.mergedByForge(ctx, e)
	if err != nil {
		return s, err
	}
	switch {
	case st.Foreign != "" && (p.r.Overwrite || merged || !p.foreign(e.Name)):
		s.Running.Foreign = ""
	case !st.Exists() && len(s.Record.Ran) > 0 && !p.r.Recreate:
		s.Running.Foreign = fmt.Sprintf("somebody deleted %s: promote with --recreate on the command line to create it again", st.Branch)
	}
	if st.Exists() {
		s.Running.Tree = st.Tip.Tree.String()
		s.Running.Overtakes = st.Trailer(branch.TrailerNow) != ""
		s.Running.Restores = st.Trailer(branch.TrailerRollback) != ""
		if names := st.Trailer(branch.TrailerClusters); names != "" {
			s.Running.Restored = strings.Split(names, ", ")
		}
	}
	if s.Clusters, err = p.clusters(ctx, e.Name); err != nil {
		return s, err
	}
	if !st.Exists() && s.Running.Foreign == "" && !p.r.Recreate { // the record may be gone as well
		if s.Running.Foreign, err = p.deleted(ctx, e.Name); err != nil {
			return s, err
		}
	}
	p.findDeleted(&s)
	for _, name := range e.After {
		up, err := p.upstream(ctx, name)
		if err != nil {
			return s, err
		}
		s.Before = append(s.Before, up)
	}
	if s.Running.Tree != "" {
		s.Record, err = promote.CompleteHolds(s.Record, s.Running.Tree, st.ClusterNames(), p.past[e.Name].read(ctx))
	}
	return s, err
}

// upstream is what is known of an environment that promotions come from.
func (p *pass) upstream(ctx context.Context, name string) (promote.Upstream, error) {
	out := promote.Upstream{Name: name, Source: p.states[name].Source()}
	st, ran := p.states[name], p.records.known[name].Ran
	e, ok := p.fleet.Environment(name)
	switch {
	case p.foreign(name): // its record and its dates are those of somebody else
		out.Source, out.Foreign = promote.Source{}, fmt.Sprintf("%s: %s", st.Branch, st.Foreign)
	case st.Foreign != "" && p.records.known[name].Has(st.Tip.Tree.String()): // the commit's dates are somebody else's
		out.Since = ran[len(ran)-1].At
	case st.Foreign != "": // known, but no pass has recorded that the environment has it
		out.Since = p.r.Now
	case ok && len(e.After) > 0 && st.Exists(): // other commits have the source's dates
		out.Since = st.Tip.Committer.When
	}
	var err error
	if out.Clusters, err = p.clusters(ctx, name); err != nil {
		return out, err
	}
	for i := range out.Clusters {
		target := out.Clusters[i].Name
		if slices.ContainsFunc(p.records.known[name].Freezes, func(f promote.Freeze) bool { return f.Target == target && f.Holds(p.r.Now) }) {
			out.Clusters[i].State = "frozen"
		}
	}
	out.Complete = !slices.ContainsFunc(out.Clusters, func(c promote.ClusterState) bool {
		return c.Tree != c.Desired && c.Desired != "" && c.State != "frozen" && c.State != "retired"
	})
	return out, nil
}

// foreign reports whether an environment's branch has content that Sluice did not write. The forge's merge or squash of a
// promotion request is Sluice's own tree in somebody else's commit. A commit that spec.signers does not allow counts only
// with the tree that the environment had at the last look: nobody may have approved the tree that was offered.
func (p *pass) foreign(environment string) bool {
	st, record := p.states[environment], p.records.known[environment]
	tree := st.Tip.Tree.String()
	switch {
	case st.Foreign == "":
		return false
	case st.Origin.Unsigned != nil:
		return !record.Has(tree)
	}
	return !record.Knows(tree)
}

// mergedByForge reports whether the tip, which spec.signers does not allow, is the forge's squash or rebase of the promotion's
// merge request. The request must not be open any more. Without a forge it is unknown, and the tip stays foreign.
func (p *pass) mergedByForge(ctx context.Context, e fleet.Environment) (bool, error) {
	st := p.states[e.Name]
	if st.Origin.Unsigned == nil || e.Promotion.Mode != "request" || !p.records.known[e.Name].Opened.Is(st.Tip.Tree.String()) || p.r.Adapters.MergeRequests == nil {
		return false, nil
	}
	open, err := p.r.Adapters.MergeRequests.Find(ctx, requestBranch(e.Name), st.Branch)
	if errors.Is(err, ErrNoForge) {
		return false, nil
	}
	return err == nil && open == nil, err
}

func (p *pass) clusters(ctx context.Context, environment string) ([]promote.ClusterState, error) {
	st := p.states[environment]
	var out []promote.ClusterState
	for _, c := range p.fleet.ClustersOf(environment) {
		one := promote.ClusterState{Cluster: promote.Cluster{Name: c.Name, Labels: c.Labels, State: c.State}, Desired: hashText(st.Clusters[c.Name])}
		if tip := p.refs[p.fleet.ClusterBranch(c)]; !tip.IsZero() {
			commit, err := p.h.Store.Commit(ctx, tip)
			if err != nil {
				return nil, err
			}
			one.Tree = commit.Tree.String()
			origin, err := branch.Inspect(ctx, p.h.Store, commit, branch.Owner{Environment: environment, Cluster: c.Name}, p.fleet.Signers())
			if err != nil {
				return nil, err
			}
			if origin.Foreign != "" && !p.r.Overwrite {
				one.Foreign = fmt.Sprintf("%s: %s: bring it into the source, or promote with --overwrite-foreign on the command line",
					p.fleet.ClusterBranch(c), origin.Foreign)
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// deleted says that an environment's branch was deleted, if a branch of one of its clusters was made for the environment.
func (p *pass) deleted(ctx context.Context, environment string) (string, error) {
	for _, c := range p.fleet.ClustersOf(environment) {
		name := p.fleet.ClusterBranch(c)
		tip := p.refs[name]
		if tip.IsZero() {
			continue
		}
		commit, err := p.h.Store.Commit(ctx, tip)
		if err != nil {
			return "", err
		}
		if branch.Trailer(commit.Message, branch.TrailerEnvironment) == environment {
			return fmt.Sprintf("somebody deleted %s (%s exists): promote with --recreate on the command line to create it again", p.states[environment].Branch, name), nil
		}
	}
	return "", nil
}

// findDeleted finds cluster branches that somebody deleted: those that existed at an earlier pass.
func (p *pass) findDeleted(s *promote.Situation) {
	var existing []string
	for i := range s.Clusters {
		c := &s.Clusters[i]
		switch known := slices.Contains(s.Record.Branches, c.Name); {
		case c.State == "retired":
			continue
		case c.Tree == "" && known && !p.r.Recreate:
			c.Foreign = fmt.Sprintf("somebody deleted the branch of %s: promote with --recreate on the command line to create it again, or retire the cluster", c.Name)
			existing = append(existing, c.Name)
		case c.Tree != "":
			existing = append(existing, c.Name)
		}
	}
	slices.Sort(existing)
	s.Record.Branches = existing
}
