package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/expression"
)

// foresight is how far ahead the time is looked for at which an expression becomes true.
const foresight = 7 * 24 * time.Hour

// expressionGates evaluate the expressions of sluice.yaml.
func (x *gatekeeper) expressionGates(w Proposal) []Gate {
	if len(x.p.Gates) == 0 {
		return nil
	}
	out := make([]Gate, 0, len(x.p.Gates))
	facts := x.expressionFacts(w)
	for _, one := range x.p.Gates {
		g := Gate{Name: GateExpression + one.Name, State: Green, Reason: notOfFirst}
		if !x.first() {
			g = expressionGate(one, facts)
		}
		out = append(out, g)
	}
	return out
}

func expressionGate(one fleet.GateExpression, facts *expression.Facts) Gate {
	g := Gate{Name: GateExpression + one.Name, State: Green}
	if one.Unavailable != "" {
		g.State, g.Reason = Unknown, one.Unavailable
		return g
	}
	e, err := expression.Compile(one.Expr)
	if err != nil {
		g.State, g.Reason = Unknown, err.Error()
		return g
	}
	result := e.Evaluate(facts)
	if result.Open {
		return g
	}
	g.Terms = e.Explain(facts)
	if len(result.Unknown) > 0 {
		g.State, g.Reason = Unknown, strings.Join(result.Unknown, "; ")
		return g
	}
	g.State, g.Reason = Waiting, one.Message
	if g.Reason == "" {
		g.Reason = "not true: " + strings.Join(closedTerms(g.Terms, e.Explain(facts.At(facts.Now.Add(time.Minute)))), "; ")
	}
	if at, ok := e.Opens(facts, facts.Now.Add(foresight)); ok {
		g.Until = at
		g.Reason += "; if nothing else changes, it opens " + Stamp(at)
	}
	return g
}

// closedTerms describes the parts of an expression that are not true. It leaves out facts that change all the time, later
// and with each check: the reason is written to merge requests again when it changes.
func closedTerms(terms, later []expression.Term) []string {
	var out []string
	for i, t := range terms {
		if t.Value == "true" {
			continue
		}
		t.Facts = slices.DeleteFunc(slices.Clone(t.Facts), func(fact string) bool {
			name, _, _ := strings.Cut(fact, " = ")
			return strings.HasPrefix(name, "checks.") && strings.HasSuffix(name, ".value") ||
				i >= len(later) || !slices.Contains(later[i].Facts, fact)
		})
		out = append(out, t.String())
	}
	return out
}

// waveFacts returns the waves of an environment that promotions come from. unknown says why
// nothing is known of them.
func (x *gatekeeper) waveFacts(w Proposal, b Upstream, watch *UpstreamHistory, unknown string, out *expression.Facts,
) map[string]expression.Wave {
	if why := cmp.Or(unknown, b.WavesUnknown); why != "" {
		out.Unknown[expression.Path("upstreams", b.Name, "waves")] = why
		return nil
	}
	waves := map[string]expression.Wave{}
	for _, wave := range b.Waves {
		one := expression.Wave{Clusters: wave.Clusters}
		on := slices.DeleteFunc(living(b.Clusters), func(c ClusterState) bool { return !slices.Contains(wave.Clusters, c.Name) })
		switch h := judge(x.p.Health, on); {
		case len(on) == 0, wave.Healthy.IsZero(), watch == nil, b.Source.Empty(), !x.order.contains(b.Source, w.Promoted, w.Apps):
		case slices.ContainsFunc(on, ClusterState.behind):
		case h.state == Unknown:
			for _, field := range []string{"healthy", "soak"} {
				out.Unknown[expression.Path("upstreams", b.Name, "waves", wave.Name, field)] = h.reason
			}
		case h.state == Green:
			one.Healthy, one.Soak = true, max(x.s.Now.Sub(later(wave.Healthy, watch.LastRed)), 0)
		}
		waves[wave.Name] = one
	}
	return waves
}

