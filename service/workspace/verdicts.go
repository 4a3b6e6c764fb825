package workspace

import (
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/rollout"
)

// Verdicts caches the policy's verdict on a source commit in an environment, and the authors of a commit, because the
// promotion loop reads both in each pass. It is safe for concurrent use.
type Verdicts struct {
	cache *lru.Cache[*verdict]
}

// verdict is one cached answer.
type verdict struct {
	at      time.Time
	since   time.Time // when the first of authors was known
	authors []string  // logins
	state   rollout.State
	reason  string
}

// authorsOf returns the authors that are cached under a key, or asks for them. Authors that were known stay, also if the forge cannot be asked
// again.
func (c *Verdicts) authorsOf(key string, now time.Time, ask func() ([]string, error)) ([]string, error) {
	v, known := c.cache.Get(key)
	if known && !v.outdated(now) {
		return v.authors, nil
	}
	names, err := ask()
	if err != nil && known && len(v.authors) > 0 {
		return v.authors, nil
	}
	if err != nil {
		return nil, err
	}
	next := &verdict{at: now, since: now}
	if known && len(v.authors) > 0 {
		next.since = v.since
		names = append(names, v.authors...)
	}
	slices.Sort(names)
	next.authors = slices.Compact(names)
	c.cache.Add(key, next)
	return next.authors, nil
}

// outdated reports whether the authors must be asked for again: after a minute, and then after as long as they are known, up to an hour. The
// forge may list the merge request of the true author last, who could approve their own change until then.
func (v *verdict) outdated(now time.Time) bool {
	return now.Sub(v.at) >= min(max(v.at.Sub(v.since), noAuthorsFor), authorsFor)
}

const (
	maxVerdicts = 2000
	verdictLife = 10 * time.Minute // policy exemptions expire
)

// NewVerdicts returns an empty cache.
func NewVerdicts() *Verdicts {
	cache := lru.New[*verdict](maxVerdicts)
	return &Verdicts{cache}
}
