package promote

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	modeAuto    = "auto"
	modeManual  = "manual"
	modeRequest = "request"
)

// mode of the environment: one that follows the trunk does so by itself, any other waits for commands unless told otherwise.
func (x *decider) mode() string {
	if x.p.Mode != "" {
		return x.p.Mode
	}
	if len(x.s.Environment.After) == 0 {
		return modeAuto
	}
	return modeManual
}

// Next says what an environment should run next, so that a caller can render it before it asks for a decision. Nil is nothing.
func Next(s Situation) (*Want, error) {
	x, err := prepare(s)
	if err != nil {
		return nil, err
	}
	if err := x.observe(); err != nil {
		return nil, err
	}
	return x.want(), nil
}

// Latest is what all the environments before run, for a command that names no commit: of each app the oldest of theirs. An
// environment without any before it follows the trunk.
func Latest(trunk Trunk, before []Earlier) Source {
	if len(before) == 0 {
		if len(trunk) == 0 {
			return Source{}
		}
		return Source{Commit: trunk[len(trunk)-1]}
	}
	sources := make([]Source, 0, len(before))
	for _, b := range before {
		sources = append(sources, b.Source)
	}
	return trunk.order().meet(sources...)
}

// want is what was asked for, or else what comes by itself.
func (x *decider) want() *Want {
	if q := x.rec.Request; q != nil && x.hurry() == nil {
		w := &Want{Asked: q.Source, Apps: q.Apps, Overtakes: q.Now, By: q.By, Reason: q.Reason}
		w.Source = x.order.compose(x.s.Running.Source, q.Source, q.Apps)
		return w
	}
	if x.mode() == modeManual || x.rec.Request != nil {
		return nil
	}
	return x.offered()
}

// offered is the newest source that has baked, or else the one that has baked longest. So a newer commit does not hold up
// one that bakes already, unless restartBake says so.
func (x *decider) offered() *Want {
	var ready, waiting *Want
	for _, c := range x.candidates() {
		w := &Want{Asked: c, Source: x.order.compose(x.s.Running.Source, c, nil)}
		if w.Source.Equal(x.s.Running.Source) || x.failedBefore(*w) {
			continue
		}
		if Holds(x.beforeGates(*w)) {
			if ready == nil || x.order.contains(c, ready.Asked, nil) {
				ready = w
			}
		} else if waiting == nil || x.order.contains(waiting.Asked, c, nil) {
			waiting = w
		}
	}
	return cmp.Or(ready, waiting)
}

// candidates are the sources that may come next by themselves.
func (x *decider) candidates() []Source {
	latest := Latest(x.s.Trunk, x.s.Before)
	if len(x.s.Before) < len(x.s.Environment.After) || latest.Empty() {
		return nil
	}
	out := []Source{latest}
	if len(x.s.Environment.After) == 0 || x.p.RestartBake {
		return out
	}
	for _, b := range x.s.Before {
		w := x.rec.Before[b.Name]
		if w == nil {
			continue
		}
		for _, r := range w.Ran {
			everywhere := !slices.ContainsFunc(x.s.Before, func(o Earlier) bool { return !x.order.contains(o.Source, r.Source, nil) })
			if everywhere && x.order.knows(r.Source) && !slices.ContainsFunc(out, r.Source.Equal) {
				out = append(out, r.Source)
			}
		}
	}
	return out
}

func (x *decider) failedBefore(w Want) bool {
	return slices.ContainsFunc(x.rec.Failed, func(f Failed) bool { return x.order.contains(f.Source, w.Asked, w.Apps) })
}

// gates are those of bringing w to the environment.
func (x *decider) gates(w Want) []Gate {
	gates := []Gate{x.branchGate(w), x.haltGate()}
	gates = append(gates, x.timeGates(w.Overtakes)...)
	if !w.Overtakes {
		gates = append(gates, x.beforeGates(w)...)
		gates = append(gates, x.progressGate())
		gates = append(gates, checks(x.s, time.Time{})...)
	}
	gates = append(gates, x.renderedGates(w)...)
	if g, ok := x.approvalsGate(); ok {
		gates = append(gates, g)
	}
	return gates
}

