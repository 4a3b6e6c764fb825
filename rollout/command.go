package rollout

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// PastCommand is a command, or a halt by Sluice, that changed a record without a commit on the environment branch.
type PastCommand struct {
	Verb   EventKind `yaml:"verb"`
	By     string    `yaml:"by,omitempty"` // empty: Sluice
	Reason string    `yaml:"reason,omitempty"`
	Scope  string    `yaml:"scope,omitempty"` // clusters, a wave, apps; for people
	Until  time.Time `yaml:"until,omitempty"`
	At     time.Time `yaml:"at"`
}

// Actor returns the author of the command: a person, or Sluice.
func (c PastCommand) Actor() string { return actor(c.By) }

// String describes what was done, and why: "freeze eu-1 until 2026-01-02 08:00 UTC; reason: the fair".
func (c PastCommand) String() string {
	out := string(c.Verb)
	if c.Scope != "" {
		out += " " + c.Scope
	}
	if !c.Until.IsZero() {
		out += " until " + Stamp(c.Until)
	}
	if c.Reason != "" {
		out += "; reason: " + c.Reason
	}
	return out
}

// PastVerbs returns every Verb that a PastCommand can have.
func PastVerbs() []EventKind {
	return []EventKind{EventApprove, EventCancel, EventFreeze, EventUnfreeze, EventHalt, EventResume, EventExpedited, EventRepair}
}

// logCommand records an event for the history if no commit shows it.
func (r *Record) logCommand(e Event) {
	c := PastCommand{Verb: e.Kind, By: e.By, Reason: e.Reason, Scope: e.scope(), Until: e.Until.UTC(), At: e.At}
	switch {
	case e.Kind == EventFailed, e.Kind == EventRollbackDropped:
		c.Verb, c.Reason = EventHalt, r.Halt.Reason
	case !slices.Contains(PastVerbs(), e.Kind):
		return
	}
	r.Commands = append(r.Commands, c)
}

// scope describes the clusters, wave or apps that a command is limited to.
func (e Event) scope() string {
	switch {
	case e.Kind == EventApprove && len(e.Tree) >= 8:
		return "tree " + e.Tree[:8]
	case e.Target != "":
		return e.Target
	case e.Kind == EventRepair && e.Tip == "":
		return Few(slices.Sorted(maps.Keys(e.Tips)))
	}
	var parts []string
	if e.Wave != "" {
		parts = append(parts, "wave "+e.Wave)
	} else if len(e.Clusters) > 0 && e.Kind == EventResume {
		parts = append(parts, Few(e.Clusters))
	}
	if len(e.Workspaces) > 0 {
		parts = append(parts, "workspace "+Few(e.Workspaces))
	}
	if len(e.Named) > 0 {
		parts = append(parts, "hold "+Few(e.Named))
	}
	if others := (Scope{e.Apps, e.Workspaces}).others(); len(others) > 0 {
		parts = append(parts, Few(others))
	}
	return strings.Join(parts, ", ")
}
