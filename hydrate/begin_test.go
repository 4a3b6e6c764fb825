package hydrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/renderer"
)

// many returns a fleet with 64 apps with a value of each cluster, and one that is equal on all, on 16 clusters: the first two clusters have
// enough targets for other machines.
func many(t *testing.T) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.New(t)
	const base = "apiVersion: sluice.dev/v1alpha1\n"
	r.Write("sluice.yaml", base+"kind: Fleet\nmetadata: {name: f}\nspec:\n  environments: [{name: dev}]\n")
	for i := range 16 {
		r.Write(fmt.Sprintf("clusters/c%02d.yaml", i), base+fmt.Sprintf("kind: Cluster\nmetadata: {name: c%02d}\nspec: {environment: dev}\n", i))
	}
	for i := range 65 {
		name, values := fmt.Sprintf("a%02d", i), "own: ${cluster.name}\n"
		if i == 64 {
			values = "own: equal\n"
		}
		r.Write("apps/"+name+"/app.yaml", base+"kind: App\nmetadata: {name: "+name+"}\nspec: {namespace: "+name+", placement: {}, source: {helm: {path: charts/one}}}\n")
		r.Write("apps/"+name+"/layers/global/values.yaml", values)
	}
	r.Write("charts/one/Chart.yaml", "apiVersion: v2\nname: one\nversion: 1.0.0\n")
	r.Write("charts/one/templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {own: {{ .Values.own | quote }}}\n")
	r.Commit("many")
	return r
}

// fan is a Fan whose other machine is a function.
type fan func(ctx context.Context, job []byte) ([]byte, error)

func (f fan) Fan(ctx context.Context, jobs [][]byte, idle func(bool)) ([][]byte, error) {
	idle(true)
	result, err := f(ctx, jobs[0])
	return [][]byte{result}, err
}

func never(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func withFan(r *hydratetest.Repo, f fan) *hydrate.Hydrator {
	config := r.Hydrator(1).Config
	if f != nil {
		config.Renderer = render.NewFarm(config.Renderer, f, "v1", "r", time.Now)
	}
	return hydrate.New(config)
}

// Other machines get targets before all are planned.
func TestOthersRenderWhileTheRestIsPlanned(t *testing.T) {
	t.Parallel()
	r := many(t)
	tree := r.Resolve("HEAD").Tree
	sent := make(chan struct{}, 1000)
	h := withFan(r, func(ctx context.Context, job []byte) ([]byte, error) {
		sent <- struct{}{}
		return never(ctx, job)
	})
	begun, all, stop, err := h.PlanBegins(t.Context(), tree, "dev")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if begun != 2*65 || all != 16*65 {
		t.Errorf("%d of %d targets, want %d of %d", begun, all, 2*65, 16*65)
	}
	select {
	case <-sent: // nobody has asked for outcomes
	case <-time.After(time.Minute):
		t.Error("no shard is sent while the rest is planned")
	}
	alone, all, stopAlone, err := withFan(r, nil).PlanBegins(t.Context(), tree, "dev")
	if err != nil {
		t.Fatal(err)
	}
	defer stopAlone()
	if alone != 0 || all != 16*65 {
		t.Errorf("without other machines, %d of %d targets", alone, all)
	}
}

// Whatever other machines do with the targets that they get first, the commit is the same, and no lost shard holds up another target.
func TestBegunPlansGiveTheSameCommit(t *testing.T) {
	t.Parallel()
	r := many(t)
	commit := r.Resolve("HEAD")
	hydrated := func(f fan) hydrate.EnvironmentResult {
		result, err := withFan(r, f).Hydrate(t.Context(), hydrate.Request{Commit: commit})
		if err != nil {
			t.Fatal(err)
		}
		return result.Environments[0]
	}
	want := hydrated(nil)
	if want.New == "" || want.Objects.Added != 16*65 {
		t.Fatalf("%+v", want)
	}
	engine := r.Hydrator(1).Renderer
	machine := render.NewMachine(render.MachineOptions{Version: "v1", Parallel: 1, Clock: time.Now, Renderers: func(string) renderer.Renderer { return engine }})
	var lost atomic.Int64
	for name, f := range map[string]fan{
		"renders": machine.Shard,
		"loses one": func(ctx context.Context, job []byte) ([]byte, error) { // which has the target that is equal on all clusters
			if bytes.Contains(job, []byte("equal")) {
				lost.Add(1)
				return never(ctx, job)
			}
			return machine.Shard(ctx, job)
		},
		"never": never,
		"fails": func(context.Context, []byte) ([]byte, error) { return nil, errors.New("out of luck") },
	} {
		got := hydrated(f)
		if got.New != want.New || got.Objects != want.Objects || got.Targets != want.Targets || got.Rendered != want.Rendered || len(got.Failures) > 0 {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if lost.Load() == 0 {
		t.Error("no shard is lost")
	}
}

// A cancelled hydration ends while other machines have its first targets.
func TestBegunPlanIsCancelled(t *testing.T) {
	t.Parallel()
	r := many(t)
	ctx, cancel := context.WithCancel(t.Context())
	h := withFan(r, func(ctx context.Context, job []byte) ([]byte, error) {
		cancel()
		return never(ctx, job)
	})
	if _, err := h.Hydrate(ctx, hydrate.Request{Commit: r.Resolve("HEAD")}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// stuck is a Renderer for which one target of the first clusters waits until the context ends. More could hold all places of renderings.
type stuck struct{ renderer.Renderer }

func (s stuck) Render(ctx context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	if h := b.Sources[0].Helm; h.Release == "a07" && bytes.Contains(h.Values, []byte(`"c00"`)) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Renderer.Render(ctx, b)
}

// A hydration that is cancelled while it waits only for one of its first targets is an error, and no panic: that one has no outcome.
func TestCancelledWhileAFirstTargetIsLate(t *testing.T) {
	t.Parallel()
	r := many(t)
	ctx, cancel := context.WithCancel(t.Context())
	config := r.Hydrator(1).Config
	config.Renderer = render.NewFarm(stuck{config.Renderer}, fan(never), "v1", "r", time.Now)
	config.Progress = func(_ string, done, total int) {
		if total == 16*65 && done >= 14*65 { // the others are done
			time.AfterFunc(100*time.Millisecond, cancel)
		}
	}
	if _, err := hydrate.New(config).Hydrate(ctx, hydrate.Request{Commit: r.Resolve("HEAD")}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
