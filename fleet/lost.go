package fleet

import (
	"fmt"
	"slices"
)

// KindFile is the kind of an Imported that stands for a file whose objects cannot be read.
const KindFile = "file"

// Uncertain reports whether the fleet may have imported targets that it does not list; see Lost.
func (f *Fleet) Uncertain() bool { return len(f.unread) > 0 }

// Lost returns why the fleet may have a target that it does not list: the file that declares the target, or a parent
// that creates it, cannot be read in this commit. If Lost returns nil, the commit does not have the target. other is a
// commit that has the target; it names the file and the parents. If other is nil, every failed parent is a reason.
func (f *Fleet) Lost(other *Fleet, cluster, app string) error {
	if f.ImportedTarget(cluster, app) != nil { // suspended
		return nil
	}
	for _, t := range f.unread {
		if t.Cluster == "" && t.App == app {
			return t.hides(cluster)
		}
	}
	if other == nil {
		return hidden(f.unread, cluster, func(t *Imported) bool { return t.reaches(cluster) || t.isParent(cluster) })
	}
	return f.brought(other, cluster, app)
}

// hidden returns the error for a target that a failed target may create; nil if no failed target matches.
func hidden(unread []*Imported, cluster string, matches func(*Imported) bool) error {
	if i := slices.IndexFunc(unread, matches); i >= 0 {
		return unread[i].hides(cluster)
	}
	return nil
}

// reaches reports whether a failed target may create others on a cluster.
func (i *Imported) reaches(cluster string) bool {
	return i.Brings == BringsAny || i.Brings == BringsCluster && i.Cluster == cluster
}

// isParent reports whether an object of this kind can create others on a cluster. It does not look at the files, which
// cannot be read.
func (i *Imported) isParent(cluster string) bool {
	switch i.Kind {
	case "HelmRelease":
		return false
	case "Kustomization", "ResourceSet":
		return i.Cluster == cluster
	}
	return true
}

// brought returns the failure of a target that creates another one in the commit other, directly or through further
// targets. Every failed parent counts, also if its files no longer seem to create others.
func (f *Fleet) brought(other *Fleet, cluster, app string) error {
	moved := false // the file that declared the target, or one of its parents, is gone: another file may declare it
	target := cluster
	seen := map[[2]string]bool{}
	for app != "" && !seen[[2]string{cluster, app}] {
		seen[[2]string{cluster, app}] = true
		old := other.ImportedTarget(cluster, app)
		if old == nil { // the file that declares it is unknown
			return hidden(f.unread, target, func(t *Imported) bool { return t.reaches(target) })
		}
		parentCluster := old.ParentCluster
		if parentCluster == "" {
			parentCluster = cluster
		}
		if err := hidden(f.unread, target, func(t *Imported) bool {
			return t.App == old.Set || t.Kind == KindFile && t.File == old.File ||
				t.App == old.Parent && t.Cluster == parentCluster
		}); err != nil {
			return err
		}
		moved = moved || !describedIn(old.File, f.Apps) || len(seen) > 1 && f.ImportedTarget(cluster, app) == nil
		cluster, app = parentCluster, old.Parent
	}
	if !moved {
		return nil
	}
	return hidden(f.unread, target, func(t *Imported) bool { return t.reaches(target) && !failsIn(other.unread, t) })
}

// describedIn reports whether a file describes an imported target of the apps that does not fail.
func describedIn(file string, apps []*App) bool {
	return slices.ContainsFunc(apps, func(a *App) bool {
		for _, t := range a.imported {
			if t.File == file && t.Err == nil {
				return true
			}
		}
		return false
	})
}

// failsIn reports whether a target is among those that fail in a commit. That commit does not list the targets that it
// brings, so none of them has moved.
func failsIn(unread []*Imported, t *Imported) bool {
	return slices.ContainsFunc(unread, func(u *Imported) bool { return u.App == t.App && u.Cluster == t.Cluster })
}

// hides returns the error for a target that is unknown because this one failed.
func (i *Imported) hides(cluster string) error {
	return &FileError{Cluster: cluster, Problem: Problem{
		File: i.Located(), Line: i.Line, Severity: SeverityError,
		Message: fmt.Sprintf("it is not known whether the target still exists: %s: %v", i.App, i.Err),
	}}
}

// unplaced returns an error for an imported target whose cluster is not in the fleet.
func (i *Imported) unplaced() Problem {
	return Problem{
		File: i.Located(), Line: i.Line, Severity: SeverityError,
		Message: fmt.Sprintf("%s: %v", i.App, i.Err),
	}
}

// PlacementProblems returns the problems of the imported targets that have no cluster.
func (f *Fleet) PlacementProblems() Problems {
	var out Problems
	for _, t := range f.unread {
		if t.Cluster == "" {
			out = append(out, t.unplaced())
		}
	}
	return out
}

// NewlyUnplaced returns, by app, the problems of imported targets of the head that have no cluster, and that the base
// does not have. It leaves out those that a server or another repository describes: the commit cannot place them.
func NewlyUnplaced(base, head *Fleet) map[string]Problem {
	out := map[string]Problem{}
	for _, t := range head.unread {
		if t.Cluster == "" && !t.Foreign && !failsIn(base.unread, t) {
			out[t.App] = t.unplaced()
		}
	}
	return out
}
