package review

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/internal/signers"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/renderer/signature"
	"github.com/sluice-gitops/sluice/report"
)

// TestNothingUnjudgedSucceeds reviews generated pairs of fleets, in this process and as the job of a worker. Both sides
// fail in many ways: charts, templates and values that are missing or broken, fleets that cannot be read, archives and
// repositories that are gone. The head puts objects somewhere that the policy forbids. A review must not succeed if such
// an object is new or changed, or if the base is unknown there, unless the branches have the object byte for byte.
//
// The oracle knows nothing of reviews: it renders each side alone, and recognizes the planted objects in the files.
// SLUICE_REVIEW_PAIRS is the number of pairs, SLUICE_REVIEW_SEED repeats one of them.
func TestNothingUnjudgedSucceeds(t *testing.T) {
	t.Parallel()
	first, count := uint64(1), uint64(60)
	if n, err := strconv.ParseUint(os.Getenv("SLUICE_REVIEW_PAIRS"), 10, 64); err == nil {
		count = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SLUICE_REVIEW_SEED"), 10, 64); err == nil {
		first, count = n, 1
	}
	server := newChartServer(t)
	cache := t.TempDir()
	seen := map[string]int{}
	var mu sync.Mutex
	var next, failed atomic.Uint64
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			engine := renderer.NewEngine(renderer.DefaultLimits())
			for i := next.Add(1) - 1; i < count && failed.Load() < 5; i = next.Add(1) - 1 {
				p := newPair(t, first+i, engine, server, cache)
				problems := p.review()
				mu.Lock()
				for k, n := range p.seen {
					seen[k] += n
				}
				if len(problems) > 0 {
					failed.Add(1)
					t.Errorf("seed %d: %s\n%s", first+i, strings.Join(problems, "\n  "), strings.Join(p.log, "\n"))
				}
				mu.Unlock()
			}
		})
	}
	players.Wait()
	t.Logf("%d pairs: %v", count, seen)
	for _, k := range []string{
		"planted and judged", "planted where the base is unknown", "planted while the base is unreadable", "succeeds",
		"head fails", "in a worker", "existing", "recorded",
		"base: chart gone", "base: template fails", "base: invalid YAML", "base: values deleted", "base: fleet unreadable",
		"base: archive gone", "base: repository out",
	} {
		if seen[k] == 0 && count >= 1000 {
			t.Errorf("no pair has %q: the property shows nothing about it", k)
		}
	}
}

// breakages are the ways in which a side of a pair fails.
var breakages = []string{
	"chart gone", "template fails", "invalid YAML", "values deleted", "archive gone", "repository out", "unset variable",
	"kustomization incomplete", "broken component", "path gone",
}

// The kinds of apps.
const (
	ofChart, ofKustomize, ofManifests, ofArchive, ofRepository = "chart", "kustomize", "manifests", "archive", "repository"
)

// pairApp is an app of a generated fleet.
type pairApp struct {
	name, kind string
	workspace  bool
	version    int    // of its ConfigMap
	bad        string // what it has that the policy forbids; "" for nothing
	badLayer   string // region whose layer has it instead of all clusters; "" for all
	broken     string // one of breakages; "" renders
	only       string // region that has the app; "" for all
}

// pairCluster is a cluster of a generated fleet.
type pairCluster struct {
	name, environment, region, state, kube string
}

// pairFleet is one side of a pair, before it becomes files.
type pairFleet struct {
	clusters []pairCluster
	apps     []pairApp
	broken   string // of the fleet: why it cannot be read; "" if it can
	kinds    string // cluster-scoped kinds that the workspace may have
	prefix   string // of the branches
}

func (f pairFleet) clone() pairFleet {
	f.clusters, f.apps = slices.Clone(f.clusters), slices.Clone(f.apps)
	return f
}

