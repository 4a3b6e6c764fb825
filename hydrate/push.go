package hydrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// push moves the branches of an environment. If the first run of an environment needs several pushes, push
// creates the marker branch before the first push and deletes it after the last one.
func (r *run) push(ctx context.Context, out *EnvironmentResult, created bool, moves []gitstore.Move,
	w *gitstore.Writer,
) (Status, string, error) {
	options := gitstore.PushOptions{PerPush: r.request.PerPush}
	marker, mark := r.refs.Marker(out.Name)
	if target, err := gitstore.ParseHash(out.New); created && err == nil && r.request.PerPush > 0 &&
		len(moves) > r.request.PerPush && mark.IsZero() {
		results, err := r.h.Branches.Push(ctx, w, []gitstore.Move{{Branch: marker, New: target}}, options)
		if err != nil {
			return "", "", err
		}
		if status, reason := PushStatus(results); status != StatusUpdated {
			return status, reason, nil
		}
		mark = target
	}
	results, err := r.h.Branches.Push(ctx, w, moves, options)
	if err != nil {
		return "", "", err
	}
	status, reason := PushStatus(results)
	if status == StatusUpdated && !mark.IsZero() {
		results, err := r.h.Branches.Push(ctx, nil, []gitstore.Move{{Branch: marker, Old: mark}}, options)
		if err != nil {
			return "", "", err
		}
		status, reason = PushStatus(results)
	}
	return status, reason, nil
}

// RequireSigner returns an *admit.RefusedError for moves to commits that spec.signers does not allow, because the next
// run would treat these commits as foreign. Call it before every push of Sluice's own commits. An empty list allows all
// signers.
func RequireSigner(ctx context.Context, store *gitstore.Store, moves []gitstore.Move, allowed signers.List) error {
	if allowed.Empty() {
		return nil
	}
	for _, m := range moves {
		if m.New.IsZero() {
			continue
		}
		_, err := store.VerifySignature(ctx, m.New, allowed)
		if unsigned, ok := errors.AsType[*gitstore.SignatureError](err); ok {
			return admit.Refusef("spec.signers does not allow the commits of this run (%s): sign with an allowed key (--sign-key FILE, or signKey of the service)", unsigned.Reason)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PushStatus maps the results of a push to a status, and names the branches that did not move.
func PushStatus(results []gitstore.MoveResult) (Status, string) {
	var bad []gitstore.MoveResult
	status := StatusUpdated
	for _, m := range results {
		switch m.State {
		case gitstore.Updated:
			continue
		case gitstore.Rejected:
			status = StatusRejected
		default:
			if status == StatusUpdated {
				status = StatusConflict
			}
		}
		bad = append(bad, m)
	}
	if len(bad) == 0 {
		return StatusUpdated, ""
	}
	reasons := make([]string, 0, len(bad))
	const most = 3
	for _, m := range bad[:min(most, len(bad))] {
		reasons = append(reasons, m.Branch+": "+m.Reason)
	}
	if len(bad) > most {
		reasons = append(reasons, fmt.Sprintf("and %d more", len(bad)-most))
	}
	return status, strings.Join(reasons, "; ")
}
