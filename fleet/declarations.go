package fleet

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ChangedDeclaration is an imported target whose object changes, or the objects that it refers to.
type ChangedDeclaration struct {
	Cluster, App string    // Cluster is "" if it is not known
	Base, Head   *Imported // nil if the commit does not have the target
	// Texts are the objects as YAML, of base and head: as the tool has them, or as their files have them. Equal texts
	// mean that something else changes them, such as a patch; "" is an object that the commit does not have.
	Texts [2]string
}

// ChangedDeclarations returns the imported targets whose declaration differs between two commits, by cluster and app,
// and that show chooses.
func ChangedDeclarations(base, head *Fleet, show func(cluster, app string) bool) []ChangedDeclaration {
	var out []ChangedDeclaration
	add := func(before, after *Imported) {
		t := cmp.Or(after, before)
		if before != nil && after != nil && before.Declared == after.Declared || !show(t.Cluster, t.App) {
			return
		}
		key := [2]string{t.Cluster, t.App}
		if before == nil && mayHave(base, head, key) || after == nil && mayHave(head, base, key) {
			return // it is not known whether the target is added or removed
		}
		one := ChangedDeclaration{Cluster: t.Cluster, App: t.App, Base: before, Head: after}
		if before != nil && after != nil && before.Object != "" && after.Object != "" {
			one.Texts = [2]string{before.Object, after.Object}
		} else {
			one.Texts = [2]string{base.writtenText(before), head.writtenText(after)}
		}
		out = append(out, one)
	}
	targets := func(f, other *Fleet, each func(t, there *Imported)) {
		for _, a := range f.Apps {
			if there := other.apps[a.Name]; there != nil && there.imported == nil {
				continue // the other commit declares the app itself, and the tool's object may be as it was
			}
			for cluster, t := range a.imported {
				each(t, other.ImportedTarget(cluster, a.Name))
			}
		}
		for _, t := range f.unread {
			if t.Cluster == "" {
				each(t, other.Unplaced(t.App))
			}
		}
	}
	targets(head, base, func(after, before *Imported) { add(before, after) })
	targets(base, head, func(before, after *Imported) {
		if after == nil {
			add(before, nil)
		}
	})
	slices.SortFunc(out, func(a, b ChangedDeclaration) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.App, b.App))
	})
	return out
}

// writtenText returns an imported target's object as its file has it; the object of the tool if it is in no file.
func (f *Fleet) writtenText(t *Imported) string {
	if t == nil {
		return ""
	}
	node := f.Object(t)
	if node == nil {
		return t.Object
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	if encoder.Encode(node) != nil || encoder.Close() != nil { // not possible: it was decoded
		return t.Object
	}
	return out.String()
}
