package worker

import (
	"fmt"
	"slices"
	"strings"
)

// Mode says how much confinement a Host demands.
type Mode string

// The modes. Required refuses to run a child if a restriction is missing. Degraded runs it and reports what is missing.
// Off builds no restrictions that need the kernel's help: it is for a person's own repository on the command line.
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
	Mode         Mode          `json:"mode"`
	System       string        `json:"system"` // operating system, architecture
	Means        []string      `json:"means"`  // mechanisms in place: "landlock 7", "seccomp", "user namespace", …
	Restrictions []Restriction `json:"restrictions"`
	// Problem says why a mechanism that the kernel has could not be used. It is an error in every mode.
	Problem string `json:"problem,omitempty"`
}

// Restriction is one thing that a child must not be able to do.
type Restriction struct {
	Name     string `json:"name"`     // "files", "network", "exec", …
	Enforced bool   `json:"enforced"` // the child tried and failed
	Detail   string `json:"detail"`   // what happened
}

// Missing lists the restrictions that are not in force.
func (r Report) Missing() []Restriction {
	var out []Restriction
	for _, w := range r.Restrictions {
		if !w.Enforced {
			out = append(out, w)
		}
	}
	return out
}

// Complete reports whether every restriction is in force.
func (r Report) Complete() bool { return len(r.Restrictions) > 0 && len(r.Missing()) == 0 }

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

// equal reports whether the same mechanisms are in place and the same restrictions are in force.
func (r Report) equal(other Report) bool {
	same := func(a, b Restriction) bool { return a.Name == b.Name && a.Enforced == b.Enforced }
	return slices.Equal(r.Means, other.Means) && slices.EqualFunc(r.Restrictions, other.Restrictions, same)
}

// String sums the report up in one line.
func (r Report) String() string {
	var missing []string
	for _, w := range r.Missing() {
		missing = append(missing, w.Name)
	}
	out := fmt.Sprintf("%s: %d of %d restrictions in force", r.System, len(r.Restrictions)-len(missing),
		len(r.Restrictions))
	if len(missing) > 0 {
		out += ", missing: " + strings.Join(missing, ", ")
	}
	if len(r.Means) > 0 {
		out += " (" + strings.Join(r.Means, ", ") + ")"
	}
	return out
}
