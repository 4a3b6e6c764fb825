package promote_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
)

// A branch of imports makes a repository the site of an isolated environment, but not one that exports bundles.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	dev := fleet.Environment{Name: "dev"}
	isolated := fleet.Environment{Name: "gov", After: []string{"dev"}, Isolated: &fleet.Isolated{}}
	brought := map[string]gitstore.Hash{incoming.Branch("gov"): {1}}
	home := map[string]gitstore.Hash{incoming.Branch("gov"): {1}, incoming.LogBranch: {2}}
	for name, test := range map[string]struct {
		environment fleet.Environment
		refs        map[string]gitstore.Hash
		want        bool
	}{
		"home":                      {isolated, nil, true},
		"the site":                  {isolated, brought, false},
		"home with a pushed branch": {isolated, home, true},
		"not isolated":              {fleet.Environment{Name: "gov", After: []string{"dev"}}, home, false},
	} {
		f := &fleet.Fleet{Spec: fleet.FleetSpec{Environments: []fleet.Environment{dev, test.environment}}}
		if got := promote.Elsewhere(f, test.environment, test.refs); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
