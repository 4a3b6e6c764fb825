package rollout

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
)

// ClusterHealth is what the statuses on the tip of a cluster's branch say.
type ClusterHealth struct {
	State  State
	Reason string
	Apps   map[string]State // of each app that a pattern names; nil if none does
	Named  []Status         // statuses that match a pattern
}

// HealthOf judges the statuses of one cluster as the health gate does. There must be a pattern.
func HealthOf(h fleet.Health, c ClusterState) ClusterHealth {
	out := ClusterHealth{}
	out.State, out.Reason = ofCluster(h.CommitStatuses, c)
	patterns := eachApp(h.CommitStatuses, c.Apps)
	for _, s := range c.Statuses {
		if slices.ContainsFunc(patterns, func(p string) bool { return glob(p, s.Name) }) {
			out.Named = append(out.Named, s)
		}
	}
	var each []string
	for _, pattern := range h.CommitStatuses {
		if strings.Contains(pattern, AppReference) {
			each = append(each, pattern)
		}
	}
	if len(each) == 0 {
		return out
	}
	out.Apps = make(map[string]State, len(c.Apps))
	for _, app := range c.Apps {
		one := c
		one.Apps = []string{app}
		out.Apps[app], _ = ofCluster(each, one)
	}
	return out
}
