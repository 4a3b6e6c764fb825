package promote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// acceptRecords notes the tip of the state branch as seen, if nothing speaks against it. Otherwise it marks the records
// of all environments as unreadable. The caller reads seen before it lists the branches; otherwise a concurrent push
// would look like a loss.
func (s *snapshot) acceptRecords(ctx context.Context, seen gitstore.Hash, environments []string) error {
	for _, check := range []func() error{
		func() error { return s.requireSigned(ctx) },
		func() error { return s.requireNewer(ctx, seen) },
	} {
		err := check()
		if refused, ok := errors.AsType[*RecordsError](err); ok {
			s.refuseRecords(environments, refused)
		} else if err != nil {
			return err
		}
	}
	for _, name := range environments {
		err := requireRecord(ctx, s.hydrator, s.fleet, name, s.records.known[name], s.refs)
		if refused, ok := errors.AsType[*RecordsError](err); ok {
			s.refuseRecords([]string{name}, refused)
		} else if err != nil {
			return err
		}
	}
	if slices.ContainsFunc(environments, func(name string) bool { return s.records.broken[name] != nil }) {
		return nil // nobody has accepted this tip
	}
	return s.hydrator.Store.NoteSeen(s.hydrator.Branches, rollout.StateBranch, seen, s.refs[rollout.StateBranch])
}

// refuseRecords marks the records of environments as unreadable, unless they are already.
func (s *snapshot) refuseRecords(environments []string, refused *RecordsError) {
	for _, name := range environments {
		if s.records.broken[name] == nil {
			s.records.broken[name] = refused
		}
	}
}

// requireNewer returns a *RecordsError if the state branch no longer contains the tip that the mirror stored. A
// signature does not reveal this: an earlier tip is signed too, but lacks later holds, halts and freezes.
func (s *snapshot) requireNewer(ctx context.Context, seen gitstore.Hash) error {
	err := lostSince(ctx, s.hydrator, seen, s.refs[rollout.StateBranch])
	if lost, ok := errors.AsType[*LostRecordsError](err); ok {
		return &RecordsError{lost}
	}
	return err
}

// lostSince returns a *LostRecordsError if the state branch does not contain the stored tip seen. A zero seen means
// that none is stored.
func lostSince(ctx context.Context, h *hydrate.Hydrator, seen, tip gitstore.Hash) error {
	if seen.IsZero() {
		return nil
	}
	if tip.IsZero() {
		return &LostRecordsError{Seen: seen}
	}
	newer, err := h.Store.IsAncestor(ctx, seen, tip)
	if lost := errors.Is(err, gitstore.ErrShallow) && !h.Store.Has(seen); err != nil && !lost {
		return fmt.Errorf("branch %s: %w", rollout.StateBranch, err)
	}
	if newer {
		return nil
	}
	rebuilt, err := isRebuilt(ctx, h, seen, tip)
	if err != nil || rebuilt {
		return err
	}
	return &LostRecordsError{Seen: seen, Tip: tip}
}

// isRebuilt reports whether the records up to a commit of the state branch replace the lost ones up to seen: a person
// said so with `sluice repair state`. What seen already contains replaced earlier ones.
func isRebuilt(ctx context.Context, h *hydrate.Hydrator, seen, tip gitstore.Hash) (bool, error) {
	at, err := h.Store.Commit(ctx, tip)
	for err == nil {
		if branch.Trailer(at.Message, branch.TrailerRebuilt) != "" {
			before, err := h.Store.IsAncestor(ctx, at.Hash, seen)
			if err != nil && !unknownHistory(err) {
				return false, err
			}
			return !before, nil
		}
		if len(at.Parents) == 0 {
			return false, nil
		}
		at, err = parent(ctx, h, at)
	}
	return false, err
}

// LostRecordError means that the state branch has no record of an environment, or an older one than its branches were
// moved with.
type LostRecordError struct {
	Environment string
	Version     int    // of the record; 0: there is none, or it has no version
	Branch      string // one that was moved with a newer record
	Needed      int    // the version of that record
}

// Error names the next step.
func (e *LostRecordError) Error() string {
	is := "is missing or has no version"
	if e.Version > 0 {
		is = fmt.Sprintf("is an old one (version %d)", e.Version)
	}
	return fmt.Sprintf("%s on branch %s %s, and %s was moved with version %d, so nothing is promoted: approvals, holds, halts or freezes can be lost; push the branch again from a clone that still has it, or rebuild the record with `sluice repair state --reason WHY`",
		rollout.RecordPath(e.Environment), rollout.StateBranch, is, e.Branch, e.Needed)
}

// maxVersion bounds the version that a trailer names: an environment that stores a record each second needs 60 years.
const maxVersion = math.MaxInt32 - 1

// requireRecord returns a *RecordsError with a *LostRecordError if Sluice moved a branch of an environment with a newer
// record than this one. Commits of others name no version.
func requireRecord(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, environment string, record rollout.Record,
	refs map[string]gitstore.Hash,
) error {
	e, ok := f.Environment(environment)
	if !ok || len(e.After) == 0 {
		return nil // it follows the trunk, whatever its record says
	}
	owners := map[string]branch.Owner{f.EnvironmentBranch(environment): {Environment: environment}}
	for _, c := range f.ClustersOf(environment) {
		owners[f.ClusterBranch(c)] = branch.Owner{Environment: environment, Cluster: c.Name}
	}
	maps.DeleteFunc(owners, func(name string, _ branch.Owner) bool { return refs[name].IsZero() })
	names := slices.Sorted(maps.Keys(owners))
	var tips []gitstore.Hash
	for _, name := range names {
		tips = append(tips, refs[name])
	}
	if err := h.Branches.Fetch(ctx, tips...); err != nil {
		return err
	}
	lost := &LostRecordError{Environment: environment, Version: record.Sequence}
	for _, name := range names {
		tip, err := h.Store.Commit(ctx, refs[name])
		if err != nil {
			return err
		}
		version, err := strconv.Atoi(branch.Trailer(tip.Message, branch.TrailerRecord))
		if err != nil || version > maxVersion || version <= max(record.Sequence, lost.Needed) {
			continue // it names no version that Sluice writes, or none that is missing
		}
		if branch.Trailer(tip.Message, branch.TrailerEnvironment) != environment {
			continue // the cluster was in another environment
		}
		origin, err := branch.Inspect(ctx, h.Store, tip, owners[name], f.Signers())
		if err != nil {
			return err
		}
		if origin.Foreign == "" {
			lost.Branch, lost.Needed = name, version
		}
	}
	if lost.Needed == 0 {
		return nil
	}
	return &RecordsError{lost}
}

// LostRecordsError means that the state branch does not contain the tip that this mirror accepted before.
type LostRecordsError struct {
	Seen gitstore.Hash
	Tip  gitstore.Hash // zero: the branch is gone
}

// Error names both commits and the next step.
func (e *LostRecordsError) Error() string {
	is, accept := "is gone", "run `sluice repair state`"
	if !e.Tip.IsZero() {
		is = "is at " + e.Tip.String()
		accept = fmt.Sprintf("push a merge of both (`git commit-tree -S -p %s -p %s %s^{tree}`)", e.Tip, e.Seen, e.Tip)
	}
	return fmt.Sprintf("branch %s %s and does not contain %s, which it had before, so nothing is promoted: approvals, holds, halts or freezes can be lost: "+
		"restore it with `git push --force origin %s:refs/heads/%s`, or %s to accept the loss", rollout.StateBranch, is,
		e.Seen, e.Seen, rollout.StateBranch, accept)
}