// pair is two commits of a generated fleet and the branches that an earlier commit left.
type pair struct {
	t        *testing.T
	r        *rand.Rand
	seed     uint64
	server   *chartServer
	store    *gitstore.Store
	branches *memoryBranches
	s        *session.Session
	content  [2]gitstore.Hash // commits of the other repository: one that the store has, and one that it lacks
	before   []gitstore.Hash  // parents of the base
	log      []string
	seen     map[string]int
}

func newPair(t *testing.T, seed uint64, engine renderer.Renderer, server *chartServer, cache string) *pair {
	t.Helper()
	p := &pair{
		t: t, r: rand.New(rand.NewPCG(seed, 5)), seed: seed, server: server, store: gitstore.OpenMemory(),
		seen: map[string]int{},
	}
	p.branches = &memoryBranches{store: p.store, refs: map[string]gitstore.Hash{}}
	fetcher := fetch.New(fetch.Options{CacheDir: path.Join(cache, "charts")})
	p.s = session.InWorker(hydrate.Config{
		Store: p.store, Branches: p.branches, Renderer: engine, Archives: signature.Archives{Fetcher: fetcher}, Jobs: 1,
		Version: "test",
	}, session.Runtime{
		Cache: cache, Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}, nil)
	p.s.Fetcher = signature.Archives{Fetcher: fetcher}
	return p
}

func oneOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (p *pair) logf(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

// must fails the test on an error of the generator, which is none of the code under test.
func (p *pair) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("seed %d: %v", p.seed, err))
	}
}

// generate returns a fleet that renders, without anything that the policy forbids.
func (p *pair) generate() pairFleet {
	var f pairFleet
	for i := range 1 + p.r.IntN(4) {
		f.clusters = append(f.clusters, pairCluster{
			fmt.Sprint("c", i), oneOf(p.r, "dev", "prod"), oneOf(p.r, "eu", "us"),
			oneOf(p.r, "active", "active", "active", "active", "active", "frozen"), "1.33.0",
		})
	}
	for i := range 1 + p.r.IntN(4) {
		f.apps = append(f.apps, p.app(i))
	}
	return f
}

func (p *pair) app(i int) pairApp {
	return pairApp{
		name: fmt.Sprint("a", i), workspace: p.r.IntN(3) == 0,
		kind: oneOf(p.r, ofChart, ofChart, ofKustomize, ofManifests, ofArchive, ofRepository), version: p.r.IntN(3),
		only: oneOf(p.r, "", "", "", "eu", "us"),
	}
}

// edit changes a fleet in one way, and says how.
func (p *pair) edit(f *pairFleet) string {
	i, c := p.r.IntN(len(f.apps)), p.r.IntN(len(f.clusters))
	a := &f.apps[i]
	switch p.r.IntN(12) {
	case 0, 1, 2, 3:
		a.bad = oneOf(p.r, "pod", "pod", "rule", "namespace", "kind")
		a.badLayer = oneOf(p.r, "", "", "eu", "us")
		return fmt.Sprintf("%s gets a bad %s %s", a.name, a.bad, a.badLayer)
	case 4, 5:
		a.version = (a.version + 1) % 6
		return a.name + " changes"
	case 6:
		if n := len(f.apps); n < 5 {
			f.apps = append(f.apps, p.app(10+n))
			return "a new app"
		}
	case 7:
		if len(f.clusters) < 5 {
			f.clusters = append(f.clusters, pairCluster{
				fmt.Sprint("n", len(f.clusters)), oneOf(p.r, "dev", "prod"),
				oneOf(p.r, "eu", "us"), "active", "1.33.0",
			})
			return "a new cluster"
		}
	case 8:
		f.clusters[c].state = oneOf(p.r, "active", "frozen")
		return f.clusters[c].name + " becomes " + f.clusters[c].state
	case 9:
		f.clusters[c].region = oneOf(p.r, "eu", "us")
		return f.clusters[c].name + " moves to " + f.clusters[c].region
	case 10:
		f.clusters[c].environment = oneOf(p.r, "dev", "prod")
		return f.clusters[c].name + " moves to " + f.clusters[c].environment
	case 11:
		switch p.r.IntN(4) {
		case 0:
			a.workspace = !a.workspace
			return a.name + " moves in or out of the workspace"
		case 1:
			a.only = ""
			return a.name + " goes to all clusters"
		case 2:
			f.clusters[c].kube = "1.34.0"
			return f.clusters[c].name + " is upgraded"
		case 3:
			f.kinds = "ClusterRole.rbac.authorization.k8s.io"
			return "the workspace may have more kinds"
		}
	}
	return "nothing"
}

