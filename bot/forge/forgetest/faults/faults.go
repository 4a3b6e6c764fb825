// Package faults holds the faults that tests configure in the fake forges. The kinds of faults are those of each forge.
//
// The package is not API: it can change in every release.
package faults

import (
	"slices"
	"strings"
	"time"
)

// Fault is a fault of the next requests that match it.
type Fault[Kind any] struct {
	Kind       Kind
	Method     string // "" is any; "!GET" is any but GET
	Path       string // what the path must contain
	Times      int    // 0 is one
	RetryAfter time.Duration
	Until      time.Time // of a limit on requests; the zero time leaves it to the fake
}

// List are the faults that requests have not had yet. It is not safe for concurrent use.
type List[Kind any] struct{ list []*Fault[Kind] }

// Add adds a fault.
func (l *List[Kind]) Add(f Fault[Kind]) {
	f.Times = max(f.Times, 1)
	l.list = append(l.list, &f)
}

// Take returns the oldest fault that matches a request, and counts it down; nil if there is none.
func (l *List[Kind]) Take(method, path string) *Fault[Kind] {
	for i, f := range l.list {
		other, not := strings.CutPrefix(f.Method, "!")
		if f.Method != "" && (method == other) == not || !strings.Contains(path, f.Path) {
			continue
		}
		if f.Times--; f.Times == 0 {
			l.list = slices.Delete(l.list, i, i+1)
		}
		return f
	}
	return nil
}
