package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// gatekeeper lists what must be true before a promotion begins.
type gatekeeper struct {
	*facts
	agreement    *agreement
	rolloutGates *rolloutGates
	upstreams    *upstreams
}

// gates returns the gates of a promotion.
func (x *gatekeeper) gates(w Proposal) []Gate {
	gates := []Gate{x.branchGate(w), x.rolloutGates.haltGate()}
	if site := x.s.Site; site != nil && site.Contradicts != "" { // an old receipt, or none, holds nothing up: what is promoted must reach the site first
		gates = append(gates, site.Gate(x.s.Now))
	}
	if g, ok := x.holdGate(w); ok && !w.Renders { // what is held stays at what it runs
		gates = append(gates, g)
	}
	gates = append(gates, x.rolloutGates.timeGates(w.Overtakes)...)
	if !w.Overtakes {
		if g, ok := x.treeGate(w); ok {
			gates = append(gates, g)
		} else if !w.Renders { // the commits run already
			gates = append(gates, x.upstreamGates(w)...)
		}
		gates = append(gates, x.progressGate())
		gates = append(gates, x.checkGates()...)
		gates = append(gates, x.expressionGates(w)...)
	}
	gates = append(gates, x.describedGates(w)...)
	gates = append(gates, x.renderedGates(w)...)
	if g, ok := x.agreement.approvalsGate(); ok {
		gates = append(gates, g)
	}
	return gates
}

// holdGate describes what holds leave out of a promotion, and which held commits it promotes. It blocks a promotion
// that would be empty without the held apps, and a request that brings back, without --again, what was rolled back.
func (x *gatekeeper) holdGate(w Proposal) (Gate, bool) {
	g := Gate{Name: GateHold, State: Green}
	if len(w.Returns) > 0 {
		return Gate{Name: GateHold, State: Red, Reason: x.s.ReturnsText(w)}, true
	}
	var parts []string
	if len(w.Held) > 0 {
		parts = append(parts, "leaves out "+Few(w.Held)+", which is held back")
	}
	if w.note != "" {
		parts = append(parts, w.note)
	}
	if len(w.Released) > 0 {
		parts = append(parts, short(w.Promoted.Commit)+" changes "+Few(w.Released)+", so the hold ends when it lands")
	}
	if w.By != "" {
		for _, h := range x.rec.Holds {
			if h.Tree != "" && x.order.contains(w.Source, h.Source, h.Apps) &&
				(len(w.Apps) == 0 || len(h.Apps) == 0 || slices.ContainsFunc(h.Apps,
					func(a string) bool { return slices.Contains(w.Apps, a) })) {
				parts = append(parts, fmt.Sprintf("%s asked for what is held back, so the hold on %s ends when it lands", w.By, h.Scope(x.s.Environment.Name)))
			}
		}
	}
	if w.Source.equalOn(x.s.Running.Source, x.names()) && len(w.Held) > 0 {
		g.State = Waiting
	}
	g.Reason = strings.Join(parts, "; ")
	return g, len(parts) > 0
}

// branchGate refuses commits that cannot be ordered: a commit that is not on the known part of the trunk might be
// older.
func (x *gatekeeper) branchGate(w Proposal) Gate {
	g := Gate{Name: GateBranch, State: Green}
	switch {
	case w.Renders && x.order.knows(w.Promoted): // whatever a foreign tip says of itself
	case !x.order.knows(x.s.Running.Source) && w.Overtakes && x.order.knows(w.Promoted):
		g.Reason = fmt.Sprintf("it runs %s, which is not on the trunk any more; --now continues from there",
			x.s.Running.Source)
	case !x.order.knows(x.s.Running.Source):
		g.State, g.Reason = Unknown, fmt.Sprintf("it runs %s, which is not on the trunk%s", x.s.Running.Source,
			x.unknownAdvice())
	case !x.order.knows(w.Promoted):
		g.State, g.Reason = Unknown, fmt.Sprintf("%s is not on the trunk%s", w.Promoted, x.unknownAdvice())
	case len(w.Apps) > 0 && x.s.Running.Source.Empty():
		g.State, g.Reason = Red,
			"the environment runs nothing yet: promote a whole commit first, without --app or --workspace"
	}
	return g
}

