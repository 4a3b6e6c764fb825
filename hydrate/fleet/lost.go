package fleet

import "fmt"

// KindFile is the kind of an Imported that stands for a file whose objects cannot be read.
const KindFile = "file"

// Uncertain reports whether the fleet may have imported targets that it does not list; see Lost.
func (f *Fleet) Uncertain() bool { return len(f.unread) > 0 }

// Lost says why the fleet may have a target although it does not list it: what describes the target, or brings the object that does, cannot
// be read in this commit. Without such a reason, which is nil, the commit does not have the target. other is a commit that has the target,
// and says what describes it; nil if that is not known.
func (f *Fleet) Lost(other *Fleet, cluster, app string) error {
	if f.ImportedTarget(cluster, app) != nil { // suspended
		return nil
	}
	for _, t := range f.unread {
		if t.Cluster == "" && t.App == app {
			return t.hides(cluster)
		}
	}
	if other == nil || other.apps[app] == nil { // nothing tells what describes it
		return f.mayBring(cluster)
	}
	return f.brought(other, cluster, app)
}

// mayBring returns the failure of a target that may bring others on a cluster.
func (f *Fleet) mayBring(cluster string) error {
	for _, t := range f.unread {
		if t.Brings == BringsAny || t.Brings == BringsCluster && t.Cluster == cluster {
			return t.hides(cluster)
		}
	}
	return nil
}

// brought returns the failure of a target that brings another one in the commit other, directly or through further targets. A parent that
// fails counts, whether or not its files still look as if it brought others.
func (f *Fleet) brought(other *Fleet, cluster, app string) error {
	seen := map[[2]string]bool{}
	for app != "" && !seen[[2]string{cluster, app}] {
		seen[[2]string{cluster, app}] = true
		old := other.ImportedTarget(cluster, app)
		if old == nil {
			return nil
		}
		parentCluster := old.ParentCluster
		if parentCluster == "" {
			parentCluster = cluster
		}
		for _, t := range f.unread {
			if t.App == old.Set || t.Kind == KindFile && t.File == old.File || t.App == old.Parent && t.Cluster == parentCluster {
				return t.hides(cluster)
			}
		}
		cluster, app = parentCluster, old.Parent
	}
	return nil
}

// hides is the error of a target that is not known because of this one.
func (i *Imported) hides(cluster string) error {
	return &FileError{Cluster: cluster, Problem: Problem{
		File: i.File, Line: i.Line, Severity: SeverityError, Message: fmt.Sprintf("it is not known whether the target still exists: %s: %v", i.App, i.Err),
	}}
}
