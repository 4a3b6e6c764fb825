// Package conditions finds in the results of tasks what people must know: a promotion that waits for an approval, a
// hydration that was refused, a review that stopped. It decides nothing and tells nobody; package events does.
//
// The package is not API: it can change in every release.
package conditions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/events"
)

// Found is what a task of the trunk found.
type Found struct {
	Repository string
	URL        string // of a page about the repository
	Commit     string // of the trunk
	Refused    string // why the commit is not hydrated; empty: it is
	Result     *hydrate.Result
	Promotions []promote.Status
	Partial    bool // some promotions could not be evaluated
}

const maxText = 600 // characters

// Conditions returns the conditions that hold, and whether an episode ends if its condition is not among them. What
// was not read ends nothing.
func (f *Found) Conditions() (out events.Conditions, covers func(*events.Event) bool) {
	add := func(e events.Event) { out.Events = append(out.Events, f.event(e)) }
	if f.Refused != "" {
		add(events.Event{
			Kind: events.Refused, Severity: events.Error, Title: "A commit of the trunk is not hydrated", Text: f.Refused,
			Commit: f.Commit, Command: "sluice validate",
		})
	}
	if f.Result != nil {
		for i := range f.Result.Environments {
			f.hydration(&f.Result.Environments[i], add)
		}
	}
	evaluated := map[string]bool{}
	for i := range f.Promotions {
		evaluated[f.Promotions[i].Environment] = true
		f.promotion(&f.Promotions[i], add, &out)
	}
	return out, func(e *events.Event) bool {
		switch e.Kind {
		case events.ReviewStopped:
			return false
		case events.Refused:
			return f.Refused != "" && e.Environment == "" || f.Result != nil
		}
		return f.Result != nil && (!f.Partial || evaluated[e.Environment])
	}
}

func (f *Found) event(e events.Event) events.Event {
	e.Repository, e.URL = f.Repository, cmp.Or(e.URL, f.URL)
	e.Title, e.Text = safetext.Brief(e.Title, events.MaxTitle), safetext.Brief(e.Text, maxText)
	slices.Sort(e.Workspaces)
	return e
}

func (f *Found) hydration(e *hydrate.EnvironmentResult, add func(events.Event)) {
	if e.Status == hydrate.StatusRefused || e.Status == hydrate.StatusFailed || e.Status == hydrate.StatusRejected {
		text := e.Reason
		switch {
		case text != "":
		case len(e.Failures) > 0:
			text = e.Failures[0].App + " on " + e.Failures[0].Cluster + ": " + e.Failures[0].Message
		case len(e.Violations) > 0:
			text = e.Violations[0].Message
		}
		add(events.Event{
			Kind: events.Refused, Severity: events.Error, Environment: e.Name, Title: e.Name + " is not hydrated", Text: text,
			Commit: f.Commit,
		})
	}
	for _, h := range e.Held {
		add(events.Event{
			Kind: events.Refused, Severity: events.Warning, Environment: e.Name, Workspaces: []string{h.Workspace},
			Subject: h.Workspace, Title: fmt.Sprintf("Workspace %s is not hydrated in %s", h.Workspace, e.Name),
			Text: h.Reason, Commit: f.Commit,
		})
	}
}

