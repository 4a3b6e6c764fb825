package site_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/internal/browsertest"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/index"
)

// saved writes an index and reads it again.
func saved(t *testing.T, x *index.Index, lap func(string) time.Duration) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "index")
	if err := x.Save(file); err != nil {
		t.Fatal(err)
	}
	lap("save")
	if _, err := index.Load(file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	lap(fmt.Sprintf("load of %d KiB", info.Size()>>10))
}

// searched looks for an image that a number of targets have.
func searched(t *testing.T, x *index.Index, want int, large bool, lap func(string) time.Duration) {
	t.Helper()
	_, total := x.Search(index.Query{Image: "log4j 2.14"}, 100)
	if took := lap("search of an image"); large && took > 200*time.Millisecond {
		t.Errorf("a search takes %s of processor time", took)
	}
	if total != want {
		t.Errorf("%d targets have the image, want %d", total, want)
	}
}

// moved has one app of one cluster change, and updates the index: the update reads what changed.
func moved(t *testing.T, r *hydratetest.Repo, h *hydrate.Hydrator, x *index.Index, trunk gitstore.Hash,
	lap func(string) time.Duration,
) {
	t.Helper()
	const cluster = "cluster/c0007"
	before := r.Git("rev-parse", cluster)
	blob := r.Pipe("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: new\n", "hash-object", "-w", "--stdin")
	app := r.Pipe("100644 blob "+blob+"\tconfigmap-new.yaml\n", "mktree")
	tree := r.Pipe(r.Git("ls-tree", cluster)+"\n040000 tree "+app+"\tnew\n", "mktree")
	r.Git("update-ref", "refs/heads/"+cluster, r.Pipe(r.Git("log", "-1", "--format=%B", cluster), "commit-tree", tree,
		"-p", before))
	lap("move of a cluster")
	_, stats, err := index.Fleet(t.Context(), x, h, trunk, true)
	if want := (index.Stats{Clusters: 1, Trees: 1, Objects: 1}); err != nil || stats != want {
		t.Errorf("the index after the move of one cluster: %+v, want %+v; %v", stats, want, err)
	}
	lap("index after the move of one cluster")
	r.Git("update-ref", "refs/heads/"+cluster, before)
}

// TestScale measures the pages and the index of a generated fleet: SLUICE_SCALE=5000x50 is clusters × apps. Every
// target has an object of its own. The branches are written without rendering. Sizes and memory are checked. In a large
// fleet, processor times are checked too, that of the index beside one `git clone`, and the time to the first paint of
// the overview.
func TestScale(t *testing.T) {
	clusters, apps := scale(t)
	r := generated(t, clusters, apps)
	h := r.Hydrator(2)
	trunk, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	clock, used := time.Now(), processor(t, syscall.RUSAGE_SELF)
	lap := func(what string) time.Duration {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		took := processor(t, syscall.RUSAGE_SELF) - used
		t.Logf("%s: %.2f s, %.2f s of processor time, heap %d MiB", what, time.Since(clock).Seconds(), took.Seconds(),
			m.HeapAlloc>>20)
		clock, used = time.Now(), processor(t, syscall.RUSAGE_SELF)
		return took
	}
	large := clusters*apps >= 100_000
	clone, others := filepath.Join(t.TempDir(), "clone"), processor(t, syscall.RUSAGE_CHILDREN)
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--no-local", "--mirror", r.Dir,
		clone).CombinedOutput(); err != nil {
		t.Fatalf("the error is %v, the output is %s", err, out)
	}
	cloned := processor(t, syscall.RUSAGE_CHILDREN) - others
	lap(fmt.Sprintf("git clone (%.2f s of processor time)", cloned.Seconds()))
	peak := peakMemory()
	x, stats, err := index.Fleet(t.Context(), nil, h, trunk.Tree, true)
	if err != nil {
		t.Fatal(err)
	}
	if took := lap(fmt.Sprintf("index of %d targets (%d objects read)", x.Targets(), stats.Objects)); large &&
		took > 2*cloned {
		t.Errorf("the index takes %s of processor time, a clone %s", took, cloned)
	}
	if x.Targets() != clusters*apps {
		t.Errorf("%d targets", x.Targets())
	}
	searched(t, x, (clusters+9)/10, large, lap)
	moved(t, r, h, x, trunk.Tree, lap)
	saved(t, x, lap)
	f, err := site.Read(t.Context(), h, site.Request{
		Trunk: trunk, Now: time.Now(), Version: "test", Key: []byte("k"),
		Index: x,
	})
	if err != nil {
		t.Fatal(err)
	}
	lap("read of the fleet, index known")
	p, err := site.NewPages(f, site.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	overview, _, err := p.Render("index.html")
	if err != nil {
		t.Fatal(err)
	}
	bytes := len(overview)
	for _, asset := range site.Assets() {
		bytes += len(asset)
	}
	lap(fmt.Sprintf("overview of %d bytes with its style and script, uncompressed", bytes))
	const most = 300_000
	if bytes > most {
		t.Errorf("the overview takes %d bytes", bytes)
	}
	withinMemory(t, peak())
	dir := os.Getenv("SLUICE_PAGES")
	if dir == "" && !large {
		return
	} else if dir == "" {
		dir = t.TempDir()
	}
	if err := site.Write(dir, p); err != nil {
		t.Fatal(err)
	}
	lap("all pages")
	t.Run("first paint", func(t *testing.T) {
		var got struct{ Paint []float64 } // milliseconds
		if err := json.Unmarshal(browsertest.Run(t, "testdata/browser/paint.js", filepath.Join(dir, "index.html")),
			&got); err != nil {
			t.Fatal(err)
		}
		t.Logf("the first paint of the overview after %v ms", got.Paint)
		if len(got.Paint) == 0 || slices.Min(got.Paint) > 1000 {
			t.Errorf("the first paint of the overview takes %v ms", got.Paint)
		}
	})
}

