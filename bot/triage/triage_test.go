package triage_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/triage"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/report"
)

const v = "apiVersion: sluice.dev/v1alpha1\n"

// trunk returns a fleet with spec.review, and its files.
func trunk(t *testing.T, review string, more map[string]string) (*fleet.Fleet, func(string) ([]byte, error)) {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"sluice.yaml": v + "kind: Fleet\nmetadata: {name: acme}\nspec:\n  layers: [environment]\n  environments:\n" +
			"    - {name: dev}\n    - {name: prod, after: [dev]}\n  routine: {}\n  review: " + review + "\n",
		"clusters/all.yaml": v + "kind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev}\n---\n" + v +
			"kind: Cluster\nmetadata: {name: prod-1}\nspec: {environment: prod}\n",
		"apps/cart/app.yaml":                            v + "kind: App\nmetadata: {name: cart}\nspec: {namespace: cart, placement: {}, source: {helm: {path: charts/web}}}\n",
		"charts/web/Chart.yaml":                         "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"layers/environment/prod/values.yaml":           "a: 1\n",
		"apps/cart/layers/environment/prod/values.yaml": "b: 1\n",
		"workspaces/team-a.yaml":                        v + "kind: Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a]}\n",
		"workspaces/team-a/apps/shop/app.yaml":          v + "kind: App\nmetadata: {name: shop}\nspec: {namespace: team-a, placement: {}, source: {helm: {path: charts/web}}}\n",
		"workspaces/team-a/charts/web/Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text), Mode: fs.ModePerm}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text), Mode: fs.ModePerm}
	}
	f, problems := fleet.Load(t.Context(), files, nil)
	if f == nil {
		t.Fatal(problems)
	}
	return f, files.ReadFile
}

func group(app string, risk diff.Risk, clusters ...string) diff.Group {
	g := diff.Group{App: app, Clusters: clusters, Risk: risk}
	for _, name := range clusters {
		environment, _, _ := strings.Cut(name, "-")
		g.Environments = append(g.Environments, environment)
	}
	return g
}

func changed(groups ...diff.Group) *report.Review {
	return &report.Review{Changes: &diff.ChangeSet{Groups: groups}}
}

