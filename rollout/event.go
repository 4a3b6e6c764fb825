package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// EventKind is the kind of an Event.
type EventKind string

// Commands of people.
const (
	EventPromote  EventKind = "promote"
	EventCancel   EventKind = "cancel" // of a request to promote
	EventApprove  EventKind = "approve"
	EventRollback EventKind = "rollback"
	EventFreeze   EventKind = "freeze"
	EventUnfreeze EventKind = "unfreeze"
	EventHalt     EventKind = "halt"
	EventResume   EventKind = "resume"
	EventRepair   EventKind = "repair" // of branches that somebody moved
	EventRender   EventKind = "render" // of what the environment runs, again
)

// Observations: Decide finds them in a Situation, or the caller reports its own action.
const (
	EventMoved           EventKind = "moved"           // the environment branch has another tree
	EventClusters        EventKind = "clusters"        // more clusters of the rollout have moved
	EventWave            EventKind = "wave"            // all clusters of a wave have moved
	EventWaveHealthy     EventKind = "waveHealthy"     // and the clusters are healthy
	EventOffered         EventKind = "offered"         // people can approve another tree from now on
	EventExpedited       EventKind = "expedited"       // the current rollout skips its gates
	EventDone            EventKind = "done"            // the rollout is complete
	EventRequestDone     EventKind = "requestDone"     // the environment runs what was requested
	EventFailed          EventKind = "failed"          // health turned red, and the environment halts
	EventFailedBack      EventKind = "failedBack"      // health turned red, and the environment is rolled back
	EventTakenBack       EventKind = "takenBack"       // workspaces alone turned red, and go back alone
	EventRolledBack      EventKind = "rolledBack"      // a rollback is done
	EventRollbackDropped EventKind = "rollbackDropped" // a rollback cannot be done
	EventHolds           EventKind = "holds"           // the remaining holds
	EventOpened          EventKind = "opened"          // the merge request of a promotion is open
	EventClosed          EventKind = "closed"          // it is no longer open: merged, or closed by Sluice
	EventDeclined        EventKind = "declined"        // a person closed it
	EventBefore          EventKind = "before"          // an upstream environment runs another source
	EventBeforeHealthy   EventKind = "beforeHealthy"   // and the environment is healthy
	EventBeforeRed       EventKind = "beforeRed"       // an upstream environment turned red
	EventBeforeNotRed    EventKind = "beforeNotRed"    // and the environment is no longer red
	EventBeforeAlone     EventKind = "beforeAlone"     // other workspaces of an upstream environment are red
)

// Event is a change of a Record. Fields that a kind does not use are empty.
type Event struct {
	// of a command: ID of its comment and index of its line, so that a repeated event is recognised; "" for none
	ID     string
	Kind   EventKind
	By     string
	At     time.Time
	Said   time.Time // promote, freeze, halt: when the person wrote it
	Reason string

	// promote, render, moved, before, opened: the source; rollback: the source that ran; rolledBack: the source that runs
	// now
	Source Source
	Apps   []string // limit a command; Apply reads only these
	Named  []string // resume: names of the holds that it ends; see Hold.Named
	Again  string   // promote: why what was rolled back shall come again; "": it does not
	// Workspaces are those whose apps the person meant; Apps contains them. beforeAlone: those that are red.
	Workspaces []string
	Passed     []string // beforeAlone: workspaces that are not red, and that the record need not remember
	Now        bool
	Restores   bool      // moved: a rollback moved the branch
	First      bool      // moved: nothing ran before
	Renders    bool      // moved: the branch has what ran before, rendered again
	From       string    // moved: the tree that every cluster ran before; "" if that is unknown
	To         PastState // rollback, failedBack, takenBack: the state to restore
	Wave       string    // rollback, resume: the wave that Clusters belong to
	// rollback, resume: the scope; moved, rolledBack: clusters to move; done: frozen clusters that are behind
	Clusters []string
	Stopped  []string // rollback, takenBack: clusters that the current rollout has not reached
	Members  []string // resume with a scope: all clusters of the environment
	Teams    []string // approve: of the person
	// approve, moved, opened; rollback: of the branch before the rollback; rolledBack: of the branch now; takenBack: of
	// the branch then
	Tree string
	// freeze, unfreeze: a cluster, empty for the environment; before…: the upstream environment; wave…: the wave
	Target  string
	Until   time.Time
	Current int    // clusters: number of moved clusters
	Forgets int    // before: index of the upstream state that the record need not remember any more; -1 for none
	Holds   []Hold // holds
	// repair: the commits that branches have from now on; Tip is that of the environment branch, "" if it was not moved.
	// render: Tip is the commit of the environment branch to render again
	Tip  string
	Tips map[string]string
}

