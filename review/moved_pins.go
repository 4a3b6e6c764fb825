package review

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/hydrate/source"
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
	s := l.Session
	base, err := s.Open(ctx, r.Base.Tree)
	if err == nil {
		var head *source.View
		if head, err = s.Open(ctx, r.Head.Tree); err == nil {
			return movedBetween(ctx, s, r.Base, base, head, r.Pins)
		}
	}
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return nil, nil
	}
	return nil, err
}

func movedBetween(ctx context.Context, s *session.Session, at gitstore.Commit, base, head *source.View,
	skip []Pin,
) ([]report.Pin, error) {
	var out []report.Pin
	counted := 0
	for _, after := range head.Fleet.Repositories {
		before, declared := base.Fleet.Repository(after.Name)
		to, locked := head.Pin(after)
		if !locked || !declared || before.URL != after.URL || slices.ContainsFunc(skip,
			func(p Pin) bool { return p.Name == after.Name }) {
			continue // what a new repository brings is no move
		}
		lock := base.Lock()
		from, locked := lock.Pin(before.Name)
		if !locked || from.Commit == to.Commit {
			continue
		}
		one := report.Pin{Name: after.Name, From: from.Commit, To: to.Commit}
		if counted++; counted <= maxCountedPins {
			to.Wanted = before.Wanted // the move alone: a pin of another pattern of tags would count as missing
			lock.SetPin(before.Name, to)
			moved, err := withLock(ctx, s.Store, at, lock, "with one pin moved")
			if err != nil {
				return nil, err
			}
			one.Targets, err = changedInputs(ctx, s, at.Tree, moved.Tree)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			// such as a fleet that is invalid with this move alone; the difference over all moves is complete
			if err != nil {
				one.Targets = nil
			}
		}
		out = append(out, one)
	}
	return out, nil
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
	old, n := targetsOf(before), 0
	now := targetsOf(after)
	for _, a := range affected {
		key := [2]string{a.Cluster, a.App}
		x, had := old[key]
		y, has := now[key]
		if had != has || has && inputDigest(before, x) != inputDigest(after, y) {
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
