package promote

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// RebuildRecords completes the records that the state branch lost, that are old or that cannot be decoded, from the
// trailers on the environment branches, and returns them. It halts their environments, because the branches do not tell
// everything. It leaves every other record as it is. A state branch that is not signed as it must be is an error.
func RebuildRecords(ctx context.Context, h *hydrate.Hydrator, r Request, by, reason string) ([]rollout.Record, error) {
	s, err := readSnapshot(ctx, h, r)
	if err != nil {
		return nil, err
	}
	var rebuilt []rollout.Record
	var names []string
	for _, e := range s.fleet.Spec.Environments {
		cause := s.records.broken[e.Name]
		if cause == nil || len(e.After) == 0 {
			continue
		}
		if _, unsigned := errors.AsType[*gitstore.SignatureError](cause); unsigned {
			return nil, cause
		}
		if _, refused := errors.AsType[*RecordsError](cause); !refused {
			return nil, cause // it cannot be read now
		}
		old := s.records.known[e.Name]
		version := old.Sequence
		err := requireRecord(ctx, h, s.fleet, e.Name, old, s.refs)
		if lost, ok := errors.AsType[*LostRecordError](err); ok {
			version = lost.Needed
		} else if err != nil {
			return nil, err
		}
		history, err := s.restored(ctx, e.Name)
		if err != nil {
			return nil, err
		}
		rebuilt = append(rebuilt, rollout.Rebuild(old, history, s.clusterNames(e.Name), version+1, by, reason, r.Now))
		names = append(names, e.Name)
	}
	if len(rebuilt) == 0 {
		return nil, nil
	}
	w, err := h.Store.NewWriter()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // what was pushed is on the branch
	tree, err := s.records.write(w, rebuilt...)
	if err != nil {
		return nil, err
	}
	push := &pusher{s}
	hash, err := push.commit(w, tree, s.records.tip.Hash, r.Trunk, message{
		"Rebuild the record of " + strings.Join(names, ", "), reason,
		[]gitstore.Trailer{{Key: branch.TrailerRebuilt, Value: strings.Join(names, ", ")}, {Key: branch.TrailerBy, Value: by}},
	})
	if err != nil {
		return nil, err
	}
	return rebuilt, push.push(ctx, w, []gitstore.Move{{
		Branch: rollout.StateBranch, Old: s.refs[rollout.StateBranch], New: hash,
	}})
}

// clusterNames returns the clusters that an environment has, and those that its branch still has.
func (s *snapshot) clusterNames(environment string) []string {
	names := s.states[environment].ClusterNames()
	for _, c := range s.fleet.ClustersOf(environment) {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// restored reads the history of an environment branch, oldest first.
func (s *snapshot) restored(ctx context.Context, environment string) ([]rollout.RestoredState, error) {
	entries, err := s.past[environment].history(ctx)
	if err != nil {
		return nil, err
	}
	var out []rollout.RestoredState
	for _, e := range slices.Backward(entries) {
		if e.Source.Validate() != nil {
			continue // a damaged state cannot be restored
		}
		out = append(out, rollout.RestoredState{PastState: e.state(), Back: e.rollback()})
	}
	return out, nil
}

// rollback returns the rollback that made a state, by its trailers; nil if none did.
func (e HistoryEntry) rollback() *rollout.Rollback {
	value := func(key string) string {
		for _, t := range e.Trailers {
			if t.Key == key {
				return t.Value
			}
		}
		return ""
	}
	list := func(key string) []string {
		if v := value(key); v != "" {
			return strings.Split(v, ", ")
		}
		return nil
	}
	reason := cmp.Or(value(branch.TrailerRollback), value(branch.TrailerTakenBack))
	switch reason {
	case "":
		return nil
	case noReason:
		reason = ""
	}
	return &rollout.Rollback{
		To: e.Source, Tree: e.Tree.String(), Wave: value(branch.TrailerWave), Clusters: list(branch.TrailerClusters),
		Apps: list(branch.TrailerApps), Workspaces: list(branch.TrailerWorkspaces), Reason: reason,
		By: value(branch.TrailerBy), At: e.At,
	}
}
