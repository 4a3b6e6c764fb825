package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The states of a cluster.
const (
	stateActive   = "active"
	stateFrozen   = "frozen"
	stateRetired  = "retired"
	stateDetached = "detached" // of a file; see Cluster.Detached
)

// selector is a compiled label selector.
type selector []Requirement

func compileSelector(s *Selector) (selector, error) {
	if s == nil {
		return nil, nil
	}
	var out selector
	for key, value := range s.MatchLabels {
		if err := checkLabel(key, value); err != nil {
			return nil, fmt.Errorf("matchLabels: %w", err)
		}
	}
	for key, value := range s.MatchLabels {
		out = append(out, Requirement{Key: key, Operator: "In", Values: []string{value}})
	}
	for _, r := range s.MatchExpressions {
		set := r.Operator == "In" || r.Operator == "NotIn"
		if set != (len(r.Values) > 0) {
			return nil, fmt.Errorf("matchExpressions: %s on %s: values belong to In and NotIn, and only to them",
				r.Operator, r.Key)
		}
		for _, value := range slices.Concat(r.Values, []string{""}) {
			if err := checkLabel(r.Key, value); err != nil {
				return nil, fmt.Errorf("matchExpressions: %w", err)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func checkLabel(key, value string) error {
	if !validLabelKey(key) {
		return fmt.Errorf("%q is not a label key", key)
	}
	if !validLabelValue(value) {
		return fmt.Errorf("%q cannot be the value of a label", value)
	}
	return nil
}

// matches follows Kubernetes: NotIn also matches a cluster without the label.
func (s selector) matches(labels map[string]string) bool {
	for _, r := range s {
		value, ok := labels[r.Key]
		switch r.Operator {
		case "In":
			ok = ok && slices.Contains(r.Values, value)
		case "NotIn":
			ok = !ok || !slices.Contains(r.Values, value)
		case "DoesNotExist":
			ok = !ok
		}
		if !ok {
			return false
		}
	}
	return true
}

// Matches reports whether a selector matches labels. The selector must have passed Load.
func (s *Selector) Matches(labels map[string]string) bool {
	compiled, err := compileSelector(s)
	return err == nil && compiled.matches(labels)
}

// Targets lists all targets, sorted by cluster and app. A retired cluster has none.
func (f *Fleet) Targets() []Target {
	out := make([]Target, 0, len(f.Clusters)*min(len(f.Apps), 16))
	for _, c := range f.Clusters {
		out = f.appendTargets(out, c)
	}
	return out
}

// TargetsOf lists the targets of one cluster, sorted by app.
func (f *Fleet) TargetsOf(c *Cluster) []Target { return f.appendTargets(nil, c) }

func (f *Fleet) appendTargets(out []Target, c *Cluster) []Target {
	if c.State == stateRetired {
		return out
	}
	for _, a := range f.Apps {
		if a.Selects(c) {
			out = append(out, Target{App: a, Cluster: c})
		}
	}
	return out
}

// Frozen reports whether the cluster's branch must not move.
func (c *Cluster) Frozen() bool { return c.State == stateFrozen }

// Retired reports whether the cluster has no targets. Its branch may be deleted unless it is detached.
func (c *Cluster) Retired() bool { return c.State == stateRetired }

// Places reports whether the fleet places the app on the cluster.
func (f *Fleet) Places(a *App, c *Cluster) bool {
	return c.State != stateRetired && a.Selects(c)
}

// ClustersOf lists the clusters of an environment by name, retired ones included.
func (f *Fleet) ClustersOf(environment string) []*Cluster {
	var out []*Cluster
	for _, c := range f.Clusters {
		if c.Environment == environment {
			out = append(out, c)
		}
	}
	return out
}

// Parse reads the duration.
func (d Duration) Parse() (time.Duration, error) {
	v, err := time.ParseDuration(string(d))
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%q is not a duration", string(d))
	}
	return v, nil
}

// MaxDeletions returns how many of an environment's objects one hydration may delete.
func (f *Fleet) MaxDeletions(objects int) int {
	n, err := f.Spec.Safety.MaxDeletions.of(objects)
	if err != nil { // Load has refused invalid amounts
		return 0
	}
	return n
}

// MaxLoss returns how many objects less an environment, or a cluster, with that many objects may have after one
// hydration: a third, or the percentage of spec.safety.maxDeletions if that is greater.
func (f *Fleet) MaxLoss(objects int) int {
	const part = 3
	most := objects / part
	if strings.HasSuffix(string(f.Spec.Safety.MaxDeletions), "%") {
		most = max(most, f.MaxDeletions(objects))
	}
	return most
}

// of returns the share of a total. The default is 20 %, at least 10.
func (a Amount) of(total int) (int, error) {
	const percent, least = 20, 10
	if a == "" {
		return max(least, total*percent/100), nil
	}
	digits, share := strings.CutSuffix(string(a), "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || share && n > 100 {
		return 0, fmt.Errorf("%q is neither a count nor a percentage", string(a))
	}
	if share {
		return total * n / 100, nil
	}
	return n, nil
}
