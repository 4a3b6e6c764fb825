package forge

import (
	"context"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	accessFor   = 10 * time.Minute
	maxAccesses = 10_000
)

// AccessCache remembers what users may do in repositories for ten minutes. Use it to decide what to review;
// never to decide whether a person may give a command, which needs the right at the moment of execution. It
// is safe for concurrent use.
type AccessCache struct {
	people People
	clock  func() time.Time

	mu    sync.Mutex
	cache *lru.Cache[accessKey, accessEntry]
}

type accessKey struct{ repo, login string }

type accessEntry struct {
	access Access
	at     time.Time
}

// NewAccessCache returns an empty cache in front of a forge.
func NewAccessCache(people People, clock func() time.Time) (*AccessCache, error) {
	cache, err := lru.New[accessKey, accessEntry](maxAccesses)
	return &AccessCache{people: people, clock: clock, cache: cache}, err
}

// Access returns what a user may do in a repository, or did at most ten minutes ago. Errors are not remembered.
func (c *AccessCache) Access(ctx context.Context, repo Repository, login string) (Access, error) {
	key := accessKey{strings.ToLower(repo.Path), strings.ToLower(login)}
	c.mu.Lock()
	have, ok := c.cache.Get(key)
	c.mu.Unlock()
	if ok && c.clock().Sub(have.at) < accessFor {
		return have.access, nil
	}
	at := c.clock()
	access, err := c.people.Access(ctx, repo, login)
	if err != nil {
		return access, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cache.Add(key, accessEntry{access, at})
	return access, nil
}

// Forget drops what the cache knows of a repository, or of all repositories if the path is empty: call it
// when the forge reports a change of members.
func (c *AccessCache) Forget(repo Repository) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.cache.Keys() {
		if repo.Path == "" || key.repo == strings.ToLower(repo.Path) {
			c.cache.Remove(key)
		}
	}
}
