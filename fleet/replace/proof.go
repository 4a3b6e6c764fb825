package replace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
)

// appsOf lists the apps of a cluster.
func appsOf(f *fleet.Fleet, name string) []string {
	c, ok := f.Cluster(name)
	if !ok {
		return nil
	}
	var out []string
	for _, t := range f.TargetsOf(c) {
		out = append(out, t.App.Name)
	}
	return out
}

// lacking lists what of a list another one does not have. An app that describes a cluster stands for one of it.
func lacking(list, in []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(in, name) })
}

// missing notes which apps of the old cluster the new one does not have, now that it has everything.
func (c *Change) missing(before *fleet.Fleet, step Step, old, new string) {
	if step != Give {
		return
	}
	if apps := lacking(appsOf(before, old), appsOf(c.Fleet, new)); len(apps) > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%s has apps that %s does not get: %s", old, new, strings.Join(apps, ", ")))
	}
}

// proves returns an error unless the change brings the replacement to a later phase, and changes no other cluster.
func (c *Change) proves(before *fleet.Fleet, step Step, old, new string) error {
	was, err := PhaseOf(before, old, new)
	if err != nil {
		return err
	}
	is, err := PhaseOf(c.Fleet, old, new)
	if err != nil {
		return err
	}
	if !was.Before(is) {
		return fmt.Errorf("the step %s does not bring the replacement further than %s (run `sluice validate`)", step, was)
	}
	changed := old
	if step == Create || step == Give {
		changed = new
	}
	return c.others(before, changed)
}

// others returns an error if the change concerns another cluster than the one that it is for. Apps that describe that
// cluster belong to it.
func (c *Change) others(before *fleet.Fleet, changed string) error {
	own := func(f *fleet.Fleet, app string) bool {
		a, ok := f.App(app)
		return ok && a.Describes() != nil && a.Describes().Name == changed
	}
	var wrong []string
	for _, o := range before.Clusters {
		if o.Name == changed {
			continue
		}
		had, has := appsOf(before, o.Name), appsOf(c.Fleet, o.Name)
		for _, app := range append(lacking(had, has), lacking(has, had)...) {
			if !own(before, app) && !own(c.Fleet, app) {
				wrong = append(wrong, o.Name+"/"+app)
			}
		}
	}
	for _, name := range fleet.ChangedClusters(before, c.Fleet) {
		if name != changed {
			wrong = append(wrong, name)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the change would also concern %s, so nothing is written (does a file of the cluster share values with others?)",
			strings.Join(wrong, ", "))
	}
	return nil
}
