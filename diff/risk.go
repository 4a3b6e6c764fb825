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

// Compare is Compare with the fleet's risks.
func (r Rules) Compare(targets []Target, withheld []Withheld, environments []string, f Fleet) *ChangeSet {
	b := r.NewBuilder()
	for _, same := range alike(targets) {
		b.Add(same)
	}
	return b.ChangeSet(withheld, environments, f)
}

// NewBuilder is NewBuilder with the fleet's risks.
func (r Rules) NewBuilder() *Builder {
	return &Builder{
		rules: r, known: map[pairKey]*ObjectChange{}, groups: map[string]*mergedGroup{},
		images: newImages{at: map[[3]string]int{}},
	}
}

// Risk returns the risk of an effect whose risk is otherwise another one.
func (r Rules) Risk(name EffectName, otherwise Risk) Risk { return cmp.Or(r.Risks[name], otherwise) }

// group sets the risks of one group: that of the gravest of its environments.
func (r Rules) group(g *Group) {
	production := r.Production != nil && slices.ContainsFunc(g.Environments, r.Production)
	g.Risk = RiskNone
	for i := range g.Objects {
		c := &g.Objects[i]
		c.Effects = slices.Clone(c.Effects) // other groups share them
		for j := range c.Effects {
			e := &c.Effects[j]
			otherwise := e.Risk
			if e.Name == EffectReplicasCut && production {
				otherwise = Graver(otherwise, RiskHigh)
			}
			e.Risk = r.Risk(e.Name, otherwise)
		}
		c.setRisk(r)
		g.Risk = Graver(g.Risk, c.Risk)
	}
	slices.SortStableFunc(g.Objects, func(a, b ObjectChange) int { return byRisk(&a, &b) })
}

// Graver returns the graver of two risks.
func Graver(a, b Risk) Risk {
	if b.Rank() < a.Rank() {
		return b
	}
	return a
}

// setRisk sets the risk of a change: the gravest of its effects, or that of the change itself.
func (o *ObjectChange) setRisk(r Rules) {
	switch o.Verb {
	case Added:
		o.Risk = r.Risk(EffectAdded, RiskMedium)
	case Removed:
		o.Risk = r.Risk(EffectRemoved, RiskHigh)
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
		o.Risk = Graver(o.Risk, e.Risk)
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
