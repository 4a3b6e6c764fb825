package review

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

// changed is the demo fleet with a second commit that changes a file.
func changed(t *testing.T, file, old, now string) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.Demo(t)
	text := r.Read(file)
	if !strings.Contains(text, old) {
		t.Fatalf("%s does not contain %q", file, old)
	}
	r.Write(file, strings.Replace(text, old, now, 1))
	r.Commit("change")
	return r
}

// reviewed compares the last two commits of a repository.
func reviewed(t *testing.T, r *hydratetest.Repo, judge Judge, o compare.Request) *report.Review {
	t.Helper()
	var out report.Review
	o.Base, o.Head = r.Resolve("HEAD~1"), r.Resolve("HEAD")
	result := Result{Review: &out}
	if err := addComparison(t.Context(), &result, r.Hydrator(2), o, judge, nil); err != nil || result.Preview != nil {
		t.Fatalf("a comparison without a preview: got the preview %v, %v", result.Preview, err)
	}
	out.Verdict = verdict(&out)
	return &out
}

func TestCompared(t *testing.T) {
	r := changed(t, "apps/shop/layers/global/values.yaml", "replicas: ", "replicas: 1")
	engine := &rules{}
	out := reviewed(t, r, Policy{Engine: engine}, compare.Request{})
	if out.Verdict != report.VerdictPass || out.Changes.Empty() || len(out.Scope) == 0 {
		t.Errorf("verdict %s, %d targets in the scope, changes %+v; want a review with changes that passes",
			out.Verdict, len(out.Scope), out.Changes)
	}
	// The engine judges both sides, each with the objects that differ.
	if len(engine.asked) != 2 || len(engine.asked[0]) == 0 || len(engine.asked[0]) != len(engine.asked[1]) {
		t.Fatalf("the engine was asked %d times", len(engine.asked))
	}
	after := engine.asked[0][0]
	if after.App.Name != "shop" || after.Cluster.Environment == "" || len(after.Objects) == 0 ||
		after.Objects[0].Old == nil {
		t.Errorf("the first subject is %+v", after)
	}
	if out := reviewed(t, r, nil, compare.Request{TargetsOnly: true}); !out.Changes.Empty() ||
		out.Changes.Compared == 0 || len(out.Scope) > 0 {
		t.Errorf("findings only: %d targets in the scope, want none; changes %+v, want only the number of compared targets", len(out.Scope), out.Changes)
	}
}

// A mistake in the change is part of the review, not an error.
func TestBrokenFleet(t *testing.T) {
	r := changed(t, "apps/shop/app.yaml", "namespace: shop", "namespaces: shop")
	out := reviewed(t, r, Policy{Engine: &rules{}}, compare.Request{})
	if out.Verdict != report.VerdictError || len(out.Errors) == 0 ||
		!strings.Contains(out.Errors[0], "apps/shop/app.yaml:6") {
		t.Errorf("the output is %+v", out)
	}
}

// A target that cannot be rendered makes the verdict an error. The other targets are compared.
func TestChartFails(t *testing.T) {
	r := changed(t, "charts/web/templates/service.yaml", "kind: Service", "kind: {{ fail \"no service\" }}")
	out := reviewed(t, r, nil, compare.Request{})
	if out.Verdict != report.VerdictError || len(out.Changes.Withheld) == 0 || len(out.Errors) != 0 {
		t.Errorf("verdict %s, %d withheld, errors %v", out.Verdict, len(out.Changes.Withheld), out.Errors)
	}
}

