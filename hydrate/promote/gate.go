package promote

import (
	"fmt"
	"slices"
	"time"
)

// State of a gate.
type State string

// The states. Only green lets anything through: what is not known is never green.
const (
	Green   State = "green"
	Waiting State = "waiting"
	Red     State = "red"
	Unknown State = "unknown"
)

// The names of gates; one for each environment before is named before/<environment>, one for each check check/<name>.
const (
	GateBranch    = "branch"
	GateHalt      = "halt"
	GateFreeze    = "freeze"
	GateWindow    = "window"
	GateProgress  = "progress"
	GateFailed    = "failed"
	GateRendered  = "rendered"
	GatePolicy    = "policy"
	GateApprovals = "approvals"
	GateHealth    = "health"
	GateSettle    = "settle" // the steps of a wave follow each other
	GateBake      = "bake"
	GateBefore    = "before/"
	GateCheck     = "check/"
)

// Gate is a condition that must hold before a promotion or a wave goes on.
type Gate struct {
	Name   string
	State  State
	Reason string
	Since  time.Time // zero if not known
	Until  time.Time // when it may change by itself; zero if not known
}

// String is the gate on one line.
func (g Gate) String() string {
	out := fmt.Sprintf("%s: %s", g.Name, g.State)
	if g.Reason != "" {
		out += ": " + g.Reason
	}
	return out
}

// Holds says whether every gate is green.
func Holds(gates []Gate) bool {
	return !slices.ContainsFunc(gates, func(g Gate) bool { return g.State != Green })
}

// worst is the state of several things that must all be green.
func worst(states ...State) State {
	for _, s := range []State{Red, Unknown, Waiting} {
		if slices.Contains(states, s) {
			return s
		}
	}
	return Green
}

// earliest is the next time at which a gate may change by itself.
func earliest(now time.Time, times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if t.After(now) && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	return out
}
