package argocd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/tools/gitops/argocd/argoref"
)

const more = `-- argocd/more.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: remote, namespace: argocd}
spec:
  project: default
  destination: {name: prod, namespace: ns}
  source: {repoURL: https://charts.example.com, chart: web, targetRevision: 1.0.0}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: asks, namespace: argocd}
spec:
  generators: [{scmProvider: {github: {organization: acme}}}]
  template:
    metadata: {name: "{{repository}}"}
    spec:
      project: default
      destination: {name: prod, namespace: ns}
      source: {repoURL: "{{url}}", path: deploy}
`

// `sluice import --check` compares with the program that this module builds. It finds a difference, names what is not
// compared, and refuses to compare nothing.
func TestImportCheck(t *testing.T) {
	fixtures := sections(t)
	base := fixtures["base"]
	check := func(t *testing.T, files, path, version string) (string, error) {
		t.Helper()
		dir := t.TempDir()
		unpack(t, dir, strings.Replace(base, argoref.Version, strconv.Quote(version), 1)+files)
		initialize(t, dir)
		c := exec.CommandContext(t.Context(), binary, "import", "--check")
		c.Dir = dir
		c.Env = append(os.Environ(), "HOME="+t.TempDir(), "SLUICE_OFFLINE=1", "PATH="+
			path+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		t.Logf("%v\n%s", err, out)
		return string(out), err
	}
	t.Run("equal", func(t *testing.T) {
		for _, name := range []string{
			"directory", "Kustomize images", "Helm values", "app of apps through a chart",
			"clusters selector and values", "git files",
		} {
			if out, err := check(t, fixtures[name], tools, argoref.Version); err != nil ||
				!strings.Contains(out, " 0 differences, 0 apps not compared") {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		}
	})
	// A program that answers something else than Argo CD builds.
	t.Run("unequal", func(t *testing.T) {
		wrong := t.TempDir()
		script := "#!/bin/sh\n'" + filepath.Join(tools, "sluice-reference-argocd") +
			"' | sed 's/\"color\":\"red\"/\"color\":\"blue\"/'\n"
		if err := os.WriteFile(filepath.Join(wrong, "sluice-reference-argocd"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := check(t, fixtures["directory"], wrong, argoref.Version)
		if err == nil || !strings.Contains(out,
			"differs       prod/app (argocd/app.yaml:1): ConfigMap ns/config is not equal") ||
			!strings.Contains(out, "differs from what Argo CD builds: 1 difference") {
			t.Errorf("%v: %s", err, out)
		}
	})
	// The reference builds Jsonnet, which Sluice refuses.
	t.Run("jsonnet", func(t *testing.T) {
		out, err := check(t, fixtures["directory"]+
			"-- plain/more.jsonnet --\n{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'jsonnet'}}\n", tools, argoref.Version)
		if err == nil || !strings.Contains(out, "prod/app (argocd/app.yaml:1): Argo CD builds it, Sluice does not: ") ||
			!strings.Contains(out, "plain/more.jsonnet") {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("not built", func(t *testing.T) {
		out, err := check(t, fixtures["directory"]+more, tools, argoref.Version)
		for _, want := range []string{
			"not compared  asks.appset (argocd/more.yaml:9): ", "scmProvider",
			"prod/remote (argocd/more.yaml:1): ", "objects of 1 app equal, 0 differences",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q: %v: %s", want, err, out)
			}
		}
	})
	t.Run("another version of Helm", func(t *testing.T) {
		other := map[int]string{3: "3.5", 4: "3.4"}[argoref.Helm]
		out, err := check(t, fixtures["directory"], tools, other)
		for _, want := range []string{
			fmt.Sprintf("the import is of Argo CD %s, which ships Helm %d (build it", other, 7-argoref.Helm),
			fmt.Sprintf("helm.sh/helm/v%d/cmd/helm", 7-argoref.Helm),
		} {
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("no %q: %v: %s", want, err, out)
			}
		}
	})
	t.Run("nothing", func(t *testing.T) {
		if out, err := check(t, "", tools, argoref.Version); err == nil || !strings.Contains(out, "nothing was compared") {
			t.Errorf("%v: %s", err, out)
		}
	})
}
