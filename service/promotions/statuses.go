package promotions

import (
	"context"
	"errors"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// Statuses reads the commit statuses of a repository on a forge. It implements promote.Statuses and site.BulkReader.
type Statuses struct {
	Forge      forge.Statuses
	Repository forge.Repository
}

// Statuses implements promote.Statuses.
func (s Statuses) Statuses(ctx context.Context, commit string) ([]rollout.Status, error) {
	list, err := s.Forge.Statuses(ctx, s.Repository, commit)
	if err != nil {
		return nil, unavailable(err)
	}
	return plainStatuses(list), nil
}

// unavailable returns an error of the type UnavailableError if the forge is not available.
func unavailable(err error) error {
	if errors.Is(err, forge.ErrUnavailable) {
		return &promote.UnavailableError{Err: err}
	}
	return err
}

func plainStatuses(list []forge.Status) []rollout.Status {
	out := make([]rollout.Status, len(list))
	for i, one := range list {
		state := string(one.State)
		if one.State == forge.Running {
			state = string(forge.Pending)
		}
		out[i] = rollout.Status{Name: one.Context, State: state}
	}
	return out
}

// MostBulk implements site.BulkReader.
func (s Statuses) MostBulk() int {
	many, ok := s.Forge.(forge.BulkStatuses)
	if !ok {
		return 0
	}
	return many.BulkSize()
}

// Bulk implements site.BulkReader.
func (s Statuses) Bulk(ctx context.Context, commits []string) (map[string][]rollout.Status, error) {
	many, ok := s.Forge.(forge.BulkStatuses)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	lists, err := many.StatusesOf(ctx, s.Repository, commits)
	switch _, limited := errors.AsType[*forge.RateLimitError](err); {
	case err == nil:
	case ctx.Err() != nil:
		return nil, err
	case limited || !errors.Is(err, forge.ErrUnavailable):
		// The forge has another limit for single commits, and what refuses this request, such as a proxy, may let those
		// pass.
		return nil, errors.Join(errors.ErrUnsupported, err)
	default:
		return nil, unavailable(err)
	}
	out := make(map[string][]rollout.Status, len(lists))
	for commit, list := range lists {
		out[commit] = plainStatuses(list)
	}
	return out, nil
}

// Stretch implements site.Thrifty.
func (s Statuses) Stretch(bulk bool) int {
	if many, ok := s.Forge.(forge.BulkStatuses); ok && bulk {
		q, _ := many.BulkQuota()
		return q.Stretch()
	}
	if b, ok := s.Forge.(forge.Budget); ok && !bulk {
		q, _ := b.Quota()
		return q.Stretch()
	}
	return 1
}
