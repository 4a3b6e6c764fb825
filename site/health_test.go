package site_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/site"
)

// poster has the statuses of commits. It counts the requests.
type poster struct {
	mu     sync.Mutex
	posted map[string][]promote.Status
	err    error
	asked  int
}

func (p *poster) Statuses(_ context.Context, commit string) ([]promote.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return p.posted[commit], p.err
}

// TestHealth: pages show the health of clusters and apps as the health gate judges it, and whether anything in a cluster posts statuses.
// What is not known is not healthy. Statuses that do not change cost no request.
func TestHealth(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.repo.Write("sluice.yaml", strings.Replace(d.repo.Read("sluice.yaml"), "mode: manual\n", "mode: manual\n        health: {commitStatuses: [\"kustomization/${app}/*\"]}\n", 1))
	d.repo.Commit("Gate prod by health")
	d.read(t) // opens the repository
	from := &poster{posted: map[string][]promote.Status{}}
	now := d.tip.Committer.When.Add(time.Hour)
	var earlier *site.Fleet
	read := func() (*site.Fleet, map[string]*site.Cluster) {
		t.Helper()
		f, err := site.Read(t.Context(), d.h, site.Request{Trunk: d.tip, Now: now, Version: "test", Key: []byte("key"), Reader: from, Earlier: earlier})
		if err != nil {
			t.Fatal(err)
		}
		earlier = f
		out := map[string]*site.Cluster{}
		for _, c := range f.Clusters {
			out[c.Name] = c
		}
		return f, out
	}
	_, clusters := read()
	if from.asked != 5 || clusters["dev-1"].Health != nil || clusters["staging-1"].Health == nil {
		t.Errorf("%d requests for the tips of prod and staging, whose statuses prod waits for", from.asked)
	}
	post := func(cluster string, state string, apps ...string) {
		list := []promote.Status{}
		for _, app := range apps {
			list = append(list, promote.Status{Name: "kustomization/" + app + "/1", State: state})
		}
		tip := clusters[cluster].Tip.Hash.String()
		from.posted[tip] = append(from.posted[tip], list...)
	}
	names := func(cluster string) (out []string) {
		for _, p := range clusters[cluster].Apps {
			out = append(out, p.App.Name)
		}
		return out
	}
	post("prod-eu-1", "success", names("prod-eu-1")...)
	post("prod-us-1", "success", names("prod-us-1")[1:]...)
	post("prod-us-1", "failure", names("prod-us-1")[0])
	post("staging-1", "pending", names("staging-1")...)
	if _, same := read(); from.asked != 5 || same["prod-us-1"].Health.State != promote.Unknown {
		t.Errorf("the same minute: %d requests", from.asked)
	}
	now = now.Add(2 * time.Minute)
	f, clusters := read()
	if from.asked != 10 {
		t.Errorf("two minutes later: %d requests", from.asked)
	}
	for name, want := range map[string]promote.State{"prod-eu-1": promote.Green, "prod-us-1": promote.Red, "staging-1": promote.Waiting, "prod-edge-1": promote.Unknown} {
		if got := clusters[name].Health.State; got != want {
			t.Errorf("%s is %s, expected %s", name, got, want)
		}
	}
	healthPages(t, f, names("prod-us-1"))
	now = now.Add(2 * time.Minute)
	from.err = errors.New("502 Bad Gateway")
	f, clusters = read()
	if clusters["prod-us-1"].Health.State != promote.Red || clusters["prod-eu-1"].Health.State != promote.Green || !strings.Contains(strings.Join(f.Problems, " "), "502 Bad Gateway") {
		t.Errorf("after an error of the forge: %v", f.Problems)
	}
	earlier = nil
	if _, clusters = read(); clusters["prod-eu-1"].Health.State != promote.Unknown || clusters["prod-eu-1"].Health.Synced() {
		t.Error("a cluster whose statuses cannot be read is healthy")
	}
}

// TestHealthHasALimit: looks ask for the statuses of so many commits in a minute, however often the branches move, and later for others.
func TestHealthHasALimit(t *testing.T) {
	t.Parallel()
	r := generated(t, 70, 1)
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "after: [dev]}", "after: [dev], promotion: {health: {commitStatuses: [\"x\"]}}}", 1))
	r.Commit("Gate prod by health")
	h := r.Hydrator(1)
	trunk, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	from := &poster{}
	var earlier *site.Fleet
	now := time.Unix(1_800_000_000, 0)
	for i, want := range []int{30, 30, 60, 90, 90} {
		if i > 1 {
			now = now.Add(time.Minute)
		}
		if i == 4 {
			now = now.Add(-time.Minute)
		}
		if earlier, err = site.Read(t.Context(), h, site.Request{Trunk: trunk, Now: now, Version: "test", Key: []byte("k"), Reader: from, Earlier: earlier}); err != nil {
			t.Fatal(err)
		}
		unread := 0
		for _, c := range earlier.Clusters {
			if c.Health.Read.IsZero() {
				unread++
			}
			if c.Health.State != promote.Unknown {
				t.Errorf("%s is %s", c.Name, c.Health.State)
			}
		}
		if from.asked != want || unread != max(0, 70-want) {
			t.Errorf("look %d: %d requests, %d clusters without an answer", i, from.asked, unread)
		}
	}
}

// healthPages holds the pages to a fleet in which the first of the apps of prod-us-1 failed.
func healthPages(t *testing.T, f *site.Fleet, apps []string) {
	t.Helper()
	bad := apps[0]
	all := pagesOf(t, f)
	for page, wants := range map[string][]string{
		"index.html":                {"1 unhealthy 1 of unknown health", "prod-us-1 prod unhealthy: kustomization/" + bad + "/1 is failure", "1 in progress"},
		"clusters.html":             {"prod-eu-1 prod core 4", "active healthy", "active unhealthy", "active unknown"},
		"clusters/prod-us-1.html":   {"Health unhealthy kustomization/" + bad + "/1 is failure", fmt.Sprintf("Sync %d statuses of this commit", len(apps)), "up to date unhealthy", "up to date healthy"},
		"clusters/prod-eu-1.html":   {"Health healthy", "up to date healthy"},
		"clusters/prod-edge-1.html": {"Health unknown no status", "nothing has posted a status of this commit", "sluice bootstrap flux --cluster prod-edge-1"},
		"apps/" + bad + ".html":     {"1 unhealthy"},
	} {
		for _, want := range wants {
			if got := text(all[page]); !strings.Contains(got, want) {
				t.Errorf("%s lacks %q in %s", page, want, got)
			}
		}
	}
	if got := text(all["clusters/dev-1.html"]); strings.Contains(got, "Health") || strings.Contains(got, "unknown") {
		t.Errorf("dev, whose health nothing asks for: %s", got)
	}
}