func decide(t *testing.T, review string, more map[string]string, r *report.Review) triage.Plan {
	t.Helper()
	f, file := trunk(t, review, more)
	p, err := triage.Decide(f, file, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLabels(t *testing.T) {
	t.Parallel()
	all := "{labels: {environments: true, risk: true, routine: true}}"
	routine := changed(group("cart", diff.RiskLow, "prod-1"))
	routine.Routine = &report.Routine{Routine: true}
	waits := changed(group("cart", diff.RiskLow, "prod-1"))
	waits.Routine, waits.Waits = &report.Routine{Routine: true}, "another one"
	withheld := changed(group("cart", diff.RiskLow, "dev-1"))
	withheld.Changes.Withheld = []diff.Withheld{{App: "cart", Environment: "prod", Cluster: "prod-1"}}
	failed := changed(group("cart", diff.RiskLow, "dev-1"))
	failed.Errors = []string{"the policy is broken"}
	emptied := changed(group("cart", diff.RiskLow, "dev-1"))
	emptied.Changes.Losses = []diff.Loss{{Risk: diff.RiskCritical}}
	for name, c := range map[string]struct {
		review       string
		r            *report.Review
		have         string
		added, taken string
	}{
		"off by default":             {"{}", routine, "sluice/dev risk/high", "", ""},
		"what changes":               {all, changed(group("cart", diff.RiskLow, "dev-1"), group("cart", diff.RiskHigh, "prod-1")), "", "risk/high sluice/dev sluice/prod", ""},
		"only what is asked for":     {"{labels: {risk: true}}", routine, "sluice/dev", "risk/low", ""},
		"what is no longer true":     {all, routine, "bug risk/high Sluice/Dev sluice/other risk/unknown", "risk/low sluice/prod sluice/routine", "Sluice/Dev risk/high"},
		"what is true already":       {all, routine, "risk/low sluice/prod sluice/routine", "", ""},
		"no change":                  {all, changed(), "risk/low sluice/prod sluice/routine bug", "", "risk/low sluice/prod sluice/routine"},
		"a routine that waits":       {all, waits, "sluice/routine", "risk/low sluice/prod", "sluice/routine"},
		"a target is withheld":       {all, withheld, "risk/high sluice/routine", "sluice/dev sluice/prod", "risk/high sluice/routine"},
		"no comparison":              {all, &report.Review{}, "risk/high sluice/dev", "", "risk/high"},
		"an incomplete review":       {all, failed, "risk/high sluice/routine sluice/dev", "", "risk/high sluice/routine"},
		"an emptied cluster":         {all, emptied, "", "risk/critical sluice/dev", ""},
		"an environment of the head": {all, changed(group("cart", diff.RiskNone, "new-1")), "", "risk/none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			mr := &forge.MergeRequest{Number: 7, Labels: strings.Fields(c.have)}
			triage.Apply(t.Context(), f, forge.Repository{}, mr, decide(t, c.review, nil, c.r), nobody)
			want := []string{}
			if c.added+c.taken != "" {
				want = append(want, fmt.Sprintf("+%v -%v", strings.Fields(c.added), strings.Fields(c.taken)))
			}
			if !slices.Equal(f.labels, want) {
				t.Errorf("requests about labels: got %q, want %q", f.labels, want)
			}
		})
	}
}

func names(list []triage.Request) string {
	var out []string
	for _, r := range list {
		if r.Team {
			r.Name = "team " + r.Name
		}
		out = append(out, r.Name)
	}
	return strings.Join(out, ", ")
}

func TestReviewers(t *testing.T) {
	t.Parallel()
	withheld := changed()
	withheld.Changes.Withheld = []diff.Withheld{{App: "cart", Environment: "prod"}}
	for name, c := range map[string]struct {
		rules string
		r     *report.Review
		want  string
	}{
		"any change":          {"{users: [ada], teams: [acme/sre]}", changed(group("cart", diff.RiskNone, "dev-1")), "ada, team acme/sre"},
		"no change":           {"{users: [ada]}", changed(), ""},
		"an environment":      {"{environments: [prod], users: [ada]}", changed(group("cart", diff.RiskNone, "dev-1", "prod-1")), "ada"},
		"another environment": {"{environments: [prod], users: [ada]}", changed(group("cart", diff.RiskHigh, "dev-1")), ""},
		"a pattern":           {"{environments: ['p*'], users: [ada]}", changed(group("cart", diff.RiskNone, "prod-1")), "ada"},
		"a greater risk":      {"{risk: high, users: [ada]}", changed(group("cart", diff.RiskCritical, "dev-1")), "ada"},
		"a smaller risk":      {"{risk: high, users: [ada]}", changed(group("cart", diff.RiskMedium, "dev-1")), ""},
		"the risk of another": {"{environments: [prod], risk: high, users: [ada]}", changed(group("cart", diff.RiskHigh, "dev-1"), group("cart", diff.RiskLow, "prod-1")), ""},
		"a workspace":         {"{workspaces: [team-a], users: [ada]}", changed(group("team-a/shop", diff.RiskLow, "dev-1")), "ada"},
		"the fleet's own app": {"{workspaces: ['*'], users: [ada]}", changed(group("cart", diff.RiskLow, "dev-1")), "ada"},
		"another workspace":   {"{workspaces: [team-a], users: [ada]}", changed(group("team-b/shop", diff.RiskLow, "dev-1")), ""},
		"what is lost": {
			"{environments: [prod], risk: critical, users: [ada]}", func() *report.Review {
				r := changed(group("cart", diff.RiskHigh, "prod-1"))
				r.Changes.Losses = []diff.Loss{{Environment: "prod", Cluster: "prod-1", Risk: diff.RiskCritical}}
				return r
			}(), "ada",
		},
		"what is not rendered": {"{environments: [prod], risk: critical, users: [ada]}", withheld, "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := decide(t, "{reviewers: ["+c.rules+"]}", nil, c.r)
			if got := names(p.Requests); got != c.want {
				t.Errorf("who is asked: got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCodeowners(t *testing.T) {
	t.Parallel()
	cart, shop := changed(group("cart", diff.RiskLow, "prod-1")), changed(group("team-a/shop", diff.RiskLow, "dev-1"))
	for name, c := range map[string]struct {
		file, text string
		r          *report.Review
		want       string
	}{
		"the app":            {"CODEOWNERS", "/apps/cart/ @acme/cart\n/charts/ @chart-people\n", cart, "team acme/cart"},
		"the environment":    {".github/CODEOWNERS", "/layers/environment/prod/ @sre\n", cart, "sre"},
		"another one":        {"CODEOWNERS", "/layers/environment/dev/ @dev\n/apps/other/ @other\n", cart, ""},
		"the last line":      {"docs/CODEOWNERS", "* @all\n/apps/ @apps\n/layers/ @layers\n", cart, "apps, layers"},
		"the workspace":      {"CODEOWNERS", "/workspaces/team-a.yaml @admin\n/workspaces/team-a/ @acme/team-a\n", shop, "admin, team acme/team-a"},
		"no owner":           {"CODEOWNERS", "* @all\n/apps/cart/\n/layers/\n", cart, ""},
		"an invalid line":    {"CODEOWNERS", "/a[b @x\n!/apps/ @x\n/apps/ @apps # why\n# /apps/ @y\n", cart, "apps"},
		"nobody to ask":      {"CODEOWNERS", "* ada@example.com @@maintainer @ada\n", cart, "ada"},
		"sections of GitLab": {".gitlab/CODEOWNERS", "/apps/ @apps\n[Shared][2] @group/sub/team\n/apps/cart/\n^[Optional]\n/apps/ @user.name\n", cart, "apps, team group/sub/team, user.name"},
		"once":               {"CODEOWNERS", "* @Ada @ada\n", cart, "Ada"},
		"no change":          {"CODEOWNERS", "* @all\n", changed(), ""},
		"a new app":          {"CODEOWNERS", "* @all\n", changed(group("new", diff.RiskLow, "dev-1")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := decide(t, "{codeowners: true}", map[string]string{c.file: c.text}, c.r)
			if got := names(p.Requests); got != c.want {
				t.Errorf("who is asked: got %q, want %q", got, c.want)
			}
		})
	}
	both := map[string]string{"CODEOWNERS": "* @root\n", ".gitlab/CODEOWNERS": "* @gitlab\n", ".github/CODEOWNERS": "* @github\n"}
	if got := names(decide(t, "{codeowners: true}", both, cart).Requests); got != "github" {
		t.Errorf("several files: got %q, want that of .github", got)
	}
	delete(both, ".github/CODEOWNERS")
	if got := names(decide(t, "{codeowners: true}", both, cart).Requests); got != "root" {
		t.Errorf("without .github: got %q, want that of the root folder", got)
	}
	if p := decide(t, "{codeowners: true}", nil, cart); len(p.Requests) > 0 || len(p.Notes) != 1 {
		t.Errorf("without CODEOWNERS: got %v and %q, want one note", p.Requests, p.Notes)
	}
	if p := decide(t, "{}", map[string]string{"CODEOWNERS": "* @all\n"}, cart); !p.Empty() {
		t.Errorf("off by default: got %+v, want nothing", p)
	}
	f, _ := trunk(t, "{codeowners: true}", nil)
	broken := errors.New("the storage is broken")
	if _, err := triage.Decide(f, func(string) ([]byte, error) { return nil, broken }, cart); !errors.Is(err, broken) {
		t.Errorf("a file that cannot be read: got %v, want %v", err, broken)
	}
}

// fake is a forge that knows everybody but eve.
type fake struct {
	labels, asked []string
	err           error
}

func (f *fake) EditLabels(_ context.Context, _ forge.Repository, _ int, add, remove []string) error {
	f.labels = append(f.labels, fmt.Sprintf("+%v -%v", add, remove))
	return f.err
}

func (f *fake) RequestReviews(_ context.Context, _ forge.Repository, _ int, users, teams []string) (
	[]forge.RefusedReviewer, error,
) {
	f.asked = append(f.asked, fmt.Sprint(users, teams))
	var refused []forge.RefusedReviewer
	if slices.Contains(users, "eve") {
		refused = append(refused, forge.RefusedReviewer{Name: "eve", Err: forge.ErrForbidden})
	}
	return refused, f.err
}

func nobody(context.Context) ([]string, error) { return nil, nil }

func TestRequests(t *testing.T) {
	t.Parallel()
	change := changed(group("cart", diff.RiskLow, "prod-1"))
	rules := "{reviewers: [{users: [ada, eve, bob], teams: [sre]}, {environments: [prod], users: [Bob]}]}"
	f, mr := &fake{}, &forge.MergeRequest{Number: 7, Author: forge.User{Login: "Ada"}}
	first := triage.Apply(t.Context(), f, forge.Repository{}, mr, decide(t, rules, nil, change), nobody)
	if want := []string{"[eve bob] [sre]"}; !slices.Equal(f.asked, want) {
		t.Errorf("requests: got %q, want %q", f.asked, want)
	}
	if got := names(first.Asked); got != "bob, team sre, Bob" || len(first.Notes) != 1 || len(first.Errors) != 1 ||
		!strings.Contains(first.Notes[0], "eve") {
		t.Errorf("asked: got %q, notes %q, errors %v, want all but the author and eve", got, first.Notes, first.Errors)
	}
	before := func(context.Context) ([]string, error) { return triage.Keys(first.Asked), nil }
	again := triage.Apply(t.Context(), f, forge.Repository{}, mr, decide(t, rules, nil, change), before)
	if len(again.Asked) > 0 || f.asked[len(f.asked)-1] != "[eve] []" {
		t.Errorf("the second time: got %q, want only eve, who may have access by now", f.asked)
	}
	draft := *mr
	draft.Draft = true
	f.asked = nil
	triage.Apply(t.Context(), f, forge.Repository{}, &draft, decide(t, rules, nil, change), nobody)
	if len(f.asked) > 0 {
		t.Errorf("reviews of a draft: got %q, want none", f.asked)
	}
	f.err = fmt.Errorf("%w: 502", forge.ErrUnavailable)
	down := triage.Apply(t.Context(), f, forge.Repository{}, mr, decide(t, rules, nil, change), nobody)
	if !down.Later || len(down.Asked) > 0 || len(down.Notes) != 1 || strings.Contains(down.Notes[0], "502") {
		t.Errorf("a forge that is down: got %+v, want another attempt later", down)
	}
	none := triage.Apply(t.Context(), struct{}{}, forge.Repository{}, mr, decide(t, rules, nil, change), nobody)
	if len(none.Errors) != 1 || !errors.Is(none.Errors[0], forge.ErrUnsupported) {
		t.Errorf("a forge without reviewers: got %v, want %v", none.Errors, forge.ErrUnsupported)
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprint("user", i))
	}
	f.err, f.asked = nil, nil
	limited := triage.Apply(t.Context(), f, forge.Repository{}, mr,
		decide(t, "{reviewers: [{users: ["+strings.Join(many, ", ")+"]}]}", nil, change), nobody)
	if len(limited.Asked) != 15 || len(limited.Notes) != 1 {
		t.Errorf("20 reviewers: got %d and %q, want 15 and a note", len(limited.Asked), limited.Notes)
	}
}
