package admit

import (
	"context"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// creatingPrefix begins the name of a marker branch. It exists while the first run of an environment pushes its
// branches in several steps. If such a run is interrupted, the marker tells the next run that nobody deleted the
// environment branch.
const creatingPrefix = "sluice/creating/"

// Refs are the branches of a remote, with their tips.
type Refs struct {
	Output map[string]gitstore.Hash // of the fleet's outputs
	Own    map[string]gitstore.Hash // Sluice's own, below sluice/
}

// List lists the branches that a run of a fleet reads.
func List(ctx context.Context, remote gitstore.Branches, f *fleet.Fleet) (*Refs, error) {
	all, err := remote.List(ctx, append(f.BranchPrefixes(), creatingPrefix, promote.StateBranch)...)
	if err != nil {
		return nil, err
	}
	out := &Refs{Output: all, Own: map[string]gitstore.Hash{}}
	for name, tip := range all {
		if name == promote.StateBranch || strings.HasPrefix(name, creatingPrefix) {
			out.Own[name] = tip
			delete(all, name)
		}
	}
	return out, nil
}

// Marker returns the name of an environment's marker branch, and its tip if the branch exists.
func (r *Refs) Marker(environment string) (string, gitstore.Hash) {
	name := creatingPrefix + environment
	return name, r.Own[name]
}
