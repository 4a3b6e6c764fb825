package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// NotStopped returns those of some environments that may be hydrated to a commit. The error says of each other one who
// stopped it, by a halt, a freeze or a rollback, and why: a hydration asks no gate. An environment without `after`
// follows the trunk, and is never stopped. The commit that an environment runs may be rendered again, unless something
// is held back there.
func NotStopped(ctx context.Context, h *hydrate.Hydrator, commit gitstore.Commit, environments []string,
	now time.Time,
) ([]string, error) {
	f, _, err := h.Fleet(ctx, commit.Tree)
	if err != nil {
		return nil, err
	}
	var free []string
	var failed []error
	for _, name := range environments {
		e, ok := f.Environment(name)
		if !ok || len(e.After) == 0 { // hydrate refuses one that does not exist
			free = append(free, name)
			continue
		}
		if err := stopped(ctx, h, f, *e, commit, now); err != nil {
			failed = append(failed, err)
			continue
		}
		free = append(free, name)
	}
	return free, errors.Join(failed...)
}

// stopped returns an error if a hydration to a commit would pass a stop of an environment.
func stopped(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, e fleet.Environment, commit gitstore.Commit,
	now time.Time,
) error {
	record, refs, err := readRecordWith(ctx, h, e.Name, f.Signers(), f.BranchPrefixes()...)
	if err != nil {
		return fmt.Errorf("environment %s: %w", e.Name, err)
	}
	if err := intact(ctx, h, f, e.Name, record, refs); err != nil {
		return fmt.Errorf("environment %s: %w", e.Name, err)
	}
	planned, err := rollout.Planned(e.Promotion)
	if err != nil {
		return fmt.Errorf("environment %s: %w", e.Name, err)
	}
	stops := record.Stops(planned, now)
	if len(stops) == 0 {
		return nil
	}
	if len(record.Holds) == 0 && record.Rollback == nil {
		running, err := ReadRunning(ctx, h, commit.Tree)
		if err != nil {
			return fmt.Errorf("environment %s: %w", e.Name, err)
		}
		if slices.ContainsFunc(running, func(r Running) bool {
			return r.Environment == e.Name && r.Source == commit.Hash
		}) {
			return nil
		}
	}
	return fmt.Errorf("%s is not written, because hydrate asks no gate: %s (`sluice status %[1]s` shows what ends it; `sluice promote %[1]s` and `sluice rollback %[1]s` respect it)",
		e.Name, strings.Join(stops, "; "))
}

// intact returns an error if the record of an environment, or one of its branches, was set back.
func intact(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, environment string, record rollout.Record,
	refs map[string]gitstore.Hash,
) error {
	if err := requireRecord(ctx, h, f, environment, record, refs); err != nil {
		return err
	}
	moved, err := SetBacks(ctx, h, f, environment, record, refs)
	if err != nil || len(moved) == 0 {
		return err
	}
	return errors.New(moved[0].advice(environment))
}
