package promote

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// EventKind says what happened.
type EventKind string

// What people ask for.
const (
	EventPromote  EventKind = "promote"
	EventCancel   EventKind = "cancel" // of a request to promote
	EventApprove  EventKind = "approve"
	EventRollback EventKind = "rollback"
	EventFreeze   EventKind = "freeze"
	EventUnfreeze EventKind = "unfreeze"
	EventHalt     EventKind = "halt"
	EventResume   EventKind = "resume"
)

// What Decide sees in a Situation, and a caller stores.
const (
	EventMoved         EventKind = "moved"         // the environment branch has another tree
	EventClusters      EventKind = "clusters"      // more clusters of the promotion have moved
	EventWave          EventKind = "wave"          // all clusters of a wave have moved
	EventWaveHealthy   EventKind = "waveHealthy"   // and are healthy
	EventOffered       EventKind = "offered"       // people can agree to something else from now on
	EventHurry         EventKind = "hurry"         // the promotion under way overtakes its gates
	EventDone          EventKind = "done"          // the promotion is through
	EventRequestDone   EventKind = "requestDone"   // what was asked for runs
	EventFailed        EventKind = "failed"        // health turned red, and the environment halts
	EventFailedBack    EventKind = "failedBack"    // health turned red, and the environment goes back
	EventRolledBack    EventKind = "rolledBack"    // a rollback has been done
	EventBefore        EventKind = "before"        // an environment before runs something else
	EventBeforeHealthy EventKind = "beforeHealthy" // and is healthy
	EventBeforeRed     EventKind = "beforeRed"     // an environment before turned red
	EventBeforeNotRed  EventKind = "beforeNotRed"  // and is not red any more
)

// Event is something that changes a Record. Fields that a kind has no use for are empty.
type Event struct {
	ID     string // of a command: of its comment and line, so that it may come twice; "" for none
	Kind   EventKind
	By     string
	At     time.Time
	Said   time.Time // promote: when it was written
	Reason string

	Source   Source // promote, moved, before: what; rollback, failed, failedBack: from what
	Apps     []string
	Now      bool
	Restores bool     // moved: it is a rollback
	To       Ran      // rollback, failedBack: the state to go back to
	Clusters []string // rollback: which; moved: those that have to move
	Teams    []string // approve: of the person
	Tree     string   // approve, moved
	Target   string   // freeze, unfreeze: a cluster, "" for the environment; before…: the environment before; wave…: the wave
	Until    time.Time
	Current  int // clusters: how many have moved
}

// Apply is the record after an event. The record that it is given stays as it is. An event with a known ID changes nothing.
func Apply(r Record, e Event) (Record, error) {
	if e.ID != "" && slices.Contains(r.Handled, e.ID) {
		return r, nil
	}
	if e.At.IsZero() {
		return r, fmt.Errorf("%s: the event has no time", e.Kind)
	}
	e.At = e.At.UTC().Truncate(time.Second) // as the record keeps it
	next := r.clone()
	if err := next.apply(e); err != nil {
		return r, fmt.Errorf("%s %s: %w", e.Kind, r.Environment, err)
	}
	if e.ID != "" {
		next.Handled = append(next.Handled, e.ID)
	}
	return next.bounded(), nil
}

func (r *Record) apply(e Event) error {
	switch e.Kind {
	case EventPromote, EventCancel, EventApprove, EventRollback, EventHalt, EventResume:
		return r.command(e)
	case EventFreeze, EventUnfreeze:
		return r.freeze(e)
	case EventBefore, EventBeforeHealthy, EventBeforeRed, EventBeforeNotRed:
		return r.before(e)
	default:
		return r.seen(e)
	}
}

