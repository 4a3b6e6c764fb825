package diff_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/diff"
)

// labelled is a cluster of the fleet of these tests: dev-eu-0, class edge in every second cluster.
func labelled(environment, region string, n int) diff.Cluster {
	class := "core"
	if n%2 == 0 {
		class = "edge"
	}
	name := fmt.Sprintf("%s-%s-%d", environment, region, n)
	return diff.Cluster{Name: name, Environment: environment, Labels: map[string]string{
		"environment": environment, "cluster": name, "class": class, "region": region, "serial": name, "ring": ring(n),
	}}
}

func ring(n int) string { return []string{"canary", "early", "rest", "rest"}[n] }

// labelledFleet has four clusters in each of two regions and three environments, in no order.
func labelledFleet() clusters {
	var out clusters
	for _, e := range []string{"prod", "dev", "staging"} {
		for _, r := range []string{"us", "eu"} {
			for n := range 4 {
				out = append(out, labelled(e, r, n))
			}
		}
	}
	return out
}

// changedOn returns the change set of one image on some clusters.
func changedOn(tb testing.TB, fleet diff.Fleet, on []diff.Cluster) *diff.ChangeSet {
	tb.Helper()
	before, after := objects(tb, deployment), objects(tb, strings.Replace(deployment, "1.2.0", "1.3.0", 1))
	var targets []diff.Target
	for _, c := range on {
		targets = append(targets, diff.Target{
			App: "shop", Cluster: c.Name, Environment: c.Environment, Before: before, After: after,
		})
	}
	return diff.Compare(targets, nil, []string{"dev", "staging", "prod"}, fleet)
}

func TestNameOfAGroup(t *testing.T) {
	fleet := labelledFleet()
	in := func(environments ...string) func(*diff.Cluster) bool {
		return func(c *diff.Cluster) bool { return slices.Contains(environments, c.Environment) }
	}
	has := func(key, value string) func(*diff.Cluster) bool {
		return func(c *diff.Cluster) bool { return c.Labels[key] == value }
	}
	and := func(all ...func(*diff.Cluster) bool) func(*diff.Cluster) bool {
		return func(c *diff.Cluster) bool {
			return !slices.ContainsFunc(all, func(f func(*diff.Cluster) bool) bool { return !f(c) })
		}
	}
	not := func(f func(*diff.Cluster) bool) func(*diff.Cluster) bool {
		return func(c *diff.Cluster) bool { return !f(c) }
	}
	named := func(names ...string) func(*diff.Cluster) bool {
		return func(c *diff.Cluster) bool { return slices.Contains(names, c.Name) }
	}
	for want, on := range map[string]func(*diff.Cluster) bool{
		"all clusters (24)":                       func(*diff.Cluster) bool { return true },
		"prod/* (8)":                              in("prod"),
		"dev/* (8), prod/* (8)":                   in("prod", "dev"),
		"class=edge (12)":                         has("class", "edge"),
		"prod class=edge (4)":                     and(in("prod"), has("class", "edge")),
		"class=edge region=eu (6)":                and(has("class", "edge"), has("region", "eu")),
		"prod class=edge region=eu (2)":           and(in("prod"), has("class", "edge"), has("region", "eu")),
		"class=edge region=eu ring=rest (3)":      and(has("class", "edge"), has("region", "eu"), has("ring", "rest")),
		"class=edge except dev (8)":               and(has("class", "edge"), not(in("dev"))),
		"prod except ring=canary (6)":             and(in("prod"), not(has("ring", "canary"))),
		"prod except prod-eu-1 (7)":               and(in("prod"), not(named("prod-eu-1"))),
		"prod/prod-eu-1":                          named("prod-eu-1"),
		"dev/dev-us-2, staging/* (8), prod/* (8)": func(c *diff.Cluster) bool { return c.Environment != "dev" || c.Name == "dev-us-2" },
		"prod/prod-eu-1, prod/prod-us-2":          named("prod-us-2", "prod-eu-1"),
		"prod/prod-eu-* (3 of 4), prod/prod-us-1": named("prod-eu-0", "prod-eu-1", "prod-eu-3", "prod-us-1"),
		"dev/dev-eu-1, dev/dev-us-2, staging/* (8)": func(c *diff.Cluster) bool {
			return c.Environment == "staging" || c.Name == "dev-eu-1" || c.Name == "dev-us-2"
		},
	} {
		var list []diff.Cluster
		for i := range fleet {
			if on(&fleet[i]) {
				list = append(list, fleet[i])
			}
		}
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		set := changedOn(t, fleet, list)
		if got := diff.Patterns(set.Groups[0].Where); got != want {
			t.Errorf("the group is named %q, want %q", got, want)
		}
		if got := diff.Patterns(set.Apps[0].Where); got != want {
			t.Errorf("the app is named %q, want %q", got, want)
		}
	}
}