func withinMemory(t *testing.T, got uint64) {
	t.Helper()
	if most := uint64(1 << 30); got > most {
		t.Errorf("%d MiB of memory at most", got>>20)
	} else {
		t.Logf("%d MiB of memory at most", got>>20)
	}
}

// scale returns the numbers of clusters and apps.
func scale(t *testing.T) (clusters, apps int) {
	t.Helper()
	size := os.Getenv("SLUICE_SCALE")
	if size == "" {
		return 60, 5
	}
	if _, err := fmt.Sscanf(size, "%dx%d", &clusters, &apps); err != nil {
		t.Fatal(err)
	}
	return clusters, apps
}

// peakMemory returns a function that returns the most memory that the process had since, in bytes; 0 where that is not
// known.
func peakMemory() func() uint64 {
	debug.FreeOSMemory() // what earlier steps have used
	const reset = "5"    // see proc_pid_clear_refs(5)
	if err := os.WriteFile("/proc/self/clear_refs", []byte(reset), 0o200); err != nil {
		return func() uint64 { return 0 }
	}
	return func() uint64 {
		status, err := os.ReadFile("/proc/self/status")
		_, rest, ok := strings.Cut(string(status), "VmHWM:")
		var kib uint64
		if _, bad := fmt.Sscanf(rest, "%d kB", &kib); err != nil || !ok || bad != nil {
			return 0
		}
		return kib << 10
	}
}

// processor is the time that this process or its children have used. A busy machine does not change it.
func processor(t *testing.T, who int) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(who, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// generated is a fleet whose branches hold objects that nobody rendered.
func generated(t *testing.T, clusters, apps int) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.New(t)
	r.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: large}\nspec:\n  layers: [region, cluster]\n  environments: [{name: dev}, {name: prod, after: [dev]}]\n")
	var all strings.Builder
	for i := range clusters {
		fmt.Fprintf(&all, "---\napiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c%04d, labels: {region: r%02d, ring: ring-%d}}\nspec: {environment: %s, kubeVersion: 1.33.2, class: edge}\n", i, i%20, i%3, environmentAt(i))
	}
	r.Write("clusters/all.yaml", strings.TrimPrefix(all.String(), "---\n"))
	r.Write("clusters/class.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: ClusterClass\nmetadata: {name: edge}\nspec: {}\n")
	for a := range apps {
		r.Write(fmt.Sprintf("apps/app%02d/app.yaml", a),
			fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: app%02d}\nspec:\n  namespace: n%02d\n  placement: {}\n  source: {manifests: {}}\n", a, a))
	}
	r.Commit("A large fleet")
	h := r.Hydrator(2)
	source, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	g := &generator{t: t, source: source, roots: map[string][]gitstore.Entry{}}
	if g.w, err = h.Store.NewWriter(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.w.Close() }() // what is stored stays
	for i := range clusters {
		g.cluster(i, apps)
	}
	g.environments()
	results, err := h.Branches.Push(t.Context(), g.w, g.moves, gitstore.PushOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range results {
		if one.Err() != nil {
			t.Fatal(one.Err())
		}
	}
	return r
}