// command applies what people ask for.
func (r *Record) command(e Event) error {
	if e.By == "" {
		return errors.New("nobody asked for it")
	}
	switch e.Kind {
	case EventPromote:
		return r.request(e)
	case EventCancel:
		if r.Request == nil {
			return errors.New("no promotion was asked for")
		}
		r.Request = nil
	case EventApprove:
		if e.Tree == "" {
			return errors.New("there is nothing to approve yet: wait until the promotion is rendered")
		}
		r.Approvals = slices.DeleteFunc(r.Approvals, func(a Approval) bool { return strings.EqualFold(a.By, e.By) })
		r.Approvals = append(r.Approvals, Approval{By: e.By, Teams: e.Teams, Tree: e.Tree, At: e.At})
	case EventRollback:
		if e.To.Tree == "" {
			return errors.New("the earlier state is not known: name one that `sluice history` shows")
		}
		r.Rollback = &Rollback{
			To: e.To.Source, Tree: e.To.Tree, From: e.Source, Clusters: sorted(e.Clusters), Apps: sorted(e.Apps),
			Reason: e.Reason, By: e.By, At: e.At,
		}
		r.Request = nil // it was asked for before
	case EventHalt:
		if r.Halt == nil || r.Halt.By == "" {
			r.Halt = &Halt{By: e.By, Reason: e.Reason, At: e.At}
		}
	case EventResume:
		if r.Halt == nil {
			return errors.New("it is not halted")
		}
		r.Halt = nil
		if p := r.Progress; p != nil { // it begins to bake anew
			for i := range p.Waves {
				p.Waves[i].Healthy = time.Time{}
			}
		}
	}
	return nil
}

func (r *Record) request(e Event) error {
	switch {
	case e.Source.Empty():
		return errors.New("it is not bound to a commit")
	case e.Now && strings.TrimSpace(e.Reason) == "":
		return errors.New("--now needs a reason")
	case r.Request != nil && r.Request.At.After(e.At):
		return errors.New("a later promotion was asked for already")
	}
	r.Request = &Request{Source: e.Source.tidy(), Apps: sorted(e.Apps), Now: e.Now, Reason: e.Reason, By: e.By, At: e.At, Said: e.Said.UTC()}
	r.Failed = slices.DeleteFunc(r.Failed, func(f Failed) bool {
		return f.Source.Equal(e.Source) || f.Source.Commit == e.Source.Commit || slices.ContainsFunc(e.Apps, func(a string) bool { return f.Source.Of(a) == e.Source.Of(a) })
	})
	if e.Now && r.Halt != nil && r.Halt.By == "" { // a hotfix is how a failed promotion is mended
		r.Halt = nil
	}
	return nil
}

func (r *Record) freeze(e Event) error {
	same := func(f Freeze) bool { return f.Target == e.Target }
	if e.Kind == EventUnfreeze {
		if !slices.ContainsFunc(r.Freezes, func(f Freeze) bool { return same(f) && f.Holds(e.At) }) {
			return errors.New("there is no freeze by command; one that sluice.yaml names is lifted there")
		}
		r.Freezes = slices.DeleteFunc(r.Freezes, same)
		return nil
	}
	switch {
	case e.By == "":
		return errors.New("nobody asked for it")
	case strings.TrimSpace(e.Reason) == "":
		return errors.New("a freeze needs a reason")
	case !e.Until.IsZero() && !e.Until.After(e.At):
		return errors.New("the freeze would be over already")
	}
	r.Freezes = slices.DeleteFunc(r.Freezes, func(f Freeze) bool { return same(f) || !f.Until.IsZero() && !e.At.Before(f.Until) })
	if len(r.Freezes) >= maxFreezes {
		return fmt.Errorf("there are %d freezes already: lift some, or freeze the environment", len(r.Freezes))
	}
	r.Freezes = append(r.Freezes, Freeze{Target: e.Target, From: e.At, Until: e.Until.UTC(), Reason: e.Reason, By: e.By})
	return nil
}

