package fleet

import (
	"cmp"
	"slices"
)

// Parents returns the imported targets whose objects include a target's object, the nearest first. It ends where the
// tool starts, or at a parent that this commit does not list.
func Parents(f *Fleet, t *Imported) []*Imported {
	var out []*Imported
	for at := t; at.Parent != ""; {
		at = f.ImportedTarget(cmp.Or(at.ParentCluster, at.Cluster), at.Parent)
		if at == nil || at == t || slices.Contains(out, at) {
			break
		}
		out = append(out, at)
	}
	return out
}

// Unread returns the imported targets that fail and may bring further ones, as `app on cluster`. The fleet lacks what
// they bring.
func Unread(f *Fleet) []string {
	var out []string
	for _, t := range f.unread {
		if t.Brings != BringsNone && !t.Foreign && t.Cluster != "" {
			out = append(out, t.App+" on "+t.Cluster)
		}
	}
	slices.Sort(out)
	return out
}
