package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// Repair is a person's decision about branches of an environment that somebody set back. With neither Restore nor
// Adopt, it only finds them.
type Repair struct {
	Environment string
	Restore     bool // bring back what the branches had
	Adopt       bool // keep what they have, as a rollback that the record shows and that holds what ran
	By, Reason  string
}

// RepairBranches repairs the branches of an environment that somebody set back, and returns them with what it did, in
// words. A caller passes the same Request to Run afterwards, which moves the clusters.
func RepairBranches(ctx context.Context, h *hydrate.Hydrator, r Request, want Repair) (found []SetBack, done []string,
	err error,
) {
	p, err := newPass(ctx, h, r)
	if err != nil {
		return nil, nil, err
	}
	defer p.close()
	if err := p.records.broken[want.Environment]; err != nil {
		return nil, nil, err
	}
	e, ok := p.fleet.Environment(want.Environment)
	if !ok {
		return nil, nil, fmt.Errorf("%w %q", ErrNoEnvironment, want.Environment)
	}
	if found, err = SetBacks(ctx, h, p.fleet, e.Name, p.records.known[e.Name], p.refs); err != nil || len(found) == 0 {
		return found, nil, err
	}
	w, err := h.Store.NewWriter()
	if err != nil {
		return found, nil, err
	}
	defer func() { _ = w.Close() }() // what was pushed is on the branches
	f := &repairer{pass: p, e: *e, want: want, w: w}
	switch {
	case want.Restore:
		done, err = f.restore(ctx, found)
	case want.Adopt:
		there := slices.DeleteFunc(slices.Clone(found), SetBack.Deleted) // what was deleted stays so
		switch {
		case found[0].Cluster == "" && found[0].Deleted(), len(there) == 0:
			err = errors.New("a deleted branch has no state to keep: use --restore, or promote with --recreate")
		case found[0].Cluster == "":
			done, err = f.adopt(ctx, there)
		default:
			done, err = f.adoptClusters(ctx, there)
		}
	}
	return found, done, err
}

// repairer carries out a Repair.
type repairer struct {
	*pass
	e    fleet.Environment
	want Repair
	w    *gitstore.Writer
}

// event returns a command of the person who repairs.
func (f *repairer) event(kind rollout.EventKind) rollout.Event {
	return rollout.Event{Kind: kind, By: f.want.By, Reason: f.want.Reason, At: f.request.Now}
}

// restore moves branches to the commits that they had. Where the tip is not among the ancestors of such a commit, it
// commits the tree of that commit on top.
func (f *repairer) restore(ctx context.Context, found []SetBack) ([]string, error) {
	var moves []gitstore.Move
	var done []string
	repair := f.event(rollout.EventRepair)
	repair.Tips = map[string]string{}
	for _, b := range found {
		had, err := f.commit(ctx, b)
		if err != nil {
			return nil, err
		}
		to, ahead := b.Had, b.Deleted()
		if other := beside(f.refs, b.Branch); ahead && other != "" {
			return nil, errors.New(other)
		}
		if !ahead {
			if ahead, err = contains(ctx, f.hydrator, had, b.Has.Hash); err != nil {
				return nil, err
			}
		}
		if !ahead {
			subject, _, _ := strings.Cut(had.Message, "\n")
			trailers := slices.DeleteFunc(gitstore.Trailers(had.Message),
				func(t gitstore.Trailer) bool { return t.Key == branch.TrailerVersion })
			if to, err = f.recorder.pusher.commit(f.w, had.Tree, b.Has.Hash, had,
				message{subject, f.want.Reason, trailers}); err != nil {
				return nil, err
			}
		}
		if b.Cluster == "" {
			repair.Tip = to.String()
		} else {
			repair.Tips[b.Cluster] = to.String()
		}
		moves = append(moves, gitstore.Move{Branch: b.Branch, Old: b.Has.Hash, New: to})
		done = append(done, fmt.Sprintf("%s is back at %s", b.Branch, b.Had.Short()))
	}
	if err := f.recorder.pusher.push(ctx, f.w, moves); err != nil {
		return nil, fmt.Errorf("%w (if the server lacks a commit, push it: `git push --force origin %s:refs/heads/%s`)", err,
			found[0].Had, found[0].Branch)
	}
	return done, f.recorder.apply(ctx, f.e.Name, repair)
}

// commit reads the commit that a branch had.
func (f *repairer) commit(ctx context.Context, b SetBack) (gitstore.Commit, error) {
	err := f.hydrator.Branches.Fetch(ctx, b.Had)
	if err == nil {
		var had gitstore.Commit
		if had, err = f.hydrator.Store.Commit(ctx, b.Had); err == nil {
			return had, nil
		}
	}
	return gitstore.Commit{}, fmt.Errorf("commit %s of %s cannot be read: push it from a clone that has it (`git push origin %[1]s:refs/heads/%[2]s`), or keep the present state with --adopt and promote with --again: %w",
		b.Had, b.Branch, err)
}

