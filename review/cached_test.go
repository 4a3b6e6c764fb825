package review

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
)

// counting counts the reviews.
type counting struct {
	reviews int
	err     error
}

func (c *counting) Review(context.Context, Request) (*Result, error) {
	c.reviews++
	return &Result{}, c.err
}

// A result is cached for a time, for equal requests only. An error is not cached.
func TestCached(t *testing.T) {
	t.Parallel()
	now, inner := time.Unix(1_800_000_000, 0), &counting{}
	r := Cached(inner, NewCache(), func() time.Time { return now })
	request := func(base byte) Request {
		return Request{Request: compare.Request{
			Base: gitstore.Commit{Hash: gitstore.Hash{base}},
			Apps: []string{"web"},
		}}
	}
	judged := request(1)
	judged.Policy = gitstore.Hash{1}
	for _, step := range []struct {
		name    string
		request Request
		pass    time.Duration
		err     error
		reviews int
	}{
		{"the first request", request(1), 0, nil, 1},
		{"the same again", request(1), cachedLife - 1, nil, 1},
		{"another base", request(2), 0, nil, 2},
		{"another policy", judged, 0, nil, 3},
		{"the first when its time is over", request(1), 1, nil, 4},
		{"an error", request(3), 0, errors.New("no review"), 5},
		{"the same after an error", request(3), 0, nil, 6},
	} {
		now, inner.err = now.Add(step.pass), step.err
		if _, err := r.Review(t.Context(), step.request); !errors.Is(err, step.err) || inner.reviews != step.reviews {
			t.Errorf("%s: %d reviews, want %d; error %v, want %v", step.name, inner.reviews, step.reviews, err,
				step.err)
		}
	}
}

// A result in use stays cached; those of old requests are evicted.
func TestCacheEvictsOldest(t *testing.T) {
	t.Parallel()
	now, inner := time.Unix(1_800_000_000, 0), &counting{}
	r := Cached(inner, NewCache(), func() time.Time { return now })
	ask := func(n int) {
		t.Helper()
		if _, err := r.Review(t.Context(),
			Request{Request: compare.Request{Base: gitstore.Commit{Hash: gitstore.Hash{
				byte(n), byte(n >> 8),
				byte(n >> 16),
			}}}}); err != nil {
			t.Fatal(err)
		}
	}
	const inUse = 1 << 20
	ask(inUse)
	for i := range 2 * maxCached {
		ask(i)
		ask(inUse)
	}
	if inner.reviews != 2*maxCached+1 {
		t.Errorf("%d reviews, want %d: a result in use was evicted", inner.reviews, 2*maxCached+1)
	}
	ask(0)
	if inner.reviews != 2*maxCached+2 {
		t.Errorf("the result of the oldest request is still cached after %d others", 2*maxCached)
	}
}
