package diff

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Harmless returns "" if a change set has only changes of objects, none of them of more than medium risk, and nothing
// is missing from it. Otherwise it returns the first thing that a person must see.
func (c *ChangeSet) Harmless() string {
	switch {
	case len(c.Withheld) > 0:
		return "a target cannot be rendered"
	case len(c.Unread) > 0:
		return "not everything is compared: " + c.Unread[0] + " fails"
	case len(c.Losses) > 0:
		return "a cluster or an environment loses much of what it has"
	case len(c.Declarations) > 0:
		return "the declaration of " + c.Declarations[0].App + " changes"
	case len(c.Files) > 0:
		return c.Files[0].Path + ": " + c.Files[0].Reason
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		if g.BaseUnknown {
			return "the base of " + g.App + " cannot be rendered"
		}
		for j := range g.Objects {
			o := &g.Objects[j]
			if o.Risk.Rank() < RiskMedium.Rank() {
				return fmt.Sprintf("%s of %s: the change is of %s risk", o.Title(), g.App, o.Risk)
			}
			if installs(o) {
				return fmt.Sprintf("%s of %s: what it installs is not rendered", o.Title(), g.App)
			}
			if o.ID.Kind == "NetworkPolicy" {
				return fmt.Sprintf("%s of %s: what it opens depends on other policies", o.Title(), g.App)
			}
		}
	}
	return ""
}

// installs reports whether a changed object makes Flux or Argo CD install what the change set does not have.
func installs(o *ObjectChange) bool {
	return strings.HasSuffix(o.ID.Group, "toolkit.fluxcd.io") ||
		o.ID.Group == "argoproj.io" && strings.HasPrefix(o.ID.Kind, "Application")
}

// imageField matches the field of a container's image, in an object of any kind.
var imageField = regexp.MustCompile(`(?:^|\.)(?:initContainers|containers)\[name=([^\]]*)\]\.image$`)

// KeepsRepositories returns "" if every changed image is one that OnlyImages allows, and no container is new. Otherwise
// it returns the first other image.
func (c *ChangeSet) KeepsRepositories(allowed func(repository string) bool) string {
	for i := range c.Groups {
		g := &c.Groups[i]
		for j := range g.Objects {
			o := &g.Objects[j]
			for _, f := range o.Fields {
				if newContainers.MatchString(f.Path) && f.Has && !f.Had {
					return fmt.Sprintf("%s of %s: %s is new", o.Title(), g.App, f.Path)
				}
				if !anyImage.MatchString(f.Path) {
					continue
				}
				if why := g.routineImage(f, allowed); why != "" {
					return fmt.Sprintf("%s of %s: %s", o.Title(), g.App, why)
				}
			}
			for _, image := range o.Images {
				if image.Old == "" {
					return fmt.Sprintf("%s of %s: container %s is new", o.Title(), g.App, image.Container)
				}
			}
		}
	}
	return ""
}

// anyImage matches the fields that hold an image in an object of any kind, newContainers lists of containers and their
// elements.
var (
	anyImage      = regexp.MustCompile(`(?:^|\.)image$`)
	newContainers = regexp.MustCompile(`(?:^|\.)(?:initContainers|containers)(?:\[[^\]]*\])?$`)
)

// OnlyImages returns "" if nothing changes but version labels, checksums and images, which keep their repositories and
// do not go back to an older version. Otherwise it returns the first other change. allowed reports whether the images
// of a repository may change. Where the clusters of a group have different values in an image, all of them count.
func (c *ChangeSet) OnlyImages(allowed func(repository string) bool) string {
	for i := range c.Groups {
		g := &c.Groups[i]
		for j := range g.Objects {
			o := &g.Objects[j]
			if o.Verb != Changed {
				return fmt.Sprintf("%s of %s is %s", o.Title(), g.App, o.Verb)
			}
			for _, f := range o.Fields {
				if !imageField.MatchString(f.Path) {
					return fmt.Sprintf("%s of %s: %s changes", o.Title(), g.App, f.Path)
				}
				why := g.routineImage(f, allowed)
				if why != "" {
					return fmt.Sprintf("%s of %s: %s", o.Title(), g.App, why)
				}
			}
		}
	}
	return ""
}

// routineImage is Image.routine for a field that holds an image.
func (g *Group) routineImage(f FieldChange, allowed func(repository string) bool) string {
	image := Image{Old: g.imageText(f.Old), New: g.imageText(f.New)}
	if m := imageField.FindStringSubmatch(f.Path); m != nil {
		image.Container = m[1]
	}
	if why := image.routine(allowed); why != "" {
		return why
	}
	if g.chance && strings.Contains(image.New, "${") {
		return "the clusters have different images: " + image.New
	}
	return ""
}

// imageText returns an image with ${reference} for each value that differs between the clusters of the group; "" if
// there is none.
func (g *Group) imageText(image any) string {
	text, _ := image.(string)
	return strings.NewReplacer("\x02", "${", "\x03", "}").Replace(newTemplate(g.varying).text(text))
}

// routine returns "" if an image keeps its repository and does not go back. Otherwise it says what else happens.
func (i Image) routine(allowed func(repository string) bool) string {
	old, now := SplitImage(i.Old), SplitImage(i.New)
	switch {
	case i.Old == "" || i.New == "":
		return "container " + i.Container + " is added or removed"
	case old.Repository != now.Repository:
		return "the image comes from " + now.Repository + " instead of " + old.Repository
	case !allowed(now.Repository):
		return "spec.routine.images does not name " + now.Repository
	case now.Tag == "" && now.Digest == "":
		return "the image has neither tag nor digest"
	case old.Digest != "" && now.Digest == "":
		return "the image is no longer pinned to a digest"
	case strings.Contains(old.Tag+now.Tag, "${"):
		return "the clusters have different versions: " + now.Tag + " instead of " + old.Tag
	}
	a, errA := semver.NewVersion(old.Tag)
	b, errB := semver.NewVersion(now.Tag)
	if errA == nil && errB == nil && b.LessThan(a) {
		return "the image goes back from " + old.Tag + " to " + now.Tag
	}
	return ""
}