// branchGate refuses what cannot be compared: a commit that is not on the trunk, as far as is known, might go back.
func (x *decider) branchGate(w Want) Gate {
	g := Gate{Name: GateBranch, State: Green}
	switch {
	case !x.order.knows(x.s.Running.Source) && w.Overtakes && x.order.knows(w.Asked):
		g.Reason = fmt.Sprintf("it runs %s, which is not on the trunk any more; --now goes on from there", x.s.Running.Source)
	case !x.order.knows(x.s.Running.Source):
		g.State, g.Reason = Unknown, fmt.Sprintf("it runs %s, which is not on the trunk as far as is known; promote with --now if the trunk was rewritten", x.s.Running.Source)
	case !x.order.knows(w.Asked):
		g.State, g.Reason = Unknown, fmt.Sprintf("%s is not on the trunk as far as is known", w.Asked)
	case len(w.Apps) > 0 && x.s.Running.Source.Empty():
		g.State, g.Reason = Red, "it runs nothing yet: promote all of a commit first, without --app"
	}
	return g
}

func (x *decider) progressGate() Gate {
	g := Gate{Name: GateProgress, State: Green}
	p := x.rec.Progress
	if p == nil || !p.Done.IsZero() || x.p.RestartBake {
		return g
	}
	g.State, g.Since = Waiting, p.Started
	g.Reason = fmt.Sprintf("the promotion of %s is not through", p.Source)
	for _, w := range x.waves {
		if b := x.bakeGate(w); b.State != Green {
			g.Until = b.Until
			break
		}
	}
	return g
}

// beforeGates say whether the environments before run it, and have for long enough.
func (x *decider) beforeGates(w Want) []Gate {
	gates := make([]Gate, 0, len(x.s.Environment.After))
	for _, name := range x.s.Environment.After {
		i := slices.IndexFunc(x.s.Before, func(b Earlier) bool { return b.Name == name })
		if i < 0 {
			gates = append(gates, Gate{Name: GateBefore + name, State: Unknown, Reason: "what it runs is not known"})
			continue
		}
		gates = append(gates, x.beforeGate(w, x.s.Before[i]))
	}
	return gates
}

func (x *decider) beforeGate(w Want, b Earlier) Gate {
	g := Gate{Name: GateBefore + b.Name, State: Waiting}
	watch := x.rec.Before[b.Name]
	switch {
	case b.Source.Empty() || watch == nil || len(watch.Ran) == 0:
		g.Reason = b.Name + " runs nothing yet"
		return g
	case !x.order.knows(b.Source):
		g.State, g.Reason = Unknown, fmt.Sprintf("%s runs %s, which is not on the trunk as far as is known", b.Name, b.Source)
		return g
	case !x.order.contains(b.Source, w.Asked, w.Apps):
		g.Reason = fmt.Sprintf("%s runs %s", b.Name, b.Source)
		return g
	}
	if h := judge(x.p.Health, living(b.Clusters)); h.state != Green {
		g.State, g.Reason, g.Since = h.state, b.Name+": "+h.reason, watch.LastRed
		return g
	}
	var healthy time.Time // of the first state that held it, without a gap until now
	for _, r := range slices.Backward(watch.Ran) {
		if !x.order.contains(r.Source, w.Asked, w.Apps) {
			break
		}
		if !r.Healthy.IsZero() {
			healthy = r.Healthy
		}
	}
	if healthy.IsZero() {
		g.Reason = b.Name + " is not through with it"
		return g
	}
	if watch.LastRed.After(healthy) {
		healthy = watch.LastRed
	}
	g.Since, g.Until = healthy, healthy.Add(x.bake)
	if x.s.Now.Before(g.Until) {
		g.Reason = fmt.Sprintf("it bakes in %s until %s", b.Name, stamp(g.Until))
		return g
	}
	g.State, g.Until = Green, time.Time{}
	return g
}

// renderedGates hold the candidate against what is wanted, and its policy.
func (x *decider) renderedGates(w Want) []Gate {
	rendered, policy := Gate{Name: GateRendered, State: Green}, Gate{Name: GatePolicy, State: Unknown, Reason: "it is not rendered yet"}
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
			rendered.State, rendered.Reason = Unknown, "its tree is not known"
		}
	default:
		policy.Reason = "the policy has not been asked"
	}
	return []Gate{rendered, policy}
}

