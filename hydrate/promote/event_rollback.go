package promote

import (
	"errors"
	"fmt"
	"slices"
)

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

// restored begins the rollout of a rollback that is done. The rollout that a workspace was set aside of continues.
func restored(r *Record, e Event) {
	p := r.Progress
	switch {
	case e.Tree == "" || p != nil && p.Tree == e.Tree:
	case r.Rollback.Aside && p != nil && p.Tree == r.Rollback.FromTree:
		continued(r, e)
	case r.Rollback.Aside: // another state has landed meanwhile; the next observation begins its rollout
	default:
		e.Restores = true
		if named := r.Rollback.Clusters; len(named) > 0 { // other clusters that are behind wait for their gates
			e.Clusters = slices.DeleteFunc(slices.Clone(e.Clusters), func(c string) bool { return !slices.Contains(named, c) })
		}
		r.moved(e)
	}
}

// cause returns the cause of the hold that begins when the rollback is done.
func (b *Rollback) cause() HoldCause {
	switch {
	case b.Aside && len(b.Later) == len(b.Clusters):
		return CauseStopped
	case b.By == "":
		return CauseFailed
	default:
		return CauseRolledBack
	}
}

// rolledBack ends a rollback, and holds what was rolled back.
func (r *Record) rolledBack(e Event) error {
	if r.Rollback == nil {
		return errors.New("no rollback was asked for")
	}
	restored(r, e)
	b := r.Rollback
	r.Rollback = nil
	if !b.Aside && r.Halt != nil && r.Halt.By == "" {
		r.Halt = nil // the failed rollout has ended
	}
	cause := b.cause()
	if b.From.Empty() {
		return nil
	}
	from := b.From.WithoutGaps()
	if len(b.Clusters) > 0 && len(from.Clusters) > 0 { // the state of other clusters does not matter
		from = from.Among(b.Clusters)
	}
	one := Hold{Cause: cause, Source: from, Tree: b.FromTree, Whole: len(b.Apps) == 0, Wave: b.Wave, Clusters: b.Clusters, Apps: b.Apps, Workspaces: b.Workspaces, By: b.By, Reason: b.Reason, Since: e.At}
	r.hold(one)
	if len(b.Stopped) > 0 {
		one.Cause, one.Source, one.Whole, one.Wave, one.Clusters, one.Apps = CauseStopped, b.From.WithoutGaps(), true, "", b.Stopped, nil
		one.Workspaces = nil
		if len(b.From.Clusters) > 0 {
			one.Source = one.Source.Among(b.Stopped)
		}
		r.hold(one)
	}
	return nil
}
