//go:build !argocd32

package argocd

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/v3/util/lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The health of objects of Cluster API that bootstrap prints, evaluated as Argo CD does.
func TestHealthOfClusterAPI(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), binary, "bootstrap", "argocd", "--part", "cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	var patch struct{ Data map[string]string }
	if err := json.Unmarshal(out, &patch); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../../hydrate/bootstrap/testdata/clusterapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Want string
		Object     map[string]any
	}
	if err := yaml.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	overrides := map[string]string{"Current": "Healthy", "InProgress": "Progressing", "Failed": "Degraded"}
	for _, c := range cases {
		text, err := json.Marshal(c.Object)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		script := patch.Data["resource.customizations.health."+u.GroupVersionKind().Group+"_"+u.GetKind()]
		if !strings.Contains(script, "return hs") {
			t.Fatalf("%s: there is no script", c.Name)
		}
		open := patch.Data["resource.customizations.useOpenLibs."+u.GroupVersionKind().Group+"_"+u.GetKind()] == "true"
		got, err := lua.VM{UseOpenLibs: open}.ExecuteHealthLua(u, script)
		if err != nil || string(got.Status) != overrides[c.Want] {
			t.Errorf("%s: %v, %v, want %s", c.Name, got, err, overrides[c.Want])
		}
	}
	if len(cases) < 30 {
		t.Errorf("%d cases", len(cases))
	}
}
