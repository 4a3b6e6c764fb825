package site_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site"
)

// bulkPoster answers requests for many commits, and counts them.
type bulkPoster struct {
	mu       sync.Mutex
	sizes    []int // of the requests for many
	alone    int
	lacks    map[string]bool // commits that requests for many do not return
	answered map[string]bool
	err      error // of requests for many
	stretch  int
	most     int // 0 is 100
}

func (p *bulkPoster) Statuses(_ context.Context, commit string) ([]rollout.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alone++
	p.answered[commit] = true
	return []rollout.Status{{Name: "x", State: "success"}}, nil
}

func (p *bulkPoster) MostBulk() int { return cmp.Or(p.most, 100) }

func (p *bulkPoster) Stretch(bool) int { return max(p.stretch, 1) }

func (p *bulkPoster) Bulk(_ context.Context, commits []string) (map[string][]rollout.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = append(p.sizes, len(commits))
	if p.err != nil {
		return nil, p.err
	}
	out := map[string][]rollout.Status{}
	for _, c := range commits {
		if !p.lacks[c] {
			out[c], p.answered[c] = []rollout.Status{{Name: "x", State: "success"}}, true
		}
	}
	return out, nil
}

// requests returns the numbers of requests since the last call.
func (p *bulkPoster) requests() (bulk, alone int) {
	bulk, alone = len(p.sizes), p.alone
	p.sizes, p.alone = nil, 0
	return bulk, alone
}

