package site

import (
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/site/index"
)

// sample is an app on one cluster before and after an event.
type sample struct {
	cluster string
	was, is gitstore.Hash // of the app's manifests; zero for none
}

const (
	eventSamples  = 3      // different changes of an app by one event that are read for what they brought
	arrivalTrees  = 10_000 // that one call of Read reads for that
	sourceCommits = 40     // whose fleets one call of Read opens for that
)

func (c *AppChange) add(s sample) {
	c.Clusters++
	known := slices.ContainsFunc(c.samples, func(o sample) bool { return o.was == s.was && o.is == s.is })
	switch {
	case known:
	case len(c.samples) < eventSamples:
		c.samples = append(c.samples, s)
	default:
		c.Partial = true
	}
}

// Sources are the versions or paths of the sources of apps at commits of the trunk. A later call of Read opens only
// commits that are new.
type Sources map[AppAt][]string

// AppAt is an app on a cluster at a source commit.
type AppAt struct{ Commit, Cluster, App string }

// arrivals finds which images and versions each event brought, the newest events first. It renders nothing. One call
// reads a limited number of trees and commits; the next one gets the result of this one, and reads more.
func (b *reader) arrivals() error {
	targets := 1
	for _, c := range b.out.Clusters {
		targets += len(c.Apps)
	}
	a := &arrivals{reader: b, trees: arrivalTrees, commits: min(sourceCommits, touchedTargets/targets)}
	for _, e := range b.out.Environments {
		for i := range e.History {
			h := &e.History[i]
			for j := range h.Apps {
				if err := a.change(h, &h.Apps[j]); err != nil {
					return err
				}
				h.Apps[j].samples = nil // a Fleet is kept for long
			}
		}
	}
	return nil
}

// arrivals is the room that a call of Read has left.
type arrivals struct {
	*reader
	trees, commits int
}

// change fills in what an event brought to an app.
func (a *arrivals) change(h *Event, c *AppChange) error {
	for _, s := range c.samples {
		was, before, err := a.images(c.App, s.was)
		if err != nil {
			return err
		}
		is, after, err := a.images(c.App, s.is)
		if err != nil {
			return err
		}
		c.bring(index.Image, was, is, before && after)
		if s.is.IsZero() {
			continue
		}
		old, known := []string(nil), true
		if !s.was.IsZero() {
			old, known = a.sources(AppAt{h.lead.before.On(s.cluster).Of(c.App), s.cluster, c.App})
		}
		now, alsoKnown := a.sources(AppAt{h.lead.now.On(s.cluster).Of(c.App), s.cluster, c.App})
		c.bring(index.Chart, old, now, known && alsoKnown)
	}
	return nil
}

// bring adds what is new.
func (c *AppChange) bring(kind index.Kind, was, is []string, known bool) {
	if !known {
		c.Partial = true
		return
	}
	for _, text := range is {
		if f := (Fact{kind, text}); !slices.Contains(was, text) && !slices.Contains(c.Brought, f) {
			c.Brought = append(c.Brought, f)
		}
	}
}

// images returns all images of an app in one of its trees; known is false if there is no room to read it.
func (a *arrivals) images(app string, tree gitstore.Hash) (list []string, known bool, err error) {
	if tree.IsZero() {
		return nil, true, nil
	}
	have, ok := a.knownImages(a.appTree(app, tree))
	if !ok {
		if a.trees--; a.trees < 0 {
			return nil, false, nil
		}
		if have, err = a.reader.images(app, tree); err != nil {
			return nil, false, err
		}
	}
	return have.All, true, nil
}

// sources returns the versions or paths of an app's sources at a commit. known is false if the commit cannot be read,
// or there is no room to.
func (a *arrivals) sources(at AppAt) (list []string, known bool) {
	for _, have := range []Sources{a.out.Sources, a.request.Sources} {
		if list, ok := have[at]; ok {
			a.out.Sources[at] = list
			return list, true
		}
	}
	v, ok := a.views[at.Commit]
	if !ok {
		if a.commits--; a.commits < 0 {
			return nil, false
		}
		v = a.quietly(at.Commit)
		a.views[at.Commit] = v
	}
	if v == nil {
		return nil, false
	}
	cluster, ok := v.Fleet.Cluster(at.Cluster)
	app, alsoOK := v.Fleet.App(at.App)
	if !ok || !alsoOK {
		return nil, false
	}
	list, err := v.Versions(fleet.Target{App: app, Cluster: cluster})
	if err != nil {
		return nil, false
	}
	a.out.Sources[at] = list
	return list, true
}

// quietly opens the fleet of a source commit of the past; nil if that is not possible, because the commit is gone, or
// was rendered by a version of Sluice that read its files differently.
func (b *reader) quietly(commit string) *source.View {
	h, err := gitstore.ParseHash(commit)
	if err != nil {
		return nil
	}
	c, err := b.h.Store.Commit(b.ctx, h)
	if err != nil {
		return nil
	}
	v, err := b.h.Open(b.ctx, c.Tree)
	if err != nil {
		return nil
	}
	return v
}
