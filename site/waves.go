package site

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// waves reads the waves, windows and freezes of an environment.
func (b *reader) waves(e *Environment, spec *fleet.Environment) error {
	members := make([]rollout.Cluster, 0, len(e.Clusters))
	byName := make(map[string]*Cluster, len(e.Clusters))
	for _, c := range e.Clusters {
		members = append(members, rollout.Cluster{Name: c.Name, Labels: c.Labels, State: c.State})
		byName[c.Name] = c
	}
	list, err := rollout.Waves(*spec, members)
	if err != nil {
		b.note("%v", err)
		return nil
	}
	for _, w := range list {
		one := Wave{Name: w.Name, Bake: w.Bake}
		for _, name := range w.Clusters() {
			one.Clusters = append(one.Clusters, byName[name])
		}
		if e.Status != nil {
			if i := slices.IndexFunc(e.Status.Decision.Waves,
				func(p rollout.WaveProgress) bool { return p.Name == w.Name }); i >= 0 {
				p := e.Status.Decision.Waves[i]
				one.State, one.Reason, one.Since, one.Until = string(p.State), p.Reason, p.Since, p.Until
			}
		}
		e.Waves = append(e.Waves, one)
	}
	for _, w := range spec.Promotion.Windows {
		e.Windows = append(e.Windows, Window{Text: windowText(w), Deny: w.Deny})
	}
	freezes, err := rollout.Planned(spec.Promotion)
	if err != nil {
		return err
	}
	if e.Status != nil {
		for _, f := range e.Status.Decision.Freezes {
			if f.Target == "" {
				freezes = append(freezes, f)
			}
		}
	}
	e.Open, e.OpenWhy, e.OpenNext = rollout.Open(spec.Promotion.Windows, freezes, b.request.Now)
	return nil
}

func windowText(w fleet.Window) string {
	days := "every day"
	switch {
	case len(w.Days) > 0:
		days = strings.Join(w.Days, ", ")
	case len(w.Dates) > 0:
		days = strings.Join(w.Dates, ", ")
	}
	zone := w.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	return fmt.Sprintf("%s %s–%s %s", days, w.From, w.To, zone)
}
