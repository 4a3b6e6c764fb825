package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// silentAfter is the time after the last move of clusters from which an app without a status counts as silent. Argo
// CD and Flux post within their polling interval, at most a few minutes. They do not retry a failed post.
const silentAfter = 15 * time.Minute

// Silence is a cluster with apps that have posted no commit status since the cluster moved.
type Silence struct {
	Cluster string
	Apps    []string // empty: the whole cluster, if the pattern does not name apps
	Status  string   // the pattern that no status matches, of the first app
	Since   time.Time
}

// String names the apps and the status that is missing.
func (s Silence) String() string {
	what := s.Cluster
	if len(s.Apps) > 0 {
		what = Few(s.Apps) + " on " + s.Cluster
	}
	return fmt.Sprintf("%s posted no status %s since %s", what, s.Status, Stamp(s.Since))
}

// Command returns a command that makes the controller of the first silent app post its status again. The name of the
// status determines the tool.
func (s Silence) Command() string {
	app := "APP"
	if len(s.Apps) > 0 {
		app = s.Apps[0]
	}
	switch {
	case strings.HasPrefix(s.Status, "argocd/"):
		return fmt.Sprintf("kubectl --context %s -n argocd annotate application %s notified.notifications.argoproj.io-",
			s.Cluster, app)
	case strings.HasPrefix(s.Status, "kustomization/"):
		return fmt.Sprintf("flux --context %s reconcile kustomization %s", s.Cluster, app)
	default:
		return fmt.Sprintf("let the controller of %s on %s post the status of its last revision again", app, s.Cluster)
	}
}

// silent returns the clusters that the current rollout moved a while ago and that lack statuses. It leaves out
// clusters whose statuses could not be read.
func (x *rolloutGates) silent() []Silence {
	p := x.rec.Progress
	if x.s.Site != nil || !p.underWay() || len(x.p.Health.CommitStatuses) == 0 || x.s.Now.Before(p.LastMove.Add(silentAfter)) {
		return nil
	}
	var out []Silence
	for _, c := range x.movedClusters() {
		if c.StatusesUnknown != "" || c.Apps == nil {
			continue
		}
		if one := c.silence(x.p.Health.CommitStatuses); one.Status != "" {
			one.Since = p.LastMove
			out = append(out, one)
		}
	}
	return out
}

// silence returns the statuses that the cluster lacks.
func (c ClusterState) silence(patterns []string) Silence {
	out := Silence{Cluster: c.Name}
	for _, pattern := range patterns {
		if !strings.Contains(pattern, AppReference) {
			if !c.has(pattern) {
				out.Status = cmp.Or(out.Status, pattern)
			}
			continue
		}
		for _, app := range c.Apps {
			name := strings.ReplaceAll(pattern, AppReference, ObjectName(app))
			if c.has(name) || slices.Contains(out.Apps, app) {
				continue
			}
			if len(out.Apps) == 0 {
				out.Status = name
			}
			out.Apps = append(out.Apps, app)
		}
	}
	slices.Sort(out.Apps)
	return out
}

// has reports whether the cluster has a status that matches a pattern.
func (c ClusterState) has(pattern string) bool {
	return slices.ContainsFunc(c.Statuses, func(s Status) bool { return glob(pattern, s.Name) })
}
