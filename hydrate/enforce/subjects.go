package enforce

import (
	"context"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Cluster returns what the policy sees of a cluster.
func Cluster(c *fleet.Cluster) *policy.Cluster {
	return &policy.Cluster{Name: c.Name, Environment: c.Environment, Class: c.Class, KubeVersion: c.KubeVersion, Labels: c.Labels, Vars: c.Vars}
}

// Changed returns what the policy sees of a target's objects. An object that is in before too has that as its old state.
func Changed(after, before []objects.Object) []policy.Object {
	old := map[manifest.Identity]*objects.Object{}
	for i := range before {
		old[before[i].Object.Object.Identity()] = &before[i]
	}
	out := make([]policy.Object, len(after))
	for i := range after {
		out[i] = policy.Object{Key: after[i].Key, Object: after[i].Object.Object}
		if was := old[out[i].Object.Identity()]; was != nil {
			out[i].OldKey, out[i].Old = was.Key, was.Object.Object
		}
	}
	return out
}

// Surroundings tells the policy about the objects of clusters: those that it judges with, and those before the change. If before is nil, no
// app had an object before.
func Surroundings(v, before *objects.Inventory) policy.Surroundings { return surroundings{v, before} }

type surroundings struct{ inventory, before *objects.Inventory }

// Had implements policy.Surroundings.
func (s surroundings) Had(ctx context.Context, cluster, app string, id manifest.Identity) (bool, error) {
	if s.before == nil {
		return false, nil
	}
	return s.before.Has(ctx, cluster, app, id)
}

// Definitions implements policy.Surroundings.
func (s surroundings) Definitions(ctx context.Context, cluster string) ([]policy.Object, error) {
	list, err := s.inventory.Definitions(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return Changed(list, nil), nil
}

// Owners implements policy.Surroundings.
func (s surroundings) Owners(ctx context.Context, cluster string, id manifest.Identity) ([]string, error) {
	return s.inventory.Owners(ctx, cluster, id)
}

// Size implements policy.Surroundings.
func (s surroundings) Size(ctx context.Context, cluster, workspace string) (apps, objects int, err error) {
	return s.inventory.Size(ctx, cluster, workspace)
}
