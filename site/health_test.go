package site_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site"
)

// poster has the statuses of commits. It counts the requests. failing commits cannot be read, among them the first
// failFirst ones; with down, none can.
type poster struct {
	failFirst int

	mu      sync.Mutex
	posted  map[string][]rollout.Status
	failing map[string]bool
	down    bool
	asked   int
}

func (p *poster) Statuses(_ context.Context, commit string) ([]rollout.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.asked <= p.failFirst {
		p.failing[commit] = true
	}
	switch {
	case p.down:
		return nil, &promote.UnavailableError{Err: errors.New("rate limit")}
	case p.failing[commit]:
		return nil, errors.New("502 Bad Gateway")
	}
	return p.posted[commit], nil
}

// watch looks at the health of a fleet again and again, as the pages do.
type watch struct {
	t      *testing.T
	h      *hydrate.Hydrator
	trunk  gitstore.Commit
	from   *poster
	cache  *site.Statuses
	now    time.Time
	failed error // of the last look at the forge
}

func newWatch(t *testing.T, h *hydrate.Hydrator, trunk gitstore.Commit) *watch {
	t.Helper()
	return &watch{
		t: t, h: h, trunk: trunk, from: &poster{posted: map[string][]rollout.Status{}, failing: map[string]bool{}},
		cache: site.NewStatuses(site.StatusReads, site.BulkReads),
		now:   trunk.Committer.When.Add(time.Hour),
	}
}

