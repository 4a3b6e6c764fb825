package fleet

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The newest version follows the Go types of the API.
func TestNewestKubeVersion(t *testing.T) {
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`k8s\.io/api v0\.(\d+)\.`).FindSubmatch(module)
	if found == nil {
		t.Fatal("go.mod does not name k8s.io/api")
	}
	if want := "1." + string(found[1]) + ".0"; NewestKubeVersion != want || strings.Count(want, ".") != 2 {
		t.Errorf("the newest version is %s, want %s as k8s.io/api in go.mod", NewestKubeVersion, want)
	}
}

func TestLabelsOfArgoCD(t *testing.T) {
	registry := map[string]string{"tier": "front", "region": "eu"}
	entry := &ArgoCDImport{Clusters: map[string]ArgoCDCluster{
		"registered": {Labels: map[string]string{"tier": "back"}},
		"described":  {Environment: "prod", Labels: map[string]string{"tier": "back"}},
	}}
	for cluster, want := range map[string]map[string]string{
		"registered": {"tier": "back", "region": "eu"},
		"described":  {"tier": "back"},
		"unnamed":    registry,
	} {
		if got := entry.LabelsOf(cluster, registry); !maps.Equal(got, want) {
			t.Errorf("%s has %v, want %v", cluster, got, want)
		}
	}
	if got := entry.LabelsOf("registered", nil); !maps.Equal(got, map[string]string{"tier": "back"}) ||
		registry["tier"] != "front" {
		t.Errorf("%v, registry %v", got, registry)
	}
}
