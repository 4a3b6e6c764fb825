package hydrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Helm follows links inside a chart; a link that leaves it is refused unless .helmignore excludes it.
func TestLinksInCharts(t *testing.T) {
	r := demo(t)
	link := func(target, name string) {
		t.Helper()
		name = filepath.Join(r.dir, "charts/web", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	r.write("charts/web/parts/extra.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: linked}\n")
	link("../parts/extra.yaml", "templates/extra.yaml")
	r.write("charts/web/.helmignore", "ci/\n")
	link("../../../../elsewhere", "ci/values.yaml")
	r.commit("links")
	e := r.hydrate(nil).Environments[0]
	if len(e.Failures) > 0 {
		t.Fatalf("%+v", e.Failures)
	}
	if files := r.git("ls-tree", "-r", "--name-only", "env/dev"); !strings.Contains(files, "configmap-linked.yaml") {
		t.Errorf("the linked template is not rendered:\n%s", files)
	}
	link("../../../clusters", "templates/all")
	r.commit("a link that leaves the chart")
	e = r.hydrate(nil).Environments[0]
	if e.Status != StatusFailed || !strings.Contains(e.Failures[0].Message, "templates/all is a symbolic link") || !strings.Contains(e.Failures[0].Message, "outside of the chart") {
		t.Errorf("%+v", e)
	}
}