// breakOne breaks an app or the fleet, and says how.
func (p *pair) breakOne(f *pairFleet) string {
	if p.r.IntN(6) == 0 {
		f.broken = oneOf(p.r, "an unknown key", "a tab", "an unknown environment")
		return "fleet unreadable"
	}
	a := &f.apps[p.r.IntN(len(f.apps))]
	for range 10 {
		how := oneOf(p.r, breakages...)
		if slices.Contains(breaks[a.kind], how) {
			a.broken = how
			return how
		}
	}
	return ""
}

// breaks are the breakages that a kind of app can have.
var breaks = map[string][]string{
	ofChart:      {"chart gone", "template fails", "values deleted", "unset variable", "broken component"},
	ofKustomize:  {"invalid YAML", "kustomization incomplete", "path gone", "broken component"},
	ofManifests:  {"invalid YAML", "path gone", "broken component"},
	ofArchive:    {"archive gone", "unset variable"},
	ofRepository: {"repository out"},
}

const kindHead = "apiVersion: sluice.dev/v1alpha1\nkind: "

// files returns the files of a fleet.
func (p *pair) files(f pairFleet) map[string]string {
	out := map[string]string{
		"sluice.yaml": kindHead + "Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  layers: [region]\n" +
			"  environments: [{name: dev}, {name: prod}]\n",
		"policy/policy.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nspec:\n  rules: {privileged: {severity: error}}\n",
		"policy/rule.rego": "package main\n\nimport rego.v1\n\ndeny contains msg if {\n\tinput.kind == \"ConfigMap\"\n" +
			"\tinput.data.forbidden == \"yes\"\n\tmsg := \"forbidden\"\n}\n",
		"workspaces/team.yaml": kindHead + "Workspace\nmetadata: {name: team}\nspec: {clusters: {}, namespaces: [team, \"team-*\"]" +
			", sources: {repositories: [other]}, kinds: {clusterScoped: [" + f.kinds + "]}}\n",
		"repositories/other.yaml": kindHead + "Repository\nmetadata: {name: other}\nspec: {url: \"https://127.0.0.1:1/other\", branch: main}\n",
	}
	switch f.broken {
	case "an unknown key":
		out["sluice.yaml"] += "  nonsense: true\n"
	case "a tab":
		out["sluice.yaml"] += "\tx\n"
	case "an unknown environment":
		out["clusters/zz.yaml"] = kindHead + "Cluster\nmetadata: {name: zz}\nspec: {environment: nowhere}\n"
	}
	if f.prefix != "" {
		out["sluice.yaml"] += "  output: {environmentBranch: \"" + f.prefix + "/${environment}\", clusterBranch: \"" + f.prefix +
			"-${cluster.name}\"}\n"
	}
	for _, c := range f.clusters {
		out["clusters/"+c.name+".yaml"] = kindHead + fmt.Sprintf(
			"Cluster\nmetadata: {name: %s, labels: {region: %s}}\nspec: {environment: %s, state: %s, kubeVersion: %s, vars: {known: x}}\n",
			c.name, c.region, c.environment, c.state, c.kube)
	}
	lock := kindHead + "Lock\ncharts:"
	commit := p.content[0]
	for _, a := range f.apps {
		lock += p.addApp(out, a)
		if a.broken == "repository out" {
			commit = p.content[1]
		}
	}
	if strings.HasSuffix(lock, ":") {
		lock += " []"
	}
	out["sluice.lock"] = lock + fmt.Sprintf("\nrepositories:\n- {name: other, url: \"https://127.0.0.1:1/other\", wanted: refs/heads/main, resolved: refs/heads/main, commit: %q}\n", commit.String())
	return out
}

