package server

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// rightsCache keeps answers of Rights for minutes. Errors are not kept.
type rightsCache struct {
	ask    Rights
	clock  func() time.Time
	known  *lru.Cache[string, rightAnswer]
	flight singleflight.Group
}

type rightAnswer struct {
	may   bool
	until time.Time
}

func newRightsCache(ask Rights, clock func() time.Time) *rightsCache {
	const size = 50_000
	known, err := lru.New[string, rightAnswer](size)
	if err != nil {
		panic(err) // the size is positive
	}
	return &rightsCache{ask: ask, clock: clock, known: known}
}

func (c *rightsCache) may(ctx context.Context, person, repository string) (bool, error) {
	if c.ask == nil {
		return true, nil
	}
	key := person + "\x00" + repository
	have, ok := c.known.Get(key)
	if ok && c.clock().Before(have.until) {
		return have.may, nil
	}
	answer, err, _ := c.flight.Do(key, func() (any, error) {
		may, err := c.ask(ctx, person, repository)
		if err == nil {
			c.known.Add(key, rightAnswer{may, c.clock().Add(rightsFor)})
		}
		return may, err
	})
	may, _ := answer.(bool) // the function returns one
	return may && err == nil, err
}
