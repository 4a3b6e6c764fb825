package diff

import (
	"cmp"
	"slices"
)

// Rules are a fleet's own say in how grave effects are. The zero value has the risks of docs/diff.md.
type Rules struct {
	// Risks replaces the risks of effects, wherever they occur.
	Risks map[EffectName]Risk
	// Production reports whether an environment serves users; nil means that none does. EffectReplicasCut is of high
	// risk there.
	Production func(environment string) bool
}

// Apply sets the risks in a change set by the rules, and the order that follows from them. It must be called once, on
// the result of Compare or Builder.ChangeSet.
func (r Rules) Apply(c *ChangeSet) {
	for _, groups := range [][]Group{c.Groups, c.Declarations} {
		for i := range groups {
			r.group(&groups[i])
		}
		slices.SortStableFunc(groups, compareGroups)
	}
	for i := range c.Losses {
		if risk, ok := r.Risks[c.Losses[i].Name]; ok {
			c.Losses[i].Risk = risk
		}
	}
	where := map[string][]Reach{}
	for _, a := range c.Apps {
		where[a.Name] = a.Where
	}
	c.Apps, c.Totals = []App{}, Counts{}
	c.sum()
	for i := range c.Apps {
		c.Apps[i].Where = where[c.Apps[i].Name]
	}
}

// group sets the risks of one group: that of the gravest of its environments.
func (r Rules) group(g *Group) {
	production := r.Production != nil && slices.ContainsFunc(g.Environments, r.Production)
	g.Risk = RiskNone
	for i := range g.Objects {
		c := &g.Objects[i]
		c.Effects = slices.Clone(c.Effects) // other groups share them
		for j := range c.Effects {
			e := &c.Effects[j]
			if risk, ok := r.Risks[e.Name]; ok {
				e.Risk = risk
			} else if e.Name == EffectReplicasCut && production {
				e.Risk = graver(e.Risk, RiskHigh)
			}
		}
		c.setRisk(r.Risks)
		g.Risk = graver(g.Risk, c.Risk)
	}
	slices.SortStableFunc(g.Objects, func(a, b ObjectChange) int { return byRisk(&a, &b) })
	g.Summary = summary(g.Objects, g.Counts)
}

func graver(a, b Risk) Risk {
	if b.Rank() < a.Rank() {
		return b
	}
	return a
}

// setRisk sets the risk of a change: the gravest of its effects, or that of the change itself.
func (o *ObjectChange) setRisk(own map[EffectName]Risk) {
	switch o.Verb {
	case Added:
		o.Risk = cmp.Or(own[EffectAdded], RiskMedium)
	case Removed:
		o.Risk = cmp.Or(own[EffectRemoved], RiskHigh)
		if o.Orphaned() { // the effect says how grave that is
			o.Risk = RiskNone
		}
	default:
		o.Risk = RiskLow
		if o.OnlyNoise() {
			o.Risk = RiskNone
		}
	}
	for _, e := range o.Effects {
		o.Risk = graver(o.Risk, e.Risk)
	}
}

// Loss is a cluster, or a whole environment, that a change leaves with far less than it had.
type Loss struct {
	Name        EffectName `json:"effect"` // EffectEnvironmentGone, EffectEmptied or EffectLargeLoss
	Risk        Risk       `json:"risk"`
	Environment string     `json:"environment"`
	Cluster     string     `json:"cluster,omitempty"` // "" if all of the environment's clusters are meant
	Lost        int        `json:"lost"`              // of Unit
	Had         int        `json:"had"`
	Unit        string     `json:"unit"` // object, app or cluster
}
