package renderer

import (
	"context"
	"errors"
	"testing"
)

// refusing renders nothing, and records the contents that reach it.
type refusing struct{ digests []string }

func (r *refusing) Render(_ context.Context, b *Bundle) (*Rendering, error) {
	b.contents(func(c *Content) { r.digests = append(r.digests, c.Digest) })
	return nil, errors.New("nothing is rendered here")
}

// Sends questions of a worker. No input may panic, and no content reaches the renderer under a digest that the worker
// chose.
func FuzzRemoteServer(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	content := Content{Name: "charts/x", Digest: "d", Files: []File{{"Chart.yaml", []byte("name: x")}}}
	bundle := Bundle{Sources: []Source{{Helm: &HelmSource{Release: "r", Chart: Content{Digest: "d"}}}}}
	for _, seed := range []any{content, bundle} {
		data, err := c.enc.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	first, err := c.enc.Marshal(content)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, hold, render []byte) {
		to := &refusing{}
		s, err := NewRemoteServer(to, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, question := range []struct {
			name  string
			input []byte
		}{{QuestionContent, first}, {QuestionContent, hold}, {QuestionRender, render}, {QuestionLight, render}} {
			if _, known, err := s.Answer(t.Context(), question.name, question.input); !known && err == nil {
				t.Errorf("%s is not known", question.name)
			}
		}
		for _, digest := range to.digests {
			if len(digest) <= len(s.scope) || digest[:len(s.scope)] != s.scope {
				t.Errorf("the renderer sees the digest %q", digest)
			}
		}
	})
}
