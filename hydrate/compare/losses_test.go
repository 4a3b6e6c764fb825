package compare_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// A cluster that loses all, or more than hydration allows, is named, and so is an environment that goes.
func TestLosses(t *testing.T) {
	t.Parallel()
	remove := func(apps ...string) func(*hydratetest.Repo) {
		return func(r *hydratetest.Repo) {
			for _, a := range apps {
				r.Git("rm", "-rq", "apps/"+a)
			}
		}
	}
	for name, c := range map[string]struct {
		change   func(*hydratetest.Repo)
		hydrated bool // the branches exist
		want     []string
	}{
		"one of three apps":           {change: remove("web")},
		"two of three apps":           {change: remove("web", "db"), want: []string{"large-loss dev one: 2 of 3 app"}},
		"all apps of a cluster":       {change: remove("web", "db", "log"), want: []string{"cluster-emptied dev one: 4 of 4 object"}},
		"hydrated: one of three apps": {change: remove("web"), hydrated: true},
		"hydrated: an app with the most": {
			change: remove("log"), hydrated: true, want: []string{"large-loss dev one: 2 of 4 object"},
		},
		"hydrated: others take their place": {
			change: func(r *hydratetest.Repo) {
				remove("log")(r)
				app(r, "new", "dev", "new")
			},
			hydrated: true,
		},
		"hydrated: all apps": {
			change: remove("web", "db", "log"), hydrated: true, want: []string{"cluster-emptied dev one: 4 of 4 object"},
		},
		"hydrated: the fleet allows half": {
			change: func(r *hydratetest.Repo) {
				remove("log")(r)
				r.Write("sluice.yaml", strings.Replace(emptyFleet, "spec: {", "spec: {safety: {maxDeletions: 50%}, ", 1))
			},
			hydrated: true,
		},
		"a retired cluster": {change: func(r *hydratetest.Repo) {
			r.Write("clusters/a.yaml", emptyClusters[:len(emptyClusters)-2]+", state: retired}\n")
		}},
		"an environment": {
			change: func(r *hydratetest.Repo) {
				r.Write("sluice.yaml", strings.Replace(emptyFleet, ", {name: prod, after: [dev]}", "", 1))
				r.Write("clusters/a.yaml", emptyClusters[:strings.Index(emptyClusters, "---")])
				remove("api")(r)
			},
			want: []string{"environment-removed prod : 1 of 1 cluster"},
		},
		"an environment under another name": {change: func(r *hydratetest.Repo) {
			r.Write("sluice.yaml", strings.Replace(emptyFleet, "name: prod", "name: live", 1))
			r.Write("clusters/a.yaml", strings.Replace(emptyClusters, "environment: prod", "environment: live", 1))
			app(r, "api", "live", "api")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hydratetest.New(t)
			r.Write("sluice.yaml", emptyFleet)
			r.Write("clusters/a.yaml", emptyClusters)
			app(r, "web", "dev", "web")
			app(r, "db", "dev", "db")
			app(r, "log", "dev", "log")
			r.Write("apps/log/m/y.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: log2}\n")
			app(r, "api", "prod", "api")
			r.Commit("start")
			if c.hydrated {
				r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} })
			}
			c.change(r)
			r.Git("add", "-A")
			r.Commit("change")
			set := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")}).Changes
			var got []string
			for _, l := range set.Losses {
				got = append(got, fmt.Sprintf("%s %s %s: %d of %d %s", l.Name, l.Environment, l.Cluster, l.Lost, l.Had, l.Unit))
				if l.Risk != diff.RiskCritical {
					t.Errorf("risk of %s: got %s, want critical", l.Name, l.Risk)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("losses: got %q, want %q", got, c.want)
			}
		})
	}
}

// The fleet can set the risk of each effect, and of nothing else.
func TestRiskEffectsAreThoseOfDiff(t *testing.T) {
	t.Parallel()
	var names []string
	for _, name := range diff.EffectNames() {
		names = append(names, string(name))
	}
	slices.Sort(names)
	if !slices.Equal(names, fleet.RiskEffects()) {
		t.Errorf("names in spec.risk.levels: got %q, want %q", fleet.RiskEffects(), names)
	}
}

// A change cannot make itself harmless: the rules of the base count.
func TestRulesOfTheBase(t *testing.T) {
	t.Parallel()
	r := hydratetest.New(t)
	r.Write("sluice.yaml", strings.Replace(emptyFleet, "spec: {", "spec: {risk: {levels: {removed: critical}}, ", 1))
	r.Write("clusters/a.yaml", emptyClusters)
	app(r, "web", "dev", "web")
	app(r, "db", "dev", "db")
	app(r, "log", "dev", "log")
	r.Commit("start")
	r.Write("sluice.yaml", strings.Replace(emptyFleet, "spec: {", "spec: {risk: {levels: {removed: none}}, ", 1))
	r.Git("rm", "-rq", "apps/web")
	r.Commit("change")
	set := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")}).Changes
	if len(set.Groups) != 1 || set.Groups[0].Risk != diff.RiskCritical {
		t.Errorf("a removed app: got %+v, want one group of critical risk", set.Groups)
	}
}
