package report

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/diff"
)

// folded is an object of a group with the other objects of the group on which the change is the same.
type folded struct {
	*diff.ObjectChange
	same []*diff.ObjectChange
	like *diff.ObjectChange // an object of an earlier group with the same change, whose hunk is shown there
}

// objects is the number of objects that a folded one stands for.
func (f *folded) objects() int { return 1 + len(f.same) }

// folder folds equal changes over all groups of a report. The zero value is not ready: use newFolder.
type folder struct {
	earlier map[string]*diff.ObjectChange
}

func newFolder() *folder { return &folder{earlier: map[string]*diff.ObjectChange{}} }

// fold returns the objects of a group that have a line of their own: all but noise, equal changes once.
func (f *folder) fold(g *diff.Group) []*folded {
	var out []*folded
	find := map[string]*folded{}
	for i := range g.Objects {
		o := &g.Objects[i]
		if o.OnlyNoise() {
			continue
		}
		key := changeKey(o)
		if first := find[key]; key != "" && first != nil {
			first.same = append(first.same, o)
			continue
		}
		one := &folded{ObjectChange: o}
		if key != "" {
			one.like = f.earlier[key]
			find[key] = one
		}
		out = append(out, one)
	}
	for key, one := range find {
		if f.earlier[key] == nil {
			f.earlier[key] = one.ObjectChange
		}
	}
	return out
}

// changeKey names a change apart from its object; "" for a change that is never the same on two objects.
func changeKey(o *diff.ObjectChange) string {
	if o.Verb != diff.Changed || len(o.Fields) == 0 {
		return ""
	}
	h := sha256.New()
	write := func(s string) { _, _ = io.WriteString(h, s+"\x00") } // a hash accepts every write
	for i := range o.Fields {
		f := &o.Fields[i]
		write(f.Path)
		write(fmt.Sprint(f.Had, f.Has, f.Old, "\x00", f.New))
	}
	for _, e := range o.Effects {
		write(string(e.Name))
	}
	return string(h.Sum(nil))
}

// sameLine says on which other objects the change is the same.
func (f *folded) sameLine(name naming) string {
	if len(f.same) == 0 {
		return ""
	}
	const most = 5
	names := make([]string, 0, most)
	for _, o := range f.same[:min(most, len(f.same))] {
		names = append(names, name(o.Title()))
	}
	out := "The same change on " + number(len(f.same)) + " more: " + strings.Join(names, ", ")
	if rest := len(f.same) - len(names); rest > 0 {
		out += " and " + number(rest) + " others"
	}
	return out
}

// imageRow is one image that changes in a workload, with all containers that run it.
type imageRow struct {
	containers []string
	old, now   string
}

// imageRows lists the images of an object, each once.
func imageRows(o *diff.ObjectChange) []imageRow {
	var out []imageRow
	for _, i := range o.Images {
		at := slices.IndexFunc(out, func(r imageRow) bool { return r.old == i.Old && r.now == i.New })
		if at < 0 {
			at = len(out)
			out = append(out, imageRow{old: i.Old, now: i.New})
		}
		out[at].containers = append(out[at].containers, i.Container)
	}
	return out
}

// onlyImages reports whether a change is completely described by its images, so that it needs no hunk.
func onlyImages(o *diff.ObjectChange) bool {
	if o.Verb != diff.Changed || len(o.Images) == 0 || len(o.Fields) != len(o.Images) {
		return false
	}
	return !slices.ContainsFunc(o.Fields, func(f diff.FieldChange) bool { return !strings.HasSuffix(f.Path, "].image") })
}

// text writes an image change: `web`: `registry.example.com/web` `1.2.0` → `1.3.0`. Repositories are written once.
func (r *imageRow) text(name naming) string {
	const most = 4
	names := make([]string, 0, most)
	for _, c := range r.containers[:min(most, len(r.containers))] {
		names = append(names, name(c))
	}
	out := strings.Join(names, ", ")
	if rest := len(r.containers) - len(names); rest > 0 {
		out += " and " + count(rest, "more container")
	}
	out += ": "
	old, now := diff.SplitImage(r.old), diff.SplitImage(r.now)
	switch {
	case r.old == "":
		return out + "new " + name(now.Repository+":"+now.Version())
	case r.now == "":
		return out + name(old.Repository+":"+old.Version()) + " removed"
	case old.Repository != now.Repository:
		return out + name(old.Repository) + " " + name(old.Version()) + " → " + name(now.Repository) + " " + name(now.Version())
	}
	return out + name(now.Repository) + " " + name(old.Version()) + " → " + name(now.Version())
}
