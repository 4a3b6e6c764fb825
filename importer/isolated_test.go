package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// deadly is a builder that ends its process when it builds the directory `bomb`, as content can that takes all memory.
type deadly struct{ inner *cached }

func (d deadly) Build(ctx context.Context, files []kustomize.File, root string) ([]manifest.Object, error) {
	if root == "bomb" {
		os.Exit(3)
	}
	return d.inner.Build(ctx, files, root)
}

// TestMain lets the test binary be a worker process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "import-child" {
		inner := newCached(kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile())
		if err := worker.Serve(context.Background(), os.Stdin, os.Stdout, jobs(deadly{inner})); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func pool(t *testing.T) *renderer.Pool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := renderer.NewPool(renderer.PoolOptions{
		Command: []string{self, "import-child"}, Size: 1,
		MemoryLimit: 512 << 20,
	})
	t.Cleanup(p.Close)
	return p
}

// mapTree is a commit in memory.
type mapTree struct{ fstest.MapFS }

func (m mapTree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(m.MapFS, name) }

func tree(archive string) fleet.Tree {
	out := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		out[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return mapTree{out}
}

const repository = `
-- clusters/prod/apps.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: good, namespace: flux-system}
spec: {path: ./good, prune: true, sourceRef: {kind: GitRepository, name: flux-system}, postBuild: {substitute: {color: "blue"}}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: bad, namespace: flux-system}
spec: {path: ./bomb, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: web}
spec:
  chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}
  values: {replicas: 3, big: 9007199254740993, list: [1, "1", null]}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: "https://git.example.com/acme/fleet", ref: {branch: main}}
-- chart/Chart.yaml --
apiVersion: v2
name: web
version: 0.1.0
-- good/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {color: "${color}"}
-- bomb/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: bomb}
`

func request() fleet.ImportRequest {
	return fleet.ImportRequest{Entry: fleet.Import{Flux: &fleet.FluxImport{Clusters: map[string]fleet.ImportedCluster{"prod": {Path: "clusters/prod", Environment: "prod"}}}}}
}

// A unit that kills the worker process fails by itself: all other units are imported, and equal those of an import in
// this process.
func TestIsolatedImport(t *testing.T) {
	t.Parallel()
	isolated, problems, err := NewIsolated(pool(t), nil).Import(t.Context(), tree(repository), request())
	if err != nil {
		t.Fatal(err)
	}
	direct, direct2, err := New(nil).Import(t.Context(), tree(repository), request())
	if err != nil {
		t.Fatal(err)
	}
	if len(problems.Warnings()) != len(direct2.Warnings()) || problems.Err() != nil || len(isolated) != 4 ||
		len(direct) != 4 {
		t.Fatalf("%d targets, %v; in this process %d, %v", len(isolated), problems, len(direct), direct2)
	}
	for i := range isolated {
		got, want := isolated[i], direct[i]
		if got.App == "bad" {
			if got.Err == nil || !strings.Contains(got.Err.Error(), "ended its process") ||
				got.File != "clusters/prod/apps.yaml" || got.Line != 6 {
				t.Errorf("bad: %s:%d: %v", got.File, got.Line, got.Err)
			}
			continue
		}
		if got.Err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("isolated %+v\nin this process %+v", got, want)
		}
	}
}

func TestIsolatedDetect(t *testing.T) {
	t.Parallel()
	text, err := NewIsolated(pool(t), nil).Detect(t.Context(), tree(repository))
	if err != nil || !strings.Contains(string(text), "path: clusters/prod") {
		t.Errorf("the error is %v:\nthe text is\n%s", err, text)
	}
	if text, err := NewIsolated(pool(t), nil).Detect(t.Context(), tree("-- README.md --\nx\n")); err != nil ||
		text != nil {
		t.Errorf("the error is %v:\nthe text is\n%s", err, text)
	}
}

type broken struct{ err error }

var errNoWorker = errors.New("no worker starts")

func (b broken) Call(context.Context, worker.Call) ([]byte, error) { return nil, b.err }

// Without a worker process nothing is read: there is no way back into the calling process.
func TestIsolatedWithoutWorker(t *testing.T) {
	t.Parallel()
	targets, problems, err := NewIsolated(broken{errNoWorker}, nil).Import(t.Context(), tree(repository), request())
	if len(targets) > 0 || len(problems) > 0 || !errors.Is(err, errNoWorker) {
		t.Errorf("the targets are %v, the problems are %v, the error is %v", targets, problems, err)
	}
}

