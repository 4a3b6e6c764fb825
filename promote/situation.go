package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// observer describes environments from the snapshot, as package promote needs them. It asks the forge only whether the
// merge request of a promotion is still open.
type observer struct{ *snapshot }

// situation describes an environment from Git and its record alone.
func (o *observer) situation(ctx context.Context, e fleet.Environment) (rollout.Situation, error) {
	st := o.states[e.Name]
	s := rollout.Situation{
		Environment: e, Trunk: o.order(e.Name), Shallow: o.trunk.shallow && o.imports[e.Name] == nil,
		Record: o.records.known[e.Name], Now: o.request.Now, CommandPrefix: o.request.CommandPrefix,
		Unprotected: o.request.Unprotected,
	}
	s.Workspaces = map[string]fleet.WorkspaceApprovers{}
	for _, w := range o.fleet.Workspaces {
		s.Workspaces[w.Name] = w.Spec.Approvers
	}
	s.Running = rollout.Running{Source: st.Source(), Commit: hashText(st.Tip.Hash)}
	merged, err := o.mergedByForge(ctx, e)
	if err != nil {
		return s, err
	}
	s.Running.Foreign = o.blocks(e, s.Record, merged)
	if st.Exists() {
		s.Running.Tree = st.Tip.Tree.String()
		s.Running.First = len(st.Tip.Parents) == 0 && st.Trailer(branch.TrailerFrom) != ""
		s.Running.Renders = st.Trailer(branch.TrailerRenderedAgain) != ""
		s.Running.Overwrites = st.Foreign != "" && o.request.Overwrite && s.Running.Foreign == "" && !merged &&
			o.foreign(e.Name)
		s.Running.Overtakes = st.Trailer(branch.TrailerNow) != ""
		s.Running.Restores = st.Trailer(branch.TrailerRollback) != ""
		s.Running.TakesBack = st.Trailer(branch.TrailerTakenBack) != ""
		if names := st.Trailer(branch.TrailerClusters); names != "" {
			s.Running.Restored = strings.Split(names, ", ")
		}
	}
	if s.Clusters, err = o.clusters(ctx, e.Name); err != nil {
		return s, err
	}
	if site := o.sites[e.Name]; site != nil {
		known := site.known
		s.Site = &known
	}
	if !st.Exists() && s.Running.Foreign == "" && !o.request.Recreate { // the record may be gone as well
		if s.Running.Foreign, err = o.deleted(ctx, e.Name); err != nil {
			return s, err
		}
	}
	if s.Described, err = o.described(ctx, e.Name); err != nil {
		return s, err
	}
	if err := o.findMoved(ctx, &s); err != nil {
		return s, err
	}
	if i := o.imports[e.Name]; i != nil {
		e.After, s.Before = nil, []rollout.Upstream{i.upstream()}
	}
	for _, name := range e.After {
		up, err := o.upstream(ctx, name)
		if err != nil {
			return s, err
		}
		s.Before = append(s.Before, up)
	}
	if s.Running.Tree != "" {
		s.Record, err = rollout.CompleteHolds(s.Record, s.Running.Tree, st.ClusterNames(), o.past[e.Name].read(ctx))
	}
	return s, err
}

// blocks says why Sluice may not move an environment's branch, and what a person does about it; "" if it may. merged
// means that the forge made the tip from a promotion's merge request.
func (o *observer) blocks(e fleet.Environment, record rollout.Record, merged bool) string {
	st := o.states[e.Name]
	switch {
	case st.Foreign != "" && (o.request.Overwrite || merged || !o.foreign(e.Name)):
		return ""
	case st.Foreign != "":
		return fmt.Sprintf("%s, so Sluice moves nothing: %s", st.Foreign, resolve(o.hydrator, e, st, record))
	case !st.Exists() && len(record.Ran) > 0 && !o.request.Recreate:
		return fmt.Sprintf("somebody deleted %s: `sluice promote %s --recreate` creates it again", st.Branch, e.Name)
	}
	return ""
}

// upstream describes an environment that promotions come from.
func (o *observer) upstream(ctx context.Context, name string) (rollout.Upstream, error) {
	out := rollout.Upstream{Name: name, Source: o.states[name].Source()}
	st, record := o.states[name], o.records.known[name]
	ran := record.Ran
	e, ok := o.fleet.Environment(name)
	switch {
	case o.foreign(name): // its record and its dates are those of somebody else
		out.Source, out.Foreign = rollout.Source{}, fmt.Sprintf("%s: %s: %s", st.Branch, st.Foreign,
			resolve(o.hydrator, *e, st, record))
	case st.Foreign != "" && o.records.known[name].Has(st.Tip.Tree.String()): // the commit's dates are somebody else's
		out.Since = ran[len(ran)-1].At
	case st.Foreign != "": // known, but no pass has recorded that the environment has it
		out.Since = o.request.Now
	case ok && len(e.After) > 0 && st.Exists(): // other commits have the source's dates
		out.Since = st.Tip.Committer.When
	}
	moved, err := SetBacks(ctx, o.hydrator, o.fleet, name, o.records.known[name], o.refs)
	if err != nil {
		return out, err
	}
	if len(moved) > 0 && moved[0].Cluster == "" && !moved[0].Deleted() && out.Foreign == "" {
		out.Source, out.Foreign = rollout.Source{}, moved[0].advice(name)
	}
	if out.Clusters, err = o.clusters(ctx, name); err != nil {
		return out, err
	}
	if site := o.sites[name]; site != nil && out.Foreign == "" {
		site.upstream(&out)
	}
	if err := o.upstreamWaves(name, &out); err != nil {
		return out, err
	}
	for i := range out.Clusters {
		target := out.Clusters[i].Name
		if slices.ContainsFunc(o.records.known[name].Freezes, func(f rollout.Freeze) bool {
			return f.Target == target &&
				f.Holds(o.request.Now)
		}) {
			out.Clusters[i].State = "frozen"
		}
	}
	out.Complete = !slices.ContainsFunc(out.Clusters, func(c rollout.ClusterState) bool {
		return c.Tree != c.Desired && c.Desired != "" && c.State != "frozen" && c.State != "retired"
	})
	return out, nil
}

