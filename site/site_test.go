package site_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site"
)

// demo is the fleet of testdata/fleet, hydrated twice and read.
type demo struct {
	repo *hydratetest.Repo
	h    *hydrate.Hydrator
	tip  gitstore.Commit
}

func newDemo(t *testing.T) *demo {
	t.Helper()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Write("apps/shop/layers/region/us-east-1/values.yaml",
		strings.ReplaceAll(r.Read("apps/shop/layers/region/us-east-1/values.yaml"), "USD", "CAD"))
	r.Commit("Sell in Canadian dollars")
	r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} })
	return &demo{repo: r}
}

func (d *demo) hydrate(environment string) {
	d.repo.Hydrate(func(q *hydrate.Request) { q.Environments = []string{environment} })
}

func (d *demo) read(t *testing.T) *site.Fleet {
	t.Helper()
	d.h = d.repo.Hydrator(2)
	var err error
	if d.tip, err = d.h.Store.Resolve(t.Context(), "HEAD"); err != nil {
		t.Fatal(err)
	}
	now := d.tip.Committer.When.Add(time.Hour)
	list, err := promote.Look(t.Context(), d.h, promote.Request{
		Trunk: d.tip, Now: now, DryRun: true,
		CommandPrefix: "sluice",
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := site.Read(t.Context(), d.h, site.Request{
		Trunk: d.tip, Statuses: list, Now: now, Version: "test",
		Key: []byte("key"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func pagesOf(t *testing.T, f *site.Fleet) map[string]*html.Node {
	t.Helper()
	p, err := site.NewPages(f, site.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*html.Node{}
	for name := range p.All() {
		data, ok, err := p.Render(name)
		if err != nil || !ok {
			t.Fatalf("%s: ok is %v, the error is %v", name, ok, err)
		}
		if out[name], err = html.Parse(strings.NewReader(string(data))); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// text is what a reader sees, with single spaces.
func text(doc *html.Node) string {
	var out []string
	for n := range doc.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "script" && n.Parent.Data != "title" {
			out = append(out, strings.Fields(n.Data)...)
		}
	}
	return strings.Join(out, " ")
}

func TestPagesOfTheDemo(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	f := d.read(t)
	if len(f.Problems) != 0 || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "records are not signed") {
		t.Errorf("the demo, which has no spec.signers: got problems %q and warnings %q, want the warning that records are not signed",
			f.Problems, f.Warnings)
	}
	all := pagesOf(t, f)
	short := d.tip.Hash.String()[:10]
	for page, wants := range map[string][]string{
		"index.html": {
			"7 clusters in 3 environments, 4 apps", "dev up to date", short + " tip", "staging waiting", "1 behind dev",
			"staging waits for before/dev", "shop 2.1 web 1.4.0 ×", "1.9 kustomize/monitor/overlays/prod ×3", "kustomize/monitor/overlays/prod", "core 4", "us-east-1 4",
		},
		"promotions.html": {
			"follows the trunk", "after dev · auto", "after staging · manual",
			"before/dev waiting it bakes in dev until", "What would change", "canary", "rest",
			"sluice promote staging", "/sluice promote staging",
			"sluice freeze prod --until 4h --reason WHY",
		},
		"clusters.html": {"prod-edge-1", "7 clusters"},
		"clusters/prod-eu-1.html": {
			"cluster/prod-eu-1", "holds what prod asks for", "region eu-west-1",
			"shop 2.1 web 1.4.0", "sluice rollback prod --cluster prod-eu-1 --reason WHY",
		},
		"apps/shop.html": {
			"4 clusters · namespace shop", "config.currency \"CAD\" region=us-east-1", "global \"EUR\"",
			"replicas 6 cluster=prod-eu-1 apps/shop/layers/cluster/prod-eu-1/values.yaml:1", "environment=prod 4",
			"Sell in Canadian dollars",
			"sluice promote prod --app shop",
		},
		"conformance.html": {
			"layers explain all differences", "shop on prod-eu-1 unlike prod-us-1",
			"Deployment shop/shop spec.replicas 4 6",
			"cluster=prod-eu-1 (apps/shop/layers/cluster/prod-eu-1/values.yaml)", "${cluster.vars.shortName}",
		},
		"search.html": {
			"web 1.4.0 chart 11 gateway 7 , shop 4", "registry.example.com/collector:1.9",
			"policy/v1 PodDisruptionBudget", "Deployment shop/shop", "config.currency", "sluice where --image",
		},
		"history.html": {"dev", "Sell in Canadian dollars", "hydrate", "baseline on 2", "Lead time"},
	} {
		got := text(all[page])
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s lacks %q in %s", page, want, got)
			}
		}
	}
}

// TestLinksLead requires that every link of every page leads to a page, an asset or a place that exists.
func TestLinksLead(t *testing.T) {
	t.Parallel()
	all := pagesOf(t, newDemo(t).read(t))
	ids := map[string]map[string]bool{}
	for name, doc := range all {
		ids[name] = map[string]bool{}
		for n := range doc.Descendants() {
			for _, a := range n.Attr {
				if a.Key != "id" {
					continue
				}
				if ids[name][a.Val] {
					t.Errorf("%s has two elements %q", name, a.Val)
				}
				ids[name][a.Val] = true
			}
		}
	}
	links := 0
	for name, doc := range all {
		for n := range doc.Descendants() {
			for _, a := range n.Attr {
				if a.Key != "href" && a.Key != "src" || a.Val == "data:," {
					continue
				}
				links++
				file, place, _ := strings.Cut(a.Val, "#")
				target := path.Join(path.Dir(name), file)
				if file == "" {
					target = name
				}
				_, page := all[target]
				_, asset := site.Assets()[target]
				if !page && !asset || place != "" && !ids[target][place] {
					t.Errorf("%s links to %q, which does not exist", name, a.Val)
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were checked", links)
	}
}

// TestNothingInline holds the pages to their content security policy: no inline script, style or handler, no other
// host.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	for name, doc := range pagesOf(t, newDemo(t).read(t)) {
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			if n.Data == "style" || n.Data == "script" && n.FirstChild != nil {
				t.Errorf("%s has an inline %s", name, n.Data)
			}
			for _, a := range n.Attr {
				if a.Key == "style" || strings.HasPrefix(a.Key, "on") ||
					(a.Key == "href" || a.Key == "src") && strings.Contains(a.Val, "://") {
					t.Errorf("%s: %s has %s=%q", name, n.Data, a.Key, a.Val)
				}
			}
		}
	}
}

// TestBranchBehind moves an environment branch without its cluster branches, as a rollout under way does.
func TestBranchBehind(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.repo.Git("branch", "-f", "cluster/dev-1", d.repo.Git("rev-parse", "cluster/dev-edge-1"))
	d.repo.Git("branch", "-D", "cluster/staging-1")
	f := d.read(t)
	states := map[string]string{}
	for _, c := range f.Clusters {
		if c.Trouble != "" {
			states[c.Name] = c.Dot() + ": " + c.Trouble
		}
	}
	if len(states) != 2 || states["dev-1"] != "odd: its branch holds other manifests than the environment branch" ||
		!strings.Contains(states["staging-1"], ": ") {
		t.Errorf("clusters in trouble: %q", states)
	}
	overview := text(pagesOf(t, f)["index.html"])
	for _, want := range []string{
		"5 of 7 clusters hold what their environments ask for", "Clusters that need a look",
		"dev differs",
	} {
		if !strings.Contains(overview, want) {
			t.Errorf("the overview lacks %q: %s", want, overview)
		}
	}
}

// TestRecordIsShown shows what a record holds: a halt, a freeze, an approval, a hold.
func TestRecordIsShown(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	f := d.read(t)
	at := f.Made.Add(-time.Hour)
	prod := f.Environments[2]
	prod.Status.Decision.Record.Halt = &rollout.Halt{By: "ada", Reason: "error rate", At: at}
	prod.Status.Decision.Freezes = []rollout.Freeze{{
		Reason: "holidays", By: "bob", From: at,
		Until: at.Add(48 * time.Hour),
	}}
	prod.Status.Decision.Record.Approvals = []rollout.Approval{{By: "carol", Tree: "0123456789abcdef", At: at}}
	prod.Status.Decision.Record.Holds = []rollout.Hold{{
		Cause: rollout.CauseRolledBack, Source: prod.Source,
		Apps: []string{"shop"}, By: "dan", Reason: "slow", Since: at,
	}}
	all := pagesOf(t, f)
	for page, wants := range map[string][]string{
		"index.html": {"prod halted", "by ada: error rate", "held back"},
		"promotions.html": {
			"frozen until", "by bob: holidays", "carol tree 0123456789", "rolled back by dan: slow",
			"sluice resume prod", "sluice unfreeze prod",
		},
	} {
		for _, want := range wants {
			if !strings.Contains(text(all[page]), want) {
				t.Errorf("%s lacks %q in %s", page, want, text(all[page]))
			}
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.repo.Write("apps/shop/layers/environment/prod/values.yaml",
		d.repo.Read("apps/shop/layers/environment/prod/values.yaml")+
			"\nadminPassword: hunter2-prod\nenvFrom: {DB_TOKEN: tok-123456}\n")
	d.repo.Write("apps/shop/layers/environment/dev/values.yaml",
		d.repo.Read("apps/shop/layers/environment/dev/values.yaml")+
			"\nadminPassword: hunter2-dev\nlist: [{password: hunter2-list}]\n")
	d.repo.Commit("Secrets in values")
	found := 0
	for name, doc := range pagesOf(t, d.read(t)) {
		got := text(doc)
		if strings.Contains(got, "hunter2") || strings.Contains(got, "tok-123456") {
			t.Errorf("%s shows a secret", name)
		}
		if strings.Contains(got, "adminPassword \"(masked)\"") {
			found++
		}
	}
	if found == 0 {
		t.Error("no page shows that the password is set")
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	p, err := site.NewPages(newDemo(t).read(t), site.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"apps/gone.html", "apps/notes.txt", "CNAME"} {
		if err := os.MkdirAll(filepath.Join(dir, "apps"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := site.Write(dir, p); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, name)
			got = append(got, filepath.ToSlash(rel))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"CNAME", "apps/notes.txt", "site.js", "style.css"}
	for name := range p.All() {
		want = append(want, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestLiveSearch(t *testing.T) {
	t.Parallel()
	p, err := site.NewPages(newDemo(t).read(t), site.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	for q, want := range map[string]string{
		"collector 1.9": "registry.example.com/collector:1.9", "<script>alert(1)</script>": "No target matches.",
		"Deployment shop": "4 targets Cluster App Environment Matches dev-1 shop dev Deployment shop/shop",
	} {
		data, err := p.Search(q)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := html.Parse(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		if got := text(doc); !strings.Contains(got, want) || strings.Contains(string(data), "<script>alert") {
			t.Errorf("%q: the result of text is %s", q, got)
		}
	}
}