// expressionFacts returns what expressions ask for.
func (x *gatekeeper) expressionFacts(w Proposal) *expression.Facts {
	out := &expression.Facts{Unknown: map[string]string{}}
	if f := x.s.Facts; f != nil {
		out.Commit, out.Changes, out.History = f.Commit, f.Changes, f.History
		maps.Copy(out.Unknown, f.Unknown)
	} else {
		for _, name := range []string{"commit", "changes", "history"} {
			out.Unknown[name] = "the proposal is not rendered yet"
		}
	}
	out.Now = x.s.Now
	out.Environment = expression.Environment{
		Name: x.s.Environment.Name, Clusters: slices.Sorted(maps.Keys(x.clusters)), Runs: x.s.Running.Source.Commit,
	}
	out.Request = expression.Request{By: w.By, Reason: w.Reason, Apps: w.Apps, Workspaces: w.Workspaces}
	if c := x.s.Candidate; c != nil {
		out.Approvals.By = x.agreement.approvers(c.Tree, x.agreement.candidateAuthors(), false)
		out.Approvals.Count = int64(len(out.Approvals.By))
		if c.AuthorsUnknown != "" {
			out.Unknown["approvals"] = "the authors of its commits, whose approvals do not count, are unknown: " + c.AuthorsUnknown
		}
	} else {
		out.Unknown["approvals"] = "the proposal is not rendered yet"
	}
	out.Upstreams = map[string]expression.Upstream{}
	for _, name := range x.s.Environment.After {
		i := slices.IndexFunc(x.s.Before, func(b Upstream) bool { return b.Name == name })
		if i < 0 || x.s.Before[i].Foreign != "" {
			out.Unknown[expression.Path("upstreams", name)] = "what it runs is not known"
			continue
		}
		b, watch := x.s.Before[i], x.rec.Before[name]
		one := expression.Upstream{Runs: b.Source.Commit}
		health := x.upstreams.health(b)
		unknown := ""
		switch {
		case b.receiptGate(x.s.Now).State != Green:
			unknown = b.receiptGate(x.s.Now).Reason
		case watch == nil || b.Source.Empty() || b.idle():
		case !x.order.knows(b.Source):
			unknown = "it runs " + b.Source.String() + ", which is not on the known part of the trunk"
		case !x.order.contains(b.Source, w.Promoted, w.Apps):
		case health.state == Unknown:
			unknown = health.reason
		case health.state == Green:
			if since := x.healthySince(w, watch); !since.IsZero() {
				one.Healthy, one.Soak = true, max(x.asOf(name).Sub(since), 0)
			}
		}
		ofWaves := unknown
		if health.state == Unknown && unknown == health.reason { // each wave has a health of its own
			ofWaves = ""
		}
		one.Waves = x.waveFacts(w, b, watch, ofWaves, out)
		switch {
		case b.Site == nil:
			out.Unknown[expression.Path("upstreams", name, "receiptAge")] = "it is not isolated"
		case b.Site.Unknown != "":
			out.Unknown[expression.Path("upstreams", name, "receiptAge")] = b.Site.Unknown
		default:
			one.ReceiptAge = x.s.Now.Sub(b.Site.Made)
		}
		if unknown != "" {
			for _, field := range []string{"healthy", "soak"} {
				out.Unknown[expression.Path("upstreams", name, field)] = unknown
			}
		}
		out.Upstreams[name] = one
	}
	out.Checks = map[string]expression.Check{}
	for i, g := range checks(x.s, time.Time{}) {
		name := x.p.Checks[i].Name
		if g.State == Unknown {
			out.Unknown[expression.Path("checks", name)] = g.Reason
			continue
		}
		one := expression.Check{Green: g.State == Green, Reason: g.Reason}
		n := slices.IndexFunc(x.s.Checks, func(r CheckResult) bool { return r.Name == name })
		if v := x.s.Checks[n].Value; v != nil {
			one.Value = *v
		} else {
			out.Unknown[expression.Path("checks", name, "value")] = "it is no query of Prometheus, or has no number"
		}
		out.Checks[name] = one
	}
	return out
}
