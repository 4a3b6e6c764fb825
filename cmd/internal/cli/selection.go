package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/nearest"
)

// selection limits a verb to some targets. An empty list means all.
type selection struct {
	environments, clusters, apps []string
}

func (s *selection) flags(cmd *cobra.Command) {
	s.environmentFlag(cmd)
	cmd.Flags().StringSliceVar(&s.clusters, "cluster", nil, "only these `clusters`")
	cmd.Flags().StringSliceVar(&s.apps, "app", nil, "only these `apps`")
}

func (s *selection) environmentFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.environments, "env", nil, "only these `environments`")
}

// empty reports whether the selection limits only environments.
func (s *selection) empty() bool { return len(s.clusters)+len(s.apps) == 0 }

// check returns a usage error for unknown names.
func (s *selection) check(f *fleet.Fleet) error {
	for _, known := range []struct {
		what         string
		asked, names []string
	}{
		{"environment", s.environments, environmentNames(f)},
		{"cluster", s.clusters, clusterNames(f)},
		{"app", s.apps, appNames(f)},
	} {
		for _, name := range known.asked {
			if err := mustKnow(known.what, name, known.names); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *selection) covers(t fleet.Target) bool {
	has := func(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
	return has(s.environments, t.Cluster.Environment) && has(s.clusters, t.Cluster.Name) && has(s.apps, t.App.Name)
}

// mustKnow returns a usage error if the fleet has no such name.
func mustKnow(what, name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	hint := nearest.DidYouMean(name, names)
	if hint == "" {
		hint = "; it has " + some(names)
	}
	if len(names) == 0 {
		hint = ""
	}
	return usagef("the fleet has no %s %q%s", what, name, hint)
}

// describesSome returns an error for the name of an app with forEach, which has one app for each described cluster and
// none of its own name.
func describesSome(f *fleet.Fleet, name string) error {
	for _, a := range f.Declared() {
		if a.Name != name || a.Spec.ForEach == nil {
			continue
		}
		var all []string
		for _, one := range f.Apps {
			if one.Declared() == name && one.Describes() != nil {
				all = append(all, one.Name)
			}
		}
		if len(all) == 0 {
			return usagef("app %s describes no cluster: compare its forEach with the labels of the clusters", name)
		}
		return usagef("app %s has one app for each cluster that it describes: name one of them, %s", name, some(all))
	}
	return nil
}
