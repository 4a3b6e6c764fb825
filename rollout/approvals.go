package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

// agreement counts the approvals of a promotion, or of expediting it.
type agreement struct{ *facts }

// approvalsGate counts the approvals of exactly this tree. ok is false if no approval is required.
func (x *agreement) approvalsGate() (Gate, bool) {
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
	workspace, own := x.workspace()
	need = max(need, own.Count)
	if c := x.s.Candidate; c != nil {
		tree = c.Tree
	}
	by := x.approvers(tree, x.candidateAuthors(), x.needsNow())
	g := Gate{Name: GateApprovals, State: Green, Reason: fmt.Sprintf("%d of %d", len(by), need)}
	if len(by) > 0 {
		g.Reason += ": " + strings.Join(by, ", ")
	}
	if c := x.s.Candidate; c != nil && c.AuthorsUnknown != "" {
		g.State, g.Reason = Unknown, "the authors of its commits, whose approvals do not count, are unknown: "+
			c.AuthorsUnknown
		return g, true
	}
	if len(by) < need {
		g.State = Waiting
		if why := x.discounted(workspace); why != "" {
			g.Reason += "; approvers of workspace " + workspace + " do not count: " + why
		}
		if void := slices.ContainsFunc(x.rec.Approvals, func(p Approval) bool { return p.Tree != tree }); void {
			g.Reason += "; earlier approvals were for another tree, and are void"
		}
	}
	return g, true
}

// approvers returns the people whose approval of a tree counts. authors are the authors of the promoted commits. With
// now, an approval counts only if it was given to a request with --now.
func (x *agreement) approvers(tree string, authors []string, now bool) []string {
	var out []string
	workspace, own := x.workspace()
	for _, p := range x.rec.Approvals {
		if p.Workspace != "" && (p.Workspace != workspace || !among(own.Users, own.Teams, p.By, p.Teams)) {
			continue
		}
		if tree != "" && p.Tree == tree && (p.Now || !now) && x.countsNot(p.By, p.Teams, authors) == "" {
			out = append(out, p.By)
		}
	}
	slices.Sort(out)
	return out
}

// needsNow reports whether a second person must agree before `--now` skips gates.
func (x *agreement) needsNow() bool {
	q := x.rec.Request
	return q != nil && q.Now && x.secondPerson(q)
}

func (x *agreement) candidateAuthors() []string {
	if x.s.Candidate == nil {
		return nil
	}
	return x.s.Candidate.Authors
}

// countsNot returns the reason why a person's approval does not count; "" if it counts.
func (x *agreement) countsNot(by string, teams, authors []string) string {
	a, q := x.p.Approvers, x.rec.Request
	workspace, own := x.workspace()
	named := len(a.Users)+len(a.Teams) == 0 || among(a.Users, a.Teams, by, teams) ||
		among(own.Users, own.Teams, by, teams)
	switch {
	case !named && x.discounted(workspace) != "":
		return fmt.Sprintf("%s is not among the approvers of %s in sluice.yaml, and those of workspace %s cannot approve this: %s", by, x.s.Environment.Name, workspace, x.discounted(workspace))
	case !named && workspace != "":
		return fmt.Sprintf("%s is not among the approvers of %s in sluice.yaml, nor among those of workspace %s", by,
			x.s.Environment.Name, workspace)
	case !named:
		return fmt.Sprintf("%s is not among the approvers of %s in sluice.yaml", by, x.s.Environment.Name)
	case hasFold(authors, by):
		return by + " is an author of what it brings; somebody else must approve"
	case q != nil && strings.EqualFold(q.By, by) && x.secondPerson(q):
		return by + " asked for it; sluice.yaml requires a second person"
	}
	return ""
}

// workspace returns the workspace whose apps alone the requested promotion brings, with its approvers. It returns ""
// for any other promotion, and for a request to overtake gates: only the approvers of the environment agree to that.
func (x *agreement) workspace() (string, fleet.WorkspaceApprovers) {
	q := x.rec.Request
	if q == nil || q.Now || len(q.Apps) == 0 {
		return "", fleet.WorkspaceApprovers{}
	}
	name := fleet.WorkspaceOf(q.Apps[0])
	own, declared := x.s.Workspaces[name]
	if !declared || slices.ContainsFunc(q.Apps, func(app string) bool { return fleet.WorkspaceOf(app) != name }) {
		return "", fleet.WorkspaceApprovers{}
	}
	if x.othersUnknown() != "" { // any of them may be an author
		own.Users, own.Teams = nil, nil
	}
	return name, own
}

// discounted says why the approvers of a workspace do not count; "" if they do, or if it has none.
func (x *agreement) discounted(workspace string) string {
	if w := x.s.Workspaces[workspace]; len(w.Users)+len(w.Teams) == 0 {
		return ""
	}
	return x.othersUnknown()
}

