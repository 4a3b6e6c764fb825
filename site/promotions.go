package site

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

const waveDots = 400 // clusters of a wave that are drawn as dots

// promotions is what the page of promotions fills in.
type promotions struct {
	Fleet  *Fleet
	Levels [][]*Environment // by distance from the trunk
	Stages []stage
}

// stage is an environment with everything that its promotions wait for.
type stage struct {
	*Environment
	Gates     []gate   // that are not green
	Green     []string // gates that are
	Holds     []hold
	Freezes   []rollout.Freeze
	Approvals []rollout.Approval
	Plan      *plan
	Waits     string
	Next      time.Time
	Commands  []action
	Waves     []waveView
}

type waveView struct {
	Wave
	Moved int
	Dots  bool
}

type gate struct {
	Name, State, Reason string
	Since, Until        time.Time
}

type hold struct {
	Text, Ends string
	Since      time.Time
}

type plan struct {
	Tree                    string
	Added, Changed, Removed int
	Clusters                int
	Commits                 []string
}

// action is a command with what it does.
type action struct {
	What string
	command
}

func newPromotions(f *Fleet) *promotions {
	out := &promotions{Fleet: f}
	for _, e := range f.Environments {
		for len(out.Levels) <= e.Level {
			out.Levels = append(out.Levels, nil)
		}
		out.Levels[e.Level] = append(out.Levels[e.Level], e)
		out.Stages = append(out.Stages, newStage(e))
	}
	return out
}

func newStage(e *Environment) stage {
	s := stage{Environment: e}
	for _, w := range e.Waves {
		v := waveView{Wave: w, Dots: len(w.Clusters) <= waveDots}
		v.Until = unsaid(w.Reason, w.Until)
		for _, c := range w.Clusters {
			if c.Current() {
				v.Moved++
			}
		}
		s.Waves = append(s.Waves, v)
	}
	if e.Status == nil {
		s.Commands = []action{{"Update it to the trunk's tip", command{Terminal: "sluice hydrate --push --env " +
			shell(e.Name), Chat: ""}}}
		return s
	}
	d := &e.Status.Decision
	for _, g := range gates(append(slices.Clone(d.Gates), d.WaveGates...)) {
		if g.State != string(rollout.Green) {
			s.Gates = append(s.Gates, g)
		} else if !slices.Contains(s.Green, g.Name) {
			s.Green = append(s.Green, g.Name)
		}
	}
	for i := range s.Waves {
		s.Waves[i].Reason = waveReason(s.Waves[i].Reason, s.Gates)
	}
	s.Freezes, s.Approvals, s.Waits, s.Next = d.Freezes, d.Record.Approvals, d.WaitsFor, d.Next
	for _, h := range d.Record.Holds {
		s.Holds = append(s.Holds, hold{h.String(), h.Ends(e.Name, "sluice"), h.Since})
	}
	if p := e.Status.Plan; p != nil {
		s.Plan = &plan{p.Tree, p.Added, p.Changed, p.Removed, len(p.Clusters), p.Commits}
	}
	s.Commands = commands(e)
	return s
}

// gates converts gates: those that are not green first.
func gates(list []rollout.Gate) []gate {
	out := make([]gate, 0, len(list))
	for _, g := range list {
		out = append(out, gate{g.Name, string(g.State), g.Reason, g.Since, unsaid(g.Reason, g.Until)})
	}
	slices.SortStableFunc(out, func(a, b gate) int { return cmp.Compare(gateOrder(a.State), gateOrder(b.State)) })
	return out
}

// waveReason names the gate that a wave waits for. Its reason stands beside the gate.
func waveReason(reason string, gates []gate) string {
	for _, g := range gates {
		if g.Reason != "" && strings.HasSuffix(reason, g.Reason) {
			return "waits for the gate " + g.Name
		}
	}
	return reason
}

// unsaid is a time if a reason does not name it.
func unsaid(reason string, at time.Time) time.Time {
	if strings.Contains(reason, rollout.Stamp(at)) {
		return time.Time{}
	}
	return at
}

func gateOrder(state string) int {
	return slices.Index([]string{
		string(rollout.Red), string(rollout.Unknown), string(rollout.Waiting),
		string(rollout.Green),
	}, state)
}

// commands are the actions that make sense for an environment now.
func commands(e *Environment) []action {
	d := &e.Status.Decision
	var out []action
	add := func(what string, words ...string) { out = append(out, action{what, newCommand(words...)}) }
	if d.Record.Halt != nil {
		add("Lift the halt", "resume", e.Name)
	}
	if d.Proposal != nil && waitsForApproval(d.Gates) {
		add("Approve what waits", "approve", e.Name)
	}
	if e.Tip == "" { // there is nothing to stop and nothing to go back to
		add("Bring its first state", "promote", e.Name)
		return out
	}
	add("Promote", "promote", e.Name)
	add("Roll back to the state before", "rollback", e.Name, "--reason", "WHY")
	if frozen := slices.ContainsFunc(d.Freezes, func(f rollout.Freeze) bool {
		return f.Target == "" &&
			f.By != ""
	}); frozen {
		add("End the freeze", "unfreeze", e.Name)
	} else {
		add("Freeze", "freeze", e.Name, "--until", "4h", "--reason", "WHY")
	}
	if d.Record.Halt == nil {
		add("Stop it where it is", "halt", e.Name, "--reason", "WHY")
	}
	return out
}

// toDo returns what somebody must do, or may do, so that the environments go on: one command each, in their order.
func toDo(f *Fleet) []action {
	var out []action
	add := func(what string, words ...string) { out = append(out, action{what, newCommand(words...)}) }
	for _, e := range f.Environments {
		var d rollout.Decision
		if e.Status != nil {
			d = e.Status.Decision
		}
		behind := slices.IndexFunc(e.Upstream, func(g Gap) bool { return g.Behind > 0 })
		filled := !slices.ContainsFunc(f.Environments,
			func(up *Environment) bool { return slices.Contains(e.After, up.Name) && up.Tip == "" })
		switch {
		case len(e.Clusters) == 0:
		case e.Foreign != "":
			out = append(out, action{
				e.Name + " has a commit that is not Sluice's: what each command would do",
				command{Terminal: "sluice repair " + shell(e.Name)},
			})
		case e.Tip == "" && len(e.After) == 0:
			out = append(out, action{
				e.Name + " was never hydrated: write its branches",
				command{Terminal: "sluice hydrate --push --env " + shell(e.Name)},
			})
		case e.Tip == "" && filled:
			add(e.Name+" is empty: bring its first state", "promote", e.Name)
		case d.Record.Halt != nil:
			add(e.Name+" is halted: go on", "resume", e.Name)
		case d.Proposal != nil && waitsForApproval(d.Gates):
			add(e.Name+" waits for an approval", "approve", e.Name)
		case e.Mode == "manual" && d.Proposal == nil && len(d.Record.Holds) == 0 && behind >= 0:
			add(fmt.Sprintf("%s is %s behind %s, and moves when somebody asks", e.Name,
				count(e.Upstream[behind].Behind, "commit"), e.Upstream[behind].Environment), "promote", e.Name)
		}
	}
	return out
}

func waitsForApproval(list []rollout.Gate) bool {
	return slices.ContainsFunc(list, func(g rollout.Gate) bool {
		return g.Name == rollout.GateApprovals &&
			g.State != rollout.Green
	})
}
