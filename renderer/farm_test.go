package renderer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// elsewhere is a Fan whose other machine is a function. jobs counts its calls.
type elsewhere struct {
	do   func(ctx context.Context, job []byte) ([]byte, error)
	jobs atomic.Int64
}

func (e *elsewhere) Fan(ctx context.Context, jobs [][]byte) ([][]byte, error) {
	e.jobs.Add(int64(len(jobs)))
	out := make([][]byte, len(jobs))
	for i, job := range jobs {
		var err error
		if out[i], err = e.do(ctx, job); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// slow renders like an engine, but blocks every bundle until it is released.
type slow struct {
	Renderer
	gate  chan struct{}
	calls atomic.Int64
}

func (s *slow) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	s.calls.Add(1)
	select {
	case <-s.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Renderer.Render(ctx, b)
}

func numbered(i int) *Bundle {
	return helmBundle(fmt.Sprintf(`{"a": %d}`, i), map[string]string{"a.yaml": fmt.Sprintf(configMap, "x", `"{{ .Values.a }}{{ if eq (int .Values.a) 7 }}{{ fail "seven" }}{{ end }}"`)})
}

// harvest renders n bundles at once and compares every result with an engine's.
func harvest(t *testing.T, f *Farm, n int, started func()) {
	t.Helper()
	e := NewEngine(DefaultLimits())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			got, err := f.Render(t.Context(), numbered(i))
			want, wantErr := e.Render(t.Context(), numbered(i))
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("bundle %d: %v, want %v", i, err, wantErr)
				return
			}
			if err == nil && string(got.Objects[0].YAML) != string(want.Objects[0].YAML) {
				t.Errorf("bundle %d: %s", i, got.Objects[0].YAML)
			}
		})
	}
	if started != nil {
		started()
	}
	all.Wait()
}

func TestFarm(t *testing.T) {
	t.Parallel()
	engine := NewEngine(DefaultLimits())
	other := &elsewhere{do: func(ctx context.Context, job []byte) ([]byte, error) {
		return RenderShard(ctx, always(engine), "v1", job)
	}}
	near := &slow{Renderer: engine, gate: make(chan struct{})}
	const n = 3*shardBundles + 2 + 5 // three shards, two slots, and five that wait for a slot
	harvest(t, NewFarm(near, 2, other, "v1", "r"), n, func() {
		for other.jobs.Load() < 3 || near.calls.Load() < 2 {
			time.Sleep(time.Millisecond)
		}
		close(near.gate)
	})
	if other.jobs.Load() != 3 || near.calls.Load() != 2+5 {
		t.Errorf("%d shards, and %d bundles rendered here", other.jobs.Load(), near.calls.Load())
	}
}

func TestFarmKeepsSmallWorkHere(t *testing.T) {
	t.Parallel()
	other := &elsewhere{do: func(context.Context, []byte) ([]byte, error) { return nil, errors.New("nobody asked") }}
	harvest(t, NewFarm(NewEngine(DefaultLimits()), 2, other, "v1", "r"), shardBundles, nil)
	if other.jobs.Load() != 0 {
		t.Errorf("%d shards", other.jobs.Load())
	}
}

func TestFarmNeedsNobody(t *testing.T) {
	t.Parallel()
	engine := NewEngine(DefaultLimits())
	for name, do := range map[string]func(context.Context, []byte) ([]byte, error){
		"fails":   func(context.Context, []byte) ([]byte, error) { return nil, errors.New("out of luck") },
		"garbage": func(context.Context, []byte) ([]byte, error) { return []byte("garbage"), nil },
		"another version": func(ctx context.Context, job []byte) ([]byte, error) {
			return RenderShard(ctx, always(engine), "v2", job)
		},
		"a dying machine": func(ctx context.Context, job []byte) ([]byte, error) {
			return RenderShard(ctx, always(dying{ErrMemory}), "v1", job)
		},
		"a machine that starts no process": func(ctx context.Context, job []byte) ([]byte, error) {
			return RenderShard(ctx, always(dying{errors.New("start a worker process: resource temporarily unavailable")}), "v1", job)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := &elsewhere{do: do}
			near := &slow{Renderer: engine, gate: make(chan struct{})}
			harvest(t, NewFarm(near, 1, other, "v1", "r"), 2*shardBundles+1, func() {
				for other.jobs.Load() < 2 {
					time.Sleep(time.Millisecond)
				}
				close(near.gate)
			})
			if n := near.calls.Load(); n != 2*shardBundles+1 {
				t.Errorf("%d rendered here", n)
			}
		})
	}
}

