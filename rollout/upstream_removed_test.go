package rollout_test

import (
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// A workspace that bakes upstream after it was red goes on to bake when onWorkspaceFailure is removed meanwhile.
func TestRemovedWhileAWorkspaceBakes(t *testing.T) {
	t.Parallel()
	w := newUpstream(t)
	w.proposes("")
	w.later(time.Hour)
	w.says("failure", "success", "success")
	w.proposes("")
	w.later(time.Hour)
	w.says("success", "success", "success")
	w.proposes("")
	w.later(10 * time.Minute) // of 30
	w.proposes("")
	w.s.Environment.Promotion.OnWorkspaceFailure = ""
	next, gate := w.proposes("")
	if gate.State == rollout.Green {
		t.Errorf("after 10 of 30 minutes: %+v proposes %s", gate, next.Source)
	}
	w.later(20 * time.Minute)
	if next, gate = w.proposes(""); next == nil || gate.State != rollout.Green ||
		!next.Source.Equal(rollout.Source{Commit: "c2"}) {
		t.Errorf("after the bake: %+v %+v", next, gate)
	}
}
