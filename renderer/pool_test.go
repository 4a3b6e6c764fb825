package renderer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// A chart that hangs costs its timeout three times, whatever the number of clusters.
func TestPoolGivesUpOnSourcesThatHang(t *testing.T) {
	p := pool(t, 200*time.Millisecond)
	hanging := map[string]string{"a.yaml": `{{ if ne (int .Values.a) 99 }}{{ range $a := until 30000 }}{{ range $b := until 30000 }}{{ $c := sha256sum "x" }}{{ end }}{{ end }}{{ end }}`}
	for i := range 20 {
		_, err := p.Render(t.Context(), helmBundle(fmt.Sprintf(`{"a": %d}`, i), hanging))
		if !errors.Is(err, ErrTimeout) {
			t.Fatalf("bundle %d: %v", i, err)
		}
		if gaveUp := strings.Contains(err.Error(), "not rendered"); gaveUp != (i >= maxFailures) {
			t.Errorf("bundle %d: %v", i, err)
		}
	}
	p.opts.Timeout = time.Minute // a busy machine can take longer than the timeout above
	render(t, p, helmBundle(`{}`, map[string]string{"a.yaml": fmt.Sprintf(configMap, "a", "b")}))
}

// If values of one merge request make a chart hang, the chart still renders for another merge request of the same
// repository, although both reviews use one Pool.
func TestFailuresDoNotCrossMergeRequests(t *testing.T) {
	p := pool(t, 300*time.Millisecond)
	chart := map[string]string{"a.yaml": `{{ range $a := until (int .Values.n) }}{{ range $b := until 30000 }}{{ $c := sha256sum "x" }}{{ end }}{{ end }}` + fmt.Sprintf(configMap, "a", "b")}
	review := func() *Remote {
		server, err := NewRemoteServer(p, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		remote, err := NewRemote(func(ctx context.Context, name string, input []byte) ([]byte, error) {
			out, _, err := server.Answer(ctx, name, input)
			return out, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return remote
	}
	hostile, good := review(), review()
	for i := range maxFailures + 1 {
		_, err := hostile.Render(t.Context(), helmBundle(fmt.Sprintf(`{"n": %d}`, 100_000+i), chart))
		if err == nil || strings.Contains(err.Error(), "not rendered") != (i == maxFailures) {
			t.Fatalf("hostile %d: %v", i, err)
		}
	}
	p.opts.Timeout = time.Minute // a busy machine can take longer than the timeout above
	if n := len(render(t, good, helmBundle(`{"n": 0}`, chart)).Objects); n != 1 {
		t.Errorf("%d objects", n)
	}
	if _, err := hostile.Render(t.Context(), helmBundle(`{"n": 0}`, chart)); err == nil {
		t.Error("the hostile merge request used up its attempts, but is rendered")
	}
}

// Failures of one owner do not count for another owner.
func TestFailuresBelongToAnOwner(t *testing.T) {
	s := newBreaker()
	at := func(repository string, trust worker.Trust, content string) sourceSet {
		return sourceSet{worker.Owner{Repository: repository, Trust: trust}, content}
	}
	for range maxFailures {
		s.add(at("a", worker.Untrusted, "x"), ErrTimeout)
	}
	for _, other := range []sourceSet{
		at("b", worker.Untrusted, "x"), at("a", worker.Trusted, "x"),
		at("a", worker.Untrusted, "y"),
	} {
		if err := s.check(other); err != nil {
			t.Errorf("%v: the error is %v", other, err)
		}
	}
	if err := s.check(at("a", worker.Untrusted, "x")); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
}

// The parent validates the answers of a child.
func TestForgedAnswersAreRefused(t *testing.T) {
	object := func(kind, name string) Object {
		return Object{ID: manifest.Identity{Kind: kind, Name: name}, APIVersion: "v1", YAML: []byte("x\n")}
	}
	for name, a := range map[string]answer{
		"nothing":    {},
		"both":       {Rendering: &Rendering{}, Error: &InputError{}},
		"heavy, too": {Rendering: &Rendering{}, Heavy: true},
		"no kind":    {Rendering: &Rendering{Objects: []Object{object("", "a")}}},
		"no name":    {Rendering: &Rendering{Objects: []Object{object("Pod", "")}}},
		"other group": {Rendering: &Rendering{Objects: []Object{{ID: manifest.Identity{
			Group: "apps", Kind: "Pod",
			Name: "a",
		}, APIVersion: "v1", YAML: []byte("x\n")}}}},
		"out of order": {Rendering: &Rendering{Objects: []Object{object("Pod", "b"), object("Pod", "a")}}},
	} {
		if err := a.validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	good := answer{Rendering: &Rendering{Objects: []Object{object("Pod", "a"), object("Pod", "b")}}}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range []bool{false, true, true, false} {
		data, err := c.enc.Marshal(slices.Repeat([]answer{good}, n))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := c.answers(data, make([]Bundle, 2)); (err == nil) != ok ||
			err != nil && !errors.Is(err, worker.ErrProtocol) {
			t.Errorf("%d answers to 2 bundles: %d, %v", n, len(out), err)
		}
	}
}

// A child cannot make the parent hold many large renderings, and a bundle that is not light always gets one.
func TestSizesOfAnswers(t *testing.T) {
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	small := Object{ID: manifest.Identity{Kind: "ConfigMap", Name: "a"}, APIVersion: "v1", YAML: []byte("x\n")}
	large := small
	large.YAML = bytes.Repeat([]byte("y"), LightBytes+1)
	for _, one := range []struct {
		answer answer
		light  bool
		ok     bool
	}{
		{answer{Rendering: &Rendering{Objects: []Object{large}}}, true, false},
		{answer{Rendering: &Rendering{Objects: []Object{large}}}, false, true},
		{answer{Rendering: &Rendering{Objects: []Object{small}}}, true, true},
		{answer{Heavy: true}, true, true},
		{answer{Heavy: true}, false, false},
	} {
		data, err := c.enc.Marshal([]answer{one.answer})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.answers(data, []Bundle{{Light: one.light}}); (err == nil) != one.ok ||
			err != nil && !errors.Is(err, worker.ErrProtocol) {
			t.Errorf("light %t, heavy %t: %v", one.light, one.answer.Heavy, err)
		}
	}
}

// Decodes answers of a child. No input may panic, and every accepted answer is safe to show.
func FuzzAnswer(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	for _, a := range []answer{
		{Heavy: true},
		{Error: &InputError{Message: "m\x1b"}},
		{Rendering: &Rendering{Notes: []string{"n"}, Objects: []Object{{YAML: []byte("x")}}}},
	} {
		data, err := c.enc.Marshal([]answer{a})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bundles := []Bundle{{Light: true}, {}, {Light: true}}
		list, err := c.answers(data, bundles)
		if err == nil && len(list) > len(bundles) {
			t.Fatalf("%d answers", len(list))
		}
		for i := range list {
			rendering, err := list[i].result()
			if (rendering == nil) == (err == nil) {
				t.Fatalf("the rendering is %+v, the error is %v", rendering, err)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x00\x1b\u009b") {
				t.Errorf("%q is not safe to show", err)
			}
		}
	})
}

func TestErrorsKeepTheirPlaceAcrossTheWire(t *testing.T) {
	_, err := pool(t, time.Minute).Render(t.Context(), helmBundle(`{}`,
		map[string]string{"a.yaml": "\nx: {{ .Values.b.c }}"}))
	if e, ok := errors.AsType[*InputError](err); !ok || e.File != "charts/x/templates/a.yaml" || e.Line != 2 {
		t.Errorf("the error is %#v", err)
	}
}

// Contents are sent once for each owner, and never from one owner to another.
func TestContentsAreAskedForOnce(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := worker.NewHost(worker.Options{Command: []string{self, "render-child"}})
	t.Cleanup(h.Close)
	var asked atomic.Int64
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	for i, owner := range []string{"a", "a", "b"} {
		b := helmBundle(`{}`, map[string]string{"a.yaml": fmt.Sprintf(configMap, "a", "b")})
		input, err := c.enc.Marshal([]Bundle{b.stripped()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.For(worker.Owner{Repository: owner}).Call(t.Context(),
			worker.Call{Job: JobRender, Input: input, Answer: func(_ context.Context, name string,
				digest []byte,
			) ([]byte, error) {
				asked.Add(1)
				return supply(c, []*pending{{bundle: b}}, name, digest)
			}})
		if err != nil {
			t.Fatal(err)
		}
		if want := []int64{1, 1, 2}[i]; asked.Load() != want {
			t.Errorf("call %d: %d questions, want %d", i, asked.Load(), want)
		}
	}
}
