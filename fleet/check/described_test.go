package check_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func TestEffectsOfForEach(t *testing.T) {
	t.Parallel()
	app := func(placement, selector string) string {
		return fleettest.Base + "kind: App\nmetadata: {name: workload}\nspec: {namespace: n, placement: {matchLabels: {cluster: " + placement +
			"}}, forEach: {clusters: " + selector + "}, source: {manifests: {path: m}}}\n"
	}
	for name, c := range map[string]struct{ app, want string }{
		"nobody is described": {app("b", "{optional: true, matchLabels: {region: moon}}"), "apps/workload/app.yaml:4:71: warning: app workload describes no cluster"},
		"at once":             {app("a", "{}"), "environment dev of cluster a follows the trunk, so the clusters that app workload describes all move at once"},
		"in waves":            {app("b", "{}"), ""},
		"of the trunk":        {app("a", "{matchLabels: {cluster: a}}"), ""},
	} {
		files := fleettest.Small()
		files["apps/workload/app.yaml"], files["apps/workload/layers/global/kustomization.yaml"] = c.app, "kind: Component\n"
		f, problems := loader().Load(t.Context(), fleettest.NewTree(files))
		if f == nil {
			t.Fatal(problems)
		}
		var text strings.Builder
		for _, p := range problems {
			if strings.Contains(p.File, "workload") {
				text.WriteString(p.String())
			}
		}
		if c.want == "" && text.Len() > 0 || !strings.Contains(text.String(), c.want) {
			t.Errorf("%s: %q, want %q", name, text.String(), c.want)
		}
	}
}