// some is a fleet in which the app runs on a part of the clusters.
type some struct{ all, app clusters }

func (s some) Placed(app string) []diff.Cluster {
	if app == "" {
		return s.all
	}
	return s.app
}

// An expression holds among the clusters of the app. If all of these change, it says which clusters of the fleet they
// are.
func TestNameAmongTheClustersOfTheApp(t *testing.T) {
	all := labelledFleet()
	var edge, outside clusters
	for _, c := range all {
		if c.Labels["class"] == "edge" {
			edge = append(edge, c)
		}
		if c.Environment != "dev" {
			outside = append(outside, c)
		}
	}
	eu := slices.DeleteFunc(slices.Clone(edge), func(c diff.Cluster) bool { return c.Labels["region"] != "eu" })
	for _, tc := range []struct {
		name, want string
		app, on    clusters
	}{
		{"all edge clusters", "class=edge (12)", edge, edge},
		{"the edge clusters of a region", "region=eu (6)", edge, eu},
		{"two environments", "staging/* (8), prod/* (8)", outside, outside},
		{"clusters that are not known", "dev/dev-eu-1, prod/new", edge, clusters{all[13], {Name: "new", Environment: "prod"}}},
	} {
		if got := diff.Patterns(changedOn(t, some{all, tc.app}, tc.on).Groups[0].Where); got != tc.want {
			t.Errorf("%s: named %q, want %q", tc.name, got, tc.want)
		}
	}
}

// An environment that only the base has is no part of the order, and is not lost.
func TestNameInARemovedEnvironment(t *testing.T) {
	list := clusters{{Name: "a", Environment: "old"}, {Name: "b", Environment: "dev"}}
	set := changedOn(t, list, list)
	if got, want := fmt.Sprint(set.Groups[0].Environments), "[dev old]"; got != want {
		t.Errorf("environments: got %s, want %s", got, want)
	}
}

// The name of a group describes its clusters and no other one, whatever they are.
func TestNameDescribesExactly(t *testing.T) {
	fleet := labelledFleet()
	matches := func(pattern string, c *diff.Cluster) bool {
		pattern, except, _ := strings.Cut(pattern, " except ")
		pattern = strings.TrimPrefix(pattern, "all clusters")
		term := func(word string) bool {
			key, value, label := strings.Cut(word, "=")
			switch {
			case label:
				return c.Labels[key] == value
			case strings.HasSuffix(word, "*"):
				return strings.HasPrefix(c.Environment+"/"+c.Name, strings.TrimSuffix(word, "*"))
			case strings.Contains(word, "/"):
				return c.Environment+"/"+c.Name == word
			}
			return c.Environment == word || c.Name == word
		}
		for word := range strings.FieldsSeq(pattern) {
			if !term(word) {
				return false
			}
		}
		return except == "" || !term(except)
	}
	random := rand.New(rand.NewPCG(1, 2))
	exact := 0
	for range 500 {
		var on []diff.Cluster
		bits := random.Uint64() & random.Uint64()
		if random.IntN(2) == 0 {
			bits |= random.Uint64()
		}
		for i := range fleet {
			if bits>>i&1 == 1 {
				on = append(on, fleet[i])
			}
		}
		if len(on) == 0 {
			continue
		}
		g := changedOn(t, fleet, on).Groups[0]
		clusters := 0
		for _, r := range g.Where {
			n := 0
			for i := range fleet {
				if matches(r.Pattern, &fleet[i]) {
					n++
				}
			}
			want := r.Clusters
			if r.Of > 0 {
				want = r.Of
			}
			if n != want {
				t.Errorf("%v: the pattern matches %d clusters, want %d", r, n, want)
			}
			clusters += r.Clusters
		}
		exact++
		if clusters != len(on) {
			t.Errorf("%v: names %d clusters, want %d", g.Where, clusters, len(on))
		}
	}
	if exact < 100 {
		t.Errorf("%d groups were named, want at least 100", exact)
	}
}

