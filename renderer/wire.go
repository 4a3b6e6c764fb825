package renderer

import (
	"context"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// The parent sends a child bundles with contents given only by digest. The child asks for contents that it does not
// hold, so a chart crosses the pipe once, not once per target. It renders the bundles in order and answers after the
// last one, or earlier if they take long; the parent sends the others again. Messages are CBOR, whose decoder has
// limits, because the parent decodes messages that a child may have forged.

// JobRender is the name of the job that renders bundles, in worker.Jobs.
const JobRender = "render"

// questionContent asks for a Content by its digest.
const questionContent = "content"

// answer is the answer of a child for one bundle: exactly one field is set.
type answer struct {
	Rendering *Rendering
	Error     *InputError
	Heavy     bool // ErrHeavy
}

// Limits of an answer; the engine limits the objects, and the frame has its own limit.
const (
	maxElements = 200_000
	maxLevels   = 16
)

type codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

func newCodec() (codec, error) {
	enc, err := cbor.EncOptions{}.EncMode()
	if err != nil {
		return codec{}, err
	}
	dec, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxArrayElements: maxElements, MaxMapPairs: maxElements,
		MaxNestedLevels: maxLevels,
		IndefLength:     cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8DecodeInvalid, // Git accepts any bytes as a path
	}.DecMode()
	return codec{enc, dec}, err
}

// validate refuses an answer that no engine gives, so that a compromised child cannot insert objects.
func (a *answer) validate() error {
	set := 0
	for _, is := range []bool{a.Rendering != nil, a.Error != nil, a.Heavy} {
		if is {
			set++
		}
	}
	if set != 1 {
		return errors.New("the answer is neither a rendering nor an error")
	}
	if a.Rendering == nil {
		return nil
	}
	for i := range a.Rendering.Objects {
		o := &a.Rendering.Objects[i]
		if o.ID.Kind == "" || o.ID.Name == "" || o.APIVersion == "" || len(o.YAML) == 0 ||
			manifest.GroupOf(o.APIVersion) != o.ID.Group {
			return fmt.Errorf("object %d has no valid identity", i)
		}
		if i > 0 && manifest.Compare(a.Rendering.Objects[i-1].ID, o.ID) > 0 {
			return fmt.Errorf("object %d is out of order", i)
		}
	}
	return nil
}

// result returns the rendering or the error, safe to show.
func (a *answer) result() (*Rendering, error) {
	switch {
	case a.Heavy:
		return nil, ErrHeavy
	case a.Error != nil:
		return nil, a.Error.safe()
	}
	return a.Rendering.safe(), nil
}

