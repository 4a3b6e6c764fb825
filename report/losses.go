package report

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
)

// LossGroup is the clusters of an environment that lose alike.
type LossGroup struct {
	Name        diff.EffectName
	Risk        diff.Risk
	Environment string
	list        []diff.Loss // one for each cluster; one without a cluster for the environment itself
}

// GroupLosses groups the losses of a change set by environment and kind, in their order.
func GroupLosses(c *diff.ChangeSet) []*LossGroup {
	var out []*LossGroup
	for _, l := range c.Losses {
		i := slices.IndexFunc(out, func(g *LossGroup) bool { return g.Name == l.Name && g.Environment == l.Environment })
		if i < 0 {
			i = len(out)
			out = append(out, &LossGroup{Name: l.Name, Risk: l.Risk, Environment: l.Environment})
		}
		out[i].list = append(out[i].list, l)
	}
	return out
}

// Text says what is lost: "`prod/eu-1` loses 12 of its 20 objects". name writes names.
func (g *LossGroup) Text(name naming) string {
	const most = 4
	first := g.list[0]
	var names []string
	for _, l := range g.list[:min(most, len(g.list))] {
		names = append(names, name(diff.Place(l.Environment, l.Cluster)))
	}
	where := strings.Join(names, ", ")
	if rest := len(g.list) - most; rest > 0 {
		where += " and " + Number(rest) + " more"
	}
	verb := " loses "
	if len(g.list) > 1 {
		verb = " lose "
	}
	switch {
	case g.Name == diff.EffectEnvironmentGone && first.Lost == first.Had:
		return name(g.Environment) + " goes with its " + Count(first.Had, "cluster")
	case g.Name == diff.EffectEnvironmentGone:
		return name(g.Environment) + " goes with " + Number(first.Lost) + " of its " + Count(first.Had, "cluster")
	case g.Name == diff.EffectEmptied && len(g.list) == 1:
		return where + verb + "all that it has: " + Count(first.Had, first.Unit)
	case g.Name == diff.EffectEmptied:
		return where + verb + "all that they have"
	case len(g.list) == 1:
		return where + verb + Number(first.Lost) + " of its " + Count(first.Had, first.Unit)
	}
	least := slices.MinFunc(g.list, func(a, b diff.Loss) int { return a.Lost*b.Had - b.Lost*a.Had })
	const percent = 100
	return where + verb + Number(percent*least.Lost/least.Had) + " % of what they have, or more"
}

// criticalLosses counts the losses of critical risk.
func criticalLosses(c *diff.ChangeSet) int {
	n := 0
	for i := range c.Losses {
		if c.Losses[i].Risk == diff.RiskCritical {
			n++
		}
	}
	return n
}