// upstreamWaves describes the waves of an environment that promotions come from.
func (o *observer) upstreamWaves(name string, out *rollout.Upstream) error {
	e, ok := o.fleet.Environment(name)
	st, p := o.states[name], o.records.known[name].Progress
	switch {
	case !ok:
		out.WavesUnknown = "the fleet has no such environment"
		return nil
	case o.sites[name] != nil:
		out.WavesUnknown = "a receipt does not tell the waves of an isolated environment"
		return nil
	case len(e.After) == 0:
		out.WavesUnknown = "it follows the trunk, so its clusters move at once"
		return nil
	}
	members := make([]rollout.Cluster, 0, len(out.Clusters))
	for _, c := range o.fleet.ClustersOf(name) {
		members = append(members, rollout.Cluster{Name: c.Name, Labels: c.Labels, State: c.State})
	}
	waves, err := rollout.Waves(*e, members)
	if err != nil {
		return err
	}
	for _, w := range waves {
		one := rollout.UpstreamWave{Name: w.Name, Clusters: w.Clusters()}
		if p != nil && st.Exists() && p.Tree == st.Tip.Tree.String() {
			for _, at := range p.Waves {
				if at.Name == w.Name {
					one.Healthy = at.Healthy
				}
			}
		}
		out.Waves = append(out.Waves, one)
	}
	return nil
}

// mergedByForge reports whether the tip, which spec.signers does not allow, is the forge's squash or rebase of the
// promotion's merge request. The request must not be open any more. Without a forge it is unknown, and the tip stays
// foreign.
func (o *observer) mergedByForge(ctx context.Context, e fleet.Environment) (bool, error) {
	st := o.states[e.Name]
	if st.Origin.Unsigned == nil || e.Promotion.Mode != "request" ||
		!o.records.known[e.Name].Opened.Is(st.Tip.Tree.String()) || o.request.Adapters.MergeRequests == nil {
		return false, nil
	}
	open, err := o.request.Adapters.MergeRequests.Find(ctx, requestBranch(e.Name), st.Branch)
	if errors.Is(err, ErrNoForge) {
		return false, nil
	}
	return err == nil && open == nil, err
}

func (o *observer) clusters(ctx context.Context, environment string) ([]rollout.ClusterState, error) {
	st := o.states[environment]
	var out []rollout.ClusterState
	for _, c := range o.fleet.ClustersOf(environment) {
		one := rollout.ClusterState{
			Cluster: rollout.Cluster{Name: c.Name, Labels: c.Labels, State: c.State},
			Desired: hashText(st.Clusters[c.Name]),
		}
		if tip := o.refs[o.fleet.ClusterBranch(c)]; !tip.IsZero() && o.sites[environment] == nil {
			commit, err := o.hydrator.Store.Commit(ctx, tip)
			if err != nil {
				return nil, err
			}
			one.Tree = commit.Tree.String()
			origin, err := branch.Inspect(ctx, o.hydrator.Store, commit,
				branch.Owner{Environment: environment, Cluster: c.Name}, o.fleet.Signers())
			if err != nil {
				return nil, err
			}
			if origin.Foreign != "" && !o.request.Overwrite {
				one.Foreign = fmt.Sprintf("%s: %s: bring it into the source, and `sluice promote %s --overwrite-foreign` writes over it",
					o.fleet.ClusterBranch(c), origin.Foreign, environment)
			}
		}
		out = append(out, one)
	}
	if site := o.sites[environment]; site != nil {
		site.clusters(out)
	}
	return out, nil
}

// deleted returns a reason if somebody deleted an environment's branch: a branch of one of its clusters names the
// environment.
func (o *observer) deleted(ctx context.Context, environment string) (string, error) {
	if o.sites[environment] != nil {
		return "", nil // its cluster branches are none of this repository
	}
	for _, c := range o.fleet.ClustersOf(environment) {
		name := o.fleet.ClusterBranch(c)
		tip := o.refs[name]
		if tip.IsZero() {
			continue
		}
		commit, err := o.hydrator.Store.Commit(ctx, tip)
		if err != nil {
			return "", err
		}
		if allowed := o.fleet.Signers(); !allowed.Empty() {
			_, err := o.hydrator.Store.VerifySignature(ctx, tip, allowed)
			if unsigned, ok := errors.AsType[*gitstore.SignatureError](err); ok {
				return fmt.Sprintf("%s is missing, and %s does not tell whether somebody deleted it: %v: look at the history of %[2]s, or create it again with `sluice promote %[4]s --recreate`",
					o.states[environment].Branch, name, unsigned, environment), nil
			}
			if err != nil {
				return "", err
			}
		}
		if branch.Trailer(commit.Message, branch.TrailerEnvironment) == environment {
			return fmt.Sprintf("somebody deleted %s (%s exists): `sluice promote %s --recreate` creates it again", o.states[environment].Branch, name, environment), nil
		}
	}
	return "", nil
}