// addApp adds the files of an app, and returns its entry in sluice.lock.
func (p *pair) addApp(out map[string]string, a pairApp) (lock string) {
	root, namespace := "apps/"+a.name+"/", a.name
	if a.workspace {
		root, namespace = "workspaces/team/apps/"+a.name+"/", "team"
	}
	src, folder := root+"src/", "apps/"+a.name+"/src" // a workspace's paths begin at its own folder
	placement := "{}"
	if a.only != "" {
		placement = "{optional: true, matchLabels: {region: " + a.only + "}}"
	}
	everywhere := a.bad
	if a.badLayer != "" {
		everywhere = ""
	}
	config := configMap(a.name, a.version)
	var source string
	switch a.kind {
	case ofChart, ofArchive:
		chart := map[string]string{
			"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: tiny\nversion: 1.%d.0\n", a.version),
			"templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + a.name + "}\ndata: {version: {{ required \"no value\" .Values.value | quote }}}\n" +
				"{{- range $kind := list \"pod\" \"rule\" \"namespace\" \"kind\" }}{{ if eq $kind ($.Values.bad | default \"\") }}\n---\n{{ include $kind $ }}\n{{- end }}{{ end }}\n",
			"templates/_bad.tpl": badTemplates(a.name, a.version),
		}
		values := fmt.Sprintf("value: v%d\nbad: %q\n", a.version, everywhere)
		if a.broken == "values deleted" {
			values = fmt.Sprintf("bad: %q\n", everywhere)
		}
		if a.broken == "unset variable" {
			values += "other: ${cluster.vars.unknown}\n"
		}
		out[root+"layers/global/values.yaml"] = values
		if a.badLayer != "" {
			out[root+"layers/region/"+a.badLayer+"/values.yaml"] = "bad: " + a.bad + "\n"
		}
		if a.kind == ofArchive {
			url, digest := p.server.add(chart)
			if a.broken == "archive gone" {
				digest = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(url)))
			}
			version := fmt.Sprintf("1.%d.0", a.version)
			lock = fmt.Sprintf("\n- {chart: tiny, repo: %q, version: %q, resolved: %q, digest: %q}", url, version, version, digest)
			source = fmt.Sprintf("{helm: {chart: tiny, repo: %q, version: %q}}", url, version)
			break
		}
		source = "{helm: {path: " + folder + "}}"
		if a.broken == "template fails" {
			chart["templates/all.yaml"] += "{{ fail \"no\" }}\n"
		}
		if a.broken == "chart gone" {
			break
		}
		for name, text := range chart {
			out[src+name] = text
		}
	case ofKustomize, ofManifests:
		what := map[string]string{ofKustomize: "kustomize", ofManifests: "manifests"}[a.kind]
		source = "{" + what + ": {path: " + folder + "}}"
		if a.broken == "path gone" {
			break
		}
		if everywhere != "" {
			config += "---\n" + badObject(a.bad, a.name, a.version)
		}
		if a.broken == "invalid YAML" {
			config += "---\na: [\n"
		}
		out[src+"all.yaml"] = config
		if a.kind == ofKustomize {
			out[src+"kustomization.yaml"] = "resources: [all.yaml]\n"
		}
		if a.broken == "kustomization incomplete" {
			out[src+"kustomization.yaml"] = "resources: [all.yaml, missing.yaml]\n"
		}
		if a.badLayer != "" {
			p.addComponent(out, root+"layers/region/"+a.badLayer+"/", badObject(a.bad, a.name, a.version))
		}
	case ofRepository:
		source = fmt.Sprintf("{manifests: {path: %s, repository: other}}", folderOf(a.name, a.version, everywhere))
		if a.badLayer != "" {
			p.addComponent(out, root+"layers/region/"+a.badLayer+"/", badObject(a.bad, a.name, a.version))
		}
	}
	if a.broken == "broken component" {
		out[root+"layers/global/kustomization.yaml"] = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [gone.yaml]\n"
	}
	out[root+"app.yaml"] = kindHead + fmt.Sprintf("App\nmetadata: {name: %s}\nspec: {namespace: %s, placement: %s, source: %s}\n",
		a.name, namespace, placement, source)
	return lock
}