// Naming thousands of groups of a large fleet takes little time.
func TestNamesOfALargeFleet(t *testing.T) {
	var fleet clusters
	for i := range 5000 {
		labels := map[string]string{"cluster": fmt.Sprint("c", i)}
		for k := range 12 {
			labels[fmt.Sprint("label-", k)] = fmt.Sprint(i / (k + 1) % (k + 2))
		}
		fleet = append(fleet, diff.Cluster{Name: fmt.Sprint("c", i), Environment: []string{"dev", "staging", "prod"}[i%3], Labels: labels})
	}
	before := objects(t, deployment)
	var targets []diff.Target
	for i, c := range fleet[:2000] { // 500 groups of four clusters
		targets = append(targets, diff.Target{
			App: "shop", Cluster: c.Name, Environment: c.Environment, Before: before,
			After: objects(t, strings.Replace(deployment, "1.2.0", fmt.Sprint(i/4), 1)),
		})
	}
	begin := time.Now()
	set := diff.Compare(targets, nil, []string{"dev", "staging", "prod"}, fleet)
	if took := time.Since(begin); len(set.Groups) != 500 || took > 30*time.Second {
		t.Errorf("%d groups in %s, want 500 in at most 30s", len(set.Groups), took)
	}
}

const hosted = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
spec:
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}}
    spec: {containers: [{name: cart, image: "IMAGE", env: [{name: HOST, value: "HOST"}]}]}