// gatedFleet is a generated fleet whose clusters have health gates.
func gatedFleet(t *testing.T, clusters int) (*hydrate.Hydrator, gitstore.Commit) {
	t.Helper()
	r := generated(t, clusters, 1)
	r.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: large}\nspec:\n  layers: [region, cluster]\n  environments: [{name: dev}, {name: prod, after: [dev], promotion: {health: {commitStatuses: [\"x\"]}}}]\n")
	r.Commit("Gate by health")
	h := r.Hydrator(2)
	trunk, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return h, trunk
}

// TestHealthOfManyClusters: where one request reads the statuses of a hundred commits, a cycle over 5,000 clusters
// takes 50 requests and five minutes, with at most ten requests in a minute.
func TestHealthOfManyClusters(t *testing.T) {
	t.Parallel()
	clusters := 5000
	if testing.Short() {
		clusters = 200
	}
	h, trunk := gatedFleet(t, clusters)
	from, cache := &bulkPoster{answered: map[string]bool{}}, site.NewStatuses(site.StatusReads, site.BulkReads)
	now, minutes, total := time.Unix(1_800_000_000, 0), 0, 0
	for len(from.answered) < clusters {
		minutes++
		for range 3 { // looks in the same minute
			if err := cache.Refresh(t.Context(), h, trunk.Tree, from, now); err != nil {
				t.Fatal(err)
			}
		}
		bulk, alone := from.requests()
		if bulk > 10 || bulk == 0 || alone > 0 {
			t.Fatalf("minute %d: %d requests for many commits, %d for one", minutes, bulk, alone)
		}
		total += bulk
		now = now.Add(time.Minute)
	}
	wantMinutes := (clusters + site.BulkReads - 1) / site.BulkReads
	if want := clusters / 100; total != want || minutes != wantMinutes {
		t.Errorf("%d requests in %d minutes, want %d in %d", total, minutes, want, wantMinutes)
	}
}

// bulkLooks looks at a fleet of 250 clusters, a minute later each time.
type bulkLooks struct {
	t     *testing.T
	from  *bulkPoster
	cache *site.Statuses
	look  func() (sizes string, alone int, err error)
	now   time.Time
}

const bulkClusters = 250

func newBulkLooks(t *testing.T) *bulkLooks {
	t.Helper()
	h, trunk := gatedFleet(t, bulkClusters)
	b := &bulkLooks{
		t: t, from: &bulkPoster{answered: map[string]bool{}},
		cache: site.NewStatuses(site.StatusReads, site.BulkReads), now: time.Unix(1_800_000_000, 0),
	}
	b.look = func() (string, int, error) {
		b.now = b.now.Add(time.Minute)
		err := b.cache.Refresh(t.Context(), h, trunk.Tree, b.from, b.now)
		slices.Sort(b.from.sizes)
		sizes := fmt.Sprint(b.from.sizes)
		_, alone := b.from.requests()
		return sizes, alone, err
	}
	return b
}

// want looks, and compares the sizes of the requests for many commits, the number of requests for one, and the number
// of commits above the limit.
func (b *bulkLooks) want(what, sizes string, alone, over int) {
	b.t.Helper()
	gotSizes, gotAlone, err := b.look()
	if err != nil || gotSizes != sizes || gotAlone != alone || b.cache.Over() != over {
		b.t.Errorf("%s: requests for %s commits, %d for one, %d above the limit, %v; want %s, %d, %d", what, gotSizes,
			gotAlone, b.cache.Over(), err, sizes, alone, over)
	}
}

// TestHealthByLimits: commits that a request for many lacks are read alone, within the limit of such requests. If the
// forge refuses it, every commit is read alone, and the request is tried again later. A rate limit that runs low
// stretches both.
func TestHealthByLimits(t *testing.T) {
	t.Parallel()
	b := newBulkLooks(t)
	b.want("at first", "[50 100 100]", 0, 0)
	b.from.lacks = b.from.answered
	b.from.answered = map[string]bool{}
	b.want("commits that the answers lack", "[50 100 100]", site.StatusReads, bulkClusters-site.StatusReads)
	b.want("the same a minute later", "[]", site.StatusReads, bulkClusters-site.StatusReads)
	b.now = b.now.Add(time.Hour)
	b.from.lacks, b.from.stretch = nil, 16
	b.want("a rate limit that runs low", "[62]", 0, bulkClusters-62)
	b.from.stretch, b.from.err = 1, errors.ErrUnsupported
	if _, alone, err := b.look(); err != nil || alone != site.StatusReads ||
		b.cache.Over() != bulkClusters-site.StatusReads {
		t.Errorf("refused: %d alone, %v", alone, err)
	}
	b.want("after a refusal", "[]", site.StatusReads, bulkClusters-site.StatusReads)
	b.from.err = nil
	b.now = b.now.Add(10 * time.Minute)
	b.want("long after a refusal", "[50 100 100]", 0, 0)
}

// TestSmallBulk: where a request returns few commits, the number of requests in a minute has a limit too.
func TestSmallBulk(t *testing.T) {
	t.Parallel()
	b := newBulkLooks(t)
	b.from.most = 5
	b.want("requests for five commits", "["+strings.TrimSpace(strings.Repeat("5 ", 40))+"]", 0, bulkClusters-200)
}

// TestSlowBulk: a request for many commits that fails is followed by smaller ones.
func TestSlowBulk(t *testing.T) {
	t.Parallel()
	b := newBulkLooks(t)
	b.from.err = errors.New("502")
	if sizes, alone, err := b.look(); err == nil || alone != 0 || sizes != "[100]" && sizes != "[100 100]" {
		t.Errorf("a request that fails: %s, %d alone, %v", sizes, alone, err)
	}
	b.from.err = nil
	if sizes, _, err := b.look(); err != nil || sizes == "[50 100 100]" || len(b.from.answered) != bulkClusters {
		t.Errorf("after a request that failed: %s, %d known, %v", sizes, len(b.from.answered), err)
	}
	b.want("after requests that succeeded", "[50 100 100]", 0, 0)
}

// TestBulkFailsForLong: if the requests for many commits fail again and again, each commit is read alone for a time.
func TestBulkFailsForLong(t *testing.T) {
	t.Parallel()
	b := newBulkLooks(t)
	b.from.err = &promote.UnavailableError{Err: errors.New("502")}
	looks := 0
	for ; looks < 6; looks++ {
		_, alone, err := b.look()
		if alone > 0 && err == nil {
			break
		}
	}
	if looks < 2 || looks > 5 {
		t.Fatalf("single commits are read after %d failures", looks)
	}
	b.want("the same for long", "[]", site.StatusReads, bulkClusters-site.StatusReads)
	b.from.err = nil
	b.now = b.now.Add(10 * time.Minute)
	b.want("later", "[10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10]", 0, 0)
}

// TestLackedTakesNoPlace: commits that a request for many does not return keep no others from it.
func TestLackedTakesNoPlace(t *testing.T) {
	t.Parallel()
	b := newBulkLooks(t)
	b.want("to know the commits", "[50 100 100]", 0, 0)
	b.from.lacks = map[string]bool{}
	for _, c := range slices.Sorted(maps.Keys(b.from.answered))[:150] {
		b.from.lacks[c] = true
	}
	b.cache = site.NewStatuses(5, 100)
	for range 4 {
		b.from.answered = map[string]bool{}
		if _, _, err := b.look(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.from.answered); n < 100 {
		t.Errorf("the fourth look reads %d commits of 100 that requests for many return", n)
	}
}
