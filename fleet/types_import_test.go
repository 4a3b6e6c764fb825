package fleet

import (
	"maps"
	"testing"
)

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
	if got := entry.LabelsOf("registered", nil); !maps.Equal(got, map[string]string{"tier": "back"}) || registry["tier"] != "front" {
		t.Errorf("%v, registry %v", got, registry)
	}
}
