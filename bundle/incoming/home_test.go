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
	homes.Spec.Environments = []fleet.Environment{{Name: "dev"}, {Name: "stage"}, {Name: "gov", After: []string{"dev"}, Isolated: &fleet.Isolated{}}}
	declares := &fleet.Fleet{}
	declares.Spec.Environments = []fleet.Environment{{Name: incoming.HomeName}, {Name: "gov", After: []string{incoming.HomeName}}}
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
		"home of a site's own fleet":       {declares, incoming.HomeName, []string{site}, "gov"},
		"home that has only another one":   {homes, "stage", []string{site, "env/dev"}, ""},
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

// TestSite holds that nobody makes a repository a site by a push below sluice/incoming/.
func TestSite(t *testing.T) {
	t.Parallel()
	named := func(list ...fleet.Environment) *fleet.Fleet {
		f := &fleet.Fleet{}
		f.Spec.Environments = list
		return f
	}
	isolated := &fleet.Isolated{}
	usual := named(fleet.Environment{Name: "dev"}, fleet.Environment{Name: "gov", After: []string{"dev"}})
	own := named(fleet.Environment{Name: incoming.HomeName}, fleet.Environment{Name: "gov", After: []string{incoming.HomeName}})
	homes := named(fleet.Environment{Name: "dev"}, fleet.Environment{Name: "gov", After: []string{"dev"}, Isolated: isolated},
		fleet.Environment{Name: "air", After: []string{"gov"}, Isolated: isolated})
	circle := named(fleet.Environment{Name: "gov", After: []string{"air"}, Isolated: isolated},
		fleet.Environment{Name: "air", After: []string{"gov"}, Isolated: isolated})
	inhabited := named(own.Spec.Environments...)
	inhabited.Clusters = []*fleet.Cluster{{Environment: incoming.HomeName}}
	gov, air := incoming.Branch("gov"), incoming.Branch("air")
	for name, test := range map[string]struct {
		fleet       *fleet.Fleet
		environment string
		branches    []string
		want        bool
	}{
		"a fleet without sites":                     {usual, "gov", []string{gov, "env/gov"}, false},
		"an environment that follows the trunk":     {homes, "dev", []string{incoming.Branch("dev"), "env/dev"}, false},
		"an environment that the fleet lacks":       {homes, "mars", []string{incoming.Branch("mars")}, false},
		"a site with home's fleet":                  {homes, "gov", []string{gov}, true},
		"a site that has promoted":                  {homes, "gov", []string{gov, "env/gov"}, true},
		"a site of two":                             {homes, "air", []string{gov, air, "env/gov", "env/air"}, true},
		"a site of the last":                        {homes, "air", []string{air, "env/air"}, true},
		"no import":                                 {homes, "gov", []string{air}, false},
		"a site with a fleet of its own":            {own, "gov", []string{gov, "env/gov"}, true},
		"a site where somebody hydrated home":       {own, "gov", []string{gov, "env/home"}, true},
		"a fleet with clusters in home":             {inhabited, "gov", []string{gov}, false},
		"home that exported":                        {homes, "gov", []string{gov, incoming.LogBranch}, false},
		"home before its first bundle":              {homes, "gov", []string{gov, "env/dev"}, false},
		"home before its first bundle, both pushed": {homes, "air", []string{gov, air, "env/dev", "env/gov"}, false},
		"a circle": {circle, "gov", []string{gov, air, "env/gov", "env/air"}, false},
	} {
		refs := map[string]gitstore.Hash{}
		for _, b := range test.branches {
			refs[b] = gitstore.Hash{1}
		}
		if got := incoming.Site(test.fleet, test.environment, refs); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
