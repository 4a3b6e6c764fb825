package review

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/report"
)

// noRules is an engine that finds nothing.
type noRules struct{}

func (noRules) Check(context.Context, policy.Input) (*policy.Result, error) {
	return &policy.Result{}, nil
}

const (
	routineFleet = "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec:\n" +
		"  environments: [{name: dev}, {name: prod, after: [dev]}]\n  layers: [cluster]\n  routine: {}\n"
	routineClusters = "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: one}\n" +
		"spec: {environment: dev, vars: {tag: 1.3.0, old: 1.2.3, mirror: ghcr.io/acme/web}}\n---\n" +
		"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: two}\n" +
		"spec: {environment: prod, vars: {tag: 1.1.0, old: 1.2.3, mirror: ghcr.io/evil/web}}\n"
	routineApp = "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: web}\n" +
		"spec: {namespace: web, placement: {}, source: {helm: {path: charts/web}}}\n"
	routineTemplate = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {app.kubernetes.io/version: {{ .Values.image.tag | quote }}}}\n" +
		"spec:\n  replicas: {{ .Values.replicas }}\n  selector: {matchLabels: {app: web}}\n  template:\n" +
		"    metadata: {labels: {app: web}, annotations: {made-by: {{ .Chart.Version | quote }}}}\n" +
		"    spec: {containers: [{name: web, image: \"{{ .Values.image.repository }}:{{ .Values.image.tag }}\"}]}\n" +
		"---\napiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: serve}\n" +
		"spec: {template: {spec: {containers: [{name: serve, image: \"{{ .Values.serve }}\"}]}}}\n"
	routineValues = "image: {repository: ghcr.io/acme/web, tag: 1.2.3}\nreplicas: 3\nserve: ghcr.io/acme/serve:1.0.0\n"
	routineChart  = "apiVersion: v2\nname: web\nversion: 1.2.3\n"
)

