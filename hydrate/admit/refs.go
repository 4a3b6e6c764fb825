package admit

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/rollout"
)

// creatingPrefix begins the name of a marker branch. It exists while the first run of an environment pushes its
// branches in several steps. If such a run is interrupted, the marker tells the next run that nobody deleted the
// environment branch.
const creatingPrefix = "sluice/creating/"

// Refs are the branches of a remote, with their tips.
type Refs struct {
	Output map[string]gitstore.Hash // of the fleet's outputs
	Own    map[string]gitstore.Hash // Sluice's own, below sluice/

	site map[string]gitstore.Hash // those that incoming.AtHome reads
}

// List lists the branches that a run of a fleet reads.
func List(ctx context.Context, remote gitstore.Branches, f *fleet.Fleet) (*Refs, error) {
	prefixes := slices.Concat(f.BranchPrefixes(), incoming.Prefixes(f), []string{creatingPrefix, rollout.StateBranch})
	all, err := remote.List(ctx, prefixes...)
	if err != nil {
		return nil, err
	}
	return selectRefs(all, f), nil
}

// selectRefs divides branches into a fleet's outputs and Sluice's own, and leaves out all others.
func selectRefs(all map[string]gitstore.Hash, f *fleet.Fleet) *Refs {
	out := &Refs{
		Output: make(map[string]gitstore.Hash, len(all)), Own: map[string]gitstore.Hash{}, site: map[string]gitstore.Hash{},
	}
	prefixes := f.BranchPrefixes()
	for name, tip := range all {
		switch {
		case name == rollout.StateBranch || strings.HasPrefix(name, creatingPrefix):
			out.Own[name] = tip
		case name == incoming.LogBranch || strings.HasPrefix(name, incoming.Prefix):
			out.site[name] = tip
		case name != defaultBranch && slices.ContainsFunc(prefixes,
			func(p string) bool { return strings.HasPrefix(name, p) }):
			out.Output[name] = tip
		}
	}
	return out
}

// ListOutput is List for a remote whose branches may have been listed already: to find the trunk of the same
// repository.
func (t *Trunks) ListOutput(ctx context.Context, remote gitstore.Branches, f *fleet.Fleet) (*Refs, error) {
	if t == nil || t.refs == nil || t.remote.String() != remote.String() {
		return List(ctx, remote, f)
	}
	return selectRefs(t.refs, f), nil
}

// AtHome returns the environment whose site the remote is, if another environment belongs to home and is not written
// here; "" otherwise.
func (r *Refs) AtHome(f *fleet.Fleet, environment string) string {
	known := maps.Clone(r.Output)
	maps.Copy(known, r.site)
	return incoming.AtHome(f, environment, known)
}

// Marker returns the name of an environment's marker branch, and its tip if the branch exists.
func (r *Refs) Marker(environment string) (string, gitstore.Hash) {
	name := creatingPrefix + environment
	return name, r.Own[name]
}
