package site

import (
	"errors"
	"iter"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// Touched holds which apps of which environments a commit of the trunk can change, by its hash. nil: the fleet of the
// commit, or of the one before it, is invalid.
type Touched map[string]map[appIn]bool

type appIn struct{ environment, app string }

const (
	touchedCommits = 200       // that one call of Read compares with the commits before them
	touchedTargets = 2_000_000 // of the fleets that it reads for that
)

// touches finds which of the commits that one promotion brought can change the apps that it changed. It renders
// nothing. One call examines a limited number of commits, so the age of older promotions can be unknown at first; the
// next call gets the result of this one, and examines more.
func (b *reader) touches() error {
	environments := map[string]string{}
	targets := 1
	for _, c := range b.out.Clusters {
		environments[c.Name] = c.Environment.Name
		targets += len(c.Apps)
	}
	left := min(touchedCommits, touchedTargets/targets)
	b.out.Touched = b.line.touched
	for hash := range b.together() {
		if _, again := b.line.touched[hash]; again {
			continue
		}
		set, known := b.request.Touched[hash]
		if !known {
			if left--; left < 0 {
				return nil
			}
			var err error
			if set, err = b.touchedBy(hash, environments); b.ctx.Err() != nil {
				return err
			} else if _, invalid := errors.AsType[fleet.Problems](err); err != nil && !invalid {
				b.note("which apps commit %s changed cannot be read: %v", hash[:min(len(hash), shortHash)], err)
				continue
			}
		}
		b.line.touched[hash] = set
	}
	return nil
}

// together yields the commits that a promotion brought with others for an app that it changed, those of the newest
// promotions of each environment first.
func (b *reader) together() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range b.out.Environments {
			for i := range e.History {
				if !e.History[i].together(yield) {
					return
				}
			}
		}
	}
}

// together yields the commits that a promotion brought with others. It returns false if yield did.
func (h *Event) together(yield func(string) bool) bool {
	if !h.promoted || h.Kind == kindRollback {
		return true
	}
	for _, a := range h.Apps {
		commits, _ := h.brought(a.App)
		for _, c := range commits {
			if len(commits) > 1 && !yield(c.Hash) {
				return false
			}
		}
	}
	return true
}

// touchedBy returns what a commit can change, compared with its first parent.
func (b *reader) touchedBy(hash string, environments map[string]string) (map[appIn]bool, error) {
	id, err := gitstore.ParseHash(hash)
	if err != nil {
		return nil, err
	}
	head, err := b.h.Store.Commit(b.ctx, id)
	if err != nil {
		return nil, err
	}
	out := map[appIn]bool{}
	if len(head.Parents) == 0 { // the first commit brings all apps
		for _, e := range b.out.Environments {
			for _, a := range b.out.Apps {
				out[appIn{e.Name, a.Name}] = true
			}
		}
		return out, nil
	}
	base, err := b.h.Store.Commit(b.ctx, head.Parents[0])
	if err != nil {
		return nil, err
	}
	list, err := b.h.Affected(b.ctx, base.Tree, head.Tree)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if environment := environments[t.Cluster]; environment != "" {
			out[appIn{environment, t.App}] = true
		}
	}
	return out, nil
}

// age returns the oldest commit of the trunk that a promotion brought and that can have changed an app, and its age at
// that time. If none of them can, such as after an update of Sluice, it is the newest one. It is false if that is not
// known.
func (h *Event) age(app string) (c Commit, age time.Duration, ok bool) {
	list, ok := h.brought(app)
	if !ok {
		return Commit{}, 0, false
	}
	c = list[0]
	for _, one := range list {
		if len(list) == 1 {
			break
		}
		touched := h.lead.line.touched[one.Hash]
		if touched == nil {
			return Commit{}, 0, false
		}
		if touched[appIn{h.Environment, app}] {
			c = one // they are newest first
		}
	}
	return c, h.At.Sub(c.At), true
}
