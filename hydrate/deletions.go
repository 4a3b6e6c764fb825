package hydrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// limitDeletions returns an *admit.RefusedError if more objects would go than the fleet allows at once. A workspace
// that loses more than its share is added to held instead. If all together lose too many, the workspaces with the most
// deletions are held, until the rest is within the limit or only deletions of the fleet itself remain.
func (r *run) limitDeletions(ctx context.Context, st *branch.State, tree *written, held holds) error {
	if !st.Exists() {
		return nil
	}
	limit := func(objects int) int { return cmp.Or(r.request.MaxDeletions, r.view.Fleet.MaxDeletions(objects)) }
	remaining := tree.counts.Removed
	if st.Foreign == "" {
		workspaces := slices.SortedFunc(maps.Keys(tree.removed), func(a, b string) int {
			return cmp.Or(cmp.Compare(tree.removed[b], tree.removed[a]), cmp.Compare(a, b))
		})
		for _, name := range workspaces {
			removed := tree.removed[name]
			if name == "" || removed <= limit(0) && remaining <= limit(st.Record.Objects) {
				continue
			}
			objects, err := branch.CountObjects(ctx, r.h.Store, st, name)
			if err != nil {
				return err
			}
			if removed <= limit(objects) && remaining <= limit(st.Record.Objects) {
				continue
			}
			held.add(name).Reason = fmt.Sprintf("%d of its %s would go: if that is right, run with --max-deletions %d",
				removed, Count(objects, "object"), tree.counts.Removed)
			remaining -= removed
		}
	}
	most := limit(st.Record.Objects)
	if remaining <= most {
		return nil
	}
	return admit.Refusef("%d of %d objects would go, more than the %d that spec.safety.maxDeletions allows: if that is right, run with --max-deletions %d",
		remaining, st.Record.Objects, most, tree.counts.Removed)
}