func (p *pair) addComponent(out map[string]string, dir, object string) {
	out[dir+"kustomization.yaml"] = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [bad.yaml]\n"
	out[dir+"bad.yaml"] = object
}

// folderOf is a folder of the other repository.
func folderOf(app string, version int, bad string) string {
	return fmt.Sprintf("%s/v%d%s", app, version, bad)
}

// bads are the objects that the policy forbids, by kind. Those of the kinds namespace and kind are forbidden in the
// workspace only.
var bads = map[string]string{
	"pod":       "apiVersion: v1\nkind: Pod\nmetadata: {name: bad-%s, labels: {v: v%d}}\nspec: {containers: [{name: c, image: \"registry/c:1\", securityContext: {privileged: true}}]}\n",
	"rule":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad-%s, labels: {v: v%d}}\ndata: {forbidden: \"yes\"}\n",
	"namespace": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad-%s, namespace: kube-system, labels: {v: v%d}}\ndata: {a: b}\n",
	"kind":      "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: bad-%s, labels: {v: v%d}}\nrules: []\n",
}

func badObject(kind, name string, version int) string { return fmt.Sprintf(bads[kind], name, version) }

func configMap(name string, version int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {version: \"%d\"}\n", name, version)
}

func badTemplates(name string, version int) string {
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(bads)) {
		fmt.Fprintf(&out, "{{- define %q }}%s{{ end }}\n", kind, badObject(kind, name, version))
	}
	return out.String()
}

// forbidden recognizes the planted objects of an app in the files of a branch.
func forbidden(o manifest.Object, workspace bool, kinds string) bool {
	if !strings.HasPrefix(o.Name(), "bad-") {
		return false
	}
	switch {
	case o.Kind() == "Pod":
		return true
	case o.Kind() == "ConfigMap" && o.Namespace() == "kube-system":
		return workspace
	case o.Kind() == "ClusterRole":
		return workspace && kinds == ""
	}
	return true
}

// addOther stores a commit of the other repository, with all that apps can take from it.
func (p *pair) addOther() {
	files := map[string]string{}
	for _, app := range []string{"a0", "a1", "a2", "a3", "a11", "a12", "a13", "a14"} {
		for version := range 6 {
			for _, bad := range append(slices.Sorted(maps.Keys(bads)), "") {
				dir := folderOf(app, version, bad) + "/"
				files[dir+"all.yaml"] = configMap(app, version)
				if bad != "" {
					files[dir+"bad.yaml"] = badObject(bad, app, version)
				}
			}
		}
	}
	p.content = [2]gitstore.Hash{p.commitOf(files).Hash, {1, 2, 3}}
}

// commit stores the commit of a fleet.
func (p *pair) commit(f pairFleet) gitstore.Commit { return p.commitOf(p.files(f)) }

func (p *pair) commitOf(files map[string]string, parents ...gitstore.Hash) gitstore.Commit {
	who := gitstore.Signature{Name: "A", Email: "a@example.com", When: time.Unix(1_700_000_000, 0)}
	hash, err := p.store.KeepCommit(gitstore.CommitSpec{
		Tree: p.tree(files), Parents: parents, Author: who, Committer: who, Message: "change\n",
	})
	p.must(err)
	c, err := p.store.Commit(p.t.Context(), hash)
	p.must(err)
	return c
}