// Apply returns the record after an event. It does not change r. An event whose ID is already in the record has no
// effect.
func Apply(r Record, e Event) (Record, error) {
	if e.ID != "" && slices.Contains(r.Handled, e.ID) {
		return r, nil
	}
	if e.At.IsZero() {
		return r, fmt.Errorf("%s: the event has no time", e.Kind)
	}
	e.At = e.At.UTC().Truncate(time.Second) // the precision of the record
	next := r.clone()
	if err := next.apply(e); err != nil {
		return r, fmt.Errorf("%s %s: %w", e.Kind, r.Environment, err)
	}
	if e.ID != "" {
		next.Handled = append(next.Handled, e.ID)
	}
	next.logCommand(e)
	return next.bounded(), nil
}

func (r *Record) apply(e Event) error {
	switch e.Kind {
	case EventPromote, EventRender, EventCancel, EventApprove, EventRollback, EventHalt, EventResume, EventRepair:
		return r.command(e)
	case EventFreeze, EventUnfreeze:
		return r.freeze(e)
	case EventBefore, EventBeforeHealthy, EventBeforeRed, EventBeforeNotRed, EventBeforeAlone:
		return r.before(e)
	default:
		return r.observation(e)
	}
}

// command applies a person's command.
func (r *Record) command(e Event) error {
	if e.By == "" {
		return errors.New("the command has no author")
	}
	switch e.Kind {
	case EventPromote:
		return r.request(e)
	case EventRender:
		return r.renderAgain(e)
	case EventCancel:
		return r.cancel(e)
	case EventApprove:
		if e.Tree == "" {
			return errors.New("nothing to approve yet: wait until the promotion is rendered")
		}
		r.Approvals = slices.DeleteFunc(r.Approvals, func(a Approval) bool { return strings.EqualFold(a.By, e.By) })
		a := Approval{
			By: e.By, Teams: e.Teams, Tree: e.Tree, Now: r.Request != nil && r.Request.Now, Reason: e.Reason,
			At: e.At,
		}
		if len(e.Workspaces) > 0 {
			a.Workspace = e.Workspaces[0]
		}
		r.Approvals = append(r.Approvals, a)
	case EventRollback:
		return r.rollback(e)
	case EventHalt:
		// what was said before the last one does not end it
		if r.Halt == nil || r.Halt.By == "" || r.Halt.Asked().Before(later(e.At, e.said())) {
			r.Halt = &Halt{By: e.By, Reason: e.Reason, At: e.At, Said: e.said()}
		}
	case EventResume:
		return r.resume(e)
	case EventRepair:
		r.Tip = cmp.Or(e.Tip, r.Tip)
		if r.Tips == nil {
			r.Tips = map[string]string{}
		}
		maps.Copy(r.Tips, e.Tips)
	}
	return nil
}

// cancel withdraws the request to promote, unless it was made after the command was given.
func (r *Record) cancel(e Event) error {
	p, q := r.Progress, r.Request
	switch {
	case p != nil && p.Done.IsZero() && (q == nil || p.Source.Equal(q.Source)):
		return fmt.Errorf("the promotion to %s has begun: halt stops it, rollback takes it back", p.Source)
	case q == nil:
		return errors.New("nobody asked for a promotion that waits; in mode auto, halt or freeze keeps the next one out")
	case !e.Said.IsZero() && e.Said.Before(q.asked()):
		return fmt.Errorf("%s asked for %s after this was said: cancel again if that is meant too", actor(q.By), q.Source)
	}
	r.Request = nil
	return nil
}

// rollback requests a rollback.
func (r *Record) rollback(e Event) error {
	if e.To.Tree == "" {
		return errors.New("the earlier state is unknown: name one that `sluice history` shows")
	}
	if b := r.Rollback; b != nil && len(e.Clusters)+len(e.Apps) > 0 {
		return fmt.Errorf("a rollback that %s asked for at %s is not done yet: it continues by itself; only a rollback of the whole environment replaces it", actor(b.By), Stamp(b.At))
	}
	// this rollback may add two; at the limit, a hold would be dropped
	if len(e.Clusters)+len(e.Apps) > 0 && len(r.Holds) >= maxHolds-1 {
		return fmt.Errorf("%d parts are held back already: end some with resume, or roll back the whole environment",
			len(r.Holds))
	}
	if b := r.Rollback; b != nil && b.FromTree != e.Tree {
		r.Holds = withHolds(r.Holds, b.holds(e.At)...) // the branch moved with it, although the record does not say so
	}
	r.Rollback = &Rollback{
		To: e.To.Source, Tree: e.To.Tree, From: e.Source, FromTree: e.Tree, Wave: e.Wave, Clusters: sorted(e.Clusters),
		Apps: sorted(e.Apps), Workspaces: sorted(e.Workspaces),
		Stopped: sorted(e.Stopped), Reason: e.Reason, By: e.By, At: e.At,
	}
	r.Request = nil // it is older than the rollback
	return nil
}

