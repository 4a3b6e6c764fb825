package site

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/site/conform"
)

// appView is what the page of an app fills in.
type appView struct {
	App    *App
	Fleet  *Fleet
	Places []appPlaces
	Events []Event
	Leads  []lead
}

// lead is the age that commits of the trunk have when they reach an environment, of those that changed an app.
type lead struct {
	Environment *Environment
	Median      string // at the environment branch; "" if no promotion has a known age
	Of          int    // promotions that Median is of
	Lacks       int    // promotions whose age is unknown
	Newest      Commit // the oldest commit of the newest promotion with a known age
	Landed      string // its age at the environment branch
	Complete    string // its age at the end of the last wave; "" if that is not recorded
	Underway    bool
}

// newLead computes the ages of the commits that changed an app from the promotions to an environment that changed it,
// newest first; false if there are none. An environment that follows the trunk has none: its commits have the dates of
// their source commits.
func newLead(e *Environment, app string, changes []Event) (lead, bool) {
	out := lead{Environment: e}
	var all []time.Duration
	for _, h := range changes {
		if !h.promoted || h.Kind == kindRollback {
			continue
		}
		commit, age, ok := h.age(app)
		if !ok {
			out.Lacks++
			continue
		}
		if all = append(all, age); len(all) > 1 {
			continue
		}
		out.Newest, out.Landed = commit, span(age)
		if e.Status == nil || e.Status.Decision.Record.Progress == nil {
			continue
		}
		if p := e.Status.Decision.Record.Progress; p.Tree == h.tree.String() {
			if out.Underway = p.Done.IsZero(); !out.Underway {
				out.Complete = span(p.Done.Sub(commit.At))
			}
		}
	}
	if out.Of = len(all); out.Of > 0 {
		out.Median = span(median(all))
	}
	return out, out.Of+out.Lacks > 0
}

// appPlaces is an app in one environment.
type appPlaces struct {
	Environment *Environment
	Variants    []placedVariant
}

type placedVariant struct {
	Tag      string // of the app's image; "" without one
	Image    string
	Version  string
	Commit   Commit
	Behind   bool // the clusters do not hold the environment's state of the app yet
	Clusters []*Cluster
	Health   healthCount
}

const appEvents = 50 // events of an app that are listed

func newAppView(f *Fleet, a *App) *appView {
	out := &appView{App: a, Fleet: f}
	for _, e := range f.Environments {
		one := appPlaces{Environment: e}
		for _, p := range a.Placed {
			if p.Cluster.Environment == e {
				one.add(p)
			}
		}
		if len(one.Variants) > 0 {
			slices.SortStableFunc(one.Variants, func(a, b placedVariant) int {
				return cmp.Compare(len(b.Clusters),
					len(a.Clusters))
			})
			out.Places = append(out.Places, one)
		}
		var changes []Event
		for _, h := range e.History {
			if slices.ContainsFunc(h.Apps, func(c AppChange) bool { return c.App == a.Name }) {
				changes = append(changes, h)
			}
		}
		out.Events = append(out.Events, changes...)
		if l, ok := newLead(e, a.Name, changes); ok {
			out.Leads = append(out.Leads, l)
		}
	}
	slices.SortStableFunc(out.Events, func(a, b Event) int { return b.At.Compare(a.At) })
	out.Events = out.Events[:min(len(out.Events), appEvents)]
	return out
}

func (o *appPlaces) add(p *Placed) {
	behind := p.Tree != p.Desired
	i := slices.IndexFunc(o.Variants, func(v placedVariant) bool {
		return v.Version == p.Version && v.Image == p.Image && v.Commit.Hash == p.Commit.Hash && v.Behind == behind
	})
	if i < 0 {
		i = len(o.Variants)
		o.Variants = append(o.Variants, placedVariant{
			Tag: p.Tag(), Image: p.Image, Version: p.Version, Commit: p.Commit, Behind: behind,
		})
	}
	v := &o.Variants[i]
	v.Clusters = append(v.Clusters, p.Cluster)
	v.Health.addOf(p)
}

// clusterView is what the page of a cluster fills in.
type clusterView struct {
	Cluster  *Cluster
	Labels   []conform.Label
	Commands []action
}

func newClusterView(c *Cluster) *clusterView {
	out := &clusterView{Cluster: c}
	for k, v := range c.Labels {
		out.Labels = append(out.Labels, conform.Label{Key: k, Value: v})
	}
	slices.SortStableFunc(out.Labels, func(a, b conform.Label) int { return cmp.Compare(a.Key, b.Key) })
	out.Commands = []action{
		{"Show what the branch should hold", command{Terminal: "sluice render --cluster " + shell(c.Name)}},
		{"Print the objects that sync the branch", command{Terminal: "sluice bootstrap flux --cluster " +
			shell(c.Name)}},
		{"Freeze it", newCommand("freeze", c.Name, "--until", "4h", "--reason", "WHY")},
	}
	if c.Environment.Status != nil {
		out.Commands = append(out.Commands, action{
			"Roll it back",
			newCommand("rollback", c.Environment.Name, "--cluster", c.Name, "--reason", "WHY"),
		})
	}
	return out
}
