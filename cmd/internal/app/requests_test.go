package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counter counts the requests that count for the forge's rate limit: GitHub does not count an answer 304.
type counter struct {
	n    atomic.Int64
	mu   sync.Mutex
	seen []string // the requests that count
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && resp.StatusCode != http.StatusNotModified {
		c.n.Add(1)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, r.Method+" "+r.URL.RequestURI())
	}
	return resp, err
}

// listed counts the listings of refs of a Git server, each of which is a round trip that a task waits for.
func (s *story) listed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			s.listings.Add(1)
		}
		next.ServeHTTP(w, r)
	})
}

// take returns the requests that counted since the last call.
func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.seen
	c.seen = nil
	return out
}

// An idle sweep of a repository with open merge requests costs at most 3 counted requests on both forges, including
// the trunk tasks that each sweep enqueues. Each of these tasks lists the refs of the repository once.
func TestRequestsOfASweep(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := &counter{}
		s.options.Transport = c
		// a merge request counts as idle a minute after its last change
		s.options.Clock = func() time.Time { return time.Now().Add(2 * time.Minute) }
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		const requests = 6
		for i := range requests {
			s.branch(fmt.Sprint("change-", i), fmt.Sprint("C", i))
			n := s.open(fmt.Sprint("change-", i), "ada")
			s.says(n, fmt.Sprint("C", i))
		}
		sweeps := func() float64 { return s.metric("sluice_task_seconds_count", `kind="sweep"`) }
		wait := func(more float64) {
			t.Helper()
			until := sweeps() + more
			s.until("there are more sweeps", func() bool { return sweeps() >= until })
		}
		wait(2)
		tasks := func() float64 { return sweeps() + s.metric("sluice_task_seconds_count", `kind="trunk"`) }
		s.drained()
		before, began, listings, worked := c.n.Load(), sweeps(), s.listings.Load(), tasks()
		wait(4)
		s.drained()
		count, done := c.n.Load()-before, sweeps()-began
		t.Logf("%d requests in %.0f sweeps over %d open merge requests", count, done, requests)
		if most := int64(3 * (done + 1)); count > most {
			t.Errorf("%d requests in %.0f sweeps, expected at most %d", count, done, most)
		}
		listed, worked := s.listings.Load()-listings, tasks()-worked
		t.Logf("%d listings for %.0f sweeps and checks of promotions", listed, worked)
		if most := int64(worked) + 2; listed > most { // a sweep and a check may begin while they are counted
			t.Errorf("%d listings for %.0f tasks, expected at most %d", listed, worked, most)
		}
	})
}

// The first review of a merge request costs at most 8 requests that count, and the review of a push to it at most
// 5, on both forges, from the webhook to the status.
func TestRequestsOfAReview(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.countReviews(8, 5)
	})
}

// A GitHub App writes a check run in place of the status, and reads the check runs of the head in place of its
// statuses. Its tokens and its user cost four requests more for the first merge request of a process.
func TestRequestsOfACheckedReview(t *testing.T) {
	s := newStory(t, "github")
	s.asApp()
	s.countReviews(8+4, 5)
}

// mostListings is how often a review with a preview may list refs: once at its beginning, together with the fetch of
// the head, and once by the push, which must compare with the present ones. Everything else reads the first listing.
const mostListings = 2

// countReviews reviews a new merge request and a push to it, and compares the requests that count with limits.
func (s *story) countReviews(first, push int) {
	s.t.Helper()
	s.config = strings.NewReplacer("sweep: 5s", "sweep: 1h", "promote: 5s", "promote: 1h").Replace(s.config)
	c := &counter{}
	s.options.Transport = c
	s.start()
	s.until("dev is hydrated, and says so", func() bool {
		rendered := s.ref("env/dev")
		return rendered != "" && s.status(s.ref("main"), "sluice/dev") == "success" &&
			s.status(rendered, "sluice/dev") == "success"
	})
	s.until("the first sweep is done", func() bool { return s.metric("sluice_task_seconds_count", `kind="sweep"`) > 0 })
	review := func(what string, most int, change func()) {
		s.t.Helper()
		s.drained()
		c.take()
		before, began := s.listings.Load(), time.Now()
		change()
		s.drained()
		// after which a review lists the merge requests again, before and after the verdict
		if time.Since(began) > 10*time.Second {
			most += 2
		}
		got, listings := c.take(), int(s.listings.Load()-before)
		s.t.Logf("%s: %d requests, %d listings of refs", what, len(got), listings)
		if listings > mostListings {
			s.t.Errorf("%s: refs were listed %d times, expected at most %d", what, listings, mostListings)
		}
		verdict := func(r string) bool {
			return strings.HasPrefix(r, http.MethodPost) && (strings.Contains(r, "status") ||
				strings.Contains(r, "check"))
		}
		if len(got) > most || !slices.ContainsFunc(got, verdict) {
			s.t.Errorf("%s: %d requests, expected at most %d and a verdict\n%s", what, len(got), most,
				strings.Join(got, "\n"))
		}
	}
	n := 0
	review("a first review", first, func() {
		s.branch("change", "C1")
		n = s.open("change", "ada")
		s.says(n, "C1")
	})
	review("a push", push, func() {
		s.set("C2")
		s.commit("sell in C2")
		s.push("change")
		s.pushed(n)
		s.says(n, "C2")
	})
}

// A commit of the trunk makes the service review the open merge requests that it concerns, and no others.
func TestTrunkCommitsAndReviews(t *testing.T) {
	s := newStory(t, "github")
	s.config = strings.ReplaceAll(s.config, "sweep: 5s", "sweep: 1h")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.branch("change", "C1") // of shop in one region
	n := s.open("change", "ada")
	s.says(n, "C1")
	s.until("the head has a status", func() bool { return s.status(s.head(n), "sluice") != "" })
	work := filepath.Join(s.dir, "work")
	reviews := func() float64 { return s.metric("sluice_task_seconds_count", `kind="review"`) }
	commit := func(file, text string) {
		t.Helper()
		s.run(work, "checkout", "-q", "-B", "trunk", "origin/main")
		file = filepath.Join(work, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		old, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(old, text...), 0o600); err != nil {
			t.Fatal(err)
		}
		s.commit("trunk")
		s.push("main")
		s.run(work, "fetch", "-q", "origin")
		s.until("the trunk is hydrated", func() bool { return s.status(s.ref("main"), "sluice/dev") == "success" })
		s.tasks("trunk", 2)
	}
	for _, c := range []struct {
		file, text string
		concerns   bool
	}{
		{"README.md", "nothing\n", false},
		{"kustomize/monitor/base/collector.conf", "# another app\n", false},
		{"apps/shop/layers/cluster/prod-eu-1/values.yaml", "# another cluster\n", false},
		{"apps/shop/layers/global/values.yaml", "# a shared layer\n", true},
		{"README.md", "nothing again\n", false},
		{"policy/rules.rego", "package main\n", true},
	} {
		s.drained() // a review that ended is counted a moment after its status is set
		before := reviews()
		commit(c.file, c.text)
		if c.concerns {
			s.until("the merge request is reviewed after "+c.file, func() bool { return reviews() > before })
		}
		if got := reviews() > before; got != c.concerns {
			t.Errorf("a commit that changes %s: reviewed again: %t", c.file, got)
		}
	}
}
