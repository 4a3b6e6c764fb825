package promote

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/retry"
	"github.com/sluice-gitops/sluice/rollout"
)

// patience is how long a push that has begun may go on when its task is cancelled.
const patience = 10 * time.Second

// pusher makes the commits of a pass, and moves branches to them.
type pusher struct{ *snapshot }

// message is a commit's message.
type message struct {
	subject, body string
	trailers      []gitstore.Trailer
}

// commit makes a commit with the time of the pass.
func (p *pusher) commit(w *gitstore.Writer, tree, parent gitstore.Hash, author gitstore.Commit,
	m message,
) (gitstore.Hash, error) {
	return branch.Commit{
		Tree: tree, Parent: parent, Author: author.Author,
		Committer: branch.Committer(p.fleet.Spec.Output.Committer).At(p.request.Now.UTC().Truncate(time.Second)),
		Subject:   m.subject, Body: m.body, Trailers: m.trailers, Version: p.hydrator.Version,
		Signer: p.hydrator.Signer,
	}.Write(w)
}

// MovedError means that somebody else moved a branch since the pass read it. Another pass decides again.
type MovedError struct{ Reason string }

// Error names the branch.
func (e *MovedError) Error() string { return "somebody else moved a branch meanwhile: " + e.Reason }

// decidedOn returns the branch of the records where this pass read or wrote it last, unless the push moves it. Nothing
// is pushed if somebody else has stored a record since, such as a freeze.
func (p *pusher) decidedOn(moves []gitstore.Move) map[string]gitstore.Hash {
	if slices.ContainsFunc(moves, func(m gitstore.Move) bool { return m.Branch == rollout.StateBranch }) {
		return nil
	}
	return map[string]gitstore.Hash{rollout.StateBranch: p.refs[rollout.StateBranch]}
}

func (p *pusher) push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move) error {
	if len(moves) == 0 {
		return nil
	}
	if err := hydrate.RequireSigner(ctx, p.hydrator.Store, moves, p.fleet.Signers()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// The server may carry out a push although nobody waits for the answer. A freeze that interrupts a promotion is
	// stored only afterwards, so nothing moves once it is acknowledged. A process whose lease is lost waits for
	// nothing: another one may store a freeze.
	ctx, end := retry.Alone(ctx, patience)
	defer end()
	results, err := p.hydrator.Branches.Push(ctx, w, moves, gitstore.PushOptions{
		PerPush: p.request.PerPush,
		Unmoved: p.decidedOn(moves),
	})
	if err != nil {
		return err
	}
	switch status, reason := hydrate.PushStatus(results); status {
	case hydrate.StatusUpdated:
		return nil
	case hydrate.StatusConflict:
		return &MovedError{reason}
	default:
		return fmt.Errorf("the server refuses: %s", reason)
	}
}
