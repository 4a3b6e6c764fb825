package report

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
)

// Folded is an object of a group with the other objects of the group on which the change is the same.
type Folded struct {
	*diff.ObjectChange
	Same      []*diff.ObjectChange
	Like      *diff.ObjectChange // an object of an earlier group with the same change; its hunk is shown there
	Elsewhere []AppObject        // objects of other apps in the same entry, with the same change

	group, likeGroup *diff.Group
}

// AppObject is a changed object of an app.
type AppObject struct {
	App string
	*diff.ObjectChange
}

// Objects is the number of objects that a folded one stands for.
func (f *Folded) Objects() int { return 1 + len(f.Same) + len(f.Elsewhere) }

// Folder folds equal changes over all groups of a report. The zero value is not ready: use newFolder.
type Folder struct {
	earlier map[string]*Folded
}

// NewFolder returns a Folder that has seen no group.
func NewFolder() *Folder { return &Folder{earlier: map[string]*Folded{}} }

// Fold returns the objects of a group that have a line of their own: all but noise, equal changes once.
func (f *Folder) Fold(g *diff.Group) []*Folded {
	var out []*Folded
	find := map[string]*Folded{}
	for i := range g.Objects {
		o := &g.Objects[i]
		if o.OnlyNoise() {
			continue
		}
		key := changeKey(o)
		if first := find[key]; key != "" && first != nil {
			first.Same = append(first.Same, o)
			continue
		}
		one := &Folded{ObjectChange: o, group: g}
		if key != "" {
			if first := f.earlier[key]; first != nil {
				one.Like, one.likeGroup = first.ObjectChange, first.group
			}
			find[key] = one
		}
		out = append(out, one)
	}
	for key, one := range find {
		if f.earlier[key] == nil {
			f.earlier[key] = one
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

// likeText names the earlier object with the same change: by its title, by its app if the title is the same, and by the
// clusters if the app is the same too.
func (f *Folded) likeText(name naming) string {
	title := f.Like.Title()
	switch {
	case title != f.Title():
		return name(title)
	case f.likeGroup.App != f.group.App:
		return name(title) + " of " + name(f.likeGroup.App)
	}
	return name(patterns(f.likeGroup.Where, 3))
}

// sameLine says on which other objects the change is the same.
func (f *Folded) sameLine(name naming) string {
	if len(f.Same) == 0 {
		return ""
	}
	const most = 5
	names := make([]string, 0, most)
	for _, o := range f.Same[:min(most, len(f.Same))] {
		names = append(names, name(o.Title()))
	}
	out := "The same change on " + Number(len(f.Same)) + " more: " + strings.Join(names, ", ")
	if rest := len(f.Same) - len(names); rest > 0 {
		out += " and " + Number(rest) + " others"
	}
	return out
}

// ImageRow is one image that changes in a workload, with all containers that run it.
type ImageRow struct {
	Containers []string
	Old, New   string // "" if added or removed
}

// ImageRows lists the images of an object, each once.
func ImageRows(o *diff.ObjectChange) []ImageRow {
	var out []ImageRow
	for _, i := range o.Images {
		at := slices.IndexFunc(out, func(r ImageRow) bool { return r.Old == i.Old && r.New == i.New })
		if at < 0 {
			at = len(out)
			out = append(out, ImageRow{Old: i.Old, New: i.New})
		}
		out[at].Containers = append(out[at].Containers, i.Container)
	}
	return out
}

// OnlyImages reports whether a change is completely described by its images, so that it needs no hunk.
func OnlyImages(o *diff.ObjectChange) bool {
	if o.Verb != diff.Changed || len(o.Images) == 0 || len(o.Fields) != len(o.Images) {
		return false
	}
	return !slices.ContainsFunc(o.Fields, func(f diff.FieldChange) bool {
		return !strings.HasSuffix(f.Path,
			"].image")
	})
}

// text writes an image change: `web`: `registry.example.com/web` `1.2.0` → `1.3.0`. Repositories are written once.
func (r *ImageRow) text(name naming) string {
	const most = 4
	names := make([]string, 0, most)
	for _, c := range r.Containers[:min(most, len(r.Containers))] {
		names = append(names, name(c))
	}
	out := strings.Join(names, ", ")
	if rest := len(r.Containers) - len(names); rest > 0 {
		out += " and " + Count(rest, "more container")
	}
	out += ": "
	old, now := diff.SplitImage(r.Old), diff.SplitImage(r.New)
	switch {
	case r.Old == "":
		return out + "new " + name(now.Repository+":"+now.Version())
	case r.New == "":
		return out + name(old.Repository+":"+old.Version()) + " removed"
	case old.Repository != now.Repository:
		return out + name(old.Repository) + " " + name(old.Version()) + " → " + name(now.Repository) + " " +
			name(now.Version())
	}
	return out + name(now.Repository) + " " + name(old.Version()) + " → " + name(now.Version())
}