// approvalsGate counts who agrees to exactly this tree. ok is false if nobody is asked.
func (x *decider) approvalsGate() (Gate, bool) {
	a, tree := x.p.Approvers, ""
	need := a.Count
	if need == 0 && len(a.Users)+len(a.Teams) > 0 {
		need = 1
	}
	if x.rec.Request != nil && x.secondPerson(x.rec.Request) {
		need = max(need, 1)
	}
	if need == 0 {
		return Gate{}, false
	}
	if c := x.s.Candidate; c != nil {
		tree = c.Tree
	}
	by := x.approvers(tree)
	g := Gate{Name: GateApprovals, State: Green, Reason: fmt.Sprintf("%d of %d", len(by), need)}
	if len(by) > 0 {
		g.Reason += ": " + strings.Join(by, ", ")
	}
	if c := x.s.Candidate; c != nil && c.AuthorsUnknown != "" {
		g.State, g.Reason = Unknown, "who wrote it is not known, and authors do not count: "+c.AuthorsUnknown
		return g, true
	}
	if len(by) < need {
		g.State = Waiting
		if void := slices.ContainsFunc(x.rec.Approvals, func(p Approval) bool { return p.Tree != tree }); void {
			g.Reason += "; earlier approvals were for something else, and are void"
		}
	}
	return g, true
}

// approvers are those whose approval of a tree counts.
func (x *decider) approvers(tree string) []string {
	a := x.p.Approvers
	var out []string
	for _, p := range x.rec.Approvals {
		named := len(a.Users)+len(a.Teams) == 0 || hasFold(a.Users, p.By) ||
			slices.ContainsFunc(p.Teams, func(t string) bool { return hasFold(a.Teams, t) })
		author := x.s.Candidate != nil && hasFold(x.s.Candidate.Authors, p.By)
		asked := x.rec.Request != nil && strings.EqualFold(x.rec.Request.By, p.By) && x.secondPerson(x.rec.Request)
		if tree != "" && p.Tree == tree && named && !author && !asked {
			out = append(out, p.By)
		}
	}
	slices.Sort(out)
	return out
}

// hurry is a request to overtake the gates of the promotion that is under way; nil if there is none.
func (x *decider) hurry() *Request {
	q, p := x.rec.Request, x.rec.Progress
	if q == nil || p == nil || !q.Now || p.Now || !p.Done.IsZero() || len(q.Apps) > 0 || !p.Source.Equal(q.Source) || p.Tree != x.s.Running.Tree {
		return nil
	}
	return q
}

// hurryGate says whether somebody else agrees, where sluice.yaml asks for that.
func (x *decider) hurryGate(q *Request) Gate {
	g := Gate{Name: GateApprovals, State: Green}
	if !x.secondPerson(q) {
		return g
	}
	if by := x.approvers(x.s.Running.Tree); len(by) > 0 {
		g.Reason = strings.Join(by, ", ")
		return g
	}
	g.State, g.Since, g.Reason = Waiting, q.At, fmt.Sprintf("somebody else than %s: /sluice approve %s", q.By, x.s.Environment.Name)
	return g
}

// Hurried is the tree that an approval is about while somebody waits for a second person to let a running promotion hurry; "" if nobody does.
func Hurried(s Situation) (string, error) {
	x, err := prepare(s)
	if err != nil {
		return "", err
	}
	if err := x.observe(); err != nil {
		return "", err
	}
	if x.hurry() == nil {
		return "", nil
	}
	return s.Running.Tree, nil
}

// offer remembers since when people may agree to something: an approval from before is of something else.
func (x *decider) offer(w Want) error {
	c := x.s.Candidate
	_, asked := x.approvalsGate()
	if !asked && x.mode() != modeRequest || c == nil || c.Tree == "" || !c.Source.Equal(w.Source) || x.rec.Offered.Is(c.Tree) {
		return nil
	}
	return x.emit(Event{Kind: EventOffered, Source: w.Source, Tree: c.Tree})
}

// secondPerson says whether a promotion by command needs the approval of somebody else.
func (x *decider) secondPerson(q *Request) bool {
	for _, r := range x.p.Rights {
		if r.SecondPerson && (covers(r, "promote") || q.Now && covers(r, "now")) {
			return true
		}
	}
	return false
}

func hasFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, s) })
}
