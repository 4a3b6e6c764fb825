package fleet_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/fleet"
)

// A repository without sluice.yaml is told what to run, by what it holds.
func TestRepositoryWithoutFleet(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"helmfile.yaml":               "a Helmfile repository, see helmfile.yaml: run `sluice import helmfile`",
		"deploy/helmfile.yaml.gotmpl": "see deploy/helmfile.yaml.gotmpl",
		"helmfile.d/00-web.yaml":      "see helmfile.d",
		"base/kustomization.yaml":     "run `sluice import --detect --write` for Flux or Argo CD objects",
		"README.md":                   "`sluice init` for charts",
	} {
		_, problems := fleet.Load(t.Context(), fstest.MapFS{name: {Data: []byte("a: b\n")}}, nil)
		if !problems.Absent() || !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: the problem is %q, want %q", name, problems.Error(), want)
		}
	}
}
