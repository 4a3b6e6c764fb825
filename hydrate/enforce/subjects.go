package enforce

import (
	"context"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Cluster returns the cluster in the form in which the policy reads it.
func Cluster(c *fleet.Cluster) *policy.Cluster {
	return &policy.Cluster{
		Name: c.Name, Environment: c.Environment, Class: c.Class, KubeVersion: c.KubeVersion,
		Labels: c.Labels, Vars: c.Vars,
	}
}

// Changed returns the objects of after in the form in which the policy reads them. The old state of each is the object
// of before with the same identity.
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

// Surroundings lets the policy look up objects on clusters: after the change, and in Had before it. before can be nil
// for clusters that had no objects.
func Surroundings(after, before *objects.Inventory) policy.Surroundings {
	return surroundings{after, before}
}

type surroundings struct{ after, before *objects.Inventory }

// Had implements policy.Surroundings.
func (s surroundings) Had(ctx context.Context, cluster, app string, id manifest.Identity) (bool, error) {
	if s.before == nil {
		return false, nil
	}
	return s.before.Has(ctx, cluster, app, id)
}

// Definitions implements policy.Surroundings.
func (s surroundings) Definitions(ctx context.Context, cluster string) ([]policy.Object, error) {
	list, err := s.after.Definitions(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return Changed(list, nil), nil
}

// Owners implements policy.Surroundings.
func (s surroundings) Owners(ctx context.Context, cluster string, id manifest.Identity) ([]string, error) {
	return s.after.Owners(ctx, cluster, id)
}

// Size implements policy.Surroundings.
func (s surroundings) Size(ctx context.Context, cluster, workspace string) (apps, objects int, err error) {
	return s.after.Size(ctx, cluster, workspace)
}
