package fleet

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// follow has a short and a long form. A value that says nothing, or two things, is refused.
func TestFollow(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]struct {
		follow  Follow
		problem string // part of the only error
	}{
		"":                             {},
		"follow: false":                {},
		"follow: true":                 {follow: Follow{MergeRequest: true}},
		"follow: {mergeRequest: true}": {follow: Follow{MergeRequest: true}},
		"follow: {commit: true}":       {follow: Follow{Commit: true}},
		"follow: {}":                   {problem: "follow has neither mergeRequest nor commit"},
		"follow: {commit: false}":      {problem: "follow has neither mergeRequest nor commit"},
		"follow: {commit: true, mergeRequest: true}": {problem: "follow has both mergeRequest and commit"},
		"follow: {comit: true}":                      {problem: "did you mean commit"},
		"follow: {commit: yes please}":               {problem: "spec.follow.commit must be true or false"},
		"follow: commit":                             {problem: "spec.follow must be true or false"},
		"follow: [commit]":                           {problem: "spec.follow must be a mapping"},
		"follow:":                                    {problem: "spec.follow must be true or false"},
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			f, problems := Load(t.Context(), fleettest.NewTree(tiny(map[string]string{
				"repositories/c.yaml": base +
					"kind: Repository\nmetadata: {name: c}\nspec:\n  url: https://x.org/c\n  branch: main\n  " + spec +
					"\n",
			})), NewCache())
			var errors []string
			for _, p := range problems {
				if p.Severity == SeverityError {
					errors = append(errors, p.String())
				}
			}
			if want.problem != "" {
				if len(errors) != 1 || !strings.Contains(errors[0], want.problem) ||
					!strings.HasPrefix(errors[0], "repositories/c.yaml:") {
					t.Errorf("errors %q, want one with %q", errors, want.problem)
				}
				return
			}
			if len(errors) > 0 || f == nil {
				t.Fatalf("errors %q", errors)
			}
			if r, ok := f.Repository("c"); !ok || r.Follow != want.follow ||
				r.Follow.On() != (want.follow != Follow{}) {
				t.Errorf("the result of Repository is %+v", r)
			}
		})
	}
}

// An app of the fleet that skips a layer does not need its files. An app of a workspace takes the fleet's files of
// every layer, and is not rendered without those that are missing.
func TestSkippedLayersOfAMissingRepository(t *testing.T) {
	t.Parallel()
	const skips = "skipLayers: [region], "
	files := tenants(map[string]string{
		"sluice.yaml": strings.Replace(fleetYAML, "[class, environment, region, cluster]",
			"[class, {name: region, repository: c, values: [\"${cluster.labels.region}.yaml\"]}]", 1),
		"repositories/c.yaml": base +
			"kind: Repository\nmetadata: {name: c}\nspec: {url: https://x.org/c, branch: main}\n",
		"workspaces/team-a/apps/web/app.yaml": workspaceApp("web", skips+"source: {helm: {path: charts/web}}"),
	})
	files["apps/web/app.yaml"] = strings.Replace(files["apps/web/app.yaml"], "spec: {", "spec: {"+skips, 1)
	f, problems := Load(t.Context(), fleettest.NewTree(files), NewCache())
	if f == nil {
		t.Fatal(problems)
	}
	apps := map[string]bool{}
	for _, target := range f.Targets() {
		_, err := f.Resolve(target)
		if missing := err != nil && strings.Contains(err.Error(),
			"layer region"); missing != (target.App.Workspace() != nil) {
			t.Errorf("%s: the error is %v", target.App.Name, err)
		}
		apps[target.App.Name] = true
	}
	if !apps["web"] || !apps["team-a/web"] {
		t.Errorf("apps %v", apps)
	}
}