// Only what the content does to its worker is a problem of the fleet. Any other error is the caller's, which reads the
// commit again.
func TestIsolatedErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		invalid bool
	}{
		{worker.ErrMemory, true},
		{worker.ErrTimeout, true},
		{worker.ErrClosed, false},
		{worker.ErrProtocol, false},
		{context.Canceled, false},
	} {
		loader := fleet.Loader{Importer: NewIsolated(broken{c.err}, nil)}
		_, problems := loader.Load(t.Context(), imported(""))
		err := problems.Err()
		_, invalid := errors.AsType[fleet.Problems](err)
		if err == nil || invalid != c.invalid || !invalid && !errors.Is(err, c.err) {
			t.Errorf("%v: a problem of the fleet: %t, want %t (%v)", c.err, invalid, c.invalid, err)
		}
	}
}

const argoFleet = `
-- sluice.yaml --
apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}]
  import:
  - argocd:
      repositories: ["https://git.example.com/acme/fleet"]
      clusters: {prod: {server: "https://prod.example.com", environment: prod}}
-- plain/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
-- argocd/good.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: good}
spec: {project: default, source: {repoURL: "https://git.example.com/acme/fleet", path: plain}, destination: {name: prod}}
-- argocd/set.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  goTemplate: true
  generators: [{git: {repoURL: "https://git.example.com/acme/fleet", files: [{path: "apps/*.yaml"}]}}]
  template: {metadata: {name: "{{ .name }}"}, spec: {project: default, source: {repoURL: "https://git.example.com/acme/fleet", path: plain}, destination: {name: prod}}}
-- apps/a.yaml --
name: a
-- apps/b.yaml --
name: b
`

func imported(more string) fleet.Tree { return tree(argoFleet + more) }

// faulty is a tree whose storage fails for one file.
type faulty struct {
	fleet.Tree
	name string
}

var errStorage = errors.New("connection reset")

func (f faulty) ReadFile(name string) ([]byte, error) {
	if name == f.name {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errStorage}
	}
	return f.Tree.ReadFile(name)
}

// A file that the storage does not give is no mistake of the fleet, whoever reads it, in this process and in a worker
// process.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	for _, importer := range []fleet.Importer{New(nil), NewIsolated(pool(t), nil)} {
		if _, err := importer.Detect(t.Context(), faulty{tree(repository), "clusters/prod/apps.yaml"}); err == nil {
			t.Errorf("%T: Detect takes a file that the storage does not give for one without clusters", importer)
		}
		for _, name := range []string{"apps/a.yaml", "plain/config.yaml", "argocd/set.yaml"} {
			_, problems := fleet.Loader{Importer: importer}.Load(t.Context(), faulty{imported(""), name})
			err := problems.Err()
			if _, invalid := errors.AsType[fleet.Problems](err); invalid || !errors.Is(err, errStorage) {
				t.Errorf("%T: the name is %s: the error is %v", importer, name, err)
			}
		}
	}
}

// limited is a renderer in which each call exceeds a limit at another unit.
type limited struct {
	err   error
	calls int
}

func (l *limited) Call(ctx context.Context, c worker.Call) ([]byte, error) {
	l.calls++
	if _, err := c.Answer(ctx, askBegin, fmt.Append(nil, "unit ", l.calls)); err != nil {
		return nil, err
	}
	return nil, l.err
}

// Units that exceed a limit are left out one by one, but few of those that take all of an import's time.
func TestManyUnitsOverLimits(t *testing.T) {
	for err, want := range map[error]int{
		worker.ErrMemory: maxExcluded + 1, worker.ErrTimeout: maxSlow + 1,
		worker.ErrCPU: maxSlow + 1,
	} {
		l := &limited{err: err}
		if _, problems, failed := NewIsolated(l, nil).Import(t.Context(), mapTree{},
			fleet.ImportRequest{}); failed != nil || len(problems) != 1 || l.calls != want {
			t.Errorf("%v: %d calls, want %d: %v, %v", err, l.calls, want, problems, failed)
		}
	}
}
