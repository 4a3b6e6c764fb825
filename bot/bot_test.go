package bot

import (
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// A state that is in use stays, and old ones are evicted.
func TestRememberedStatesAreBounded(t *testing.T) {
	t.Parallel()
	j := &task{Bot: New(Config{}), place: hint.NewPlace("f", "")}
	for i := range 2 * maxRemembered {
		j.remember(fmt.Sprint("mr/", i), "state")
		if !j.seen("mr/0", "state") {
			t.Fatalf("the state in use was evicted after %d others", i)
		}
	}
	if j.done.Len() > maxRemembered {
		t.Errorf("%d states are kept, at most %d expected", j.done.Len(), maxRemembered)
	}
	if j.seen("mr/1", "state") {
		t.Error("an old state was not evicted")
	}
	if j.seen("mr/0", "another") {
		t.Error("another state counts as seen")
	}
}
