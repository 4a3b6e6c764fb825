package promote

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// blocked says in one sentence what keeps a cluster at an older minor version than the trunk wants; "" if nothing does.
func (v *versions) blocked(ctx context.Context, c *fleet.Cluster, one ClusterVersion, statuses []Status) (string, error) {
	environment, app := c.Environment, ""
	for _, t := range v.described[c.Name] {
		environment, app = t.Cluster.Environment, t.App.Name
		known, err := v.at(ctx, v.sources[environment].On(t.Cluster.Name).Of(app))
		if err != nil {
			return "", err
		}
		if known == nil || fleet.OlderMinor(known[c.Name], one.Wants) {
			break
		}
	}
	e, ok := v.fleet.Environment(environment)
	if !ok {
		return "", nil
	}
	i := slices.IndexFunc(statuses, func(s Status) bool { return s.Environment == environment })
	switch {
	case i >= 0:
		if why := statuses[i].blocks(app); why != "" {
			if strings.HasPrefix(why, environment+" ") {
				return why, nil
			}
			return environment + ": " + why, nil
		}
		if len(e.After) > 0 && statuses[i].Decision.Proposal == nil {
			return fmt.Sprintf("%s: %s must run it first", environment, strings.Join(e.After, " and ")), nil
		}
		return "", nil
	case len(e.After) == 0:
		return fmt.Sprintf("%s follows the trunk, and its branch does not have the commit: `sluice hydrate --push --env %[1]s` brings it",
			environment), nil
	default:
		return environment + ": what it waits for is not known", nil
	}
}

// blocks says what keeps an environment, or an app that describes a cluster, at what it runs; "" if nothing does.
func (e *Status) blocks(app string) string {
	d := &e.Decision
	if h := d.Record.Halt; h != nil {
		return h.String()
	}
	if app == "" {
		return d.WaitsFor
	}
	for _, h := range d.Record.Holds {
		if h.Cause != rollout.CauseStopped && slices.Contains(h.Apps, app) {
			return fmt.Sprintf("%s is held back: %s", app, h)
		}
	}
	return cmp.Or(d.Waits[app], d.WaitsFor)
}