func (w *watch) look() (*site.Fleet, map[string]*site.Cluster) {
	w.t.Helper()
	w.failed = w.cache.Refresh(w.t.Context(), w.h, w.trunk.Tree, w.from, w.now)
	f, err := site.Read(w.t.Context(), w.h, site.Request{
		Trunk: w.trunk, Now: w.now, Version: "test",
		Key: []byte("key"), Posted: w.cache,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]*site.Cluster{}
	for _, c := range f.Clusters {
		out[c.Name] = c
	}
	return f, out
}

func (w *watch) post(c *site.Cluster, state string, names ...string) {
	tip := c.Tip.Hash.String()
	for _, name := range names {
		w.from.posted[tip] = append(w.from.posted[tip], rollout.Status{Name: name, State: state})
	}
}

// gated is the demo with a health gate of prod, which also judges staging.
func gated(t *testing.T, prod string) *watch {
	t.Helper()
	d := newDemo(t)
	d.repo.Write("sluice.yaml", strings.Replace(d.repo.Read("sluice.yaml"), "mode: manual\n",
		"mode: manual\n        health: {commitStatuses: ["+prod+"]}\n", 1))
	d.repo.Commit("Gate prod by health")
	d.read(t) // opens the repository
	return newWatch(t, d.h, d.tip)
}

func kustomizations(c *site.Cluster) (out []string) {
	for _, p := range c.Apps {
		out = append(out, "kustomization/"+p.App.Name+"/1")
	}
	return out
}

// TestHealth: pages show the health of clusters and apps as the health gate judges it, and whether anything in a
// cluster posts statuses. Unknown is not healthy. The service reads statuses of a healthy cluster again only after some
// minutes.
func TestHealth(t *testing.T) {
	t.Parallel()
	w := gated(t, `"kustomization/${app}/*"`)
	_, clusters := w.look()
	if w.from.asked != 5 || clusters["dev-1"].Health != nil || clusters["staging-1"].Health == nil {
		t.Errorf("%d requests for the tips of prod and staging, whose statuses prod waits for", w.from.asked)
	}
	us := kustomizations(clusters["prod-us-1"])
	w.post(clusters["prod-eu-1"], "success", kustomizations(clusters["prod-eu-1"])...)
	w.post(clusters["prod-us-1"], "success", us[1:]...)
	w.post(clusters["prod-us-1"], "failure", us[0])
	w.post(clusters["staging-1"], "pending", kustomizations(clusters["staging-1"])...)
	w.post(clusters["prod-edge-1"], "success", "ci/of-somebody-else")
	if _, same := w.look(); w.from.asked != 5 || same["prod-us-1"].Health.State != rollout.Unknown {
		t.Errorf("the same minute: %d requests", w.from.asked)
	}
	w.now = w.now.Add(2 * time.Minute)
	f, clusters := w.look()
	if w.from.asked != 10 {
		t.Errorf("two minutes later: %d requests", w.from.asked)
	}
	for name, want := range map[string]rollout.State{
		"prod-eu-1": rollout.Green, "prod-us-1": rollout.Red,
		"staging-1": rollout.Waiting, "prod-edge-1": rollout.Unknown,
	} {
		if got := clusters[name].Health.State; got != want {
			t.Errorf("%s is %s, expected %s", name, got, want)
		}
	}
	if clusters["prod-edge-1"].Health.Synced() {
		t.Error("a status that no gate names counts as a sign of the cluster")
	}
	healthPages(t, f, clusters["prod-us-1"].Apps[0].App.Name)
	w.now = w.now.Add(2 * time.Minute)
	if w.look(); w.from.asked != 14 {
		t.Errorf("%d requests: only the healthy cluster needs none", w.from.asked-10)
	}
}

// TestHealthBecomesUnknown: statuses that the service can no longer read are unknown, however green they were.
func TestHealthBecomesUnknown(t *testing.T) {
	t.Parallel()
	w := gated(t, `"kustomization/${app}/*"`)
	_, clusters := w.look()
	green := clusters["prod-eu-1"]
	w.post(green, "success", kustomizations(green)...)
	w.now = w.now.Add(2 * time.Minute)
	w.look()
	w.from.down = true
	w.now = w.now.Add(9 * time.Minute)
	if _, clusters = w.look(); w.failed == nil || clusters["prod-eu-1"].Health.State != rollout.Green {
		t.Errorf("nine minutes later: %v, %+v", w.failed, clusters["prod-eu-1"].Health)
	}
	asked := w.from.asked
	w.now = w.now.Add(2 * time.Minute)
	if _, clusters = w.look(); w.from.asked-asked > 5 || clusters["prod-us-1"].Health.State != rollout.Unknown {
		t.Errorf("%d requests to a forge that is not available; %+v", w.from.asked-asked, clusters["prod-us-1"].Health)
	}
	w.now = w.now.Add(20 * time.Minute)
	f, clusters := w.look()
	health := clusters["prod-eu-1"].Health
	if health.State != rollout.Unknown || !strings.HasPrefix(health.Reason, "its statuses were last read at 2") ||
		clusters["prod-eu-1"].Dot() == "unhealthy" {
		t.Errorf("after half an hour: %+v", health)
	}
	if got := text(pagesOf(t, f)["clusters/prod-eu-1.html"]); !strings.Contains(got,
		"Health unknown its statuses were last read at") {
		t.Error(got)
	}
	w.from.down = false
	w.now = w.now.Add(2 * time.Minute)
	if _, clusters = w.look(); clusters["prod-eu-1"].Health.State != rollout.Green {
		t.Errorf("the forge answers again: %+v", clusters["prod-eu-1"].Health)
	}
	w.from.failing[green.Tip.Hash.String()] = true
	w.now = w.now.Add(11 * time.Minute)
	if _, clusters = w.look(); clusters["prod-eu-1"].Health.State != rollout.Unknown ||
		clusters["prod-us-1"].Health.Reason == clusters["prod-eu-1"].Health.Reason {
		t.Errorf("after an error: %+v", clusters["prod-eu-1"].Health)
	}
}

// TestNotRead: a cluster whose statuses are never read says why.
func TestNotRead(t *testing.T) {
	t.Parallel()
	w := gated(t, `"kustomization/${app}/*"`)
	w.cache = site.NewStatuses(2, 2)
	f, _ := w.look()
	const later = "its statuses have not been read yet"
	if notRead(f, later) != 3 || w.cache.Over() != 3 {
		t.Errorf("%d clusters are read later, %d are over the limit", notRead(f, later), w.cache.Over())
	}
	const never = "its statuses were not read: --statuses is 2"
	w.cache.NotRead(never)
	w.from.down = true
	if f, _ = w.look(); notRead(f, later) != 0 || notRead(f, never) != 3 {
		t.Errorf("%d clusters say that they are read later, %d that they are not", notRead(f, later), notRead(f, never))
	}
}

func notRead(f *site.Fleet, why string) (n int) {
	for _, c := range f.Clusters {
		if c.Health != nil && c.Health.Reason == why {
			n++
		}
	}
	return n
}

// TestHealthByAllGates: a cluster is as healthy as the worst of the gates that judge it.
func TestHealthByAllGates(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	text := d.repo.Read("sluice.yaml")
	text = strings.Replace(text, "mode: manual\n", "mode: manual\n        health: {commitStatuses: [\"smoke\"]}\n", 1)
	text = strings.Replace(text, "{mode: auto, ", "{mode: auto, health: {commitStatuses: [\"sync\"]}, ", 1)
	d.repo.Write("sluice.yaml", text)
	d.repo.Commit("Gate staging and prod by health")
	d.read(t)
	w := newWatch(t, d.h, d.tip)
	_, clusters := w.look()
	w.post(clusters["staging-1"], "success", "sync")
	w.now = w.now.Add(2 * time.Minute)
	if _, clusters = w.look(); clusters["staging-1"].Health.State != rollout.Unknown {
		t.Errorf("without the status that prod waits for: %+v", clusters["staging-1"].Health)
	}
	asked := w.from.asked
	w.post(clusters["staging-1"], "failure", "smoke")
	w.now = w.now.Add(2 * time.Minute)
	_, clusters = w.look()
	if h := clusters["staging-1"].Health; w.from.asked == asked || h.State != rollout.Red ||
		h.Reason != "health gate of prod: smoke is failure" {
		t.Errorf("the health is %+v", h)
	}
	c := clusters["staging-1"]
	c.Trouble, c.Planned = "its wave has not started", true
	if c.Dot() != "unhealthy" ||
		c.Look() != "unhealthy: health gate of prod: smoke is failure; its wave has not started" {
		t.Errorf("%s: Look is %s", c.Dot(), c.Look())
	}
	if c.Planned = false; c.Dot() != "odd" || !strings.HasSuffix(c.Look(),
		"; unhealthy: health gate of prod: smoke is failure") {
		t.Errorf("%s: Look is %s", c.Dot(), c.Look())
	}
	if h := clusters["dev-1"].Health; h == nil || h.State != rollout.Unknown {
		t.Errorf("staging's gate judges dev: %+v", h)
	}
}

// TestHealthHasALimit: looks read the statuses of a limited number of commits in a minute, later those of others. A
// commit that cannot be read delays no other, and the gates of promotions read the same cache, without requests.
func TestHealthHasALimit(t *testing.T) {
	t.Parallel()
	r := generated(t, 70, 1)
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "after: [dev]}",
		"after: [dev], promotion: {health: {commitStatuses: [\"x\"]}}}", 1))
	r.Commit("Gate prod by health")
	h := r.Hydrator(1)
	trunk, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(t, h, trunk)
	w.now = time.Unix(1_800_000_000, 0)
	w.from.failFirst = 30
	var f *site.Fleet
	for i, want := range []struct{ asked, unread int }{{30, 70}, {30, 70}, {60, 40}, {90, 30}, {90, 30}} {
		if i > 1 {
			w.now = w.now.Add(time.Minute)
		}
		if i == 4 {
			w.now = w.now.Add(-time.Minute)
		}
		f, _ = w.look()
		unread := 0
		for _, c := range f.Clusters {
			if c.Health.Read.IsZero() {
				unread++
			}
			if c.Health.State != rollout.Unknown {
				t.Errorf("%s is %s", c.Name, c.Health.State)
			}
		}
		if w.from.asked != want.asked || unread != want.unread {
			t.Errorf("look %d: %d requests, %d clusters without an answer", i, w.from.asked, unread)
		}
	}
	cached := w.cache.Reader(w.now)
	for _, c := range f.Clusters {
		_, err := cached.Statuses(t.Context(), c.Tip.Hash.String())
		if _, unread := errors.AsType[promote.NotReadError](err); unread != w.from.failing[c.Tip.Hash.String()] {
			t.Errorf("%s: the error is %v", c.Name, err)
		}
	}
	if _, err := promote.Look(t.Context(), h, promote.Request{
		Trunk: trunk, Now: w.now, DryRun: true,
		Adapters: promote.Adapters{Statuses: cached},
	}); err != nil {
		t.Error(err)
	}
	if w.from.asked != 90 {
		t.Errorf("%d requests", w.from.asked)
	}
}