`

// hostedOn returns a target of a cluster with a domain, whose image and host change.
func hostedOn(tb testing.TB, cluster, environment, domain string, before, after [2]string) diff.Target {
	tb.Helper()
	fill := func(v [2]string) []diff.Object {
		return objects(tb, strings.NewReplacer("IMAGE", v[0], `"HOST"`, `"`+v[1]+`"`).Replace(hosted))
	}
	return diff.Target{
		App: "shop", Cluster: cluster, Environment: environment,
		Facts: func() map[string]string {
			return map[string]string{"cluster.vars.domain": domain, "environment": environment}
		},
		Before: fill(before), After: fill(after),
	}
}

// The text of an image that is the same on all clusters does not come from a variable, although the value of the
// variable is part of it.
func TestTextsThatContainAValueByChance(t *testing.T) {
	image := "registry.example.com/cart:"
	for _, tc := range []struct {
		name    string
		targets []diff.Target
		groups  []string // clusters
		varies  []string // of the first group
	}{
		{
			"an image",
			[]diff.Target{
				hostedOn(t, "a", "prod", "example.com", [2]string{image + "1", "cart.example.com"}, [2]string{image + "2", "cart.example.com"}),
				hostedOn(t, "b", "prod", "core.net", [2]string{image + "1", "cart.core.net"}, [2]string{image + "2", "cart.core.net"}),
			},
			[]string{"a b"},
			nil,
		},
		{
			"an image and a host that has the variable",
			[]diff.Target{
				hostedOn(t, "a", "prod", "example.com", [2]string{image + "1", "cart.example.com"}, [2]string{image + "2", "shop.example.com"}),
				hostedOn(t, "b", "prod", "core.net", [2]string{image + "1", "cart.core.net"}, [2]string{image + "2", "shop.core.net"}),
				hostedOn(t, "c", "prod", "far.org", [2]string{image + "1", "cart.far.org"}, [2]string{image + "2", "shop.far.org"}),
			},
			[]string{"a b c"},
			[]string{"cluster.vars.domain"},
		},
		{
			"an image in which another variable counts",
			[]diff.Target{
				hostedOn(t, "a", "prod", "example.com", [2]string{"registry.example.com/prod/cart:1", "h"}, [2]string{"registry.example.com/prod/cart:2", "h"}),
				hostedOn(t, "b", "prod", "core.net", [2]string{"registry.example.com/prod/cart:1", "h"}, [2]string{"registry.example.com/prod/cart:2", "h"}),
				hostedOn(t, "c", "dev", "example.com", [2]string{"registry.example.com/dev/cart:1", "h"}, [2]string{"registry.example.com/dev/cart:2", "h"}),
				hostedOn(t, "d", "dev", "core.net", [2]string{"registry.example.com/dev/cart:1", "h"}, [2]string{"registry.example.com/dev/cart:2", "h"}),
			},
			[]string{"a b c d"},
			[]string{"environment"},
		},
		{
			"a cluster that has the value of another one",
			[]diff.Target{
				hostedOn(t, "a", "prod", "example.com", [2]string{"i:1", "cart.example.com"}, [2]string{"i:1", "shop.example.com"}),
				hostedOn(t, "b", "prod", "core.net", [2]string{"i:1", "cart.core.net"}, [2]string{"i:1", "shop.core.net"}),
				hostedOn(t, "c", "prod", "far.org", [2]string{"i:1", "cart.core.net"}, [2]string{"i:1", "shop.core.net"}),
			},
			[]string{"b c", "a"},
			nil, // equal texts are equal
		},
		{
			"two versions",
			[]diff.Target{
				hostedOn(t, "a", "prod", "example.com", [2]string{image + "1", "h"}, [2]string{image + "2", "h"}),
				hostedOn(t, "b", "prod", "core.net", [2]string{image + "1", "h"}, [2]string{image + "2", "h"}),
				hostedOn(t, "c", "prod", "example.com", [2]string{image + "1", "h"}, [2]string{image + "3", "h"}),
			},
			[]string{"a b", "c"},
			nil,
		},
	} {
		for range 4 {
			rand.Shuffle(len(tc.targets), func(i, j int) { tc.targets[i], tc.targets[j] = tc.targets[j], tc.targets[i] })
			set := diff.Compare(tc.targets, nil, []string{"dev", "prod"}, clusters(nil))
			var got []string
			for _, g := range set.Groups {
				got = append(got, strings.Join(g.Clusters, " "))
			}
			if !slices.Equal(got, tc.groups) {
				t.Errorf("%s: groups %q, want %q", tc.name, got, tc.groups)
			} else if !slices.Equal(set.Groups[0].Varies, tc.varies) {
				t.Errorf("%s: clusters differ by %q, want %q", tc.name, set.Groups[0].Varies, tc.varies)
			}
		}
	}
}

// The removal of an object is the same change whatever its manifest was.
func TestRemovalsDoNotDependOnTheManifest(t *testing.T) {
	var targets []diff.Target
	for i := range 4 {
		targets = append(targets, diff.Target{
			App: "shop", Cluster: fmt.Sprint("c", i), Environment: "prod",
			Before: objects(t, strings.Replace(deployment, "1.2.0", fmt.Sprint(i), 1)),
		})
	}
	set := diff.Compare(targets, nil, []string{"prod"}, clusters(nil))
	if len(set.Groups) != 1 || len(set.Groups[0].Clusters) != 4 || set.Groups[0].Example != "c0" {
		t.Errorf("%d groups, want one of 4 clusters that shows c0: %+v", len(set.Groups), set.Groups)
	}
}

// Groups stand in the order of their harm, then of their risk.
func TestGroupsByHarm(t *testing.T) {
	target := func(app, before, after string) diff.Target {
		return diff.Target{
			App: app, Cluster: "c", Environment: "prod", Sync: diff.SyncArgoCD, Before: objects(t, before), After: objects(t, after),
		}
	}
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata: {a: VALUE}\n"
	set := diff.Compare([]diff.Target{
		target("config", config, strings.Replace(config, "VALUE", "other", 1)),
		target("image", deployment, strings.Replace(deployment, "1.2.0", "1.3.0", 1)),
		target("refused", deployment, strings.Replace(deployment, "matchLabels: {app: web}", "matchLabels: {app: other}", 1)),
		target("host", daemon, strings.Replace(daemon, "      containers:", "      hostPID: true\n      containers:", 1)),
		target("removed", config, ""),
	}, nil, []string{"prod"}, clusters(nil))
	var got []string
	for _, g := range set.Groups {
		got = append(got, g.App)
	}
	if want := "removed refused host image config"; strings.Join(got, " ") != want {
		t.Errorf("order of the groups: got %v, want %s", got, want)
	}
}
