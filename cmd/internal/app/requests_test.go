package app_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// counter counts the requests that count for the forge's rate limit: GitHub does not count an answer 304.
type counter struct{ n atomic.Int64 }

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && resp.StatusCode != http.StatusNotModified {
		c.n.Add(1)
	}
	return resp, err
}

// An idle sweep of a repository with open merge requests costs at most 3 counted requests on both forges, including
// the trunk tasks that each sweep enqueues.
func TestRequestsOfASweep(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		c := &counter{}
		s.options.Transport = c
		s.options.Clock = func() time.Time { return time.Now().Add(2 * time.Minute) } // a merge request counts as idle a minute after its last change
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
		before, began := c.n.Load(), sweeps()
		wait(4)
		count, done := c.n.Load()-before, sweeps()-began
		t.Logf("%d requests in %.0f sweeps over %d open merge requests", count, done, requests)
		if most := int64(3 * (done + 1)); count > most {
			t.Errorf("%d requests in %.0f sweeps, expected at most %d", count, done, most)
		}
	})
}
