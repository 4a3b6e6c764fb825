package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
)

// What a cluster or an environment loses is a caution of every report, one line for each environment and kind.
func TestLosses(t *testing.T) {
	t.Parallel()
	set := &diff.ChangeSet{Losses: []diff.Loss{
		{Name: diff.EffectEnvironmentGone, Risk: diff.RiskCritical, Environment: "old", Lost: 2, Had: 2, Unit: "cluster"},
		{
			Name: diff.EffectEmptied, Risk: diff.RiskCritical, Environment: "dev", Cluster: "d1", Lost: 9, Had: 9,
			Unit: "object",
		},
	}}
	for n := range 6 {
		set.Losses = append(set.Losses, diff.Loss{
			Name: diff.EffectLargeLoss, Risk: diff.RiskCritical, Environment: "prod", Cluster: fmt.Sprintf("p%d", n),
			Lost: 4 + n, Had: 10, Unit: "object",
		})
	}
	r := &report.Review{Fleet: "acme", Changes: set, Verdict: report.VerdictCaution}
	for _, want := range []string{
		"**An environment is removed**: `old` goes with its 2 clusters",
		"**A cluster is emptied**: `dev/d1` loses all that it has: 9 objects",
		"**A cluster loses much of what it has**: `prod/p0`, `prod/p1`, `prod/p2`, `prod/p3` and 2 more lose 40 % of what they have, or more",
		"> [!CAUTION]",
	} {
		if text, _ := report.Markdown(r, 60000); !strings.Contains(text, want) {
			t.Errorf("the comment lacks %q:\n%s", want, text)
		}
	}
	if !report.Critical(set) {
		t.Error("a change set with losses is not critical")
	}
	set.Losses = set.Losses[:2]
	set.Losses[1].Name, set.Losses[1].Lost, set.Losses[1].Unit = diff.EffectLargeLoss, 4, "app"
	var b strings.Builder
	report.Terminal(&b, r, report.TerminalOptions{})
	if want := "critical  A cluster loses much of what it has: dev/d1 loses 4 of its 9 apps\n"; !strings.Contains(b.String(), want) {
		t.Errorf("the terminal lacks %q:\n%s", want, b.String())
	}
}