// unknownAdvice returns the next step for a commit that is not on the known part of the trunk. An incomplete clone is
// never a reason to bypass a gate.
func (x *gatekeeper) unknownAdvice() string {
	if x.s.Shallow {
		return " as far as this shallow clone knows: run `git fetch --unshallow`"
	}
	return "; if the trunk was rewritten, promote with --now"
}

func (x *gatekeeper) progressGate() Gate {
	g := Gate{Name: GateProgress, State: Green}
	p := x.rec.Progress
	if p == nil || !p.Done.IsZero() || x.p.RestartBake || x.s.Site != nil { // the site decides what it takes next
		return g
	}
	g.State, g.Since = Waiting, p.Started
	g.Reason = fmt.Sprintf("the rollout of %s is not complete", p.Source)
	for _, w := range x.waves {
		if b := x.rolloutGates.bakeGate(w); b.State != Green {
			g.Until = b.Until
			break
		}
	}
	return g
}

// upstreamGates check that the upstream environments run the source, and have done so for long enough.
func (x *gatekeeper) upstreamGates(w Proposal) []Gate {
	gates := make([]Gate, 0, len(x.s.Environment.After))
	for _, name := range x.s.Environment.After {
		i := slices.IndexFunc(x.s.Before, func(b Upstream) bool { return b.Name == name })
		if i < 0 {
			gates = append(gates, Gate{Name: GateBefore + name, State: Unknown, Reason: "what it runs is unknown"})
			continue
		}
		gates = append(gates, x.upstreamGate(w, x.s.Before[i]))
	}
	return gates
}

// treeGate makes a tree that an upstream environment rendered again bake there like a commit: anything may have changed in it.
func (x *gatekeeper) treeGate(w Proposal) (Gate, bool) {
	if !w.Renders || len(x.s.Before) != 1 || x.s.Before[0].Tree == "" {
		return Gate{}, false
	}
	b := x.s.Before[0]
	g := Gate{Name: GateBefore + b.Name, State: Green, Since: b.Since}
	if len(x.stages) > 0 {
		g.State, g.Reason = Red, b.Name+" rendered again what describes clusters, and all of them would change at once: bring another commit"
		return g, true
	}
	if ends := b.Since.Add(x.bake); x.bake > 0 && x.s.Now.Before(ends) {
		g.State, g.Reason = Waiting, fmt.Sprintf("rendered again at %s, bakes until %s", Stamp(b.Since), Stamp(ends))
	}
	return g, true
}

// foreignUpstreams returns gates for upstream environments whose branches have foreign commits, or whose receipts cannot
// be believed, if promotion does not wait for a person. Their next state is unknown.
func (x *gatekeeper) foreignUpstreams() []Gate {
	if x.mode() == modeManual || x.rec.Request != nil {
		return nil
	}
	var out []Gate
	for _, b := range x.s.Before {
		if b.Foreign != "" {
			out = append(out, Gate{Name: GateBefore + b.Name, State: Red, Reason: b.Foreign})
		} else if g := b.receiptGate(x.s.Now); g.State != Green {
			out = append(out, g)
		}
	}
	return out
}

// notOfFirst is the reason of a gate that a promotion passes because nothing ran in the environment before: nothing can
// be worse than it was. What says whether the commit is good and who wants it, and when, still counts.
const notOfFirst = "does not apply to a first fill"

// checkGates returns the checks before a promotion.
func (x *gatekeeper) checkGates() []Gate {
	gates := checks(x.s, time.Time{})
	if x.first() {
		for i := range gates {
			gates[i] = Gate{Name: gates[i].Name, State: Green, Reason: notOfFirst}
		}
	}
	return gates
}

// inapplicable lists the gates that do not apply to the first state of an environment: "bake of dev (30m0s)".
func (x *gatekeeper) inapplicable() []string {
	var out []string
	for _, name := range x.s.Environment.After {
		if x.bake > 0 {
			out = append(out, fmt.Sprintf("bake of %s (%s)", name, x.bake))
		}
	}
	for _, c := range x.p.Checks {
		out = append(out, GateCheck+c.Name+" before the first wave")
	}
	for _, g := range x.p.Gates {
		out = append(out, GateExpression+g.Name)
	}
	for _, w := range x.waves {
		if w.Bake > 0 {
			out = append(out, fmt.Sprintf("bake of wave %s (%s)", w.Name, w.Bake))
		}
	}
	return out
}