// othersUnknown says why approvers of workspaces may be authors of the candidate's changes in other repositories; "" if
// they are not.
func (x *agreement) othersUnknown() string {
	if x.s.Candidate == nil {
		return ""
	}
	return x.s.Candidate.OthersUnknown
}

// RequestedWorkspace returns the workspace whose approvers may approve the requested promotion, because it brings only
// apps of this one. It returns "" if there is none.
func RequestedWorkspace(s Situation) (string, error) {
	x, err := prepare(s)
	if err != nil {
		return "", err
	}
	name, _ := x.agreement.workspace()
	return name, nil
}

// ApprovesWorkspace reports whether a person is among the approvers of a workspace.
func ApprovesWorkspace(s Situation, workspace string, who Person) bool {
	own := s.Workspaces[workspace]
	return who.User != "" && among(own.Users, own.Teams, who.User, who.Teams)
}

// among reports whether a person or one of their teams is in lists of users and teams.
func among(users, teams []string, by string, of []string) bool {
	return hasFold(users, by) || slices.ContainsFunc(of, func(t string) bool { return hasFold(teams, t) })
}

// CountsNot returns the reason why a person's approval would not count; "" if it would. authors are the authors of
// the commits to approve.
func CountsNot(s Situation, by string, teams, authors []string) (string, error) {
	x, err := prepare(s)
	if err != nil {
		return "", err
	}
	return x.agreement.countsNot(by, teams, authors), nil
}

// WasSeen reports whether a person who wrote at a given time could mean a tree: somebody had requested or Sluice had
// offered it by then, and Sluice offered no other tree in between.
func WasSeen(r Record, tree string, said time.Time) bool {
	if r.Offered.Is(tree) && !said.Before(r.Offered.At) {
		return true
	}
	q := r.Request // a request is bound to a commit, so its first tree may be meant before it is offered
	if q == nil || said.Before(q.asked()) {
		return false
	}
	if r.Offered.Is(tree) {
		return !r.Offered.Replaces
	}
	return !r.replaces()
}

// replaces reports whether a tree that is offered now is another one than people could see for the current request.
func (r *Record) replaces() bool { return r.offeredForRequest() || r.Request != nil && r.Request.Part }

// asked returns when the person wrote the request.
func (q *Request) asked() time.Time {
	if q.Said.IsZero() {
		return q.At
	}
	return q.Said
}

// offeredForRequest reports whether a tree was offered for the current request. Times of forges have seconds, so an offer
// may seem as old as the request that came right after it landed: what the environment runs is no open offer.
func (r *Record) offeredForRequest() bool {
	return r.Offered != nil && r.Request != nil && !r.Has(r.Offered.Tree) &&
		!r.Offered.At.Before(r.Request.asked().Truncate(time.Second))
}

// Expedition is a request to expedite the current rollout that needs the agreement of a second person.
type Expedition struct {
	Tree string    // tree that the environment runs, and that an approval is about
	By   string    // who asked for it
	At   time.Time // when they wrote it
}

// expediteGate reports whether a second person agrees, if sluice.yaml requires one.
func (x *agreement) expediteGate(q *Request) Gate {
	g := Gate{Name: GateApprovals, State: Green}
	if !x.secondPerson(q) {
		return g
	}
	if why := x.s.Running.AuthorsUnknown; why != "" {
		g.State, g.Reason = Unknown, "the authors of the rollout, whose approvals do not count, are unknown: "+why
		return g
	}
	if by := x.approvers(x.s.Running.Tree, x.s.Running.Authors, true); len(by) > 0 {
		g.Reason = strings.Join(by, ", ")
		return g
	}
	g.State, g.Since, g.Reason = Waiting, q.At, fmt.Sprintf("somebody other than %s must agree: %s", q.By,
		x.s.command("approve", x.s.Environment.Name))
	return g
}

// Expedited returns the request to expedite the current rollout. It returns nil if there is none, or if it needs no
// second person.
func Expedited(s Situation) (*Expedition, error) {
	x, err := prepare(s)
	if err != nil {
		return nil, err
	}
	if err := x.observer.observe(); err != nil {
		return nil, err
	}
	q := x.expediting()
	if q == nil || !x.agreement.secondPerson(q) {
		return nil, nil //nolint:nilnil // no request
	}
	return &Expedition{Tree: s.Running.Tree, By: q.By, At: q.asked()}, nil
}

// offer records since when people can approve a tree, because an earlier approval belongs to another tree.
func (x *agreement) offer(w Proposal) error {
	c := x.s.Candidate
	if c == nil || c.Tree == "" || !c.Source.Equal(w.Source) || x.rec.Offered.Is(c.Tree) {
		return nil
	}
	if _, needed := x.approvalsGate(); !needed && x.mode() != modeRequest && !x.p.GatesAsk("approvals") {
		return nil
	}
	return x.emit(Event{Kind: EventOffered, Source: w.Source, Tree: c.Tree})
}

// secondPerson reports whether a requested promotion needs the approval of a second person.
func (x *agreement) secondPerson(q *Request) bool {
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
