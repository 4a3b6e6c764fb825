package fluxref

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// spec.ignore of the cluster's GitRepository adds to .sourceignore, and can include a file again. The files are back
// afterwards: another cluster can have another GitRepository.
func TestIgnoreOfTheRepository(t *testing.T) {
	t.Parallel()
	config := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{
		".sourceignore": "/clusters/prod/b.yaml\n", "clusters/prod/a.yaml": config("a"),
		"clusters/prod/b.yaml": config("b"), "clusters/prod/c.yaml": config("c"),
		"clusters/prod/sync.yaml": "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: flux-system, namespace: flux-system}\nspec: {ignore: \"!/clusters/prod/b.yaml\\n/clusters/prod/a.yaml\\n\"}\n",
	})
	r, err := Build(t.Context(), Options{Dir: dir, Root: "clusters/prod"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range r.Built["flux-system"] {
		got = append(got, o.GetName())
	}
	if want := "flux-system b c"; len(got) != 3 || !same(got, strings.Fields(want)) {
		t.Errorf("built %v, want %s", got, want)
	}
	if r.Namespaces["flux-system"] != "default" {
		t.Errorf("namespaces: %v", r.Namespaces)
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, err := os.Stat(filepath.Join(dir, "clusters/prod", name+".yaml")); err != nil {
			t.Error(err)
		}
	}
}

func same(got, want []string) bool {
	has := map[string]bool{}
	for _, name := range got {
		has[name] = true
	}
	for _, name := range want {
		if !has[name] {
			return false
		}
	}
	return true
}

// A copy rule stays in the repository and in the artifact.
func TestCopyRulesStayInside(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	dir := filepath.Join(temp, "repository")
	write(t, dir, map[string]string{"apps/a.yaml": "a", "../secret/s.yaml": "s"})
	c := &cluster{Options: Options{Dir: dir}, temp: t.TempDir()}
	rule := func(from, to string) map[string]any {
		return map[string]any{"copy": []any{map[string]any{"from": from, "to": to}}}
	}
	for _, r := range [][2]string{
		{"@git/apps/**", "@artifact/../.."},
		{"@git/apps/**", "/tmp"},
		{"@git/../secret/**", "@artifact/"},
	} {
		if _, err := c.copyArtifact(rule(r[0], r[1])); err == nil ||
			!strings.Contains(err.Error(), "leaves the artifact or the repository") {
			t.Errorf("%v: %v", r, err)
		}
	}
	out, err := c.copyArtifact(rule("@git/apps/**", "@artifact/"))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(out, "a.yaml")); err != nil || string(data) != "a" {
		t.Errorf("%q, %v", data, err)
	}
}
