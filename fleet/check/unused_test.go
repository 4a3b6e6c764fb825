package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// Files in the paths of a layer that no target uses are reported with a suggestion. Files of charts and of the
// registry are not.
func TestUnusedLayerFilesAreReported(t *testing.T) {
	t.Parallel()
	files := fleettest.Foreign()
	maps.Copy(files, map[string]string{
		"charts/one/values-pord.yaml":           "a: 1\n",
		"charts/one/values-dev.extra.yaml":      "a: 1\n",
		"charts/three/values-dev.yaml":          "a: 1\n",
		"charts/one/Chart.yaml":                 "name: one\n",
		"charts/one/values.yaml":                "a: 1\n",
		"charts/one/value-dev.yaml":             "a: 1\n",
		"charts/two/values-prod.yml":            "a: 1\n",
		"overlays/dev/on/kustomization.yaml":    "kind: Component\n",
		"overlays/dev/one/notes.yaml":           "a: 1\n",
		"env/c9.yaml":                           "a: 1\n",
		"env/sub/c1.yaml":                       "a: 1\n",
		"infra/z1/kustomization.yaml.disabled":  "a: 1\n",
		"charts/one/templates/values-dev.yaml":  "a: 1\n",
		"charts/one/values-dev.main.yaml.gotpl": "a: 1\n",
	})
	delete(files, "charts/two/values-prod.yaml")
	f := load(t, files)
	got := map[string]string{}
	for _, p := range unusedFiles(t.Context(), f) {
		got[p.File] = p.String()
	}
	for file, want := range map[string]string{
		"charts/one/values-pord.yaml":        "matches charts/${app}/values-${environment}.yaml of layer environment, did you mean values-prod.yaml? (rename it, or remove it)",
		"charts/one/values-dev.extra.yaml":   "no target takes this file",
		"charts/three/values-dev.yaml":       "no target takes this file",
		"charts/two/values-prod.yml":         "layer environment does not read values-prod.yml (rename it to values-prod.yaml)",
		"overlays/dev/on/kustomization.yaml": "did you mean overlays/dev/one/kustomization.yaml?",
		"env/c9.yaml":                        "did you mean c0.yaml?",
	} {
		if !strings.Contains(got[file], file+": warning: ") || !strings.Contains(got[file], want) {
			t.Errorf("%s: the result is %q\nwant %q", file, got[file], want)
		}
		delete(got, file)
	}
	if len(got) > 0 {
		t.Errorf("more files: %v", got)
	}
	checked := Targets(t.Context(), f)
	for _, p := range unusedFiles(t.Context(), f) {
		if !slices.Contains(checked, p) {
			t.Errorf("Check does not report %s", p)
		}
	}
	for i := range 50 {
		files[fmt.Sprintf("charts/one/values-x%d.yaml", i)] = "a: 1\n"
	}
	list := unusedFiles(t.Context(), load(t, files))
	var text strings.Builder
	for _, p := range list {
		text.WriteString(p.String() + "\n")
	}
	if len(list) > 30 || !strings.Contains(text.String(),
		"no target takes 33 more files that match charts/${app}/values-${environment}.yaml") {
		t.Errorf("%d warnings:\n%s", len(list), text.String())
	}
}

func load(t *testing.T, files map[string]string) *fleet.Fleet {
	t.Helper()
	f, problems := fleet.Load(t.Context(), fleettest.NewTree(files), nil)
	if f == nil {
		t.Fatalf("the fleet does not load:\n%v", problems)
	}
	return f
}
