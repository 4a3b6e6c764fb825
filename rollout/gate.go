package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/fleet/expression"
)

// State of a gate.
type State string

// The states. Only green lets a promotion continue. An unknown state blocks it.
const (
	Green   State = "green"
	Waiting State = "waiting"
	Red     State = "red"
	Unknown State = "unknown"
)

// The names of gates. Each upstream environment has a gate before/<environment>, each check a gate check/<name>, each
// expression a gate gate/<name>, each wave of described clusters a gate described/<environment>/<wave>.
const (
	GateBranch     = "branch"
	GateProtection = "protection"
	GateTrunk      = "trunk" // what is rolled out is on the trunk
	GateHalt       = "halt"
	GateFreeze     = "freeze"
	GateWindow     = "window"
	GateProgress   = "progress"
	GateHold       = "hold"
	GateRendered   = "rendered"
	GatePolicy     = "policy"
	GateApprovals  = "approvals"
	GateHealth     = "health"
	GateSettle     = "settle" // pause between the steps of a wave
	GateBake       = "bake"
	GateBefore     = "before/"
	GateCheck      = "check/"
	GateExpression = "gate/" // of sluice.yaml
	// GateDescribed is followed by a wave of described clusters, or by their environment.
	GateDescribed = "described/"
)

// Gate is a condition that must pass before a promotion or a wave continues.
type Gate struct {
	Name   string
	State  State
	Reason string
	Since  time.Time         // zero if unknown
	Until  time.Time         // when it may change without an event; zero if unknown
	Terms  []expression.Term // the parts of an expression that is not true
}

// String describes the gate on one line.
func (g Gate) String() string {
	out := fmt.Sprintf("%s: %s", g.Name, g.State)
	if g.Reason != "" {
		out += ": " + g.Reason
	}
	return out
}

// brief describes a gate that is not green, without a state that its reason says already.
func (g Gate) brief() string {
	switch {
	case g.Reason != "" && (g.Name == GateFreeze || g.Name == GateHalt || g.Name == GateBranch):
		return g.Reason // frozen until…, halted by…, a foreign commit
	case g.Reason != "" && g.State == Waiting:
		return g.Name + ": " + g.Reason
	}
	return g.String()
}

// wait continues a sentence that ends with the verb "waits" or "wait".
func (g Gate) wait() string {
	if text := g.brief(); text == g.Reason {
		return ": " + text
	}
	return " for " + g.brief()
}

// Holds reports whether every gate is green.
func Holds(gates []Gate) bool {
	return !slices.ContainsFunc(gates, func(g Gate) bool { return g.State != Green })
}

// worst combines states that must all be green.
func worst(states ...State) State {
	for _, s := range []State{Red, Unknown, Waiting} {
		if slices.Contains(states, s) {
			return s
		}
	}
	return Green
}

// earliest returns the first of some times after now; zero if there is none.
func earliest(now time.Time, times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if t.After(now) && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	return out
}