func environmentAt(i int) string { return []string{"dev", "prod"}[min(1, i%5)] }

// generator writes the branches of a fleet.
type generator struct {
	t      *testing.T
	w      *gitstore.Writer
	source gitstore.Commit
	roots  map[string][]gitstore.Entry // by environment
	moves  []gitstore.Move
}

func (g *generator) must(h gitstore.Hash, err error) gitstore.Hash {
	if err != nil {
		g.t.Fatal(err)
	}
	return h
}

func (g *generator) cluster(i, apps int) {
	name := fmt.Sprintf("c%04d", i)
	entries := make([]gitstore.Entry, 0, apps)
	for a := range apps {
		image := fmt.Sprintf("registry.example.com/app%02d:1.%d", a, i%7)
		if a == 0 && i%10 == 0 {
			image = "registry.example.com/log4j:2.14.1"
		}
		files := []gitstore.Entry{
			{Name: "configmap-app.yaml", Mode: gitstore.ModeFile, Hash: g.must(g.w.Blob(fmt.Appendf(nil,
				"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: n%02d\ndata:\n  cluster: %s\n",
				a, name)))},
			{
				Name: "deployment-app.yaml", Mode: gitstore.ModeFile,
				Hash: g.must(g.w.Blob(fmt.Appendf(nil,
					"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app\n  namespace: n%02d\nspec:\n  template:\n    spec:\n      containers:\n      - image: %s\n        name: app\n", a, image))),
			},
			{Name: "service-app.yaml", Mode: gitstore.ModeFile, Hash: g.must(g.w.Blob(fmt.Appendf(nil,
				"apiVersion: v1\nkind: Service\nmetadata:\n  name: app\n  namespace: n%02d\n", a)))},
		}
		entries = append(entries, gitstore.Entry{
			Name: fmt.Sprintf("app%02d", a), Mode: gitstore.ModeTree,
			Hash: g.must(g.w.Tree(files)),
		})
	}
	tree := g.must(g.w.Tree(entries))
	environment := environmentAt(i)
	g.roots[environment] = append(g.roots[environment], gitstore.Entry{Name: name, Mode: gitstore.ModeTree, Hash: tree})
	g.commit("cluster/"+name, environment, tree)
}

func (g *generator) environments() {
	for environment, entries := range g.roots {
		record, err := branch.Record{
			Environment: environment, Source: g.source.Hash.String(),
			Renderer: "test",
		}.Encode()
		if err != nil {
			g.t.Fatal(err)
		}
		dir := g.must(g.w.Tree([]gitstore.Entry{{
			Name: "environment.yaml", Mode: gitstore.ModeFile,
			Hash: g.must(g.w.Blob(record)),
		}}))
		tree := g.must(g.w.Tree(append([]gitstore.Entry{{Name: branch.Dir, Mode: gitstore.ModeTree, Hash: dir}},
			entries...)))
		g.commit("env/"+environment, environment, tree)
	}
}

func (g *generator) commit(name, environment string, tree gitstore.Hash) {
	hash := g.must(branch.Commit{
		Tree: tree, Author: g.source.Author, Committer: g.source.Committer, Subject: "A large fleet", Version: "test",
		Trailers: []gitstore.Trailer{
			{Key: branch.TrailerSource, Value: g.source.Hash.String()},
			{Key: branch.TrailerEnvironment, Value: environment},
		},
	}.Write(g.w))
	g.moves = append(g.moves, gitstore.Move{Branch: name, New: hash})
}
