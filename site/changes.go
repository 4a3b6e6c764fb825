package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
)

// Change is the difference between two states of an environment, or what its next promotion would do to it. It has a
// page of its own: the report, as of a merge request.
type Change struct {
	Environment string
	Before      string // commits of the branch; Before is "" if After is its first one
	After       string // "" for the next promotion
	Trunk       string // commit of the trunk whose registry the report uses; "" in results of Between
	trees       [2]gitstore.Hash
	made        *report.Review // nil: Report makes it
}

const (
	changesFolder = "changes"
	nextChange    = "next" // of the next promotion
)

// Path is the path of the page, relative to the folder of the pages.
func (c Change) Path() string {
	name := fileName(c.Before) + ".." + fileName(c.After)
	switch {
	case c.After == "":
		name = nextChange
	case c.Before == "":
		name = "first.." + fileName(c.After)
	}
	return changesFolder + "/" + fileName(c.Environment) + "/" + name + ".html"
}

// Change returns the change whose page has a path. Only states that the history lists can be compared.
func (f *Fleet) Change(path string) (Change, bool) {
	c, ok := f.change(path)
	c.Trunk = f.Tip.Hash
	return c, ok
}

func (f *Fleet) change(path string) (Change, bool) {
	rest, below := strings.CutPrefix(path, changesFolder+"/")
	file, name, ok := strings.Cut(rest, "/")
	name, html := strings.CutSuffix(name, ".html")
	if !below || !ok || !html {
		return Change{}, false
	}
	for _, e := range f.Environments {
		if fileName(e.Name) != file {
			continue
		}
		if name == nextChange {
			return e.next()
		}
		before, after, ok := strings.Cut(name, "..")
		if before == "first" {
			before = ""
		}
		if !ok {
			return Change{}, false
		}
		return e.Between(before, after)
	}
	return Change{}, false
}

// Between is the difference between two commits of the environment branch that the history lists. before may also be
// the commit before the oldest of them, or "" if that is the first commit of the branch.
func (e *Environment) Between(before, after string) (Change, bool) {
	out := Change{Environment: e.Name, Before: before, After: after}
	from, to := before == "", false
	for i := range e.History {
		h := &e.History[i]
		if h.Commit == "" {
			continue
		}
		if h.Commit == after {
			out.trees[1], to = h.tree, true
		}
		switch {
		case before != "" && h.Commit == before:
			out.trees[0], from = h.tree, true
		case before != "" && h.Before == before:
			out.trees[0], from = h.before, true
		}
	}
	return out, from && to
}

func (e *Environment) next() (Change, bool) {
	if e.Next == nil {
		return Change{}, false
	}
	return Change{Environment: e.Name, Before: e.Tip, made: e.Next}, true
}

// changeOf is the change that an event brought; false if it is a command, or the state before it is not known.
func (e *Environment) changeOf(h *Event) (Change, bool) {
	if h.Commit == "" || !h.known {
		return Change{}, false
	}
	return e.Between(h.Before, h.Commit)
}

// Report makes the report of a change. It reads the branches and renders nothing.
func (c Change) Report(ctx context.Context, h *hydrate.Hydrator, trunk gitstore.Hash, version string,
	key []byte,
) (*report.Review, error) {
	if c.made != nil {
		return c.made, nil
	}
	f, _, err := h.Fleet(ctx, trunk)
	if err != nil {
		return nil, err
	}
	out := &report.Review{
		Fleet: f.Name, Base: c.Before, Head: c.After, Version: version,
		Links: report.Links{
			Command: "git diff " + strings.TrimSpace(c.Before+" "+c.After),
			Back:    back("History of ", "history.html", c.Environment),
		},
	}
	changes, notes, err := compare.States(ctx, h, compare.StatesRequest{
		Fleet: f, Environment: c.Environment,
		Before: c.trees[0], After: c.trees[1], Key: key,
	})
	switch {
	case errors.Is(err, compare.ErrTooMany):
		out.Errors, out.Verdict = []string{err.Error()}, report.VerdictError
		return out, nil
	case err != nil:
		return nil, fmt.Errorf("changes of %s: %w", c.Environment, err)
	}
	judged(out, changes)
	out.Findings.Notes = notes
	return out, nil
}

// Reads returns a digest of what Report reads of the trunk.
func (c Change) Reads(ctx context.Context, h *hydrate.Hydrator, r *compare.Reads) ([]byte, error) {
	return r.Digest(ctx, h.Store, c.Environment, c.trees[0], c.trees[1])
}

// back is the link from the page of a change to the section of its environment on another page.
func back(name, page, environment string) report.Link {
	return report.Link{Name: name + environment, Address: "../../" + page + "#env-" + fileName(environment)}
}

// judged adds changes to a report. No policy is evaluated, so that the only verdict is that there are critical changes.
func judged(r *report.Review, changes *diff.ChangeSet) {
	r.Changes, r.Verdict = changes, ""
	if report.Critical(changes) {
		r.Verdict = report.VerdictCaution
	}
}

// nextReport returns the report of the next promotion of an environment; nil if there is none, or it is too large to be
// read with each look at the fleet.
func (b *reader) nextReport(e *Environment) *report.Review {
	if e.Status == nil || e.Status.Plan == nil || e.Status.Plan.Changes == nil || e.Status.Decision.Proposal == nil {
		return nil
	}
	to := e.Status.Decision.Proposal.Source.Commit
	out := &report.Review{
		Fleet: b.fleet.Name, Base: e.Source.Commit, Head: to, Against: e.Branch, Version: b.request.Version,
		Links: report.Links{
			Command: "sluice promote " + e.Name + " --dry-run",
			Back:    back("Promotions of ", "promotions.html", e.Name),
		},
	}
	judged(out, e.Status.Plan.Changes)
	return out
}

// changePath is the page of what an event brought; "" if it has none.
func changePath(e *Environment, h Event) string {
	c, ok := e.changeOf(&h)
	if !ok {
		return ""
	}
	return c.Path()
}

// statesOf lists the states of an environment that can be compared, newest first.
func statesOf(e *Environment) []Event {
	return slices.DeleteFunc(slices.Clone(e.History), func(h Event) bool { return h.Commit == "" })
}

// comparedStates lists the states of an environment of which any two have a report, newest first; nil if there are
// fewer than two.
func (p *Pages) comparedStates(e *Environment) []Event {
	list := statesOf(e)
	if !p.live {
		list = list[:min(len(list), p.compared[e.Name])]
	}
	if len(list) < 2 { //nolint:mnd // two states
		return nil
	}
	return list
}

// changes lists what the newest states of each environment brought, and what the next promotions would do.
func (p *Pages) changes(states int) []Change {
	var out []Change
	for _, e := range p.fleet.Environments {
		if c, ok := e.next(); ok && states > 0 {
			out = append(out, c)
		}
		list := statesOf(e)
		for i := range list[:min(len(list), states)] {
			if c, ok := e.changeOf(&list[i]); ok {
				out = append(out, c)
			}
		}
	}
	return out
}