// answers decodes and validates the answers to the first ones of the bundles.
func (c codec) answers(data []byte, bundles []Bundle) ([]answer, error) {
	var out []answer
	err := c.dec.Unmarshal(data, &out)
	if err == nil && (len(out) == 0 || len(out) > len(bundles)) {
		err = fmt.Errorf("%d answers to %d bundles", len(out), len(bundles))
	}
	for i := range bundles {
		if err == nil && i < len(out) {
			err = out[i].check(&bundles[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", worker.ErrProtocol, safetext.Line(err.Error()))
	}
	return out, nil
}

// check returns an error if a is no possible answer to b.
func (a *answer) check(b *Bundle) error {
	if err := a.validate(); err != nil {
		return err
	}
	if b.Light && a.Rendering != nil && !a.Rendering.Light() || !b.Light && a.Heavy {
		return errors.New("a light bundle has a rendering above the limit, or a bundle that is not light was refused as heavy")
	}
	return nil
}

// Jobs returns the jobs of this package, for the child process.
func Jobs() worker.Jobs {
	c := &child{contents: newContentCache(maxContents), engine: NewEngine(DefaultLimits())}
	c.codec, c.err = newCodec()
	return worker.Jobs{JobRender: c.render}
}

const maxContents = 128 << 20 // bytes of charts and files that a child keeps between renderings

type child struct {
	codec    codec
	err      error
	contents *contentCache
	engine   *Engine
}

func (c *child) render(ctx context.Context, input []byte, ask worker.Ask) ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	var bundles []Bundle
	if err := c.codec.dec.Unmarshal(input, &bundles); err != nil {
		return nil, fmt.Errorf("read a bundle: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	var out []answer
	for i := range bundles {
		if i > 0 && limited.Err() != nil {
			break
		}
		one, err := c.one(ctx, &bundles[i], ask)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return c.codec.enc.Marshal(out)
}

func (c *child) one(ctx context.Context, b *Bundle, ask worker.Ask) (answer, error) {
	if err := c.fill(ctx, b, ask); err != nil {
		return answer{}, err
	}
	rendering, err := c.engine.Render(ctx, b)
	if errors.Is(err, ErrHeavy) {
		return answer{Heavy: true}, nil
	}
	if invalid, ok := errors.AsType[*InputError](err); ok {
		return answer{Error: invalid}, nil
	}
	return answer{Rendering: rendering}, err
}

// fill sets the bytes of every digest in the bundle, and asks the parent for those that it does not hold.
func (c *child) fill(ctx context.Context, b *Bundle, ask worker.Ask) error {
	var failed error
	b.contents(func(content *Content) {
		if failed != nil || c.contents.fill(content) {
			return
		}
		data, err := ask(ctx, questionContent, []byte(content.Digest))
		if err != nil {
			failed = err
			return
		}
		var got Content
		if failed = c.codec.dec.Unmarshal(data, &got); failed != nil {
			return
		}
		got.Name, got.Digest = content.Name, content.Digest
		c.contents.put(got)
		content.Files, content.Archive = got.Files, got.Archive
	})
	return failed
}

// supply answers a child's question for a content of one of the bundles.
func supply(c codec, batch []*pending, name string, digest []byte) ([]byte, error) {
	if name != questionContent {
		return nil, fmt.Errorf("no question is called %q", name)
	}
	var found *Content
	for _, p := range batch {
		p.bundle.contents(func(content *Content) {
			if content.Digest == string(digest) {
				found = content
			}
		})
	}
	if found == nil {
		return nil, errors.New("the bundle has no content of that digest")
	}
	return c.enc.Marshal(Content{Files: found.Files, Archive: found.Archive})
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
			visitCharts(s.Kustomize.Charts, visit)
		case s.Manifests != nil:
			visit(&s.Manifests.Files)
		}
	}
	for i := range b.Components {
		visit(&b.Components[i].Files)
		visitCharts(b.Components[i].Charts, visit)
	}
}

func visitCharts(list []KustomizeChart, visit func(*Content)) {
	for i := range list {
		visit(&list[i].Chart)
		for k := range list[i].Dependencies {
			visit(&list[i].Dependencies[k].Chart)
		}
	}
}

// clonedCharts copies a list so that the contents can be replaced.
func clonedCharts(list []KustomizeChart) []KustomizeChart {
	out := append([]KustomizeChart(nil), list...)
	for i := range out {
		out[i].Dependencies = append([]Dependency(nil), out[i].Dependencies...)
	}
	return out
}

// inputSize returns the bytes of the parts of a stripped bundle that can be large.
func (b *Bundle) inputSize() int {
	total := textSize(b.APIVersions)
	for i := range b.Sources {
		if h := b.Sources[i].Helm; h != nil {
			total += len(h.Values) + textSize(h.APIVersions)
		}
	}
	return total
}

func textSize(texts []string) int {
	total := 0
	for _, text := range texts {
		total += len(text)
	}
	return total
}

// stripped returns a copy of the bundle whose contents have only names and digests.
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
			k.Charts = clonedCharts(k.Charts)
			out.Sources[i].Kustomize = &k
		case s.Manifests != nil:
			m := *s.Manifests
			out.Sources[i].Manifests = &m
		}
	}
	out.Components = append([]Component(nil), b.Components...)
	for i := range out.Components {
		out.Components[i].Charts = clonedCharts(out.Components[i].Charts)
	}
	out.contents(func(c *Content) { *c = Content{Name: c.Name, Digest: c.Digest} })
	return out
}
