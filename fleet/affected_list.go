package fleet

import (
	"cmp"
	"slices"
)

// Everything lists the targets of two fleets, where it is not known which of them a change touches.
func Everything(base, head *Fleet) []AffectedTarget {
	a := &affected{base: base, head: head, found: map[[2]string]bool{}}
	a.everything()
	a.unplaced(newChanges(nil))
	return a.list()
}

func (a *affected) everything() {
	for _, f := range []*Fleet{a.base, a.head} {
		if f == nil {
			continue
		}
		for _, c := range f.Clusters {
			a.addCluster(f, c)
		}
	}
}

func (a *affected) list() []AffectedTarget {
	out := make([]AffectedTarget, 0, len(a.found))
	for key := range a.found {
		before, after := exists(a.base, key), exists(a.head, key)
		if key[0] == "" {
			before, after = a.base.Unplaced(key[1]) != nil, a.head.Unplaced(key[1]) != nil
		}
		t := AffectedTarget{Cluster: key[0], App: key[1], Effect: EffectChanged}
		switch {
		case !before && !mayHave(a.base, a.head, key):
			t.Effect = EffectAdded
		case !after && !mayHave(a.head, a.base, key):
			t.Effect = EffectRemoved
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(x, y AffectedTarget) int {
		return cmp.Or(cmp.Compare(x.Cluster, y.Cluster), cmp.Compare(x.App, y.App))
	})
	return out
}

// mayHave reports whether a commit may have a target that its fleet does not list, because what declares it cannot be
// read. other has it.
func mayHave(f, other *Fleet, key [2]string) bool {
	return f != nil && (Unknown(f, key[1]) != nil || f.Uncertain() && f.Lost(other, key[0], key[1]) != nil)
}

func exists(f *Fleet, key [2]string) bool {
	if f == nil {
		return false
	}
	c, ok := f.clusters[key[0]]
	if !ok {
		return false
	}
	app, ok := f.apps[key[1]]
	return ok && f.Places(app, c)
}