// A review that succeeds has judged every object of the head that the base does not have byte for byte, whatever fails
// on either side.
func TestSuccessMeansJudged(t *testing.T) {
	object := func(app, value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + app + "}\ndata: {key: " + value + "}\n"
	}
	states := []string{"", "one", "two", "broken"} // of an app: absent, two contents, and files that cannot be read
	write := func(r *hydratetest.Repo, app, state string) {
		switch state {
		case "":
			return
		case "broken":
			r.Write("apps/"+app+"/files/cm.yaml", "a: [")
		default:
			r.Write("apps/"+app+"/files/cm.yaml", object(app, state))
		}
		r.Write("apps/"+app+"/app.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: "+app+
			"}\nspec: {namespace: ns, placement: {}, source: {manifests: {path: apps/"+app+"/files}}}\n")
	}
	random := rand.New(rand.NewPCG(1, 0))
	succeeded := 0
	for n := range 24 {
		r := hydratetest.New(t)
		r.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {environments: [{name: prod}]}\n")
		r.Write("clusters/a.yaml",
			"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {environment: prod, kubeVersion: 1.33.0}\n")
		var before, after []string
		for i := range 2 {
			before, after = append(before, states[random.IntN(len(states))]),
				append(after, states[random.IntN(len(states))])
			if n < len(states)*len(states) && i == 0 { // each pair once
				before[0], after[0] = states[n/len(states)], states[n%len(states)]
			}
			write(r, fmt.Sprint("app", i), before[i])
		}
		r.Commit("before")
		for i := range 2 {
			r.Git("rm", "-rqf", "--ignore-unmatch", fmt.Sprint("apps/app", i))
			write(r, fmt.Sprint("app", i), after[i])
		}
		r.Write("README.md", fmt.Sprint(n))
		r.Commit("after")
		engine := &rules{}
		out := reviewed(t, r, Policy{Engine: engine}, compare.Request{})
		if out.Verdict == report.VerdictError {
			if !slices.Contains(before, "broken") && !slices.Contains(after, "broken") {
				t.Errorf("%q to %q: the verdict is error, and nothing fails", before, after)
			}
			continue
		}
		succeeded++
		judged := map[string]bool{}
		for _, s := range engine.asked[0] {
			judged[s.App.Name] = judged[s.App.Name] || len(s.Objects) > 0
		}
		for i := range 2 {
			app := fmt.Sprint("app", i)
			if after[i] != "" && after[i] != before[i] && !judged[app] {
				t.Errorf("%s from %q to %q: the verdict is %s, and the policy has not seen its object", app, before[i],
					after[i], out.Verdict)
			}
			if after[i] == "broken" && before[i] != "broken" {
				t.Errorf("%s from %q to %q: the verdict is %s", app, before[i], after[i], out.Verdict)
			}
		}
	}
	if succeeded == 0 {
		t.Error("no review succeeds, so the test shows nothing")
	}
}