func (r *Record) request(e Event) error {
	switch {
	case e.Source.Empty():
		return errors.New("the request names no source commit")
	case e.Again != "" && strings.TrimSpace(e.Again) == "":
		return errors.New("--again needs a reason")
	case e.Now && strings.TrimSpace(e.Reason+e.Again) == "":
		return errors.New("--now needs a reason")
	case r.Request != nil && r.Request.At.After(e.At):
		return errors.New("somebody requested a promotion later than this one")
	}
	for i := range r.Approvals { // earlier approvals do not agree to skipping gates
		r.Approvals[i].Now = false
	}
	for _, h := range r.Holds { // the person saw it, even if the clock was set back since
		e.At = later(e.At, h.Since)
	}
	r.Request = &Request{
		Source: e.Source.tidy(), Apps: sorted(e.Apps), Workspaces: sorted(e.Workspaces), Now: e.Now, Again: e.Again,
		Reason: cmp.Or(e.Reason, e.Again), By: e.By, At: e.At, Said: e.Said.UTC(),
	}
	r.Declined = nil
	if e.Now && r.Halt != nil && r.Halt.By == "" { // a hotfix repairs what failed
		r.Halt = nil
	}
	return nil
}

// renderAgain requests that what an environment runs is rendered again.
func (r *Record) renderAgain(e Event) error {
	switch {
	case e.Source.Empty() || e.Tip == "":
		return errors.New("it runs nothing yet")
	case strings.TrimSpace(e.Reason) == "":
		return errors.New("--again needs a reason")
	case r.Rollback != nil:
		return fmt.Errorf("the rollback to %s by %s is not complete: render again afterwards", r.Rollback.To,
			actor(r.Rollback.By))
	case r.Request != nil && r.Request.At.After(e.At):
		return errors.New("somebody requested a promotion later than this one")
	}
	r.Request = &Request{Source: e.Source.tidy(), Renders: e.Tip, Reason: e.Reason, By: e.By, At: e.At}
	return nil
}

func (r *Record) freeze(e Event) error {
	same := func(f Freeze) bool { return f.Target == e.Target }
	if e.Kind == EventUnfreeze {
		if !slices.ContainsFunc(r.Freezes, func(f Freeze) bool { return same(f) && f.Holds(e.At) }) {
			return errors.New("no command froze it; a freeze of sluice.yaml ends when it is removed there")
		}
		r.Freezes = slices.DeleteFunc(r.Freezes, same)
		return nil
	}
	switch {
	case e.By == "":
		return errors.New("the command has no author")
	case strings.TrimSpace(e.Reason) == "":
		return errors.New("a freeze needs a reason")
	case !e.Until.IsZero() && !e.Until.After(e.At):
		return errors.New("the freeze would end in the past")
	}
	r.Freezes = slices.DeleteFunc(r.Freezes, func(f Freeze) bool {
		return same(f) ||
			!f.Until.IsZero() && !e.At.Before(f.Until)
	})
	if len(r.Freezes) >= maxFreezes {
		return fmt.Errorf("%d freezes hold already: unfreeze some clusters, or freeze the environment", len(r.Freezes))
	}
	r.Freezes = append(r.Freezes, Freeze{
		Target: e.Target, From: e.At, Until: e.Until.UTC(), Reason: e.Reason, By: e.By,
		Said: e.said(),
	})
	return nil
}

// observation applies an observation by Decide or by the caller.
func (r *Record) observation(e Event) error {
	switch e.Kind {
	case EventMoved:
		r.moved(e)
	case EventRequestDone:
		r.Request = nil
	case EventOffered:
		r.Offered = &Offered{Source: e.Source.tidy(), Tree: e.Tree, At: e.At, Replaces: r.replaces()}
	case EventOpened:
		r.Opened = &Offered{Source: e.Source.tidy(), Tree: e.Tree, At: e.At}
	case EventClosed:
		r.Opened = nil
	case EventDeclined:
		r.Declined, r.Opened = r.Opened, nil
	case EventHolds:
		r.Holds = e.Holds
	case EventRollbackDropped:
		return r.dropRollback(e)
	case EventRolledBack:
		return r.rolledBack(e)
	case EventTakenBack:
		return r.takenBack(e)
	default:
		return r.rollout(e)
	}
	return nil
}

