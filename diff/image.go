package diff

import "strings"

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