func TestPolicyFails(t *testing.T) {
	r := changed(t, "apps/shop/layers/global/values.yaml", "replicas: ", "replicas: 1")
	broken := errors.New("the policy cannot be loaded")
	request := compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")}
	result := &Result{Review: &report.Review{}}
	err := addComparison(t.Context(), result, r.Hydrator(2), request, Policy{Engine: &rules{err: broken}}, nil)
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

func TestVerdict(t *testing.T) {
	finding := func(s report.Severity) report.Findings {
		return report.Findings{Introduced: []report.Finding{{Severity: s}}}
	}
	for name, c := range map[string]struct {
		r    report.Review
		want report.Verdict
	}{
		"nothing":       {report.Review{Changes: &diff.ChangeSet{}}, report.VerdictPass},
		"no comparison": {report.Review{}, report.VerdictError},
		"errors": {
			report.Review{Changes: &diff.ChangeSet{}, Errors: []string{"x"}},
			report.VerdictError,
		},
		"the head cannot be rendered": {
			report.Review{Changes: &diff.ChangeSet{Withheld: []diff.Withheld{{}}}},
			report.VerdictError,
		},
		"a file that nobody is known to read": {
			report.Review{Changes: &diff.ChangeSet{Files: []diff.File{{Path: "a"}}}}, report.VerdictPass,
		},
		"the same while a target fails that may read it": {
			report.Review{Changes: &diff.ChangeSet{Files: []diff.File{{Path: "a"}}, Unread: []string{"x on y"}}},
			report.VerdictError,
		},
		"the same where no target is known": {
			report.Review{Changes: &diff.ChangeSet{Files: []diff.File{{Path: "a"}}, Targetless: true}}, report.VerdictError,
		},
		"a file that is read while a target fails": {
			report.Review{Changes: &diff.ChangeSet{Files: []diff.File{{Path: "a", Read: true}}, Unread: []string{"x on y"}}},
			report.VerdictPass,
		},
		"the base could not be rendered": {report.Review{Changes: &diff.ChangeSet{Withheld: []diff.Withheld{{Before: true}}}}, report.VerdictCaution},
		"a finding that is an error": {report.Review{
			Changes:  &diff.ChangeSet{},
			Findings: finding(report.SeverityError),
		}, report.VerdictFail},
		"a finding that is a warning": {report.Review{
			Changes:  &diff.ChangeSet{},
			Findings: finding(report.SeverityWarning),
		}, report.VerdictWarn},
		"a finding for information": {
			report.Review{Changes: &diff.ChangeSet{}, Findings: finding("info")},
			report.VerdictPass,
		},
		"an error before a finding": {report.Review{
			Errors:   []string{"x"},
			Findings: finding(report.SeverityError),
		}, report.VerdictError},
		"resolved and existing findings": {report.Review{
			Changes: &diff.ChangeSet{},
			Findings: report.Findings{
				Resolved: []report.Finding{{Severity: report.SeverityError}},
				Existing: map[report.Severity]int{report.SeverityError: 3},
			},
		}, report.VerdictPass},
	} {
		if got := verdict(&c.r); got != c.want {
			t.Errorf("%s: the result of verdict is %s, want %s", name, got, c.want)
		}
	}
}

// rules is an engine that answers from two lists: first for the head, then for the base.
type rules struct {
	after, before []policy.Finding
	asked         [][]policy.Subject
	err           error
}

func (r *rules) Check(_ context.Context, in policy.Input) (*policy.Result, error) {
	var all []policy.Subject
	for batch, err := range in.Subjects {
		if err != nil {
			return nil, err
		}
		all = append(all, batch...)
	}
	r.asked = append(r.asked, all)
	if len(r.asked) == 1 {
		return &policy.Result{Findings: r.after, Notes: []string{"a note"}}, r.err
	}
	return &policy.Result{Findings: r.before}, r.err
}

// Findings of the base are not introduced. Equal findings of several clusters are merged. A built-in rule has a page.
func TestPolicy(t *testing.T) {
	at := func(rule, cluster, message string) policy.Finding {
		return policy.Finding{
			Rule: rule, Severity: policy.Severity(report.SeverityError), Message: message, App: "shop",
			Cluster: cluster, Environment: "prod",
			Object: manifest.Identity{Kind: "Deployment", Name: "shop"},
		}
	}
	builtIn := policy.BuiltIn()[0].ID
	exempt := at("exempted", "prod-eu-1", "m")
	exempt.Exemption = &policy.Exempt{Reason: "agreed", File: "sluice.yaml"}
	r := changed(t, "apps/shop/layers/global/values.yaml", "replicas: ", "replicas: 1")
	for name, c := range map[string]struct {
		whole               bool
		introduced          []string
		existing, resolved  int
		questions, exempted int
	}{
		"compared with the base": {false, []string{builtIn, "custom"}, 1, 1, 2, 1},
		"whole environments":     {true, []string{builtIn, "custom", "old"}, 0, 0, 1, 1},
	} {
		engine := &rules{
			after: []policy.Finding{
				at(builtIn, "prod-eu-1", "m"), at(builtIn, "prod-us-1", "m"),
				at("custom", "prod-eu-1", "m"), at("old", "prod-eu-1", "m"), exempt,
			},
			before: []policy.Finding{at("old", "prod-eu-1", "m"), at("gone", "prod-eu-1", "m")},
		}
		f := reviewed(t, r, Policy{Engine: engine, Entire: c.whole}, compare.Request{}).Findings
		var introduced []string
		for _, one := range f.Introduced {
			introduced = append(introduced, one.Rule)
			if one.Rule == builtIn && (!slices.Equal(one.Clusters, []string{"prod-eu-1", "prod-us-1"}) ||
				!strings.HasSuffix(one.Docs, builtIn+".md")) || one.File != "apps/shop/app.yaml" {
				t.Errorf("%s: the one is %+v", name, one)
			}
			if one.Rule == "custom" && one.Docs != "" {
				t.Errorf("%s: a rule of the fleet has the page %s", name, one.Docs)
			}
		}
		slices.Sort(introduced)
		slices.Sort(c.introduced)
		if !slices.Equal(introduced, c.introduced) || f.Existing[report.SeverityError] != c.existing ||
			len(f.Resolved) != c.resolved || len(engine.asked) != c.questions || f.Exempted != c.exempted ||
			!slices.Contains(f.Notes, "a note") {
			t.Errorf("%s: introduced %v, existing %v, %d resolved, %d exempted, notes %v, asked %d times", name,
				introduced, f.Existing, len(f.Resolved), f.Exempted, f.Notes, len(engine.asked))
		}
	}
}