func (p *pair) tree(files map[string]string) gitstore.Hash {
	w, err := p.store.NewWriter()
	p.must(err)
	defer func() { _ = w.Close() }() // keep has copied everything
	var write func(dir string) gitstore.Hash
	write = func(dir string) gitstore.Hash {
		below, entries := map[string]bool{}, []gitstore.Entry{}
		for name, text := range files {
			rest, ok := strings.CutPrefix(name, dir)
			if !ok {
				continue
			}
			if sub, _, deep := strings.Cut(rest, "/"); deep {
				below[sub] = true
				continue
			}
			blob, err := w.Blob([]byte(text))
			p.must(err)
			entries = append(entries, gitstore.Entry{Name: rest, Mode: gitstore.ModeFile, Hash: blob})
		}
		for sub := range below {
			entries = append(entries, gitstore.Entry{Name: sub, Mode: gitstore.ModeTree, Hash: write(dir + sub + "/")})
		}
		tree, err := w.Tree(entries)
		p.must(err)
		return tree
	}
	root := write("")
	p.must(keep(p.store, w))
	return root
}

// keep copies the objects of a writer to the memory of the store.
func keep(store *gitstore.Store, w *gitstore.Writer) error {
	return w.Raws(func(r gitstore.Raw) error {
		_, err := store.Keep(r)
		return err
	})
}

// review generates the pair, reviews it in both ways, and returns what is wrong.
func (p *pair) review() []string {
	p.addOther()
	base := p.generate()
	p.record(base)
	for range p.r.IntN(2) {
		p.logf("base: %s", p.edit(&base))
	}
	head := base.clone()
	for range 1 + p.r.IntN(3) {
		p.logf("head: %s", p.edit(&head))
	}
	for range oneOf(p.r, 0, 1, 1, 2) {
		if how := p.breakOne(&base); how != "" {
			p.logf("base: %s", how)
			p.seen["base: "+how]++
		}
	}
	if p.r.IntN(4) == 0 {
		if how := p.breakOne(&head); how != "" {
			p.logf("head: %s", how)
		}
	}
	trunk := base
	if p.r.IntN(3) == 0 { // somebody mended it since
		trunk = head.clone()
		trunk.broken = ""
		for i := range trunk.apps {
			trunk.apps[i].broken, trunk.apps[i].bad = "", ""
		}
	}
	if p.r.IntN(12) == 0 {
		head.prefix = "mine"
		p.logf("head: other branches")
		if p.r.IntN(2) == 0 && head.broken == "" { // whoever writes the change may write to branches that are no environment's
			p.hydrate(head)
		}
	}
	p.logf("base %+v\nhead %+v\ntrunk %+v", base, head, trunk)
	sides := [2]gitstore.Commit{p.commitOf(p.files(base), p.before...), p.commit(head)}
	policy := p.commit(trunk)
	request := Request{
		Request: compare.Request{Base: sides[0], Head: sides[1], Key: []byte("k")}, Policy: policy.Tree, Offline: true,
	}
	local, err := Local{p.s}.Review(p.t.Context(), request)
	if err != nil {
		return []string{fmt.Sprintf("no review: %v", err)}
	}
	out := p.wrong(local.Review, sides, head, trunk)
	if p.r.IntN(8) == 0 {
		p.seen["in a worker"]++
		isolated, err := inProcess(p.t, p.s, request)
		if err != nil {
			return append(out, fmt.Sprintf("no review in a worker: %v", err))
		}
		for _, one := range p.wrong(isolated, sides, head, trunk) {
			out = append(out, "in a worker: "+one)
		}
	}
	return out
}

