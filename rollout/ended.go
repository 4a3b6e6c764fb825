package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ended says, for people, what a command ended: a halt, holds, freezes, a requested promotion or rollback. before and
// after are the records around it, at is its time.
func Ended(before, after Record, at time.Time) []string {
	var out []string
	if h := before.Halt; h != nil && after.Halt == nil {
		out = append(out, "no longer "+h.String())
	}
	for _, h := range before.Holds {
		var left []string
		same := false
		for _, o := range after.Holds {
			if o.Cause == h.Cause && o.Since.Equal(h.Since) && o.Source.Commit == h.Source.Commit {
				same = same || h.is(o) && slices.Equal(h.Apps, o.Apps)
				left = append(left, o.Scope(before.Environment))
			}
		}
		switch {
		case same:
		case len(left) == 0:
			out = append(out, fmt.Sprintf("the hold has ended on %s", h))
		default:
			out = append(out,
				fmt.Sprintf("a part of the hold has ended on %s; held still: %s", h, strings.Join(left, ", ")))
		}
	}
	for _, f := range before.Freezes {
		switch target := cmp.Or(f.Target, before.Environment); {
		case slices.Contains(after.Freezes, f), !f.Holds(at):
		case slices.ContainsFunc(after.Freezes, func(o Freeze) bool { return o.Target == f.Target }):
			out = append(out, fmt.Sprintf("%s was %s, which is replaced", target, f))
		default:
			out = append(out, fmt.Sprintf("%s is no longer %s", target, f))
		}
	}
	if q := before.Request; q != nil &&
		(after.Request == nil || after.Request.By != q.By || !after.Request.At.Equal(q.At)) {
		what := "has ended"
		if after.Request != nil {
			what = "is replaced"
		}
		out = append(out, fmt.Sprintf("the promotion to %s that %s asked for %s", q.Source, q.By, what))
	}
	if b := before.Rollback; b != nil && after.Rollback != nil &&
		(b.By != after.Rollback.By || !b.At.Equal(after.Rollback.At)) {
		out = append(out, fmt.Sprintf("the rollback to %s that %s asked for is replaced", b.To, actor(b.By)))
	}
	return out
}