func (x *gatekeeper) upstreamGate(w Proposal, b Upstream) Gate {
	g := Gate{Name: GateBefore + b.Name, State: Waiting}
	watch := x.rec.Before[b.Name]
	switch {
	case b.Foreign != "":
		g.State, g.Reason = Red, b.Foreign
		return g
	case b.receiptGate(x.s.Now).State != Green:
		return b.receiptGate(x.s.Now)
	case b.Source.Empty() || watch == nil || len(watch.Ran) == 0:
		g.Reason = b.Name + " runs nothing yet"
		return g
	case !x.order.knows(b.Source):
		g.State, g.Reason = Unknown, fmt.Sprintf("%s runs %s, which is not on the known part of the trunk", b.Name,
			b.Source)
		return g
	case !x.order.contains(b.Source, w.Promoted, w.Apps):
		g.Reason = fmt.Sprintf("%s runs %s%s", b.Name, b.Source, b.asOf(x.s.Now))
		return g
	}
	if b.idle() {
		g.Reason = fmt.Sprintf("all clusters of %s are frozen and none runs %s; unfreeze one", b.Name, b.Source)
		return g
	}
	if h := x.upstreams.health(b); h.state != Green {
		g.State, g.Reason, g.Since = h.state, b.Name+": "+h.reason, watch.LastRed
		return g
	}
	healthy := x.healthySince(w, watch)
	if healthy.IsZero() {
		g.Reason = b.Name + " has not completed its rollout" + b.held(x.s.Now)
		return g
	}
	g.Since, g.Until = healthy, healthy.Add(x.bake)
	if x.first() && x.bake > 0 {
		g.Reason = fmt.Sprintf("the bake of %s %s", x.bake, notOfFirst)
	} else if x.asOf(b.Name).Before(g.Until) {
		g.Reason = fmt.Sprintf("it bakes in %s until %s", b.Name, Stamp(g.Until))
		if b.Site != nil { // no time that passes here shows that the site stayed healthy
			g.Reason += fmt.Sprintf(", which only a receipt of that time or later shows (the newest is of %s)", Stamp(b.Site.Made))
		}
		return g
	}
	g.State, g.Until = Green, time.Time{}
	return x.upstreams.gate(w, b.Name, g)
}

// healthySince returns the start of the unbroken time in which an upstream environment ran the proposal without a red
// status; zero if it has not completed its rollout.
func (x *gatekeeper) healthySince(w Proposal, watch *UpstreamHistory) time.Time {
	var healthy time.Time
	for _, r := range slices.Backward(watch.Ran) {
		if !x.order.contains(r.Source, w.Promoted, w.Apps) {
			break
		}
		if !r.Healthy.IsZero() {
			healthy = r.Healthy
		}
	}
	if !healthy.IsZero() && watch.LastRed.After(healthy) {
		return watch.LastRed
	}
	return healthy
}

// renderedGates compare the candidate with the proposal, and report its policy verdict.
func (x *gatekeeper) renderedGates(w Proposal) []Gate {
	rendered, policy := Gate{Name: GateRendered, State: Green},
		Gate{Name: GatePolicy, State: Unknown, Reason: "not rendered yet"}
	c := x.s.Candidate
	switch {
	case c == nil || !c.Source.Equal(w.Source):
		rendered.State, rendered.Reason = Waiting, w.Source.String()+" is not rendered yet"
	case c.Base != x.s.Running.Commit:
		rendered.State, rendered.Reason = Waiting, "the environment branch has moved since it was rendered"
	case c.Blocked != "":
		rendered.State, rendered.Reason = Red, c.Blocked
		policy.State, policy.Reason = c.Policy, c.Reason
	case c.Policy == Red || c.Policy == Waiting || c.Policy == Green:
		policy.State, policy.Reason = c.Policy, c.Reason
		if c.Tree == "" && c.Policy == Green {
			rendered.State, rendered.Reason = Unknown, "its tree is unknown"
		}
	default:
		policy.Reason = cmp.Or(c.Reason, "policy has not judged it yet")
	}
	return []Gate{rendered, policy}
}