// record hydrates a fleet, and sometimes leaves the branches empty.
func (p *pair) record(f pairFleet) {
	if p.r.IntN(5) == 0 {
		p.logf("no branches")
		return
	}
	if p.r.IntN(3) == 0 {
		f = f.clone()
		p.logf("recorded: %s", p.edit(&f))
	}
	for i := range f.clusters {
		f.clusters[i].state = "active"
	}
	p.before = []gitstore.Hash{p.hydrate(f)}
}

func (p *pair) hydrate(f pairFleet) gitstore.Hash {
	c := p.commit(f)
	_, err := p.s.Hydrate(p.t.Context(), hydrate.Request{Commit: c, Write: true, Environments: []string{"dev", "prod"}})
	p.must(err)
	return c.Hash
}

// rendering is one side of a pair: the files of each cluster, and which targets failed.
type rendering struct {
	unreadable bool
	failed     map[string]bool              // cluster/app directory
	files      map[string]map[string]string // by cluster and path
}

// rendered renders a side alone.
func (p *pair) rendered(c gitstore.Commit) rendering {
	out := rendering{failed: map[string]bool{}, files: map[string]map[string]string{}}
	h := hydrate.New(p.s.Config)
	f, _, err := h.Fleet(p.t.Context(), c.Tree)
	if err != nil {
		out.unreadable = true
		return out
	}
	for _, cluster := range f.Clusters {
		if cluster.Frozen() || cluster.Retired() {
			continue
		}
		shown, err := h.Show(p.t.Context(), c.Tree, cluster.Name, "")
		p.must(err)
		files := map[string]string{}
		for _, m := range shown.Manifests {
			files[m.Path] = string(m.Data)
		}
		out.files[cluster.Name] = files
		for _, one := range shown.Failures {
			out.failed[cluster.Name+"/"+fleet.AppDir(one.App)] = true
		}
	}
	return out
}

// wrong compares a review with what the sides render to.
func (p *pair) wrong(r *report.Review, sides [2]gitstore.Commit, head, trunk pairFleet) (out []string) {
	base, after := p.rendered(sides[0]), p.rendered(sides[1])
	success := r.Verdict != report.VerdictError && r.Verdict != report.VerdictFail
	if success {
		p.seen["succeeds"]++
	}
	if after.unreadable || len(after.failed) > 0 {
		p.seen["head fails"]++
	}
	if after.unreadable {
		if success {
			out = append(out, "the head's fleet cannot be read, and the review succeeds")
		}
		return out
	}
	planted := 0
	for cluster, files := range after.files {
		for name, text := range files {
			objects, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
			p.must(err)
			for _, o := range objects {
				if !forbidden(o, strings.HasPrefix(name, fleet.WorkspacesDir+"/"), trunk.kinds) {
					continue
				}
				planted++
				if one := p.unjudged(r, base, cluster, name, text, success); one != "" {
					out = append(out, one)
				}
			}
		}
	}
	if planted == 0 && len(after.failed) == 0 && trunk.broken == "" && trunk.kinds == head.kinds && !success &&
		!explained(r) {
		out = append(out, fmt.Sprintf("the head renders and has nothing that is forbidden, and the verdict is %s: %v %+v",
			r.Verdict, r.Errors, r.Findings.Introduced))
	}
	return out
}

// explained reports whether a review fails for another reason than a planted object: it does not know what a target
// loses that the head removes, or a cluster loses everything.
func explained(r *report.Review) bool {
	return r.Changes != nil && slices.ContainsFunc(r.Changes.Withheld, func(w diff.Withheld) bool { return !w.Before }) ||
		slices.ContainsFunc(r.Findings.Introduced, func(f report.Finding) bool { return f.Rule == "cluster-emptied" })
}

