package review

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Cache holds results of reviews for a time, the most recently used ones. It is safe for concurrent use.
type Cache struct {
	results *lru.Cache[cacheKey, cached]
	life    time.Duration
}

// cacheKey is the digest of a request's JSON form, which names everything that the result depends on.
type cacheKey [sha256.Size]byte

type cached struct {
	at     time.Time
	result *Result
}

const (
	maxCached  = 2000
	cachedLife = 10 * time.Minute // exemptions from the policy expire
)

// NewCache returns an empty cache.
func NewCache() *Cache {
	results, err := lru.New[cacheKey, cached](maxCached)
	if err != nil {
		panic(err) // only a size below 1 is an error
	}
	return &Cache{results, cachedLife}
}

// Cached returns a Reviewer that answers a request from the cache if the cache has its result. Errors are not cached. A
// request against environment branches must name their tip in Base; see compare.Request. Callers must not change
// results.
func Cached(r Reviewer, c *Cache, clock func() time.Time) Reviewer {
	return cachedReviewer{r, c, clock}
}

type cachedReviewer struct {
	Reviewer
	cache *Cache
	clock func() time.Time
}

// Review implements Reviewer.
func (c cachedReviewer) Review(ctx context.Context, r Request) (*Result, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	key, now := cacheKey(sha256.Sum256(text)), c.clock()
	if have, ok := c.cache.results.Get(key); ok && now.Sub(have.at) < c.cache.life {
		return have.result, nil
	}
	result, err := c.Reviewer.Review(ctx, r)
	if err == nil {
		c.cache.results.Add(key, cached{now, result})
	}
	return result, err
}
