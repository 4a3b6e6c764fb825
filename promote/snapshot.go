package promote

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// snapshot holds what a pass reads at its beginning. Only records and refs change later, when the pass stores
// something.
type snapshot struct {
	hydrator *hydrate.Hydrator
	request  Request
	fleet    *fleet.Fleet
	refs     map[string]gitstore.Hash
	records  *records
	states   map[string]*branch.State // by environment
	past     map[string]*past         // by environment
	sites    map[string]*site         // by environment: those whose clusters move elsewhere
	imports  map[string]*imports      // by environment: those whose site this repository is
	trunk    *trunk
}

// readSnapshot lists the branches, and reads what they hold.
func readSnapshot(ctx context.Context, h *hydrate.Hydrator, r Request) (*snapshot, error) {
	f, _, err := h.Fleet(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	s := &snapshot{hydrator: h, request: r, fleet: f, states: map[string]*branch.State{}, past: map[string]*past{}}
	seen, err := h.Store.Seen(h.Branches, rollout.StateBranch)
	if err != nil {
		return nil, err
	}
	if s.refs, err = listSince(ctx, h, seen, append(BranchPrefixes(f), rollout.StateBranch,
		requestBranch(""))...); err != nil {
		return nil, err
	}
	var names []string
	for _, e := range f.Spec.Environments {
		if err := s.readState(ctx, e.Name); err != nil {
			return nil, err
		}
		names = append(names, e.Name)
	}
	tip := s.refs[rollout.StateBranch]
	if !tip.IsZero() {
		if err := h.Branches.Fetch(ctx, tip); err != nil {
			return nil, err
		}
	}
	if s.records, err = readRecords(ctx, h.Store, tip, names); err != nil {
		return nil, err
	}
	if err := s.acceptRecords(ctx, seen, names); err != nil {
		return nil, err
	}
	if err := s.readImports(ctx); err != nil {
		return nil, err
	}
	if err := s.readSites(ctx); err != nil {
		return nil, err
	}
	s.trunk, err = readTrunk(ctx, h.Store, r.Trunk, neededCommits(s.states, s.records.known))
	return s, err
}

// order returns the source commits that an environment may get, oldest first: those of the trunk or, on a site, those
// that bundles brought.
func (s *snapshot) order(environment string) rollout.Trunk {
	if i := s.imports[environment]; i != nil {
		return i.order
	}
	return s.trunk.order
}

// listSince lists branches. seen is the tip of the records that this mirror accepted last, read before. A listing that
// the task shares may be older than seen, and would look like lost records.
func listSince(ctx context.Context, h *hydrate.Hydrator, seen gitstore.Hash,
	prefixes ...string,
) (map[string]gitstore.Hash, error) {
	refs, err := h.Branches.List(ctx, prefixes...)
	if err == nil && !seen.IsZero() && refs[rollout.StateBranch] != seen && gitstore.Relist(h.Store) {
		return h.Branches.List(ctx, prefixes...)
	}
	return refs, err
}

// readState fetches the branches of an environment and of its clusters.
func (s *snapshot) readState(ctx context.Context, environment string) error {
	ref := s.fleet.EnvironmentBranch(environment)
	var fetch []gitstore.Hash
	for _, c := range s.fleet.ClustersOf(environment) {
		if tip := s.refs[s.fleet.ClusterBranch(c)]; !tip.IsZero() {
			fetch = append(fetch, tip)
		}
	}
	if tip := s.refs[ref]; !tip.IsZero() {
		fetch = append(fetch, tip)
	}
	if err := s.hydrator.Branches.Fetch(ctx, fetch...); err != nil {
		return err
	}
	st, err := branch.ReadState(ctx, s.hydrator.Store, ref, environment, s.refs[ref], s.fleet.Signers())
	if err != nil {
		return err
	}
	s.states[environment], s.past[environment] = st, newPast(s.hydrator, st)
	return nil
}

// requireSigned returns a *RecordsError if the tip of the state branch is not signed as spec.signers of the trunk's
// fleet demands, because somebody else may have written the records. It checks only the tip: Sluice never commits on
// top of a tip that it refuses, so a signed tip implies that the commits before it were accepted. requireNewer refuses
// an old tip.
func (s *snapshot) requireSigned(ctx context.Context) error {
	tip, allowed := s.refs[rollout.StateBranch], s.fleet.Signers()
	if allowed.Empty() || tip.IsZero() {
		return nil
	}
	_, err := s.hydrator.Store.VerifySignature(ctx, tip, allowed)
	if err == nil || !errors.Is(err, gitstore.ErrUnverified) {
		return err
	}
	return &RecordsError{fmt.Errorf("branch %s is not signed as spec.signers demands, so nothing is promoted: %w: look at its history; "+
		"an allowed signer accepts it with an empty signed commit (`git commit --allow-empty -S`) on that branch",
		rollout.StateBranch, err)}
}

// foreign reports whether an environment's branch has content that Sluice did not write. The forge's merge or squash of
// a promotion request is not foreign: its tree is Sluice's. If spec.signers does not allow the commit, only a tree that
// the environment already had is accepted. The tree of an open promotion is not, because it may lack approvals.
func (s *snapshot) foreign(environment string) bool {
	st, record := s.states[environment], s.records.known[environment]
	tree := st.Tip.Tree.String()
	switch {
	case st.Foreign == "":
		return false
	case st.Origin.Unsigned != nil:
		return !record.Has(tree)
	}
	return !record.Knows(tree)
}

// requestBranch is the branch that the merge request of a promotion comes from.
func requestBranch(environment string) string { return "sluice/promote/" + environment }