// adopt records the state of the environment branch as a rollback, with a commit on it that says so. The clusters
// follow at once, and what ran is held.
func (f *repairer) adopt(ctx context.Context, found []SetBack) ([]string, error) {
	st, record := f.states[f.e.Name], f.records.known[f.e.Name]
	if st.Foreign != "" {
		return nil, fmt.Errorf("%s has no state that Sluice made: %s: use --restore", st.Branch, st.Foreign)
	}
	if !slices.ContainsFunc(record.Ran, func(p rollout.PastState) bool { return p.Tree == st.Tip.Tree.String() }) {
		return nil, fmt.Errorf("%s has a state that %s never ran, so it is not kept without the gates: use --restore, and promote that commit", st.Branch, f.e.Name)
	}
	if record.Has(st.Tip.Tree.String()) { // another commit of what runs anyway
		repair := f.event(rollout.EventRepair)
		repair.Tip, repair.Tips = st.Tip.Hash.String(), tipsOf(found)
		return []string{fmt.Sprintf("%s has what it had", st.Branch)}, f.record(ctx, repair)
	}
	a := rollout.Action{Kind: rollout.DoRollback, Source: st.Source(), Reason: f.want.Reason, By: f.want.By}
	tip, err := f.recorder.pusher.commit(f.w, st.Tip.Tree, st.Tip.Hash, f.request.Trunk,
		message{rollbackSubject(f.e, a), f.want.Reason, trailers(f.e, a, record.Sequence)})
	if err != nil {
		return nil, err
	}
	if err := f.recorder.pusher.push(ctx, f.w, []gitstore.Move{{Branch: st.Branch, Old: st.Tip.Hash, New: tip}}); err != nil {
		return nil, err
	}
	repair := f.event(rollout.EventRepair)
	repair.Tip, repair.Tips = tip.String(), tipsOf(found)
	ran := record.Ran[len(record.Ran)-1]
	back := f.event(rollout.EventRollback)
	back.To = rollout.PastState{Source: st.Source(), Tree: st.Tip.Tree.String()}
	back.Source, back.Tree = ran.Source, ran.Tree
	return []string{fmt.Sprintf("%s keeps %s, as a rollback from %s", st.Branch, st.Source(), ran.Source)},
		f.record(ctx, repair, back)
}

// adoptClusters records the state of cluster branches as a rollback of these clusters. Clusters in another state of the
// environment wait for the next call.
func (f *repairer) adoptClusters(ctx context.Context, found []SetBack) ([]string, error) {
	st := f.states[f.e.Name]
	to, err := f.past[f.e.Name].with(ctx, found[0].Cluster, found[0].Has.Tree)
	if errors.Is(err, rollout.ErrNoTree) {
		return nil, fmt.Errorf("%w: use --restore", err)
	}
	if err != nil {
		return nil, err
	}
	same := slices.DeleteFunc(slices.Clone(found), func(b SetBack) bool { return to.Clusters[b.Cluster] != b.Has.Tree })
	s, err := f.observer.situation(ctx, f.e)
	if err != nil {
		return nil, err
	}
	repair := f.event(rollout.EventRepair)
	repair.Tips = tipsOf(same)
	back := f.event(rollout.EventRollback)
	back.To = rollout.PastState{Source: to.Source(), Tree: to.Tip.Tree.String()}
	back.Source, back.Tree = st.Source(), st.Tip.Tree.String()
	for _, b := range same {
		back.Clusters = append(back.Clusters, b.Cluster)
	}
	if back.Stopped, err = rollout.Unreached(s, back.Clusters, nil); err != nil {
		return nil, err
	}
	back.Stopped = slices.DeleteFunc(back.Stopped, func(name string) bool { return slices.Contains(back.Clusters, name) })
	done := []string{fmt.Sprintf("kept as a rollback: %s on %s", to.Source().On(back.Clusters[0]), rollout.Few(back.Clusters))}
	if n := len(found) - len(same); n > 0 {
		done = append(done, fmt.Sprintf("%s in another state: run the command again", hydrate.Count(n, "cluster")))
	}
	return done, f.record(ctx, repair, back)
}

// record applies events to the record, and stores it once.
func (f *repairer) record(ctx context.Context, events ...rollout.Event) error {
	next := f.records.known[f.e.Name]
	for _, e := range events {
		var err error
		if next, err = rollout.Apply(next, e); err != nil {
			return err
		}
	}
	return f.recorder.store(ctx, next)
}

// tipsOf returns the present commits of cluster branches, by cluster.
func tipsOf(list []SetBack) map[string]string {
	out := map[string]string{}
	for _, b := range list {
		if b.Cluster != "" {
			out[b.Cluster] = b.Has.Hash.String()
		}
	}
	return out
}
