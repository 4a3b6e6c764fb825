package compare

import (
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// A cluster has all of its candidates, also those that the list has behind candidates of other clusters, and the list
// stays as it is.
func TestCandidatesByCluster(t *testing.T) {
	t.Parallel()
	view := &source.View{Fleet: &fleet.Fleet{Clusters: make([]*fleet.Cluster, 9)}}
	c := &run{views: [2]*source.View{nil, view}}
	for _, one := range [][2]string{
		{"a", "1"},
		{"a", "2"},
		{"b", "1"},
		{"c", "1"},
		{"a", "3"},
		{"b", "2"},
		{"a", "4"},
	} {
		c.list = append(c.list, &candidate{cluster: one[0], app: one[1]})
	}
	before := slices.Clone(c.list)
	for range 2 {
		got := c.candidatesByCluster()
		for cluster, want := range map[string]string{"a": "1234", "b": "12", "c": "1", "d": ""} {
			apps := ""
			for _, one := range got[cluster] {
				apps += one.app
			}
			if apps != want {
				t.Errorf("%s has %s, want %s", cluster, apps, want)
			}
		}
	}
	if !slices.Equal(c.list, before) {
		t.Error("the list has changed")
	}
}