// rollout applies an observation of the current rollout.
func (r *Record) rollout(e Event) error {
	p := r.Progress
	if p == nil {
		return errors.New("no rollout is under way")
	}
	switch e.Kind {
	case EventClusters:
		p.Current, p.LastMove = e.Current, e.At
	case EventWave:
		if !slices.ContainsFunc(p.Waves, func(w WaveTime) bool { return w.Name == e.Target }) {
			p.Waves = append(p.Waves, WaveTime{Name: e.Target, Moved: e.At})
		}
	case EventWaveHealthy:
		i := slices.IndexFunc(p.Waves, func(w WaveTime) bool { return w.Name == e.Target })
		if i < 0 {
			return fmt.Errorf("wave %s has not moved", e.Target)
		}
		p.Waves[i].Healthy = e.At
	case EventExpedited:
		p.Now, p.NowBy, p.NowWhy = true, e.By, e.Reason
	case EventDone:
		p.Done, p.CatchUp = e.At, sorted(e.Clusters)
		if n := len(r.Ran); n > 0 && r.Ran[n-1].Tree == p.Tree {
			r.Ran[n-1].Healthy = e.At
		}
	case EventFailed:
		r.Halt = &Halt{Reason: e.Reason, At: e.At}
	case EventFailedBack:
		if e.To.Tree == "" {
			return errors.New("the environment has no earlier state")
		}
		r.Rollback = &Rollback{
			To: e.To.Source, Tree: e.To.Tree, From: p.Source, FromTree: p.Tree, Reason: e.Reason,
			At: e.At,
		}
		r.Request = nil
	default:
		return fmt.Errorf("unknown kind of event %q", e.Kind)
	}
	return nil
}

func (r *Record) moved(e Event) {
	p := &Progress{
		Source: e.Source.tidy(), Tree: e.Tree, From: e.From, Now: e.Now, Rollback: e.Restores,
		First: e.First, Renders: e.Renders, Started: e.At, Changed: sorted(e.Clusters), LastMove: e.At,
	}
	if b := r.Rollback; b != nil && r.Progress != nil && e.Restores {
		done := *b
		// what ran when the branch moved, not when the rollback was requested
		done.From, done.FromTree = r.Progress.Source, r.Progress.Tree
		r.Rollback = &done
	}
	if old := r.Progress; old != nil && old.Rollback && e.Restores && old.underWay() {
		p.Changed = sorted(append(p.Changed, old.Changed...)) // a second rollback does not delay the first
	}
	// Approvals were for the tree that landed, or for a change from another state. Without earlier progress, the
	// environment may have run its tree for a long time, so approvals of another tree are for a change from it.
	seen := r.Progress == nil
	r.Approvals = slices.DeleteFunc(slices.Clone(r.Approvals),
		func(a Approval) bool { return !seen || a.Tree == e.Tree })
	if r.Declined.Is(e.Tree) { // the merge request was merged
		r.Declined = nil
	}
	if q := r.Request; q != nil {
		part := *q
		part.Part = true
		r.Request = &part
	}
	r.Progress = p
	r.Ran = append(r.Ran, PastState{Source: p.Source, Tree: e.Tree, At: e.At})
}

// dropRollback ends a rollback that is not possible. The environment halts, so that nobody believes that it
// succeeded.
func (r *Record) dropRollback(e Event) error {
	b := r.Rollback
	if b == nil {
		return errors.New("no rollback was asked for")
	}
	r.Rollback = nil
	halt := Halt{At: e.At}
	if r.Halt != nil {
		halt = *r.Halt
		halt.Reason += "; "
	}
	halt.Reason += fmt.Sprintf("the rollback to %s by %s cannot be done: %s", b.To, actor(b.By), e.Reason)
	r.Halt = &halt
	return nil
}

// rolledBack ends a rollback, and holds what was rolled back.
func (r *Record) rolledBack(e Event) error {
	if r.Rollback == nil {
		return errors.New("no rollback was asked for")
	}
	if r.Rollback.Continues != "" {
		return r.continued(e)
	}
	if e.Tree != "" && (r.Progress == nil || r.Progress.Tree != e.Tree) {
		e.Restores = true
		if named := r.Rollback.Clusters; len(named) > 0 { // other clusters that are behind wait for their gates
			e.Clusters = slices.DeleteFunc(slices.Clone(e.Clusters),
				func(c string) bool { return !slices.Contains(named, c) })
		}
		r.moved(e)
	}
	b := r.Rollback
	r.Rollback = nil
	if r.Halt != nil && r.Halt.By == "" {
		r.Halt = nil // the failed rollout has ended
	}
	r.Holds = withHolds(r.Holds, b.holds(e.At)...)
	return nil
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}
