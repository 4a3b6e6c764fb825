package rollout

import "time"

// RestoredState is a state in the history of an environment branch. Back is the rollback that made it, as its
// trailers describe it, without From and FromTree, which are the state before; nil if no rollback made it.
type RestoredState struct {
	PastState
	Back *Rollback
}

// Rebuild returns a record for an environment whose record was lost, from the history of its branch, oldest first. It
// holds what every rollback took back; the next observation ends the holds that newer commits have passed. It halts the
// environment, because the history does not tell freezes, halts, approvals and requests. version is at least the one
// that the branches name.
func Rebuild(environment string, history []RestoredState, version int, by, reason string, at time.Time) Record {
	r := NewRecord(environment)
	r.Sequence = version
	at = at.UTC().Truncate(time.Second)
	for i, s := range history {
		if i < len(history)-1 { // the next observation adds what runs
			r.Ran = append(r.Ran, s.PastState)
		}
		if b := s.Back; b != nil && i > 0 {
			taken := *b
			taken.From, taken.FromTree = history[i-1].Source, history[i-1].Tree
			r.Holds = withHolds(r.Holds, taken.holds(s.At.UTC())...)
		}
	}
	r.Halt = &Halt{By: by, Reason: "its record was rebuilt, and freezes, halts, approvals and requests from before are not known", At: at}
	r.logCommand(Event{Kind: EventRepair, By: by, Reason: reason, At: at, Target: "the record"})
	return r.bounded()
}
