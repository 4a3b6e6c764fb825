package compare

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// Reads answers what States asks a fleet. Nothing else of the fleet has an effect on a comparison of states, so that a
// stored comparison stays right as long as its Digest is the same. It remembers answers, and is not safe for concurrent
// use.
type Reads struct {
	fleet  *fleet.Fleet
	placed *placements
	in     map[string]environmentPlacements    // by environment
	lists  map[*diff.Cluster][sha256.Size]byte // digests of placements, by the first element
	facts  map[[2]string][sha256.Size]byte     // digests, by cluster and app
}

// NewReads returns the reads of a fleet.
func NewReads(f *fleet.Fleet) *Reads {
	return &Reads{
		fleet: f, placed: newPlacements([2]*source.View{nil, {Fleet: f}}),
		in: map[string]environmentPlacements{}, lists: map[*diff.Cluster][sha256.Size]byte{},
		facts: map[[2]string][sha256.Size]byte{},
	}
}

// placedIn returns the placements in an environment.
func (r *Reads) placedIn(environment string) environmentPlacements {
	p, ok := r.in[environment]
	if !ok {
		p = r.placed.in(environment)
		r.in[environment] = p
	}
	return p
}

// placedDigest returns a digest of the clusters of an environment that have an app, with what can name a group of them.
func (r *Reads) placedDigest(app, environment string) [sha256.Size]byte {
	list := r.placedIn(environment).Placed(app)
	if len(list) == 0 {
		return [sha256.Size]byte{}
	}
	out, ok := r.lists[&list[0]]
	if !ok {
		sum := sha256.New()
		for i := range list {
			write(sum, list[i].Name)
			for _, key := range slices.Sorted(maps.Keys(list[i].Labels)) {
				write(sum, key, list[i].Labels[key])
			}
		}
		out = [sha256.Size]byte(sum.Sum(nil))
		r.lists[&list[0]] = out
	}
	return out
}

// sync is the tool that applies the branches of an environment; "" if it is unknown.
func (r *Reads) sync(environment string) diff.Sync {
	if _, ok := r.fleet.Environment(environment); !ok {
		return ""
	}
	return diff.Sync(r.fleet.SyncOf(environment))
}

// factsOf maps references to the values of a cluster that the files of an app refer to; nil if the fleet lacks one of
// them.
func (r *Reads) factsOf(cluster, app string) map[string]string {
	a, known := r.fleet.App(app)
	c, there := r.fleet.Cluster(cluster)
	if !known || !there {
		return nil
	}
	return factsOf(r.fleet, fleet.Target{App: a, Cluster: c})
}

// Digest returns a digest of everything that States reads of the fleet to compare two trees of an environment branch.
// It reads trees, and no objects.
func (r *Reads) Digest(ctx context.Context, store *gitstore.Store, environment string, before,
	after gitstore.Hash,
) ([]byte, error) {
	sum := sha256.New()
	write(sum, environment, string(r.sync(environment)))
	apps := map[string]bool{}
	err := eachTarget(ctx, store, [2]gitstore.Hash{before, after}, true,
		func(cluster, app string, trees [2]gitstore.Hash) error {
			if trees[0] == trees[1] {
				return nil
			}
			apps[app] = true
			facts := r.factsDigest(cluster, app)
			write(sum, cluster, app)
			_, _ = sum.Write(facts[:]) // a hash never fails
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		placed := r.placedDigest(app, environment)
		write(sum, app)
		_, _ = sum.Write(placed[:]) // a hash never fails
	}
	return sum.Sum(nil), nil
}

func (r *Reads) factsDigest(cluster, app string) [sha256.Size]byte {
	key := [2]string{cluster, app}
	out, ok := r.facts[key]
	if !ok {
		sum := sha256.New()
		facts := r.factsOf(cluster, app)
		for _, reference := range slices.Sorted(maps.Keys(facts)) {
			write(sum, reference, facts[reference])
		}
		out = [sha256.Size]byte(sum.Sum(nil))
		r.facts[key] = out
	}
	return out
}

// write adds texts to a digest, each with its length.
func write(sum hash.Hash, parts ...string) {
	for _, p := range parts {
		fmt.Fprintf(sum, "%d:%s", len(p), p)
	}
}

// eachTarget calls do for each app on each cluster of two trees of an environment branch, those of workspaces included.
// With changed, it leaves out clusters whose trees are equal.
func eachTarget(ctx context.Context, store *gitstore.Store, trees [2]gitstore.Hash, changed bool,
	do func(cluster, app string, trees [2]gitstore.Hash) error,
) error {
	apps := func(ctx context.Context, tree gitstore.Hash) ([]gitstore.Entry, error) {
		return branch.Apps(ctx, store, tree)
	}
	return eachFolder(ctx, trees, store.Tree, func(cluster string, trees [2]gitstore.Hash) error {
		if changed && trees[0] == trees[1] {
			return nil
		}
		return eachFolder(ctx, trees, apps, func(app string, trees [2]gitstore.Hash) error {
			return do(cluster, app, trees)
		})
	})
}
