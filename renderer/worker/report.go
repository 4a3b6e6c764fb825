package worker

import (
	"fmt"
	"slices"
	"strings"
)

// Mode says how much confinement a Host demands.
type Mode string

// The modes. Required refuses to run a child if a wall is missing. Degraded runs it and reports what is missing. Off builds
// no walls that need the kernel's help: it is for a person's own repository on the command line.
const (
	Required Mode = "required"
	Degraded Mode = "degraded"
	Off      Mode = "off"
)

// ParseMode reads a mode as a user writes it.
func ParseMode(s string) (Mode, error) {
	if m := Mode(s); slices.Contains([]Mode{Required, Degraded, Off}, m) {
		return m, nil
	}
	return "", fmt.Errorf("%q is not a mode of confinement: use required, degraded or off", s)
}

// Report is the result of a child's attempts to do what its restrictions forbid.
type Report struct {
	Mode   Mode     `json:"mode"`
	System string   `json:"system"` // operating system, architecture
	Means  []string `json:"means"`  // mechanisms in place: "landlock 7", "seccomp", "user namespace", …
	Walls  []Wall   `json:"walls"`
	// Problem says why a mechanism that the kernel has could not be used. It is an error in every mode.
	Problem string `json:"problem,omitempty"`
}

// Wall is one thing that a child must not be able to do.
type Wall struct {
	Name   string `json:"name"`   // "files", "network", "exec", …
	Stands bool   `json:"stands"` // the child tried and failed
	Detail string `json:"detail"` // what happened
}

// Missing lists the walls that do not stand.
func (r Report) Missing() []Wall {
	var out []Wall
	for _, w := range r.Walls {
		if !w.Stands {
			out = append(out, w)
		}
	}
	return out
}

// Complete reports whether every wall stands.
func (r Report) Complete() bool { return len(r.Walls) > 0 && len(r.Missing()) == 0 }

// Lost lists the mechanisms of an earlier report that this one lacks.
func (r Report) Lost(earlier Report) []string {
	var out []string
	for _, m := range earlier.Means {
		if !slices.Contains(r.Means, m) {
			out = append(out, m)
		}
	}
	return out
}

// equal reports whether the same mechanisms are in place and the same walls stand.
func (r Report) equal(other Report) bool {
	same := func(a, b Wall) bool { return a.Name == b.Name && a.Stands == b.Stands }
	return slices.Equal(r.Means, other.Means) && slices.EqualFunc(r.Walls, other.Walls, same)
}

// String sums the report up in one line.
func (r Report) String() string {
	var missing []string
	for _, w := range r.Missing() {
		missing = append(missing, w.Name)
	}
	out := fmt.Sprintf("%s: %d of %d walls stand", r.System, len(r.Walls)-len(missing), len(r.Walls))
	if len(missing) > 0 {
		out += ", missing: " + strings.Join(missing, ", ")
	}
	if len(r.Means) > 0 {
		out += " (" + strings.Join(r.Means, ", ") + ")"
	}
	return out
}