type dying struct{ why error }

func (d dying) Render(context.Context, *Bundle) (*Rendering, error) { return nil, d.why }

func TestFarmCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	other := &elsewhere{do: func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }}
	f := NewFarm(&slow{Renderer: NewEngine(DefaultLimits()), gate: make(chan struct{})}, 1, other, "v1", "r")
	var all sync.WaitGroup
	for i := range 2 * shardBundles {
		all.Go(func() {
			if _, err := f.Render(ctx, numbered(i)); !errors.Is(err, context.Canceled) {
				t.Errorf("bundle %d: %v", i, err)
			}
		})
	}
	for other.jobs.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	all.Wait()
}

// A light bundle that another machine finds too large is not rendered here as a light one again.
func TestFarmHeavy(t *testing.T) {
	t.Parallel()
	other := &elsewhere{do: func(ctx context.Context, job []byte) ([]byte, error) {
		return RenderShard(ctx, always(dying{ErrHeavy}), "v1", job)
	}}
	near := &slow{Renderer: dying{ErrHeavy}, gate: make(chan struct{})}
	f := NewFarm(near, 1, other, "v1", "r")
	var all sync.WaitGroup
	for i := range shardBundles + 1 { // one takes the slot
		all.Go(func() {
			if _, err := f.Render(t.Context(), numbered(i)); !errors.Is(err, ErrHeavy) {
				t.Errorf("bundle %d: %v", i, err)
			}
		})
	}
	for other.jobs.Load() == 0 || near.calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(near.gate)
	all.Wait()
	if n := near.calls.Load(); n != 1 {
		t.Errorf("%d rendered here", n)
	}
}

func always(r Renderer) func(string) Renderer { return func(string) Renderer { return r } }

// Another machine renders a shard with workers of the shard's repository, never with workers of other repositories.
func TestShardsKeepTheirOwner(t *testing.T) {
	var mu sync.Mutex
	var owners []string
	other := &elsewhere{do: func(ctx context.Context, job []byte) ([]byte, error) {
		return RenderShard(ctx, func(owner string) Renderer {
			mu.Lock()
			owners = append(owners, owner)
			mu.Unlock()
			return NewEngine(DefaultLimits())
		}, "v1", job)
	}}
	near := &slow{Renderer: NewEngine(DefaultLimits()), gate: make(chan struct{})}
	harvest(t, NewFarm(near, 1, other, "v1", "forge:acme/fleet"), 2*shardBundles+1, func() {
		for other.jobs.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		close(near.gate)
	})
	if len(owners) == 0 || slices.ContainsFunc(owners, func(o string) bool { return o != "forge:acme/fleet" }) {
		t.Errorf("owners %q", owners)
	}
}

// When a bundle leaves a shard, its bytes no longer count, except those that another bundle shares.
func TestFarmLeaveFreesBytes(t *testing.T) {
	t.Parallel()
	f := NewFarm(dying{errors.New("nobody asked")}, 1, nil, "v1", "")
	bundle := func(value int, values string) *Bundle {
		b := numbered(value)
		b.Sources[0].Helm.Values = []byte(values)
		return b
	}
	large := strings.Repeat(" ", shardBytes/2+1) + "{}"
	for range 4 { // without leaving, two of them fill a shard
		w, full := f.join(bundle(1, large))
		if full != nil {
			t.Fatal("the bytes of bundles that left still count")
		}
		if !f.leave(w) || f.open.bytes != 0 || len(f.open.contents) != 0 {
			t.Fatalf("%d bytes and %d contents after the bundle left", f.open.bytes, len(f.open.contents))
		}
	}
	small, _ := f.join(bundle(1, "{}"))
	alone := f.open.bytes
	other, _ := f.join(bundle(1, "{}"))
	if !f.leave(other) || f.open.bytes != alone {
		t.Errorf("%d bytes remain of %d", f.open.bytes, alone)
	}
	if !f.leave(small) || f.open.bytes != 0 {
		t.Errorf("%d bytes remain of no bundle", f.open.bytes)
	}
}