// What a team may merge without a reader: only what is known to be routine is.
func TestRoutine(t *testing.T) {
	t.Parallel()
	edit := func(file, old, now string) func(*hydratetest.Repo) {
		return func(r *hydratetest.Repo) {
			text := r.Read(file)
			if !strings.Contains(text, old) {
				r.T.Fatalf("%s does not contain %q", file, old)
			}
			r.Write(file, strings.Replace(text, old, now, 1))
		}
	}
	both := func(a, b func(*hydratetest.Repo)) func(*hydratetest.Repo) {
		return func(r *hydratetest.Repo) {
			a(r)
			b(r)
		}
	}
	const values, chart = "apps/web/layers/global/values.yaml", "charts/web/Chart.yaml"
	bump := edit(values, "tag: 1.2.3", "tag: 1.3.0")
	for name, c := range map[string]struct {
		rules  string // in place of {}
		start  func(*hydratetest.Repo)
		change func(*hydratetest.Repo)
		alter  func(*compare.Request)
		yes    bool
		why    string
	}{
		"a tag":            {change: bump, yes: true, why: "only images change"},
		"a chart's patch":  {change: edit(chart, "1.2.3", "1.2.4"), yes: true, why: "only patch versions of charts change"},
		"a chart's minor":  {change: edit(chart, "1.2.3", "1.3.0"), why: "goes from 1.2.3 to 1.3.0, which is no later patch version"},
		"a chart, back":    {change: edit(chart, "1.2.3", "1.2.2"), why: "no later patch version"},
		"charts are never": {rules: "{charts: none}", change: edit(chart, "1.2.3", "1.2.4"), why: "annotations.made-by changes"},
		"a tag, back":      {change: edit(values, "tag: 1.2.3", "tag: 1.2.2"), why: "the image goes back from 1.2.3 to 1.2.2"},
		"another repository": {
			change: edit(values, "ghcr.io/acme/web", "ghcr.io/evil/web"), why: "the image comes from ghcr.io/evil/web",
		},
		"a tag of each cluster, back on one": {
			change: edit(values, "tag: 1.2.3", "tag: \"${cluster.vars.tag}\""), why: "the clusters have different versions",
		},
		"another repository on one cluster": {
			change: both(bump, edit(values, "repository: ghcr.io/acme/web", "repository: \"${cluster.vars.mirror}\"")),
			why:    "the clusters have different images: ${cluster.vars.mirror}:1.3.0",
		},
		"the repository of each cluster": {
			start:  edit(values, "repository: ghcr.io/acme/web", "repository: \"${cluster.vars.mirror}\""),
			change: bump, yes: true, why: "only images change",
		},
		"another repository in an object of another kind": {
			change: edit(values, "ghcr.io/acme/serve", "ghcr.io/evil/serve"), why: "the image comes from ghcr.io/evil/serve",
		},
		"a tag in an object of another kind": {
			change: edit(values, "serve:1.0.0", "serve:1.1.0"), yes: true, why: "only images change",
		},
		"a value of a frozen cluster": {
			start: func(r *hydratetest.Repo) {
				edit("clusters/a.yaml", "environment: prod,", "environment: prod, state: frozen,")(r)
				r.Write("apps/web/layers/cluster/two/values.yaml", "replicas: 3\n")
			},
			change: both(bump, edit("apps/web/layers/cluster/two/values.yaml", "replicas: 3", "replicas: 0")),
			why:    "apps/web/layers/cluster/two/values.yaml changes, which only frozen clusters read",
		},
		"a tag, with a frozen cluster": {
			start:  edit("clusters/a.yaml", "environment: prod,", "environment: prod, state: frozen,"),
			change: bump, yes: true, why: "only images change",
		},
		"replicas too": {change: both(bump, edit(values, "replicas: 3", "replicas: 4")), why: "spec.replicas changes"},
		"replicas":     {change: edit(values, "replicas: 3", "replicas: 4"), why: "spec.replicas changes"},
		"fewer replicas": {
			change: edit(values, "replicas: 3", "replicas: 1"), why: "the change is of high risk",
		},
		"a file that nothing reads": {
			change: both(bump, func(r *hydratetest.Repo) { r.Write(".github/workflows/x.yaml", "on: push\n") }),
			why:    ".github/workflows/x.yaml changes, which no target reads",
		},
		"a file that may change": {
			rules:  "{files: [\".github/**\"]}",
			change: both(bump, func(r *hydratetest.Repo) { r.Write(".github/workflows/x.yaml", "on: push\n") }),
			yes:    true, why: "only images change",
		},
		"the fleet's own file": {change: both(bump, edit("sluice.yaml", "name: acme", "name: other")), why: "sluice.yaml changes"},
		"the class itself": {
			change: both(bump, edit("sluice.yaml", "routine: {}", "routine: {files: [\"**\"]}")), why: "sluice.yaml",
		},
		"the template":            {change: edit("charts/web/templates/web.yaml", "name: web, labels", "name: web, labels"), why: "no object changes"},
		"a repository, named":     {rules: "{images: [\"ghcr.io/acme/**\"]}", change: bump, yes: true, why: "only images change"},
		"a repository, unnamed":   {rules: "{images: [\"ghcr.io/other/**\"]}", change: bump, why: "spec.routine.images does not name ghcr.io/acme/web"},
		"an environment, unnamed": {rules: "{environments: [dev]}", change: bump, why: "it reaches prod"},
		"a part of the fleet": {
			change: bump, alter: func(q *compare.Request) { q.Environments = []string{"dev"} },
			why: "only a part of the fleet is compared",
		},
		"a value that is added": {change: both(bump, edit(values, "replicas: 3", "replicas: 3\nnew: 1")), why: "new is added"},
		"a target that fails":   {change: both(bump, edit("charts/web/templates/web.yaml", "kind:", "kind: {{ fail \"no\" }}")), why: "a target cannot be rendered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hydratetest.New(t)
			fleet := routineFleet
			if c.rules != "" {
				fleet = strings.Replace(fleet, "routine: {}", "routine: "+c.rules, 1)
			}
			for file, text := range map[string]string{
				"sluice.yaml": fleet, "clusters/a.yaml": routineClusters, "apps/web/app.yaml": routineApp,
				"charts/web/templates/web.yaml": routineTemplate, chart: routineChart, values: routineValues,
			} {
				r.Write(file, text)
			}
			if c.start != nil {
				c.start(r)
			}
			r.Commit("start")
			c.change(r)
			r.Git("add", "-A")
			r.Git("commit", "-q", "--allow-empty", "-m", "change")
			var q compare.Request
			if c.alter != nil {
				c.alter(&q)
			}
			out := reviewed(t, r, Policy{Engine: noRules{}}, q)
			confirm(out, true)
			if out.Routine == nil {
				t.Fatalf("no class; errors %q", out.Errors)
			}
			if out.Routine.Routine != c.yes || !strings.Contains(out.Routine.Why, c.why) {
				t.Errorf("routine: got %t, %q, want %t, %q", out.Routine.Routine, out.Routine.Why, c.yes, c.why)
			}
		})
	}
}

// A finished review can take the class back, and a fleet that does not ask gets none.
func TestRoutineIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*report.Review)
		judged bool
	}{
		"not judged":              {func(*report.Review) {}, false},
		"a warning of the policy": {func(r *report.Review) { r.Verdict = report.VerdictWarn }, true},
		"a caution":               {func(r *report.Review) { r.Verdict = report.VerdictCaution }, true},
		"a warning of the fleet":  {func(r *report.Review) { r.Warnings = []string{"x"} }, true},
		"a pin":                   {func(r *report.Review) { r.Pins = []report.Pin{{Name: "lib"}} }, true},
	} {
		r := &report.Review{Verdict: report.VerdictPass, Routine: &report.Routine{Routine: true, Why: "only images change"}}
		c.change(r)
		if confirm(r, c.judged); r.Routine.Routine || r.Routine.Why == "only images change" {
			t.Errorf("%s: got %+v, want a reason against", name, r.Routine)
		}
	}
	r := hydratetest.New(t)
	r.Write("sluice.yaml", strings.Replace(routineFleet, "  routine: {}\n", "", 1))
	r.Write("clusters/a.yaml", routineClusters)
	r.Commit("start")
	r.Git("commit", "-q", "--allow-empty", "-m", "change")
	if out := reviewed(t, r, nil, compare.Request{}); out.Routine != nil {
		t.Errorf("without spec.routine: got %+v, want no class", out.Routine)
	}
}
