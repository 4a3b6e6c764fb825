package report

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Entry is one change of a report: a group, with the groups of other apps on which the change is the same. Groups are
// the same change if they are on the same clusters and their objects differ only in the names of the app, of the
// object and of its namespace.
type Entry struct {
	*diff.Group               // the first one, whose objects the report shows
	Others      []*diff.Group // of one other app each, in the order of the change set
}

// Entries folds groups over apps. An entry stands where its first group does.
func Entries(groups []*diff.Group) []*Entry {
	find := map[string]*Entry{}
	var out []*Entry
	for _, g := range groups {
		key := entryKey(g)
		if e := find[key]; e != nil && e.App != g.App &&
			!slices.ContainsFunc(e.Others, func(o *diff.Group) bool { return o.App == g.App }) {
			e.Others = append(e.Others, g)
			continue
		}
		e := &Entry{Group: g}
		if find[key] == nil {
			find[key] = e
		}
		out = append(out, e)
	}
	return out
}

// Groups returns all groups of an entry.
func (e *Entry) Groups() []*diff.Group { return append([]*diff.Group{e.Group}, e.Others...) }

// Apps returns the names of the entry's apps.
func (e *Entry) Apps() []string {
	var out []string
	for _, g := range e.Groups() {
		out = append(out, g.App)
	}
	return out
}

// Place returns the place that all groups of an entry come from; nil if they come from several, or it is not known.
func (e *Entry) Place() *diff.Cause {
	for _, g := range e.Others {
		if e.Cause == nil || g.Cause == nil || *g.Cause != *e.Cause {
			return nil
		}
	}
	return e.Cause
}

// Since says which groups of an entry are new or changed, by their ids: "new", "2 new, 1 changed", or "".
func (e *Entry) Since(tags map[string]string) string {
	count := map[string]int{}
	for _, g := range e.Groups() {
		if tag := tags[g.ID]; tag != "" {
			count[tag]++
		}
	}
	var parts []string
	for _, tag := range []string{"new", "changed"} {
		switch n := count[tag]; n {
		case 0:
		case 1 + len(e.Others):
			parts = append(parts, tag)
		default:
			parts = append(parts, Number(n)+" "+tag)
		}
	}
	return joined(parts...)
}

// entryKey is equal for groups that are the same change.
func entryKey(g *diff.Group) string {
	h := sha256.New()
	write := func(parts ...string) {
		for _, p := range parts {
			fmt.Fprintf(h, "%d:", len(p))
			_, _ = io.WriteString(h, p) // a hash accepts every write
		}
	}
	write(g.Clusters...)
	write("|", fmt.Sprint(g.BaseUnknown))
	write(g.Varies...)
	keys := make([]string, 0, len(g.Objects))
	for i := range g.Objects {
		keys = append(keys, neutralKey(g.App, &g.Objects[i]))
	}
	slices.Sort(keys) // objects are in the order of their names, which differ
	write(keys...)
	return string(h.Sum(nil))
}

// neutralKey names the change of an object apart from the names of its app, its namespace and its own.
func neutralKey(app string, o *diff.ObjectChange) string {
	h := sha256.New()
	own := ownNames(app, o)
	// the name of the app in place of that of the namespace is another change
	parts := []string{o.ID.Name, app, o.ID.Namespace, o.OldID.Name, o.OldID.Namespace}
	write := func(texts ...string) {
		for _, p := range texts {
			for _, n := range own {
				p = safetext.ReplaceWords(p, n, fmt.Sprint(ownName, slices.Index(parts, n)))
			}
			fmt.Fprintf(h, "%d:", len(p))
			_, _ = io.WriteString(h, p) // a hash accepts every write
		}
	}
	write(string(o.Verb), o.APIVersion, o.ID.Kind)
	for _, name := range []string{o.ID.Name, o.ID.Namespace, o.OldID.Name, o.OldID.Namespace} {
		write(neutral(own, name)) // in some apps, one name plays several parts
	}
	for _, list := range [][]diff.FieldChange{o.Fields, o.Noise} {
		for i := range list {
			f := &list[i]
			write(f.Path, fmt.Sprint(f.Had, f.Has), fmt.Sprint(f.Old), fmt.Sprint(f.New))
		}
		write("|")
	}
	for _, e := range o.Effects {
		write(string(e.Name), string(e.Risk))
	}
	if o.Verb == diff.Added {
		for i := range o.Hunks {
			write(o.Hunks[i].Lines...)
		}
	}
	return string(h.Sum(nil))
}

// ownNames returns the names that tell an object from the same object of another app, longest first.
func ownNames(app string, o *diff.ObjectChange) []string {
	names := []string{app, o.ID.Name, o.ID.Namespace, o.OldID.Name, o.OldID.Namespace}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(names)
}

const ownName = "NAME"

// neutral replaces names in a text.
func neutral(names []string, text string) string {
	for _, n := range names {
		text = safetext.ReplaceWords(text, n, ownName)
	}
	return text
}

// FoldEntry folds the objects of an entry: those of the first group, which stand for the objects of the others.
func (f *Folder) FoldEntry(e *Entry) []*Folded {
	out := f.Fold(e.Group)
	if len(e.Others) == 0 {
		return out
	}
	find := map[string]*Folded{}
	for _, one := range out {
		for _, o := range append([]*diff.ObjectChange{one.ObjectChange}, one.Same...) {
			if key := neutralKey(e.App, o); find[key] == nil {
				find[key] = one
			}
		}
	}
	for _, g := range e.Others {
		for i := range g.Objects {
			if o := &g.Objects[i]; !o.OnlyNoise() {
				if one := find[neutralKey(g.App, o)]; one != nil {
					one.Elsewhere = append(one.Elsewhere, AppObject{g.App, o})
				}
			}
		}
	}
	return out
}

// name names the apps of an entry: its app, or their number.
func (e *Entry) name(name naming) string {
	if len(e.Others) == 0 {
		return name(e.App)
	}
	return Count(1+len(e.Others), "app")
}

// summary is the summary of an entry, with its place.
func (e *Entry) summary() string {
	text := e.Summary
	if len(e.Others) > 0 && text != "" {
		text = "such as " + text
	}
	return text
}

const maxApps = 40 // names of apps of one entry

// appsLine lists the apps of an entry; "" if there is one.
func (e *Entry) appsLine(name naming) string {
	if len(e.Others) == 0 {
		return ""
	}
	apps := e.Apps()
	shown := apps[:min(maxApps, len(apps))]
	names := make([]string, len(shown))
	for i, a := range shown {
		names[i] = name(a)
	}
	out := strings.Join(names, ", ")
	if rest := len(apps) - len(shown); rest > 0 {
		out += " and " + Number(rest) + " more"
	}
	return out
}

// removedLine says whose manifests a report shows of removed objects; "" if no other cluster can have others.
func (e *Entry) removedLine(name naming) string {
	removed := slices.ContainsFunc(e.Objects, func(o diff.ObjectChange) bool { return o.Verb == diff.Removed })
	if !removed || len(e.Clusters) == 1 {
		return ""
	}
	return "Removed manifests are shown as on " + name(e.Example)
}
