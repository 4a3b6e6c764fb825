package promote

import (
	"fmt"
	"slices"
	"strings"
)

// approvalsGate counts the approvals of exactly this tree. ok is false if none are needed.
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
		g.State, g.Reason = Unknown, "its authors, whose approvals do not count, are unknown: "+c.AuthorsUnknown
		return g, true
	}
	if len(by) < need {
		g.State = Waiting
		if void := slices.ContainsFunc(x.rec.Approvals, func(p Approval) bool { return p.Tree != tree }); void {
			g.Reason += "; earlier approvals were for another tree, and are void"
		}
	}
	return g, true
}

// approvers are the people whose approval of a tree counts.
func (x *decider) approvers(tree string) []string {
	a := x.p.Approvers
	var out []string
	for _, p := range x.rec.Approvals {
		named := len(a.Users)+len(a.Teams) == 0 || hasFold(a.Users, p.By) ||
			slices.ContainsFunc(p.Teams, func(t string) bool { return hasFold(a.Teams, t) })
		author := x.s.Candidate != nil && hasFold(x.s.Candidate.Authors, p.By)
		requester := x.rec.Request != nil && strings.EqualFold(x.rec.Request.By, p.By) && x.secondPerson(x.rec.Request)
		if tree != "" && p.Tree == tree && named && !author && !requester {
			out = append(out, p.By)
		}
	}
	slices.Sort(out)
	return out
}

// expediting is a request to overtake the gates of the rollout under way; nil if there is none.
func (x *decider) expediting() *Request {
	q, p := x.rec.Request, x.rec.Progress
	if q == nil || p == nil || !q.Now || p.Now || !p.Done.IsZero() || len(q.Apps) > 0 || !p.Source.Equal(q.Source) || p.Tree != x.s.Running.Tree {
		return nil
	}
	return q
}

// expediteGate says whether a second person agrees, where sluice.yaml requires one.
func (x *decider) expediteGate(q *Request) Gate {
	g := Gate{Name: GateApprovals, State: Green}
	if !x.secondPerson(q) {
		return g
	}
	if by := x.approvers(x.s.Running.Tree); len(by) > 0 {
		g.Reason = strings.Join(by, ", ")
		return g
	}
	g.State, g.Since, g.Reason = Waiting, q.At, fmt.Sprintf("somebody other than %s must agree: %s", q.By, x.s.command("approve", x.s.Environment.Name))
	return g
}

// Expedited is the tree that an approval is about while a request to expedite the rollout under way needs a second person;
// empty if none does.
func Expedited(s Situation) (string, error) {
	x, err := prepare(s)
	if err != nil {
		return "", err
	}
	if err := x.observe(); err != nil {
		return "", err
	}
	if x.expediting() == nil {
		return "", nil
	}
	return s.Running.Tree, nil
}

// offer records since when people can agree to a tree: an earlier approval is of another one.
func (x *decider) offer(w Proposal) error {
	c := x.s.Candidate
	_, needed := x.approvalsGate()
	if !needed && x.mode() != modeRequest || c == nil || c.Tree == "" || !c.Source.Equal(w.Source) || x.rec.Offered.Is(c.Tree) {
		return nil
	}
	return x.emit(Event{Kind: EventOffered, Source: w.Source, Tree: c.Tree})
}

// secondPerson reports whether a requested promotion needs the approval of a second person.
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
