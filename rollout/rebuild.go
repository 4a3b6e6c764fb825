package rollout

import (
	"slices"
	"time"
)

// RestoredState is a state in the history of an environment branch.
type RestoredState struct {
	PastState
	// Back is the rollback that made the state, by its trailers; nil if none did. From and FromTree are empty: they
	// are the state before.
	Back *Rollback
}

// Rebuild completes a record that is an old one, or empty, from the history of the environment's branch, oldest first. It
// keeps the freezes, holds and times that the old record still has, and holds what every later
// rollback took back; the next observation ends the holds that newer commits have passed. It halts the environment,
// because the history does not tell freezes, halts, approvals and requests. clusters are those of the environment,
// version is that of the new record.
func Rebuild(old Record, history []RestoredState, clusters []string, version int, by, reason string, at time.Time) Record {
	r := old.clone()
	r.Sequence, r.Request, r.Approvals, r.Progress, r.Ran = version, nil, nil, nil, nil
	r.Offered, r.Opened, r.Declined, r.Rollback, r.Tip, r.Tips = nil, nil, nil, nil, "", nil
	at = at.UTC().Truncate(time.Second)
	for i, s := range history {
		if i < len(history)-1 { // the next observation adds what runs
			r.Ran = append(r.Ran, s.PastState)
		}
		if b := s.Back; b != nil && i > 0 {
			taken := *b
			taken.From, taken.FromTree = history[i-1].Source, history[i-1].Tree
			taken.Stopped = taken.stoppedBy(s.Source, clusters)
			r.Holds = withHolds(r.Holds, taken.holds(s.At.UTC())...)
		}
	}
	r.Halt = &Halt{
		By: by, At: at,
		Reason: "its record was rebuilt, and later freezes, halts, approvals and requests are not known",
	}
	r.logCommand(Event{Kind: EventRepair, By: by, Reason: reason, At: at, Target: "the record"})
	return r.bounded()
}

// stoppedBy returns the clusters whose rollout a rollback stopped: it made the source now, and they have another one
// than before outside its scope.
func (b Rollback) stoppedBy(now Source, clusters []string) []string {
	if b.everywhere() {
		return nil
	}
	var out []string
	for _, name := range clusters {
		named := len(b.Clusters) == 0 || slices.Contains(b.Clusters, name)
		before, after := b.From.On(name), now.On(name)
		changed := func(app string) bool {
			inScope := named && (len(b.Apps) == 0 || slices.Contains(b.Apps, app))
			return !inScope && before.Of(app) != after.Of(app)
		}
		if changed("") || slices.ContainsFunc(appsOf(before, after), changed) {
			out = append(out, name)
		}
	}
	return sorted(out)
}