// seen applies what Decide saw.
func (r *Record) seen(e Event) error {
	if e.Kind == EventMoved {
		r.moved(e)
		return nil
	}
	switch e.Kind {
	case EventRequestDone:
		r.Request = nil
		return nil
	case EventOffered:
		r.Offered = &Offered{Source: e.Source.tidy(), Tree: e.Tree, At: e.At}
		return nil
	}
	if e.Kind == EventRolledBack {
		return r.rolledBack(e)
	}
	p := r.Progress
	if p == nil {
		return errors.New("no promotion goes on")
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
	case EventHurry:
		p.Now, p.NowBy, p.NowWhy = true, e.By, e.Reason
	case EventDone:
		p.Done = e.At
	case EventFailed, EventFailedBack:
		if e.Kind == EventFailedBack && e.To.Tree == "" {
			return errors.New("there is no earlier state")
		}
		r.fail(Failed{Source: p.Source, Reason: e.Reason, At: e.At})
		if e.Kind == EventFailed {
			r.Halt = &Halt{Reason: e.Reason, At: e.At}
			return nil
		}
		r.Rollback = &Rollback{To: e.To.Source, Tree: e.To.Tree, From: p.Source, Reason: e.Reason, At: e.At}
		r.Request = nil
	default:
		return errors.New("the event is not known")
	}
	return nil
}

func (r *Record) moved(e Event) {
	p := &Progress{Source: e.Source.tidy(), Tree: e.Tree, Now: e.Now, Rollback: e.Restores, Started: e.At, Changed: sorted(e.Clusters), LastMove: e.At}
	if b := r.Rollback; b != nil && r.Progress != nil && b.becomes(r.Progress, p) {
		done := *b
		done.From = r.Progress.Source // what ran when it was done, not when it was asked for
		r.Rollback = &done
	}
	if r.Progress != nil {
		r.Approvals = nil // they were for what landed, or are void now
	}
	r.Progress = p
	r.Ran = append(r.Ran, Ran{Source: p.Source, Tree: e.Tree, At: e.At})
}

func (r *Record) rolledBack(e Event) error {
	if r.Rollback == nil {
		return errors.New("no rollback was asked for")
	}
	if e.Tree != "" && (r.Progress == nil || r.Progress.Tree != e.Tree) {
		r.moved(e)
		r.Progress.Rollback = true
	}
	b := r.Rollback
	if len(b.Clusters) == 0 && !b.From.Empty() && !b.From.Equal(b.To) {
		r.fail(Failed{Source: b.From, Reason: "rolled back: " + b.Reason, At: e.At})
	}
	r.Rollback = nil
	if b.By == "" || b.whole() {
		if r.Halt != nil && r.Halt.By == "" {
			r.Halt = nil // what failed is gone
		}
	}
	return nil
}

// becomes says whether a move of the environment branch is what the rollback asked for.
func (b *Rollback) becomes(old, now *Progress) bool {
	switch {
	case b.whole():
		return b.Tree == now.Tree
	case len(b.Apps) > 0:
		return !slices.ContainsFunc(b.Apps, func(a string) bool { return now.Source.Of(a) != b.To.Of(a) })
	default: // of clusters alone: the environment's record of its source stays
		return old != nil && old.Source.Equal(now.Source)
	}
}

func (r *Record) fail(f Failed) {
	r.Failed = slices.DeleteFunc(r.Failed, func(x Failed) bool { return x.Source.Equal(f.Source) })
	r.Failed = append(r.Failed, f)
}

// before applies what was seen of an environment before this one.
func (r *Record) before(e Event) error {
	w := r.Before[e.Target]
	if e.Kind == EventBefore {
		if w == nil {
			w = &Watch{}
			if r.Before == nil {
				r.Before = map[string]*Watch{}
			}
			r.Before[e.Target] = w
		}
		w.Ran = append(w.Ran, Ran{Source: e.Source.tidy(), At: e.At})
		return nil
	}
	if w == nil || len(w.Ran) == 0 {
		return fmt.Errorf("nothing is known of %s", e.Target)
	}
	switch e.Kind {
	case EventBeforeHealthy:
		w.Ran[len(w.Ran)-1].Healthy = e.At
	case EventBeforeRed:
		w.Red, w.LastRed = true, e.At
	default:
		w.Red, w.LastRed = false, e.At
	}
	return nil
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}
