package renderer

import (
	"encoding/gob"
	"io"
)

// The two sides of a child process speak gob over its standard input and output. The parent sends a request whose
// contents are named by digest alone; the child answers with the digests it does not hold, is sent those, and then
// answers with the rendering. So a chart crosses the pipe once, not once per target.

type request struct {
	Bundle Bundle
}

type supply struct {
	Contents []Content
}

type reply struct {
	Need      []string
	Rendering *Rendering
	Err       string
}

type wire struct {
	enc *gob.Encoder
	dec *gob.Decoder
}

func newWire(r io.Reader, w io.Writer) *wire {
	return &wire{enc: gob.NewEncoder(w), dec: gob.NewDecoder(r)}
}

// contents visits every content of a bundle, in a fixed order.
func (b *Bundle) contents(visit func(*Content)) {
	for i := range b.Sources {
		switch s := &b.Sources[i]; {
		case s.Helm != nil:
			visit(&s.Helm.Chart)
			for j := range s.Helm.Dependencies {
				visit(&s.Helm.Dependencies[j].Chart)
			}
		case s.Kustomize != nil:
			visit(&s.Kustomize.Files)
		case s.Manifests != nil:
			visit(&s.Manifests.Files)
		}
	}
	for i := range b.Components {
		visit(&b.Components[i].Files)
	}
}

// stripped is a copy of the bundle whose contents carry only names and digests.
func (b *Bundle) stripped() Bundle {
	out := *b
	out.Sources = make([]Source, len(b.Sources))
	for i, s := range b.Sources {
		switch {
		case s.Helm != nil:
			h := *s.Helm
			h.Dependencies = append([]Dependency(nil), h.Dependencies...)
			out.Sources[i].Helm = &h
		case s.Kustomize != nil:
			k := *s.Kustomize
			out.Sources[i].Kustomize = &k
		case s.Manifests != nil:
			m := *s.Manifests
			out.Sources[i].Manifests = &m
		}
	}
	out.Components = append([]Component(nil), b.Components...)
	out.contents(func(c *Content) { *c = Content{Name: c.Name, Digest: c.Digest} })
	return out
}
