package promote

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/bundle/receipt"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// Survey describes for a receipt what an environment runs in this repository, which must be its site. It changes
// nothing. The receipt has no Site and no Sequence yet.
func Survey(ctx context.Context, h *hydrate.Hydrator, r Request, environment string) (*receipt.Receipt, error) {
	p, err := newPass(ctx, h, r)
	if err != nil {
		return nil, err
	}
	defer p.close()
	e, ok := p.fleet.Environment(environment)
	if !ok {
		return nil, UnknownEnvironment(p.fleet, environment)
	}
	tip := p.refs[incoming.Branch(environment)]
	if tip.IsZero() {
		return nil, fmt.Errorf("this repository is not the site of %s, because it has no branch %s: import a bundle first with `sluice bundle import`",
			environment, incoming.Branch(environment))
	}
	if !incoming.Site(p.fleet, environment, p.refs) {
		if err := incoming.Declared(p.fleet, environment); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("this repository is the home of %s, because it exports bundles or has the environments before %[1]s: receipts are written at the site",
			environment)
	}
	if err := p.records.broken[environment]; err != nil {
		return nil, err
	}
	if err := h.Branches.Fetch(ctx, tip); err != nil {
		return nil, err
	}
	commit, err := h.Store.Commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	brought, err := incoming.Parse(commit, environment)
	if err != nil {
		return nil, err
	}
	out := &receipt.Receipt{
		APIVersion: receipt.Version, Kind: receipt.Kind, Fleet: p.fleet.Name, Environment: environment,
		Made: second(r.Now), Trunk: r.Trunk.Hash.String(), Incoming: brought.Home.String(),
		Bundle: &receipt.Bundle{Sequence: brought.Sequence, Digest: brought.Digest},
	}
	return out, (&surveyor{p, p.atSite(*e), out}).describe(ctx)
}

// second returns a time as receipts have it.
func second(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// surveyor fills a receipt.
type surveyor struct {
	*pass
	e   fleet.Environment
	out *receipt.Receipt
}

func (v *surveyor) describe(ctx context.Context) error {
	s, err := v.observer.situation(ctx, v.e)
	if err != nil {
		return err
	}
	if err := v.proposals.evidence.collect(ctx, v.e, &s); err != nil {
		return err
	}
	if len(v.e.Promotion.Health.CommitStatuses) == 0 { // others may judge by them
		if err := v.proposals.evidence.health(ctx, v.e.Name, s.Clusters); err != nil {
			return err
		}
	}
	d, err := rollout.Decide(s)
	if err != nil {
		return err
	}
	v.branch(s)
	v.record(d.Record)
	v.out.Clusters = []receipt.Cluster{}
	for _, c := range s.Clusters {
		if c.State == "retired" {
			continue
		}
		one, err := v.cluster(ctx, c)
		if err != nil {
			return err
		}
		v.out.Clusters = append(v.out.Clusters, one)
	}
	slices.SortFunc(v.out.Clusters, func(a, b receipt.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// branch describes the environment branch.
func (v *surveyor) branch(s rollout.Situation) {
	st := v.states[v.e.Name]
	v.out.Branch.Foreign = receipt.Text(s.Running.Foreign)
	if v.foreign(v.e.Name) { // without the advice, which is for the site
		v.out.Branch.Foreign = receipt.Text(st.Foreign)
	}
	if !st.Exists() {
		return
	}
	v.out.Branch.Commit, v.out.Branch.Tree = st.Tip.Hash.String(), st.Tip.Tree.String()
	v.out.Branch.Since = second(st.Tip.Committer.When)
	v.out.Branch.Source = commitOrNone(st.Source().Commit)
}

// record describes the rollout, and what people decided on the site.
func (v *surveyor) record(r rollout.Record) {
	if p := r.Progress; p != nil {
		v.out.Rollout = receipt.Rollout{Tree: p.Tree, Started: second(p.Started), Done: optional(p.Done)}
		if !p.Done.IsZero() {
			for _, w := range p.Waves {
				v.out.Rollout.Healthy = later(v.out.Rollout.Healthy, optional(w.Healthy))
			}
		}
	}
	if h := r.Halt; h != nil {
		v.out.Halt = &receipt.Halt{By: receipt.Text(h.By), Reason: receipt.Text(h.Reason), At: second(h.At)}
	}
	for _, f := range r.Freezes {
		if !f.Until.IsZero() && !f.Until.After(v.request.Now) {
			continue
		}
		v.out.Freezes = append(v.out.Freezes, receipt.Freeze{
			Cluster: f.Target, By: receipt.Text(f.By), Reason: receipt.Text(f.Reason), From: second(f.From),
			Until: optional(f.Until),
		})
	}
}

// optional is second for a time that may be zero.
func optional(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return second(t)
}

func (v *surveyor) cluster(ctx context.Context, c rollout.ClusterState) (receipt.Cluster, error) {
	out := receipt.Cluster{
		Name: c.Name, Desired: c.Desired, Frozen: c.State == "frozen",
		StatusesUnknown: receipt.Text(c.StatusesUnknown),
	}
	out.Branch.Foreign = receipt.Text(c.Foreign) // set back, deleted, or foreign
	config, ok := v.fleet.Cluster(c.Name)
	if !ok {
		return out, nil
	}
	if tip := v.refs[v.fleet.ClusterBranch(config)]; !tip.IsZero() {
		commit, err := v.hydrator.Store.Commit(ctx, tip)
		if err != nil {
			return out, err
		}
		out.Branch.Commit, out.Branch.Tree, out.Branch.Since = tip.String(), commit.Tree.String(), second(commit.Committer.When)
		out.Branch.Source = commitOrNone(branch.Trailer(commit.Message, branch.TrailerSource))
		origin, err := branch.Inspect(ctx, v.hydrator.Store, commit, branch.Owner{Environment: v.e.Name, Cluster: c.Name},
			v.fleet.Signers())
		if err != nil {
			return out, err
		}
		if origin.Foreign != "" { // without the advice, which is for the site
			out.Branch.Foreign = receipt.Text(origin.Foreign)
		}
	}
	for _, s := range c.Statuses {
		if slices.Contains([]string{"success", "pending", "failure", "error"}, s.State) {
			out.Statuses = append(out.Statuses, receipt.Status{Name: receipt.Text(s.Name), State: s.State})
		}
	}
	slices.SortFunc(out.Statuses, func(a, b receipt.Status) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.State, b.State))
	})
	if n := len(out.Statuses); n > receipt.MaxStatuses {
		out.Statuses = nil
		out.StatusesUnknown = fmt.Sprintf("its commit has %d statuses, and a receipt takes at most %d", n, receipt.MaxStatuses)
	}
	return out, nil
}

// commitOrNone returns a commit's id, and "" for what is none.
func commitOrNone(s string) string {
	if _, err := gitstore.ParseHash(s); err != nil {
		return ""
	}
	return s
}
