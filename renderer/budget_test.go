package renderer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBudget renders charts that hang, each of which has its own digest and so its own three attempts. A rendering
// before the time is over counts; the others have one and the same error, and end soon.
func TestBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	p := pool(t, time.Hour)
	b := NewBudget(p, time.Hour)
	good := helmBundle(`{}`, map[string]string{"a.yaml": fmt.Sprintf(configMap, "a", "b")})
	if n := len(render(t, b, good).Objects); n != 1 || b.Over() {
		t.Fatalf("%d objects; over: %t", n, b.Over())
	}
	b = NewBudget(p, 2*time.Second)
	var all sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = b.Render(t.Context(), helmBundle(`{}`, map[string]string{
				"a.yaml": fmt.Sprintf(`{{ range $a := until 30000 }}{{ range $b := until 30000 }}{{ $c := sha256sum "%d" }}{{ end }}{{ end }}`, i),
			}))
		})
	}
	all.Wait()
	if !b.Over() {
		t.Error("not over")
	}
	for i, err := range errs {
		if !errors.Is(err, errOver) || err.Error() != errs[0].Error() || !strings.Contains(err.Error(), "after 2s") {
			t.Errorf("chart %d: %v", i, err)
		}
	}
	if _, err := b.Render(t.Context(), good); !errors.Is(err, errOver) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestBudgetKeepsErrors passes on every error that has another cause.
func TestBudgetKeepsErrors(t *testing.T) {
	t.Parallel()
	b := NewBudget(NewEngine(DefaultLimits()), time.Hour)
	if _, err := b.Render(t.Context(),
		helmBundle(`{}`, map[string]string{"a.yaml": `{{ fail "on purpose" }}`})); err == nil ||
		!strings.Contains(err.Error(), "on purpose") {
		t.Errorf("the error is %v", err)
	}
}

// renderFunc is a Renderer.
type renderFunc func(ctx context.Context) (*Rendering, error)

func (f renderFunc) Render(ctx context.Context, _ *Bundle) (*Rendering, error) { return f(ctx) }

// A budget that ends after the last rendering, for example during the comparison, did not stop the review: Over reports
// false.
func TestBudgetOverAfterTheLastRendering(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(b *Budget) error{
		"a rendering is refused": func(b *Budget) error {
			_, err := b.Render(t.Context(), &Bundle{})
			return err
		},
		"a rendering is ended": func(b *Budget) error {
			b.over, b.end = context.WithCancelCause(context.Background())
			b.renderer = renderFunc(func(ctx context.Context) (*Rendering, error) {
				b.end(errOver)
				<-ctx.Done()
				return nil, ctx.Err()
			})
			_, err := b.Render(t.Context(), &Bundle{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := NewBudget(renderFunc(func(context.Context) (*Rendering, error) { return &Rendering{}, nil }),
				time.Hour)
			defer b.Close()
			if _, err := b.Render(t.Context(), &Bundle{}); err != nil {
				t.Fatal(err)
			}
			b.end(errOver)
			if b.Over() {
				t.Error("over, though nothing is missing")
			}
			if err := late(b); !errors.Is(err, errOver) || !b.Over() {
				t.Errorf("%v, over: %t", err, b.Over())
			}
		})
	}
}

// TestBudgetClose leaves no timer behind.
func TestBudgetClose(t *testing.T) {
	t.Parallel()
	b := NewBudget(renderFunc(func(context.Context) (*Rendering, error) { return &Rendering{}, nil }), time.Hour)
	if _, err := b.Render(t.Context(), &Bundle{}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if b.timer.Stop() {
		t.Error("the timer runs after Close")
	}
	NewBudget(nil, time.Hour).Close()
}
