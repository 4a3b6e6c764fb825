package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// MayHydrate returns an error for each of the named environments to which a hydration of a commit would bring another
// commit although somebody stopped it: by a halt, a freeze, or a rollback, whose holds a hydration does not know. An
// environment without `after` follows the trunk, and has no stops. A commit that an environment runs already may be
// rendered again, unless something is held back there.
func MayHydrate(ctx context.Context, h *hydrate.Hydrator, commit gitstore.Commit, environments []string, now time.Time) error {
	f, _, err := h.Fleet(ctx, commit.Tree)
	if err != nil {
		return err
	}
	var running []Running
	var failed []error
	for _, e := range f.Spec.Environments {
		if len(e.After) == 0 || !slices.Contains(environments, e.Name) {
			continue
		}
		record, err := ReadRecord(ctx, h, e.Name, f.Signers())
		if err != nil {
			failed = append(failed, fmt.Errorf("environment %s: %w", e.Name, err))
			continue
		}
		planned, err := rollout.Planned(e.Promotion)
		if err != nil {
			failed = append(failed, fmt.Errorf("environment %s: %w", e.Name, err))
			continue
		}
		stops := stopsOf(record, planned, now)
		if len(stops) == 0 {
			continue
		}
		if running == nil {
			if running, err = ReadRunning(ctx, h, commit.Tree); err != nil {
				return err
			}
		}
		again := slices.ContainsFunc(running, func(r Running) bool {
			return r.Environment == e.Name && r.Source == commit.Hash
		})
		if again && len(record.Holds) == 0 && record.Rollback == nil {
			continue
		}
		failed = append(failed, fmt.Errorf("%s is not written, because hydrate passes no gate: %s (`sluice status %[1]s` shows what ends it; `sluice promote %[1]s` and `sluice rollback %[1]s` respect it)",
			e.Name, strings.Join(stops, "; ")))
	}
	return errors.Join(failed...)
}

// stopsOf says what stops an environment, by its record and by the freezes of sluice.yaml.
func stopsOf(r rollout.Record, planned []rollout.Freeze, now time.Time) []string {
	var out []string
	if h := r.Halt; h != nil {
		out = append(out, fmt.Sprintf("halted by %s%s", cmp.Or(h.By, "Sluice"), rollout.Because(h.Reason)))
	}
	for _, f := range slices.Concat(planned, r.Freezes) {
		if f.Holds(now) {
			out = append(out, fmt.Sprintf("%s is %s", cmp.Or(f.Target, r.Environment), f))
		}
	}
	if b := r.Rollback; b != nil {
		out = append(out, fmt.Sprintf("a rollback to %s by %s is not complete", b.To, cmp.Or(b.By, "Sluice")))
	}
	for _, h := range r.Holds {
		out = append(out, "held back: "+h.String())
	}
	return out
}
