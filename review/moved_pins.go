package review

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
)

// maxCountedPins bounds the pins of one change whose targets are counted: each count reads the fleet once more.
const maxCountedPins = 20

// movedPins returns the repositories that sluice.lock pins to other commits after a change. Each has the number of
// targets whose input digest the move of this pin alone changes: a target that several moves change counts for each of
// them. Repositories that the request pins are left out. A fleet that cannot be read has none; the review reports the
// problems.
func (l Local) movedPins(ctx context.Context, r *Request) ([]report.Pin, error) {
	if r.Base.Tree == r.Head.Tree {
		return nil, nil
	}
	base, err := l.Session.Open(ctx, r.Base.Tree)
	var head *source.View
	if err == nil {
		head, err = l.Session.Open(ctx, r.Head.Tree)
	}
	if _, invalid := errors.AsType[fleet.Problems](err); invalid {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []report.Pin
	for _, after := range head.Fleet.Repositories {
		before, declared := base.Fleet.Repository(after.Name)
		if !declared || before.URL != after.URL ||
			slices.ContainsFunc(r.Pins, func(p Pin) bool { return p.Name == after.Name }) {
			continue
		}
		from, wasLocked := base.Lock().Pin(before.Name)
		to, locked := head.Pin(after)
		if !wasLocked || !locked || from.Commit == to.Commit {
			continue
		}
		one := report.Pin{Name: after.Name, From: from.Commit, To: to.Commit}
		if len(out) < maxCountedPins {
			if one.Targets, err = countMoved(ctx, l.Session, r.Base, base, before, to); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// countMoved counts the targets that change if, at a commit, only the pin of one repository moves. It returns nil if
// they cannot be counted, such as those of a fleet that is invalid with this move alone: the review shows the
// difference of all moves together anyway.
func countMoved(ctx context.Context, s *session.Session, at gitstore.Commit, view *source.View, r *fleet.Repository,
	to fetch.Pin,
) (*int, error) {
	to.Wanted = r.Wanted // a pin of another pattern of tags would count as missing
	lock := view.Lock()
	lock.SetPin(r.Name, to)
	moved, err := withLock(ctx, s.Store, at, lock, "with one pin moved")
	if err != nil {
		return nil, err
	}
	n, err := changedInputs(ctx, s, at.Tree, moved.Tree)
	if err != nil {
		return nil, ctx.Err()
	}
	return n, nil
}

// changedInputs counts the targets whose input digest differs between two trees.
func changedInputs(ctx context.Context, s *session.Session, base, head gitstore.Hash) (*int, error) {
	affected, err := s.Affected(ctx, base, head)
	if err != nil {
		return nil, err
	}
	before, err := s.Open(ctx, base)
	if err != nil {
		return nil, err
	}
	after, err := s.Open(ctx, head)
	if err != nil {
		return nil, err
	}
	n, old, current := 0, targetsOf(before), targetsOf(after)
	for _, a := range affected {
		key := [2]string{a.Cluster, a.App}
		was, existed := old[key]
		is, exists := current[key]
		if existed != exists || exists && inputDigest(before, was) != inputDigest(after, is) {
			n++
		}
	}
	return &n, nil
}

func targetsOf(v *source.View) map[[2]string]fleet.Target {
	out := map[[2]string]fleet.Target{}
	for _, t := range v.Fleet.Targets() {
		out[[2]string{t.Cluster.Name, t.App.Name}] = t
	}
	return out
}

// inputDigest returns the input digest of a target, or its error.
func inputDigest(v *source.View, t fleet.Target) string {
	out, err := v.Target(t)
	if err != nil {
		return err.Error()
	}
	return out.Digest
}
