package rollout

import (
	"fmt"
	"slices"
	"time"
)

// BehindAsPlanned returns the reason why a cluster does not run the desired state of its environment, and whether the
// record explains it by a freeze, a halt, or a rollout that has not reached the cluster. tree is the tree of the
// environment branch.
func BehindAsPlanned(r Record, tree string, c Cluster, now time.Time) (reason string, ok bool) {
	for _, f := range r.Freezes {
		switch {
		case f.Target != c.Name && f.Target != "":
			continue
		case f.Holds(now):
			return f.String(), true
		case f.Target == c.Name:
			return "its freeze ended at " + Stamp(f.Until) + ", and the next pass moves it", true
		}
	}
	p := r.Progress
	switch {
	case c.State == "frozen":
		return "sluice.yaml freezes it", true
	case r.Rollback != nil:
		return "a rollback by " + actor(r.Rollback.By) + " is under way", true
	case p == nil:
		return "its environment has no record yet", true
	case p.Tree != tree:
		return "the environment branch has just moved", true
	case !p.underWay() && !slices.Contains(p.CatchUp, c.Name):
		return "the rollout of " + p.Source.String() + " is complete", false
	case !p.underWay():
		return "it was frozen during the rollout of " + p.Source.String() + " and catches up when the gates hold", true
	case r.Halt != nil:
		return fmt.Sprintf("halted by %s%s", actor(r.Halt.By), Because(r.Halt.Reason)), true
	default:
		return "the rollout of " + p.Source.String() + " has not reached it", true
	}
}

// Because formats a reason for the end of a sentence: `: REASON`, or "" without a reason.
func Because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
