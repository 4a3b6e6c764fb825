package promote

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/rollout"
)

// requests opens and closes the merge requests of promotions.
type requests struct {
	*snapshot
	proposals *proposals
	pusher    *pusher
	recorder  *recorder
}

// open opens the merge request of a promotion, or updates it.
func (q *requests) open(ctx context.Context, e fleet.Environment, a rollout.Action, out *Status) error {
	if q.request.Adapters.MergeRequests == nil {
		return ErrNoForge
	}
	one, err := q.proposals.decided(ctx, e, a)
	if err != nil {
		return err
	}
	st := q.states[e.Name]
	author, err := q.trunk.author(ctx, a.Source.Commit)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("Promote %s to %s", a.Source, e.Name)
	hash, err := q.pusher.commit(one.w, one.tree, st.Tip.Hash, author,
		message{title, q.trunk.bringing(st, a.Source), trailers(e, a, 0)})
	if err != nil {
		return err
	}
	ref := requestBranch(e.Name)
	if err := q.pusher.push(ctx, one.w, []gitstore.Move{{Branch: ref, Old: q.refs[ref], New: hash}}); err != nil {
		return err
	}
	r := MergeRequest{
		From: ref, To: st.Branch, Head: hash.String(), Title: title, Source: a.Source.Commit,
		Tree: a.Tree, Why: q.trunk.bringing(st, a.Source),
	}
	if err := q.request.Adapters.MergeRequests.Open(ctx, r); err != nil {
		return err
	}
	out.Done = append(out.Done, "a merge request asks for "+a.Source.String())
	return q.recorder.apply(ctx, e.Name, rollout.Event{Kind: rollout.EventOpened, Source: a.Source, Tree: a.Tree})
}

// close closes the merge request of a promotion that is no longer due.
func (q *requests) close(ctx context.Context, e fleet.Environment, a rollout.Action, out *Status) error {
	if q.request.Adapters.MergeRequests == nil {
		return ErrNoForge
	}
	open, err := q.request.Adapters.MergeRequests.Find(ctx, requestBranch(e.Name), q.states[e.Name].Branch)
	if err != nil {
		return err
	}
	// The record forgets the request first: one that Sluice closes must not look as if a person had declined it.
	if err := q.recorder.apply(ctx, e.Name, rollout.Event{Kind: rollout.EventClosed}); err != nil || open == nil {
		return err
	}
	out.Done = append(out.Done, "merge request closed: "+a.Reason)
	return q.request.Adapters.MergeRequests.Close(ctx, *open, a.Reason)
}