func (f *Found) promotion(s *promote.Status, add func(events.Event), out *events.Conditions) {
	d, name := &s.Decision, s.Environment
	var workspaces []string
	commit := ""
	if d.Proposal != nil {
		workspaces, commit = slices.Clone(d.Proposal.Workspaces), d.Proposal.Promoted.Commit
	}
	if d.Proposal != nil {
		for _, g := range d.Gates {
			if g.Name == rollout.GateApprovals && g.State == rollout.Waiting {
				add(events.Event{
					Kind: events.Approval, Severity: events.Info, Environment: name, Workspaces: workspaces,
					Title: name + " waits for an approval", Text: g.Reason, Commit: commit,
					Command: "sluice approve " + name,
				})
			}
		}
	}
	if h := d.Record.Halt; h != nil && h.By == "" {
		add(events.Event{
			Kind: events.Failed, Severity: events.Error, Environment: name, Title: "The promotion to " + name + " failed",
			Text: h.Reason, Commit: s.Source.Commit, Command: "sluice status " + name,
		})
	} else if h != nil {
		add(events.Event{
			Kind: events.Halted, Severity: events.Warning, Environment: name, Title: name + " is halted by " + h.By,
			Text:    h.Reason,
			Command: "sluice resume " + name,
		})
	}
	if r := d.Record.Rollback; r != nil {
		add(events.Event{
			Kind: events.RolledBack, Severity: events.Warning, Environment: name, Workspaces: slices.Clone(r.Workspaces),
			Title: name + " is being rolled back", Commit: r.From.Commit, Command: "sluice status " + name,
		})
	}
	for _, h := range d.Record.Holds {
		e := events.Event{
			Environment: name, Workspaces: slices.Clone(h.Workspaces), Subject: strings.Join(append(append([]string{
				h.Source.Commit, h.Wave,
			}, h.Clusters...), h.Apps...), " "), Commit: h.Source.Commit, Text: h.String(),
			Command: "sluice status " + name,
		}
		switch h.Cause {
		case rollout.CauseFailed:
			e.Kind, e.Severity, e.Title = events.Failed, events.Error, "A promotion to "+name+" failed"
		case rollout.CauseRolledBack:
			e.Kind, e.Severity, e.Title = events.RolledBack, events.Warning, "A promotion to "+name+" was rolled back"
		default:
			continue
		}
		add(e)
	}
	for _, fr := range d.Freezes {
		target := cmp.Or(fr.Target, name)
		add(events.Event{
			Kind: events.Frozen, Severity: events.Info, Environment: name,
			Subject: fr.Target + " " + strconv.FormatInt(fr.From.Unix(), 10), Title: target + " is frozen",
			Text: fr.String(),
		})
	}
	f.late(s, workspaces, commit, add, out)
}

// late adds what takes long: apps that post no commit status, at once, and an environment that waits for something
// that is not planned, after a while.
func (f *Found) late(s *promote.Status, workspaces []string, commit string, add func(events.Event),
	out *events.Conditions,
) {
	d, name := &s.Decision, s.Environment
	for _, silent := range d.Silent {
		add(events.Event{
			Kind: events.Late, Severity: events.Warning, Environment: name, Subject: silent.Cluster,
			Title: "No commit status from " + silent.Cluster, Text: silent.String(), Command: silent.Command(),
		})
	}
	planned := []string{
		rollout.GateHalt, rollout.GateFreeze, rollout.GateWindow, rollout.GateBake, rollout.GateHold,
		rollout.GateApprovals, rollout.GateSettle,
	}
	blocks := ""
	for _, g := range slices.Concat(d.Gates, d.WaveGates) {
		if g.State == rollout.Green {
			continue
		}
		timed := strings.HasPrefix(g.Name, rollout.GateExpression) && !g.Until.IsZero()
		if timed || slices.Contains(planned, g.Name) || strings.HasPrefix(g.Name, rollout.GateBefore) {
			return // it waits for a person or the clock anyway
		}
		blocks = cmp.Or(blocks, g.String())
	}
	if blocks != "" && d.WaitsFor != "" {
		out.Waits = append(out.Waits, f.event(events.Event{
			Kind: events.Late, Severity: events.Warning, Environment: name, Workspaces: workspaces,
			Title: "The promotion to " + name + " is late", Text: blocks, Commit: commit,
			Command: "sluice status " + name,
		}))
	}
}

// Stopped returns the condition of a review that is not tried again, with the episodes that it covers.
func (f *Found) Stopped(number int, title, why string) (events.Conditions, func(*events.Event) bool) {
	return events.Conditions{Events: []events.Event{f.event(events.Event{
		Kind: events.ReviewStopped, Severity: events.Error, Subject: strconv.Itoa(number), Title: title, Text: why,
		Command: "/sluice retry",
	})}}, ofReview(number)
}

// Reviewed returns that the review of a merge request has not stopped.
func Reviewed(number int) (events.Conditions, func(*events.Event) bool) {
	return events.Conditions{}, ofReview(number)
}

func ofReview(number int) func(*events.Event) bool {
	return func(e *events.Event) bool { return e.Kind == events.ReviewStopped && e.Subject == strconv.Itoa(number) }
}
