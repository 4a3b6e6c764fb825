package bot

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
)

// Most checks of promotions find what the last one found. Such a check ends after a listing of the refs. It must not if anything but a branch
// can change its result: the time, the forge, a check, or an error that a retry may mend. Every sweep makes a whole check, so that a status that
// somebody else overwrote, or another configuration, is noticed as before.

// settledKey is the subject under which a Bot remembers the refs of a repository in which only a move of a branch gives the trunk's task something
// to do.
const settledKey = "settled"

// settledRefs identifies the refs that the task reads and the settings that apply.
func settledRefs(ctx context.Context, j *job) (string, error) {
	refs, err := j.space.Branches.Refs(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %+v", refs, j.settings), nil
}

// settle remembers the refs if the task, which has succeeded, left nothing to do. refs are those of the source repository, so it remembers none
// where the rendered branches are elsewhere.
func settle(ctx context.Context, j *job, refs string) {
	if j.unsettled {
		return
	}
	output, onForge, err := j.space.Branches.Output(ctx)
	if err == nil && onForge && fold(j.place) == fold(hint.NewPlace(j.place.Forge(), output.Path)) {
		j.remember(settledKey, refs)
	}
}

// quiet reports whether a hydration and promotions changed nothing, and can change something only if a branch moves.
func quiet(r *hydrate.Result, promotions []promote.Status) bool {
	for i := range r.Environments {
		e := &r.Environments[i]
		if e.Status != hydrate.StatusUnchanged && e.Status != hydrate.StatusChecked || len(e.Failures)+len(e.Held) > 0 {
			return false
		}
	}
	for i := range promotions {
		if !promotions[i].Settled() {
			return false
		}
	}
	return true
}
