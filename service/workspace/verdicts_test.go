package workspace

import (
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/rollout"
)

// A verdict in use stays cached; those of old commits are evicted.
func TestVerdictsEvictOldest(t *testing.T) {
	t.Parallel()
	v := NewVerdicts()
	v.cache.Add("waits", &verdict{state: rollout.Red, reason: "why"})
	for i := range 5 * maxVerdicts {
		v.cache.Add(fmt.Sprint("commit ", i), &verdict{state: rollout.Green})
		if one, ok := v.cache.Get("waits"); !ok || one.reason != "why" {
			t.Fatalf("the verdict in use was evicted after %d others", i)
		}
	}
	if _, ok := v.cache.Peek("commit 0"); ok || v.cache.Len() > maxVerdicts {
		t.Errorf("%d verdicts are cached, at most %d expected; the first commit's is among them: %t", v.cache.Len(), maxVerdicts, ok)
	}
}
