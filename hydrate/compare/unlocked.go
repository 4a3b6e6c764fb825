package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// noteUnlocked notes the charts whose exact version was used although sluice.lock lacks them.
func (c *Comparison) noteUnlocked() {
	refs := c.run.views[1].Unlocked()
	if before := c.run.views[0]; before != nil {
		for _, ref := range before.Unlocked() {
			if !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		}
	}
	if len(refs) == 0 {
		return
	}
	slices.SortFunc(refs, func(a, b fetch.Ref) int { return strings.Compare(a.String(), b.String()) })
	var names []string
	for n, ref := range refs {
		const shown = 5
		if n == shown {
			names = append(names, fmt.Sprintf("and %d more", len(refs)-n))
			break
		}
		names = append(names, ref.String())
	}
	are := "are"
	if len(refs) == 1 {
		are = "is"
	}
	c.notes = append(c.notes,
		fmt.Sprintf("%s %s not in sluice.lock, and taken in the version that the commit names: %s",
			hydrate.Count(len(refs), "chart"), are, strings.Join(names, ", ")))
}

// NewlyUnlocked returns the charts that the head's sluice.lock lacks, and that the base does not use without a lock. It
// is empty if neither has a sluice.lock although the base needs one: nobody hydrates that repository.
func (c *Comparison) NewlyUnlocked() []fetch.Ref {
	if c.run == nil {
		return nil
	}
	before, head := c.run.views[0], c.run.views[1]
	refs := head.Unlocked()
	if len(refs) == 0 {
		return nil
	}
	if before == nil {
		if !head.Locks() {
			return nil
		}
		return refs
	}
	if !head.Locks() && !before.Locks() {
		// its error is about apps that cannot be resolved: they name no chart
		if needed, _, _ := before.Remote(); len(needed) > 0 {
			return nil
		}
	}
	known := before.Unlocked()
	return slices.DeleteFunc(refs, func(r fetch.Ref) bool { return slices.Contains(known, r) })
}