// unjudged says why a review must not succeed without having judged a planted object; "" if it may.
func (p *pair) unjudged(r *report.Review, base rendering, cluster, name, text string, success bool) string {
	known, dir := !base.unreadable, path.Dir(name)
	if known {
		known = !base.failed[cluster+"/"+dir]
		if base.files[cluster] == nil { // frozen at the base: what the branch has counts
			known = false
		}
	}
	if known && base.files[cluster][name] == text {
		return ""
	}
	if p.held(cluster, name) == text {
		p.seen["recorded"]++
		return ""
	}
	switch {
	case base.unreadable:
		p.seen["planted while the base is unreadable"]++
	case !known:
		p.seen["planted where the base is unknown"]++
	default:
		p.seen["planted and judged"]++
	}
	if !success {
		return ""
	}
	for before, old := range base.files[cluster] {
		if path.Base(before) == path.Base(name) && old == text || before == name { // the same finding at the base
			if r.Findings.Existing[report.SeverityError] > 0 {
				p.seen["existing"]++
				return ""
			}
		}
	}
	return fmt.Sprintf("verdict %s although %s/%s is forbidden, base known: %t", r.Verdict, cluster, name, known)
}

// held returns a file of a cluster on the branches.
func (p *pair) held(cluster, name string) string {
	for _, environment := range []string{"dev", "prod"} {
		tip := p.branches.refs["env/"+environment]
		if tip.IsZero() {
			continue
		}
		st, err := branch.ReadState(p.t.Context(), p.store, "env/"+environment, environment, tip, signers.List{})
		p.must(err)
		tree := st.Clusters[cluster]
		if tree.IsZero() {
			continue
		}
		if data, err := p.store.Snapshot(p.t.Context(), tree).ReadFile(name); err == nil {
			return string(data)
		}
	}
	return ""
}

// memoryBranches are branches of a store in memory.
type memoryBranches struct {
	store *gitstore.Store
	refs  map[string]gitstore.Hash
}

// List implements gitstore.Branches.
func (b *memoryBranches) List(_ context.Context, prefixes ...string) (map[string]gitstore.Hash, error) {
	out := map[string]gitstore.Hash{}
	for name, tip := range b.refs {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out[name] = tip
		}
	}
	return out, nil
}

// Fetch implements gitstore.Branches.
func (b *memoryBranches) Fetch(context.Context, ...gitstore.Hash) error { return nil }

// Push implements gitstore.Branches.
func (b *memoryBranches) Push(_ context.Context, w *gitstore.Writer, moves []gitstore.Move,
	_ gitstore.PushOptions,
) ([]gitstore.MoveResult, error) {
	if err := keep(b.store, w); err != nil {
		return nil, err
	}
	out := make([]gitstore.MoveResult, len(moves))
	for i, m := range moves {
		b.refs[m.Branch] = m.New
		out[i] = gitstore.MoveResult{Move: m, State: gitstore.Updated}
	}
	return out, nil
}

// String implements gitstore.Branches.
func (b *memoryBranches) String() string { return "memory" }

// chartServer serves charts, each from a repository of its own.
type chartServer struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex
	files map[string][]byte // by path
}

func newChartServer(t *testing.T) *chartServer {
	t.Helper()
	c := &chartServer{t: t, files: map[string][]byte{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		data, ok := c.files[r.URL.Path]
		c.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data) // the client notices
	}))
	t.Cleanup(c.Close)
	return c
}

// add serves a chart, and returns its repository and the digest of its archive.
func (c *chartServer) add(chart map[string]string) (url, digest string) {
	archive := packChart(c.t, chart)
	sum := sha256.Sum256(archive)
	dir := fmt.Sprintf("/%x", sum[:8])
	_, version, _ := strings.Cut(chart["Chart.yaml"], "version: ")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[dir+"/index.yaml"] = fmt.Appendf(nil, "apiVersion: v1\nentries:\n  tiny:\n  - {apiVersion: v2, name: tiny, version: %s, urls: [tiny.tgz]}\n",
		strings.TrimSpace(version))
	c.files[dir+"/tiny.tgz"] = archive
	return c.URL + dir, fmt.Sprintf("sha256:%x", sum)
}
