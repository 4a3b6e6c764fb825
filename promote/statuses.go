package promote

import (
	"context"
	"errors"

	"github.com/sluice-gitops/sluice/rollout"
)

// statusCache caches the statuses of commits during a pass.
type statusCache struct {
	reader StatusReader
	known  map[string]statusAnswer
}

type statusAnswer struct {
	list    []rollout.Status
	unknown string
}

func (c *statusCache) of(ctx context.Context, commit string) statusAnswer {
	if a, ok := c.known[commit]; ok {
		return a
	}
	var a statusAnswer
	if c.reader == nil {
		a.unknown = "no forge is configured here that knows commit statuses"
	} else if list, err := c.reader.Statuses(ctx, commit); err == nil {
		a.list = list
	} else if _, ok := errors.AsType[NotReadError](err); ok {
		a.unknown = err.Error()
	} else {
		a.unknown = "its statuses cannot be read: " + err.Error()
	}
	c.known[commit] = a
	return a
}
