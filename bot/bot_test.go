package bot

import (
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// TestRememberedIsBounded: what was seen lately is known, and what is long ago takes no memory for ever.
func TestRememberedIsBounded(t *testing.T) {
	j := &job{Bot: New(Config{}), place: hint.NewPlace("f", "")}
	for i := range 5 * remembered {
		j.remember("used", "state")
		j.remember(fmt.Sprint("mr/", i), "state")
	}
	if kept := len(j.done) + len(j.before); kept > 2*remembered {
		t.Errorf("%d states are kept, more than %d", kept, 2*remembered)
	}
	for key, want := range map[string]bool{"used": true, fmt.Sprint("mr/", 5*remembered-1): true, fmt.Sprint("mr/", 4*remembered): true, "mr/0": false} {
		if got := j.seen(key, "state"); got != want {
			t.Errorf("%s: seen is %t", key, got)
		}
	}
	if j.seen("used", "another") {
		t.Error("another state counts as seen")
	}
}
