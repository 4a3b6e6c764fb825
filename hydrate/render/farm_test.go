package render_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/renderer"
)

const (
	farmClusters = 60
	farmBundles  = 3*farmClusters + 1 // different ones
)

// wide returns a fleet with four apps on each of many clusters: one with a value of each cluster, one that is equal on all, one with an
// object of a custom kind, whose scope only the whole environment says, and one that is too large for light bundles.
func wide(t *testing.T) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.New(t)
	const base = "apiVersion: sluice.dev/v1alpha1\n"
	r.Write("sluice.yaml", base+"kind: Fleet\nmetadata: {name: f}\nspec:\n  environments: [{name: dev}]\n")
	for i := range farmClusters {
		r.Write(fmt.Sprintf("clusters/c%02d.yaml", i), base+fmt.Sprintf("kind: Cluster\nmetadata: {name: c%02d}\nspec: {environment: dev}\n", i))
	}
	own := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\ndata: {own: {{ .Values.own | quote }}}\n"
	for name, templates := range map[string][]string{
		"same":   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: same}\n"},
		"own":    {own, "{{ if eq .Values.own \"fails\" }}{{ fail \"it fails\" }}{{ end }}"},
		"custom": {own, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: thing}\n"},
		"large":  {own, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\ndata: {text: {{ repeat 70000 \"x\" | quote }}}\n"},
	} {
		values := ""
		if name != "same" {
			values = "own: ${cluster.name}\n"
		}
		r.Write("apps/"+name+"/app.yaml", base+"kind: App\nmetadata: {name: "+name+"}\nspec: {namespace: "+name+", placement: {}, source: {helm: {path: charts/"+name+"}}}\n")
		r.Write("apps/"+name+"/layers/global/values.yaml", values)
		r.Write("charts/"+name+"/Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: 1.0.0\n")
		for i, text := range templates {
			r.Write(fmt.Sprintf("charts/%s/templates/%d.yaml", name, i), text)
		}
	}
	r.Commit("wide")
	return r
}

// counting counts renderings. Its first ones wait until gate is closed.
type counting struct {
	renderer.Renderer
	gate chan struct{}
	n    atomic.Int64
}

func (c *counting) Render(ctx context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	if c.gate != nil {
		select {
		case <-c.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r, err := c.Renderer.Render(ctx, b)
	if !errors.Is(err, renderer.ErrHeavy) { // the bundle comes again
		c.n.Add(1)
	}
	return r, err
}

// elsewhere is a Fan whose other machine is a function.
type elsewhere struct {
	do   func(ctx context.Context, job []byte) ([]byte, error)
	jobs atomic.Int64
}

func (e *elsewhere) Fan(ctx context.Context, jobs [][]byte, idle func(bool)) ([][]byte, error) {
	idle(true)
	e.jobs.Add(1)
	result, err := e.do(ctx, jobs[0])
	return [][]byte{result}, err
}

func engine() renderer.Renderer { return renderer.NewEngine(renderer.DefaultLimits()) }

// machine is another machine of version v1.
func machine(r renderer.Renderer) *render.Machine {
	return versioned("v1", func(string) renderer.Renderer { return r })
}

func versioned(version string, renderers func(string) renderer.Renderer) *render.Machine {
	return render.NewMachine(render.MachineOptions{Version: version, Parallel: 1, Clock: time.Now, Renderers: renderers})
}

// farmed hydrates dev with a Farm, and returns the result without its times.
func farmed(t *testing.T, r *hydratetest.Repo, farm *render.Farm) *hydrate.Result {
	t.Helper()
	config := r.Hydrator(1).Config // with more, this machine might take all targets but those of the first shard
	if farm != nil {
		config.Renderer = farm
	}
	h := hydrate.New(config)
	c, err := h.Store.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	result, err := h.Hydrate(t.Context(), hydrate.Request{Commit: c})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// Whatever other machines do, the commit is the one that this machine makes alone.
func TestFarmMakesTheSameCommit(t *testing.T) {
	t.Parallel()
	r := wide(t)
	want := farmed(t, r, nil).Environments[0]
	if want.New == "" || want.Objects.Added != farmClusters*6 {
		t.Fatalf("%+v", want)
	}
	never := func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
	good := machine(engine()).Shard
	for name, do := range map[string]func(context.Context, []byte) ([]byte, error){
		"renders":      good,
		"never":        never,
		"fails":        func(context.Context, []byte) ([]byte, error) { return nil, errors.New("out of luck") },
		"garbage":      func(context.Context, []byte) ([]byte, error) { return []byte("garbage"), nil },
		"old version":  versioned("v0", nil).Shard,
		"no memory":    machine(dying{renderer.ErrMemory}).Shard,
		"no process":   machine(dying{errors.New("start a worker process: resource temporarily unavailable")}).Shard,
		"only refuses": machine(dying{renderer.ErrHeavy}).Shard,
		"damages": func(ctx context.Context, job []byte) ([]byte, error) {
			data, err := good(ctx, job)
			if at := strings.Index(string(data), "PACK\x00"); at >= 0 {
				data[at+40] ^= 1
			}
			return data, err
		},
		"truncates": func(ctx context.Context, job []byte) ([]byte, error) {
			data, err := good(ctx, job)
			return data[:len(data)/2], err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := &elsewhere{do: do}
			local := &counting{Renderer: engine(), gate: make(chan struct{})}
			go func() { // this machine begins when the other one has been asked
				for other.jobs.Load() < 2 && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
				close(local.gate)
			}()
			got := farmed(t, r, render.NewFarm(local, other, "v1", "r", time.Now)).Environments[0]
			if got.New != want.New || got.Objects != want.Objects || len(got.Failures) > 0 {
				t.Errorf("%s %+v %v, want %s %+v", got.New, got.Objects, got.Failures, want.New, want.Objects)
			}
		})
	}
}

type dying struct{ why error }

func (d dying) Render(context.Context, *renderer.Bundle) (*renderer.Rendering, error) {
	return nil, d.why
}

// When the other machine is lost half way, this machine renders what it has not answered, and nothing twice.
func TestLostMachineCostsItsShards(t *testing.T) {
	t.Parallel()
	r := wide(t)
	want := farmed(t, r, nil).Environments[0].New
	const answered = 2
	there := &counting{Renderer: engine()}
	local := &counting{Renderer: engine(), gate: make(chan struct{})}
	other := machine(there)
	lost := &elsewhere{}
	var begun, done atomic.Int64
	lost.do = func(ctx context.Context, job []byte) ([]byte, error) {
		if begun.Add(1) > answered {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		result, err := other.Shard(ctx, job)
		if done.Add(1) == answered {
			time.AfterFunc(time.Second, func() { close(local.gate) }) // the results have been read, on a busy machine too
		}
		return result, err
	}
	if got := farmed(t, r, render.NewFarm(local, lost, "v1", "r", time.Now)).Environments[0].New; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if there.n.Load() < 2 || there.n.Load()+local.n.Load() != farmBundles {
		t.Errorf("%d renderings there and %d here of %d bundles", there.n.Load(), local.n.Load(), farmBundles)
	}
}

// A target that fails elsewhere has the error and the place that it has here, and the others are rendered.
func TestFarmReportsFailures(t *testing.T) {
	t.Parallel()
	r := wide(t)
	for i := range farmClusters {
		if i%20 == 3 {
			r.Write(fmt.Sprintf("clusters/c%02d.yaml", i), fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c%02d, labels: {broken: \"yes\"}}\nspec: {environment: dev}\n", i))
		}
	}
	r.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec:\n  layers: [broken]\n  environments: [{name: dev}]\n")
	r.Write("apps/own/layers/broken/yes/values.yaml", "own: fails\n")
	r.Commit("some fail")
	want := fmt.Sprintf("%+v", farmed(t, r, nil).Environments[0].Failures)
	other := &elsewhere{do: machine(engine()).Shard}
	got := fmt.Sprintf("%+v", farmed(t, r, render.NewFarm(engine(), other, "v1", "r", time.Now)).Environments[0].Failures)
	if got != want || !strings.Contains(want, "it fails") {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Another machine renders a shard with workers of the shard's repository, never with workers of other repositories.
func TestShardsKeepTheirOwner(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	owners := map[string]int{}
	m := versioned("v1", func(owner string) renderer.Renderer {
		mu.Lock()
		defer mu.Unlock()
		owners[owner]++
		return engine()
	})
	local := &counting{Renderer: engine(), gate: make(chan struct{})} // would it begin at once, it might leave nothing to the other machine
	var once sync.Once
	farmed(t, wide(t), render.NewFarm(local, &elsewhere{do: func(ctx context.Context, job []byte) ([]byte, error) {
		defer once.Do(func() { close(local.gate) })
		return m.Shard(ctx, job)
	}}, "v1", "forge:acme/fleet", time.Now))
	if len(owners) != 1 || owners["forge:acme/fleet"] == 0 {
		t.Errorf("owners %v", owners)
	}
}

// A shard that panics, after which the queue goes on, leaves its place to the next one.
func TestPanicLeavesThePlaceOfAShard(t *testing.T) {
	t.Parallel()
	var started atomic.Int64
	m := versioned("v1", func(string) renderer.Renderer {
		if started.Add(1) == 1 {
			panic("out of luck")
		}
		return engine()
	})
	var once sync.Once
	farmed(t, wide(t), render.NewFarm(engine(), &elsewhere{do: func(ctx context.Context, job []byte) ([]byte, error) {
		once.Do(func() {
			func() {
				defer func() { _ = recover() }() // as the queue does
				_, _ = m.Shard(ctx, job)
			}()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			if _, err := m.Shard(ctx, job); err != nil {
				t.Error(err)
			}
		})
		return nil, errors.New("out of luck")
	}}, "v1", "r", time.Now))
	if started.Load() != 2 {
		t.Errorf("%d shards were rendered", started.Load())
	}
}

// A cancelled hydration ends although no other machine answers, and the next one begins anew.
func TestFarmCancelled(t *testing.T) {
	t.Parallel()
	r := wide(t)
	want := farmed(t, r, nil).Environments[0].New
	config := r.Hydrator(2).Config
	local := &counting{Renderer: engine(), gate: make(chan struct{})}
	other := &elsewhere{do: func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }}
	farm := render.NewFarm(local, other, "v1", "r", time.Now)
	config.Renderer = farm
	h := hydrate.New(config)
	c, err := h.Store.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for other.jobs.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		if !farm.Busy() {
			t.Error("the farm has targets for others and is not busy")
		}
		cancel()
	}()
	if _, err := h.Hydrate(ctx, hydrate.Request{Commit: c}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	close(local.gate)
	result, err := h.Hydrate(t.Context(), hydrate.Request{Commit: c})
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Environments[0]; got.New != want || farm.Busy() {
		t.Errorf("%s %v, want %s; busy: %t", got.New, got.Failures, want, farm.Busy())
	}
}
