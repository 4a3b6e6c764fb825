package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// NewImage is an image that a container has only after a change.
type NewImage struct {
	Image, App, Environment string
	Object                  manifest.Identity // one of those with the image
	Clusters                []string          // by name
}

// newImages collects the new images of targets.
type newImages struct {
	list []NewImage
	at   map[[3]string]int // by image, app and environment
}

// add adds what the changes of equal targets bring.
func (n *newImages) add(same []Target, changes []*ObjectChange) {
	for _, c := range changes {
		for _, image := range c.Images {
			if image.New == "" || image.New == image.Old {
				continue
			}
			for i := range same {
				t := &same[i]
				key := [3]string{image.New, t.App, t.Environment}
				at, ok := n.at[key]
				if !ok {
					at = len(n.list)
					n.at[key] = at
					n.list = append(n.list, NewImage{Image: image.New, App: t.App, Environment: t.Environment, Object: c.ID})
				}
				n.list[at].Clusters = append(n.list[at].Clusters, t.Cluster)
			}
		}
	}
}

// sorted returns the images by name, each cluster once.
func (n *newImages) sorted(environments []string) []NewImage {
	for i := range n.list {
		slices.Sort(n.list[i].Clusters)
		n.list[i].Clusters = slices.Compact(n.list[i].Clusters)
	}
	slices.SortStableFunc(n.list, func(a, b NewImage) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.App, b.App),
			cmp.Compare(slices.Index(environments, a.Environment), slices.Index(environments, b.Environment)))
	})
	return n.list
}

// ImageParts are the parts of a container image's name.
type ImageParts struct {
	Repository string // registry.example.com/shop/web
	Tag        string // 1.2.0; "" for none
	Digest     string // sha256:…; "" for none
}

// digestDigits is the number of hexadecimal digits that a shortened digest keeps.
const digestDigits = 12

// SplitImage splits an image's name. It never fails: a name in another form is only a Repository.
func SplitImage(image string) ImageParts {
	var out ImageParts
	out.Repository, out.Digest, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(out.Repository, ':'); i > strings.LastIndexByte(out.Repository, '/') {
		out.Repository, out.Tag = out.Repository[:i], out.Repository[i+1:]
	}
	return out
}

// Version returns the tag and the shortened digest: `1.2.0`, `1.2.0@sha256:3f9a1c04b2d7`, `(none)`.
func (p ImageParts) Version() string {
	switch {
	case p.Digest == "" && p.Tag == "":
		return "(none)"
	case p.Digest == "":
		return p.Tag
	case p.Tag == "":
		return p.ShortDigest()
	}
	return p.Tag + "@" + p.ShortDigest()
}

// ShortDigest returns the digest with the first 12 of its digits.
func (p ImageParts) ShortDigest() string {
	algorithm, sum, ok := strings.Cut(p.Digest, ":")
	if !ok || len(sum) <= digestDigits {
		return p.Digest
	}
	return algorithm + ":" + sum[:digestDigits]
}

// shortImage returns `web 1.2 → 1.3`, or the full names if more than the version changes.
func shortImage(old, now string) string {
	a, b := SplitImage(old), SplitImage(now)
	if a.Repository != b.Repository {
		return a.Repository + " " + a.Version() + " → " + b.Repository + " " + b.Version()
	}
	return a.Repository[strings.LastIndex(a.Repository, "/")+1:] + " " + a.Version() + " → " + b.Version()
}
