package fleet

import (
	"cmp"
	"slices"
)

// LiveValue is the value of the label of a cluster that gets traffic.
func (t *Traffic) LiveValue() string { return cmp.Or(t.Live, "live") }

// StandbyValue is the value of the label of a cluster that gets no traffic.
func (t *Traffic) StandbyValue() string { return cmp.Or(t.Standby, "standby") }

// GetsTraffic reports whether a cluster that is not retired may get traffic. Without spec.traffic, nothing tells
// clusters apart, and each may.
func (f *Fleet) GetsTraffic(c *Cluster) bool {
	t := f.Spec.Traffic
	return !c.Retired() && (t == nil || c.Labels[t.Label] != t.StandbyValue())
}

// Replacement returns the cluster that takes the place of another one. A retired one counts for none.
func (f *Fleet) Replacement(old string) (*Cluster, bool) {
	i := slices.IndexFunc(f.Clusters, func(c *Cluster) bool { return c.Replaces == old && !c.Retired() })
	if i < 0 {
		return nil, false
	}
	return f.Clusters[i], true
}

// traffic checks spec.traffic.
func (fc fleetChecks) traffic() {
	t := fc.fleet.Spec.Traffic
	if t == nil {
		return
	}
	at := []string{"spec", "traffic"}
	switch {
	case !validLabelKey(t.Label):
		fc.errorf(fc.file, append(at, "label"), "such as traffic", "%q is not a label key", t.Label)
	case slices.Contains(automatic(), t.Label):
		fc.errorf(fc.file, append(at, "label"), "choose a label that files of clusters set, such as traffic",
			"every cluster has the label %s already, with another meaning", t.Label)
	}
	for field, value := range map[string]string{"live": t.Live, "standby": t.Standby} {
		if !validLabelValue(value) {
			fc.errorf(fc.file, append(slices.Clone(at), field), "such as "+field, "%q cannot be the value of a label", value)
		}
	}
	if t.LiveValue() == t.StandbyValue() {
		fc.errorf(fc.file, at, "choose different values", "live and standby are both %q", t.LiveValue())
	}
}

// replacements checks the clusters that take the place of others.
func (l *loader) replacements() {
	by := map[string]string{}
	for _, c := range l.fleet.Clusters {
		if c.Replaces == "" || c.Retired() && c.Replaces != c.Name {
			continue
		}
		at := []string{"spec", "replaces"}
		old, ok := l.fleet.clusters[c.Replaces]
		switch {
		case c.Replaces == c.Name:
			l.errorf(c.doc, at, "name another cluster", "the cluster %s cannot replace itself", c.Name)
			continue
		case by[c.Replaces] != "":
			l.errorf(c.doc, at, "keep one of them", "the clusters %s and %s both replace %s", by[c.Replaces], c.Name, c.Replaces)
			continue
		}
		by[c.Replaces] = c.Name
		switch traffic := l.fleet.Spec.Traffic; {
		case !ok:
			if !l.lost {
				l.warnf(c.doc, at, "remove the field if that cluster is gone", "the cluster %s, which %s replaces, does not exist", c.Replaces, c.Name)
			}
		case old.Replaces == c.Name:
			l.errorf(c.doc, at, "keep one of them", "the clusters %s and %s replace each other", c.Name, old.Name)
		case old.Environment != c.Environment:
			l.errorf(c.doc, at, "a cluster replaces another one of its environment", "the cluster %s is in %s, and %s, which it replaces, in %s",
				c.Name, c.Environment, old.Name, old.Environment)
		case traffic == nil:
		case traffic.Exclusive && l.fleet.GetsTraffic(c) && l.fleet.GetsTraffic(old):
			l.errorf(c.doc, []string{"metadata", "labels", traffic.Label}, "take it from "+old.Name+" first: `sluice cluster replace` writes each step",
				"the clusters %s and %s would have the same traffic, which spec.traffic says is exclusive", old.Name, c.Name)
		case old.Retired() && !old.Detached && !l.fleet.GetsTraffic(c):
			l.errorf(c.doc, []string{"metadata", "labels", traffic.Label}, "give "+c.Name+" the traffic, or keep "+old.Name,
				"the cluster %s is retired, and %s, which replaces it, gets no traffic", old.Name, c.Name)
		}
	}
}
