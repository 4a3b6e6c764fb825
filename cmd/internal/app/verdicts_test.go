package app

import (
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// TestVerdictsAreBounded: what waits and is asked for stays known, the keys of commits of long ago go.
func TestVerdictsAreBounded(t *testing.T) {
	v := newVerdicts()
	v.put("waits", verdict{state: promote.Red, reason: "why"})
	for i := range 5 * mostVerdicts {
		v.put(fmt.Sprint("commit ", i), verdict{state: promote.Green})
		if one, ok := v.get("waits"); !ok || one.reason != "why" {
			t.Fatalf("what waits was forgotten after %d others", i)
		}
	}
	if kept := len(v.known) + len(v.before); kept > 2*mostVerdicts {
		t.Errorf("%d verdicts are kept, more than %d", kept, 2*mostVerdicts)
	}
	if _, ok := v.get("commit 0"); ok {
		t.Error("the first commit's verdict is still known")
	}
}
