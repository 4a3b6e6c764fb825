package incoming_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

func TestAtHome(t *testing.T) {
	t.Parallel()
	own := &fleet.Fleet{}
	own.Spec.Environments = []fleet.Environment{{Name: "dev"}, {Name: "gov", After: []string{"dev"}}}
	homes := &fleet.Fleet{}
	homes.Spec.Environments = []fleet.Environment{{Name: "dev"}, {Name: "gov", After: []string{"dev"}, Isolated: &fleet.Isolated{}}}
	some := gitstore.Hash{1}
	site := incoming.Branch("gov")
	for name, test := range map[string]struct {
		fleet       *fleet.Fleet
		environment string
		branches    []string
		want        string
	}{
		"home":                             {homes, "dev", []string{incoming.LogBranch}, ""},
		"home before its first bundle":     {homes, "dev", nil, ""},
		"a site":                           {homes, "dev", []string{site}, "gov"},
		"what the site is for":             {homes, "gov", []string{site}, ""},
		"a site with a fleet of its own":   {own, "dev", []string{site}, ""},
		"home, where somebody pushed":      {homes, "dev", []string{site, incoming.LogBranch}, ""},
		"home, where nothing was exported": {homes, "dev", []string{site, "env/dev"}, ""},
	} {
		refs := map[string]gitstore.Hash{}
		for _, b := range test.branches {
			refs[b] = some
		}
		if got := incoming.AtHome(test.fleet, test.environment, refs); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
