package promote

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// stops reports whether a command freezes or halts an environment.
func (r *Request) stops(environment string) bool {
	return slices.ContainsFunc(r.Commands, func(c Command) bool {
		return c.Environment == environment && (c.Kind == rollout.EventFreeze || c.Kind == rollout.EventHalt)
	})
}

// stopsFirst orders an environment that a command stops before one that none does.
func stopsFirst(r Request, a, b fleet.Environment) int {
	switch first, second := r.stops(a.Name), r.stops(b.Name); {
	case first && !second:
		return -1
	case second && !first:
		return 1
	}
	return 0
}

// overtaken returns an error if a command would end or replace a freeze, or end a halt, that somebody asked for after
// the command was said: these go before commands that wait, and webhooks may arrive in another order. Both times are
// the forge's, whose clock may be ahead of ours.
func overtaken(c Command, event rollout.Event, r rollout.Record, now time.Time) error {
	if c.Said.IsZero() {
		return nil
	}
	said := c.Said.Truncate(time.Second) // the precision of the record
	if h := r.Halt; event.Kind == rollout.EventResume && len(event.Clusters)+len(event.Apps) == 0 && h != nil &&
		h.By != "" && said.Before(h.Asked()) {
		return fmt.Errorf("%s halted %s after this was said: look at it, and resume again", h.By, c.Environment)
	}
	for _, f := range r.Freezes {
		if f.Target != event.Target || !said.Before(f.Asked()) || !f.Until.IsZero() && !now.Before(f.Until) {
			continue
		}
		switch target := cmp.Or(f.Target, c.Environment); event.Kind {
		case rollout.EventUnfreeze:
			return fmt.Errorf("%s froze %s after this was said: look at it, and unfreeze again", f.By, target)
		case rollout.EventFreeze:
			return fmt.Errorf("%s is %s, which came after this was said: look at it, and freeze again", target, f)
		}
	}
	return nil
}

// stopped tells what the stops of an environment did to its record.
func (r *Request) stopped(environment string, record rollout.Record) string {
	prefix := cmp.Or(r.CommandPrefix, "/sluice")
	var parts []string
	for _, c := range r.Commands {
		if c.Environment != environment {
			continue
		}
		for _, f := range record.Freezes {
			if c.Kind == rollout.EventFreeze && f.Target == c.Target {
				parts = append(parts, fmt.Sprintf("%s is %s%s", cmp.Or(f.Target, environment), f,
					freezeEnd(f, environment, prefix)))
			}
		}
		if c.Kind == rollout.EventHalt && record.Halt != nil {
			parts = append(parts, fmt.Sprintf("%s is halted: `%s resume %[1]s` continues it, `%[2]s rollback %[1]s` goes back", environment, prefix))
		}
	}
	return strings.Join(parts, "; ")
}
