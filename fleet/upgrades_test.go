package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func loadUpgrades(t *testing.T, upgrades string, raised *fleet.Raise) (*fleet.Fleet, fleet.Problems) {
	t.Helper()
	cluster := func(name, spec string) string {
		return "---\napiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec: {environment: dev" + spec + "}\n"
	}
	return fleet.Loader{Raised: raised}.Load(t.Context(), fleettest.NewTree(map[string]string{
		"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: x}\nspec:\n  environments: [{name: dev}]\n  upgrades: " +
			upgrades + "\n",
		"clusters/a.yaml": cluster("older", ", kubeVersion: 1.33.9, apiVersions: [old.example.com/v1, new.example.com/v1]") +
			cluster("same", ", kubeVersion: 1.34.1+k3s1") + cluster("newer", ", kubeVersion: 1.35.0") + cluster("unknown", ""),
	}))
}

// Only clusters with an older minor version are raised, and lose the APIs that the new one does not serve.
func TestRaise(t *testing.T) {
	t.Parallel()
	f, problems := loadUpgrades(t, "{}", &fleet.Raise{
		KubeVersion: "1.34.0",
		Served: func(list []string) []string {
			return slices.DeleteFunc(slices.Clone(list), func(api string) bool { return strings.HasPrefix(api, "old.") })
		},
	})
	if problems.Errors() > 0 {
		t.Fatal(problems)
	}
	for name, want := range map[string]string{"older": "1.34.0", "same": "1.34.1+k3s1", "newer": "1.35.0", "unknown": ""} {
		if c, _ := f.Cluster(name); c.KubeVersion != want {
			t.Errorf("%s: got %q, want %q", name, c.KubeVersion, want)
		}
	}
	if c, _ := f.Cluster("older"); !slices.Equal(c.APIVersions, []string{"new.example.com/v1"}) {
		t.Errorf("APIs: %q", c.APIVersions)
	}
}

func TestUpgradesAreChecked(t *testing.T) {
	t.Parallel()
	const valid = "{addons: [{name: cilium, images: [cilium/cilium], versions: '>=1.18 <1.19', kubernetes: '>=1.30 <=1.33', source: 'https://example.com'}, {name: proxy, images: ['kube-proxy-*'], skew: {older: 2}, advice: true}], apis: [{apiVersion: example.com/v1, kind: A, removedIn: '1.36', deprecatedIn: v1.33, replacement: example.com/v2 A}]}"
	if _, problems := loadUpgrades(t, valid, nil); problems.Errors() > 0 {
		t.Fatal(problems)
	}
	for upgrades, want := range map[string]string{
		"{addons: [{name: a, images: [], kubernetes: '>=1.30'}]}":                            "names no images",
		"{addons: [{name: a, images: [a]}]}":                                                 "needs either kubernetes",
		"{addons: [{name: a, images: [a], kubernetes: '>=1.30', skew: {}}]}":                 "needs either kubernetes",
		"{addons: [{name: a, images: [a], kubernetes: newest}]}":                             `"newest" is not a range of versions`,
		"{addons: [{name: a, images: [a], versions: 'x.y', kubernetes: '>=1.30'}]}":          `"x.y" is not a range of versions`,
		"{addons: [{name: a, images: [a], skew: {older: -1}}]}":                              "skew must not be negative",
		"{addons: [{name: a, images: [/a], skew: {older: 1}}]}":                              "is not the end of a repository",
		"{addons: [{name: a, images: ['['], skew: {older: 1}}]}":                             "is not the end of a repository",
		"{addons: [{name: a, images: [a], kubernetes: '" + strings.Repeat("1", 201) + "'}]}": "more than 200 characters",
		"{apis: [{apiVersion: a b, kind: A, removedIn: '1.36'}]}":                            `"a b" is no apiVersion`,
		"{apis: [{apiVersion: example.com/v1, kind: A}]}":                                    "has no end of life",
		"{apis: [{apiVersion: example.com/v1, kind: A, removedIn: soon}]}":                   `"soon" is no version of Kubernetes`,
		"{apis: [{apiVersion: example.com/v1, kind: A, deprecatedIn: '1'}]}":                 `"1" is no version of Kubernetes`,
	} {
		_, problems := loadUpgrades(t, upgrades, nil)
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "sluice.yaml:6:") {
			t.Errorf("%s: got %v, want %q with its place", upgrades, err, want)
		}
	}
}
