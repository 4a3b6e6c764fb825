package fleet_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func loadRisk(t *testing.T, environments, risk string) (*fleet.Fleet, fleet.Problems) {
	t.Helper()
	f, problems := fleet.Loader{}.Load(t.Context(), fleettest.NewTree(map[string]string{
		"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: x}\nspec:\n  environments: " +
			environments + "\n  risk: " + risk + "\n",
		"clusters/a.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
	}))
	return f, problems
}

func TestProduction(t *testing.T) {
	t.Parallel()
	graph := "[{name: dev}, {name: staging, after: [dev]}, {name: prod-eu, after: [staging]}, {name: prod-us, after: [staging]}]"
	plain := "[{name: dev}, {name: prod}]"
	for name, c := range map[string]struct{ environments, risk, want string }{
		"the end of the graph":     {graph, "{}", "prod-eu prod-us"},
		"no graph":                 {plain, "{}", "prod"},
		"by name":                  {graph, "{production: [staging]}", "staging"},
		"by pattern":               {graph, "{production: ['prod-*', dev]}", "dev prod-eu prod-us"},
		"a pattern without effect": {graph, "{production: ['live-*']}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, problems := loadRisk(t, c.environments, c.risk)
			if problems.Errors() > 0 {
				t.Fatal(problems)
			}
			var got []string
			for _, e := range f.Spec.Environments {
				if f.Production(e.Name) {
					got = append(got, e.Name)
				}
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("environments that serve users: got %q, want %q", text, c.want)
			}
		})
	}
}

func TestRiskIsChecked(t *testing.T) {
	t.Parallel()
	for risk, want := range map[string]string{
		"{levels: {replica-cut: high}}":  `there is no effect "replica-cut", did you mean replicas-cut?`,
		"{levels: {replicas-cut: hihg}}": `there is no risk "hihg", did you mean high?`,
		"{production: [prd]}":            `there is no environment "prd", did you mean prod?`,
		"{production: ['[']}":            `"[" is not a pattern`,
		"{levels: {replicas-cut: none, added: critical}, production: [prod]}": "",
	} {
		_, problems := loadRisk(t, "[{name: dev}, {name: prod, after: [dev]}]", risk)
		text := ""
		if problems.Errors() > 0 {
			text = problems.Error()
		}
		if want == "" && text != "" || !strings.Contains(text, want) || want != "" && !strings.HasPrefix(text, "sluice.yaml:6:") {
			t.Errorf("%s: got %q, want %q with its place", risk, text, want)
		}
	}
}

func TestRoutineIsChecked(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		"{images: [/ghcr.io/x]}":        `"/ghcr.io/x": the pattern begins with a slash`,
		"{environments: ['[']}":         `"[": the segment "[" is not a pattern`,
		"{files: [../x]}":               `"../x": the pattern leaves the repository`,
		"{charts: pach}":                `spec.routine.charts: unknown value "pach", did you mean patch?`,
		"{images: ['ghcr.io/acme/**']}": "",
	} {
		_, problems := loadRisk(t, "[{name: dev}]", "{}\n  routine: "+rules)
		text := ""
		if problems.Errors() > 0 {
			text = problems.Error()
		}
		if want == "" && text != "" || !strings.Contains(text, want) || want != "" && !strings.HasPrefix(text, "sluice.yaml:7:") {
			t.Errorf("%s: got %q, want %q with its place", rules, text, want)
		}
	}
}
