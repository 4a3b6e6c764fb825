package fleet_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
)

func TestReviewIsChecked(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		"{reviewers: [{environments: [prd], users: [ada]}]}":           `there is no environment "prd", did you mean prod?`,
		"{reviewers: [{environments: ['['], users: [ada]}]}":           `"[" is not a pattern`,
		"{reviewers: [{risk: hihg, users: [ada]}]}":                    `did you mean high?`,
		"{reviewers: [{environments: [prod]}]}":                        `the rule asks nobody`,
		"{reviewers: [{users: ['@ada']}]}":                             `"@ada" is not a name`,
		"{reviewers: [{teams: [' ']}]}":                                `" " is not a name`,
		"{labels: {routine: true}}":                                    `no change gets the label sluice/routine`,
		"{labels: {environment: true}}":                                `did you mean environments?`,
		"{reviewers: [{environments: ['pr*', dev], teams: [sre]}]}":    "",
		"{labels: {environments: true, risk: true}, codeowners: true}": "",
	} {
		_, problems := loadRisk(t, "[{name: dev}, {name: prod, after: [dev]}]", "{}\n  review: "+rules)
		text := ""
		for _, p := range problems {
			if p.Line > 0 { // the fleet has no apps, which is a warning without a place
				text += p.String()
			}
		}
		if want == "" && text != "" || !strings.Contains(text, want) || want != "" && !strings.HasPrefix(text, "sluice.yaml:7:") {
			t.Errorf("%s: got %q, want %q with its place", rules, text, want)
		}
	}
}

// Only what reviews can set themselves is a label of theirs.
func TestOwnLabel(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"sluice/prod": true, "sluice/routine": true, "risk/high": true, "risk/none": true, "risk/big": false, "risk": false,
		"bug": false, "sluice": false,
	} {
		if got := fleet.OwnLabel(name); got != want {
			t.Errorf("OwnLabel(%q): got %t, want %t", name, got, want)
		}
	}
}
