package promote

import (
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/nearest"
	"github.com/sluice-gitops/sluice/rollout"
)

// instead ends an error about a name that owner does not have: it suggests the most similar name or, if none is
// similar, lists some.
func instead(wrong, owner string, known []string) string {
	if hint := nearest.DidYouMean(wrong, known); hint != "" || len(known) == 0 {
		return hint
	}
	return fmt.Sprintf("; %s has %s", owner, rollout.Few(known))
}

// UnknownEnvironment returns an error that suggests an environment of the fleet instead of a name that it does not
// have.
func UnknownEnvironment(f *fleet.Fleet, name string) error {
	return fmt.Errorf("the fleet has no environment %q%s", name, instead(name, "it", environmentNames(f)))
}

// Aim sets the environment and the cluster that a freeze or an unfreeze names.
func (c *Command) Aim(f *fleet.Fleet, target string) error {
	if _, ok := f.Environment(target); ok {
		c.Environment = target
	} else if cluster, ok := f.Cluster(target); ok {
		c.Environment, c.Target = cluster.Environment, cluster.Name
	} else {
		return fmt.Errorf("%q is neither an environment nor a cluster%s", target,
			nearest.DidYouMean(target, slices.Concat(environmentNames(f), namesOf(f.Clusters))))
	}
	return nil
}

func environmentNames(f *fleet.Fleet) []string {
	out := make([]string, len(f.Spec.Environments))
	for i, e := range f.Spec.Environments {
		out[i] = e.Name
	}
	return out
}

func namesOf(clusters []*fleet.Cluster) []string {
	out := make([]string, len(clusters))
	for i, c := range clusters {
		out[i] = c.Name
	}
	return out
}
