package conditions_test

import (
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/conditions"
)

// A promotion that waits for the clock alone is not late, also if an expression says so.
func TestLate(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		gate rollout.Gate
		late bool
	}{
		"a check":                   {rollout.Gate{Name: "check/errors", State: rollout.Red}, true},
		"an expression":             {rollout.Gate{Name: "gate/own", State: rollout.Waiting}, true},
		"an expression with a time": {rollout.Gate{Name: "gate/own", State: rollout.Waiting, Until: until}, false},
		"a bake":                    {rollout.Gate{Name: "bake", State: rollout.Waiting, Until: until}, false},
	} {
		f := conditions.Found{Promotions: []promote.Status{{
			Environment: "prod",
			Decision:    rollout.Decision{Gates: []rollout.Gate{test.gate}, WaitsFor: "prod waits"},
		}}}
		if out, _ := f.Conditions(); (len(out.Waits) > 0) != test.late {
			t.Errorf("%s: %+v", name, out.Waits)
		}
	}
}
