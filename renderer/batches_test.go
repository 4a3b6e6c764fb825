package renderer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Bundles that wait are divided among the children, and one that must be alone shares no call.
func TestWaitingBundlesShareCalls(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		n int
		// one letter for each: l light, a alone, g gone, v a third of the input of a call, w more than a call has
		waiting string
		batches string
	}{
		"one":              {2, "l", "l"},
		"a share for each": {2, "llllllll", "llll ll l l"},
		"no more than most": {1, strings.Repeat("l", 2*maxBatch+8), strings.Repeat("l", maxBatch) + " " +
			strings.Repeat("l", maxBatch) + " " + strings.Repeat("l", 8)},
		"alone first":        {1, "alla", "a ll a"},
		"alone between":      {1, "lal", "ll a"},
		"nobody waits still": {1, "gglg", "l"},
		"all are gone":       {1, "ggg", ""},
		"much input":         {1, "vvvvvvv", "lll lll l"},
		"too much input":     {1, "lwlwvl", "llll l l"},
	} {
		l := &batcher{n: c.n, running: 1}
		for _, kind := range c.waiting {
			p := &pending{ctx: t.Context(), alone: kind == 'a'}
			switch kind {
			case 'g':
				p.ctx = gone
			case 'v':
				p.input = batchInput / 3
			case 'w':
				p.input = batchInput + 1
			}
			l.waiting = append(l.waiting, p)
		}
		var got []string
		for batch := l.next(); batch != nil; batch = l.next() {
			text := ""
			for _, p := range batch {
				if text += "l"; p.alone {
					text = strings.TrimSuffix(text, "l") + "a"
				}
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != c.batches || l.running != 0 || len(l.waiting) > 0 {
			t.Errorf("%s: %q, want %q; %d run, %d wait", name, text, c.batches, l.running, len(l.waiting))
		}
	}
}

// Many bundles at once give what an engine gives for each of them: one that is wrong, one that is too large and one
// that never ends fail alone.
func TestBundlesOfOneCallAreIndependent(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	p, e := pool(t, 6*time.Second), NewEngine(DefaultLimits())
	templates := map[string]string{"a.yaml": `{{ if eq (int .Values.a) 7 }}{{ fail "seven" }}{{ end }}
{{- if eq (int .Values.a) 8 }}{{ range $a := until 30000 }}{{ range $b := until 30000 }}{{ $c := sha256sum "x" }}{{ end }}{{ end }}{{ end }}
` + fmt.Sprintf(configMap, "x", `"{{ if eq (int .Values.a) 9 }}{{ repeat 300000 "y" }}{{ end }}{{ .Values.a }}"`)}
	const n = 40
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			b := helmBundle(fmt.Sprintf(`{"a": %d}`, i), templates)
			b.Light = true
			got, err := p.Render(t.Context(), b)
			switch i {
			case 7:
				if _, ok := errors.AsType[*InputError](err); !ok || !strings.Contains(err.Error(), "seven") {
					t.Errorf("the wrong bundle: %v", err)
				}
			case 8:
				if !errors.Is(err, ErrTimeout) {
					t.Errorf("the bundle without end: %v", err)
				}
			case 9:
				if !errors.Is(err, ErrHeavy) {
					t.Errorf("the large bundle: %v", err)
				}
				b.Light = false
				if got, err := p.Render(t.Context(), b); err != nil || got.Light() {
					t.Errorf("the large bundle, not as a light one: %v", err)
				}
			default:
				want, wantErr := e.Render(t.Context(), b)
				if err != nil || wantErr != nil || string(got.Objects[0].YAML) != string(want.Objects[0].YAML) {
					t.Errorf("bundle %d: %v, %v", i, err, wantErr)
				}
			}
		})
	}
	all.Wait()
}

// A call ends when the last of its bundles is given up, and not before.
func TestTogether(t *testing.T) {
	t.Parallel()
	var batch []*pending
	var ends []context.CancelFunc
	for range 3 {
		ctx, end := context.WithCancel(t.Context())
		batch, ends = append(batch, &pending{ctx: ctx}), append(ends, end)
	}
	ctx, cancel := together(batch)
	defer cancel()
	ends[0]()
	ends[1]()
	if ctx.Err() != nil {
		t.Fatal("the call ends although a bundle of it is wanted")
	}
	ends[2]()
	<-ctx.Done()
}

// Sources of a call that exceeded a limit are rendered alone afterwards, and have all their attempts.
func TestSuspectsAreRenderedAlone(t *testing.T) {
	t.Parallel()
	s := newBreaker()
	content := sourceSet{worker.Owner{Repository: "a"}, "x"}
	if s.suspects(content) {
		t.Error("it is suspect from the start")
	}
	for range maxFailures {
		s.suspect(content)
	}
	if err := s.check(content); !s.suspects(content) || err != nil {
		t.Errorf("suspect: %t, %v", s.suspects(content), err)
	}
}