// healthPages holds the pages to a fleet in which an app of prod-us-1 failed.
func healthPages(t *testing.T, f *site.Fleet, bad string) {
	t.Helper()
	all := pagesOf(t, f)
	for page, wants := range map[string][]string{
		"index.html": {"1 unhealthy 1 of unknown health", "prod-us-1 prod unhealthy: kustomization/" +
			bad + "/1 is failure", "1 in progress"},
		"clusters.html": {
			"prod-eu-1 prod core 4", "up to date healthy", "up to date unhealthy",
			"up to date unknown",
		},
		"clusters/prod-us-1.html": {
			"Health unhealthy kustomization/" + bad + "/1 is failure",
			"Sync 4 statuses of this commit for the health gate", "up to date unhealthy", "up to date healthy",
		},
		"clusters/prod-eu-1.html": {"Health healthy", "up to date healthy"},
		"clusters/prod-edge-1.html": {
			"Health unknown no status", "no status of this commit",
			"matches the health gate, read", "sluice bootstrap flux --cluster prod-edge-1",
		},
		"apps/" + bad + ".html": {"1 unhealthy"},
	} {
		for _, want := range wants {
			if got := text(all[page]); !strings.Contains(got, want) {
				t.Errorf("%s lacks %q in %s", page, want, got)
			}
		}
	}
	if got := hasDot(all["index.html"], "clusters/prod-us-1.html"); got != "pip p-unhealthy" {
		t.Errorf("the dot of an unhealthy cluster is %q", got)
	}
	if got := text(all["clusters/dev-1.html"]); strings.Contains(got, "Health") || strings.Contains(got, "unknown") {
		t.Errorf("dev, whose health nothing asks for: %s", got)
	}
}

// hasDot returns the classes of the dot that links to a page.
func hasDot(doc *html.Node, page string) string {
	for n := range doc.Descendants() {
		class := attr(n, "class")
		if n.Type == html.ElementNode && n.Data == "a" && strings.HasPrefix(class, "pip ") && attr(n, "href") == page {
			return class
		}
	}
	return ""
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}
