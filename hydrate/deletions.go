package hydrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
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
		return r.limitLoss(ctx, st, tree, held)
	}
	if remaining >= st.Record.Objects && tree.counts.Added == 0 {
		return admit.Refusef("%s: if that is right, run %s",
			losing("environment "+st.Record.Environment, remaining, st.Record.Objects), r.allow(st, tree))
	}
	return admit.Refusef("%d of %d objects would go, more than the %d that spec.safety.maxDeletions allows: if that is right, run %s",
		remaining, st.Record.Objects, most, r.allow(st, tree))
}

// limitLoss is limitDeletions for what the environment and each of its clusters may lose at once. Workspaces that
// remove objects there are held first.
func (r *run) limitLoss(ctx context.Context, st *branch.State, tree *written, held holds) error {
	if r.request.MaxDeletions > 0 { // somebody has named the number
		return nil
	}
	found, err := Excesses(ctx, r.h.Store, r.view.Fleet, st, tree.counts.Removed-tree.counts.Added, tree.lost)
	if err != nil {
		return err
	}
	for _, x := range found {
		if len(x.Workspaces) == 0 || st.Foreign != "" {
			return admit.Refusef("%s: if that is right, run %s", x.Reason, r.allow(st, tree))
		}
		for _, name := range x.Workspaces {
			held.add(name).Reason = fmt.Sprintf("%s: if that is right, run %s", x.Reason, r.allow(st, tree))
		}
	}
	return nil
}

// allow returns the command that writes the environment all the same.
func (r *run) allow(st *branch.State, tree *written) string {
	push := " --push"
	if gitstore.IsLocal(r.h.Branches) {
		push = ""
	}
	return fmt.Sprintf("`sluice hydrate%s --env %s --max-deletions %d`", push, st.Record.Environment, tree.counts.Removed)
}

// Excess is an environment or a cluster that would lose too many of its objects at once.
type Excess struct {
	Reason     string
	Workspaces []string // that remove objects there, sorted
}

// Excesses returns what of an environment would lose more objects than the fleet allows at once: the environment, or
// clusters of it. loss is how many objects less the environment would have, and lost are the edits of the clusters that
// would have fewer. A retired cluster may lose everything.
func Excesses(ctx context.Context, store *gitstore.Store, f *fleet.Fleet, st *branch.State, loss int,
	lost map[string]*branch.Edited,
) ([]Excess, error) {
	var out []Excess
	all := map[string]bool{}
	objects := st.Record.Objects
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		edit := lost[name]
		c, known := f.Cluster(name)
		if known && c.Retired() {
			loss -= edit.Loss()
			objects -= edit.Loss()
			continue
		}
		has, err := branch.CountEdit(ctx, store, st.Clusters[name], gitstore.Hash{}, func(string) string { return "" })
		if err != nil {
			return nil, err
		}
		workspaces := slices.Sorted(maps.Keys(edit.Removed))
		workspaces = slices.DeleteFunc(workspaces, func(w string) bool { return w == "" })
		for _, w := range workspaces {
			all[w] = true
		}
		if known && edit.Loss() > f.MaxLoss(has.Loss()) {
			out = append(out, Excess{Reason: losing("cluster "+name, edit.Loss(), has.Loss()), Workspaces: workspaces})
		}
	}
	if loss > 0 && loss > f.MaxLoss(objects) {
		out = append([]Excess{{
			Reason:     losing("environment "+st.Record.Environment, loss, objects),
			Workspaces: slices.Sorted(maps.Keys(all)),
		}}, out...)
	}
	return out, nil
}

func losing(what string, loss, objects int) string {
	if loss >= objects {
		return fmt.Sprintf("%s would lose all its objects (%d)", what, objects)
	}
	return fmt.Sprintf("%s would lose %d of its %s, more than a third", what, loss, Count(objects, "object"))
}
