package hydrate_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// Custom kinds that no definition of the environment covers: the scope of well-known kinds and of those in spec.kinds
// is known, and one note names the others.
func TestKindsWithoutDefinition(t *testing.T) {
	r := hydratetest.Demo(t)
	for kind, group := range map[string]string{
		"ClusterExternalSecret": "external-secrets.io",
		"ClusterFoo":            "example.com", "Foo": "example.com", "Bar": "example.com",
	} {
		r.Write("manifests/baseline/"+strings.ToLower(kind)+".yaml", "apiVersion: "+group+"/v1\nkind: "+kind+
			"\nmetadata: {name: x}\n")
	}
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "spec:\n",
		"spec:\n  kinds: {cluster: [ClusterFoo.example.com]}\n", 1))
	r.Commit("custom kinds")
	e := r.Hydrate(nil).Environments[0]
	if len(e.Failures) > 0 {
		t.Fatalf("the failures are %+v", e.Failures)
	}
	for file, namespaced := range map[string]bool{
		"clusterexternalsecret-x.yaml": false, "clusterfoo-x.yaml": false,
		"foo-x.yaml": true, "bar-x.yaml": true,
	} {
		text := r.Git("show", "env/dev:dev-1/baseline/"+file)
		if strings.Contains(text, "namespace:") != namespaced {
			t.Errorf("%s:\nthe text is\n%s", file, text)
		}
	}
	var notes []string
	for _, w := range e.Notes {
		if strings.Contains(w.Message, "custom kinds") {
			notes = append(notes, w.Message)
		}
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "Bar.example.com, Foo.example.com;") {
		t.Errorf("notes %+v", e.Notes)
	}
}
