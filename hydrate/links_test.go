package hydrate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// Helm follows links inside a chart. A link that leaves the chart is refused unless .helmignore excludes it.
func TestLinksInCharts(t *testing.T) {
	r := hydratetest.Demo(t)
	link := func(target, name string) {
		t.Helper()
		name = filepath.Join(r.Dir, "charts/web", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	r.Write("charts/web/parts/extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: linked}\n")
	link("../parts/extra.yaml", "templates/extra.yaml")
	r.Write("charts/web/.helmignore", "ci/\n")
	link("../../../../elsewhere", "ci/values.yaml")
	r.Commit("links")
	e := r.Hydrate(nil).Environments[0]
	if len(e.Failures) > 0 {
		t.Fatalf("the failures are %+v", e.Failures)
	}
	if files := r.Git("ls-tree", "-r", "--name-only", "env/dev"); !strings.Contains(files, "configmap-linked.yaml") {
		t.Errorf("the linked template is not rendered:\n%s", files)
	}
	link("../../../clusters", "templates/all")
	r.Commit("a link that leaves the chart")
	e = r.Hydrate(nil).Environments[0]
	if e.Status != hydrate.StatusFailed || !strings.Contains(e.Failures[0].Message,
		"templates/all is a symbolic link") || !strings.Contains(e.Failures[0].Message, "outside the chart") {
		t.Errorf("the entry is %+v", e)
	}
}
