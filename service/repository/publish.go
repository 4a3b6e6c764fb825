package repository

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/artifacts"
)

// publishLimit is how long a task pushes artifacts. The next one continues: a slow registry must not keep a repository
// from being promoted or rolled back.
const publishLimit = 5 * time.Minute

// Publish pushes the artifacts that the registry of the trunk's fleet lacks. The result says why some are still
// missing; "" if none is. The next task makes it good.
func (w *Session) Publish(ctx context.Context, trunk gitstore.Commit) (missing string, err error) {
	s, err := w.pushing(ctx, trunk.Tree)
	if err != nil {
		return "", err
	}
	c, ok, err := artifacts.Of(ctx, s, trunk.Tree)
	if err != nil || !ok {
		return "", err
	}
	if address := c.Fleet.Artifacts(); !w.repo.Publishes(address) {
		return fmt.Sprintf("spec.output.oci is %q, which is not among the outputs of the forge in the service's configuration",
			address), nil
	}
	limited, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	result, err := artifacts.Publish(limited, c, artifacts.Options{})
	w.config.Observe.Published(result)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("the registry took longer than %s", publishLimit), nil
	case err != nil:
		return "", err
	case !result.OK():
		return reason(result), nil
	}
	return "", nil
}

// reason is the summary of a result with the first failure.
func reason(r *artifacts.Result) string {
	for _, a := range r.Artifacts {
		if a.Status == artifacts.Failed {
			return r.Summary() + ": " + a.Reason
		}
	}
	return r.Summary()
}
