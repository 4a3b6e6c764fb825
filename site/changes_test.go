package site_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site"
)

// TestChanges: each state of an environment and its next promotion have the report of a merge request, any two states
// can be compared, and nothing else can.
func TestChanges(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	f := d.read(t)
	dev := f.Environments[0]
	if len(dev.History) != 2 {
		t.Fatalf("dev has %d states", len(dev.History))
	}
	newest, first := dev.History[0].Commit, dev.History[1].Commit
	for path, want := range map[string]string{
		"changes/dev/" + first + ".." + newest + ".html": "", "changes/dev/" + newest + ".." + first + ".html": "",
		"changes/dev/first.." + first + ".html":           "Deployment",
		"changes/prod/" + first + ".." + newest + ".html": "none", "changes/dev/next.html": "none",
		"changes/dev/" + first + ".." + d.tip.Hash.String() + ".html": "none",
		"changes/dev/first..": "none", "changes/../dev/next.html": "none", "changes/dev/" + first + ".html": "none",
		"changes/dev/...html": "none",
	} {
		c, ok := f.Change(path)
		if ok != (want != "none") {
			t.Errorf("%s: ok is %v", path, ok)
		}
		if !ok {
			continue
		}
		if c.Path() != path {
			t.Errorf("%s has the path %s", path, c.Path())
		}
		r, err := c.Report(t.Context(), d.h, d.tip.Tree, "test", []byte("k"))
		if err != nil {
			t.Fatal(path, err)
		}
		var kinds []string
		for _, g := range r.Changes.Groups {
			for _, o := range g.Objects {
				kinds = append(kinds, o.Title())
			}
		}
		if !strings.Contains(strings.Join(kinds, " "), want) || r.Verdict != "" && r.Verdict != report.VerdictCaution ||
			r.Fleet != "harbour" {
			t.Errorf("%s: the verdict is %s, the kinds are %q", path, r.Verdict, kinds)
		}
	}
}

// TestNextPromotion: the page of promotions links to what the next promotion would do, which agrees with the numbers of
// the plan.
func TestNextPromotion(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.repo.Write("apps/shop/layers/environment/staging/values.yaml", "replicas: 7\n")
	d.repo.Commit("Seven replicas in staging")
	d.repo.Hydrate(nil)
	d.repo.Git("update-ref", "refs/heads/env/staging", d.repo.Git("rev-parse", "env/staging~1"))
	d.h = d.repo.Hydrator(2)
	var err error
	if d.tip, err = d.h.Store.Resolve(t.Context(), "HEAD"); err != nil {
		t.Fatal(err)
	}
	now := d.tip.Committer.When.Add(72 * time.Hour)
	list, err := promote.Look(t.Context(), d.h, promote.Request{
		Trunk: d.tip, Now: now, DryRun: true,
		Changes: compare.Differ(d.h, []byte("k"), 100), CommandPrefix: "sluice",
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := site.Read(t.Context(), d.h, site.Request{
		Trunk: d.tip, Statuses: list, Now: now, Version: "test",
		Key: []byte("k"),
	})
	if err != nil {
		t.Fatal(err)
	}
	staging := f.Environments[1]
	if staging.Status.Plan == nil || staging.Next == nil {
		t.Fatalf("no plan: %+v", staging.Status)
	}
	plan, totals := staging.Status.Plan, staging.Next.Changes.Totals
	if plan.Changed == 0 || totals.Changed+totals.Noise < 1 {
		t.Errorf("plan %+v, report %+v", plan, totals)
	}
	p, err := site.NewPages(f, site.Options{Reports: 1})
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := p.Render("promotions.html")
	if err != nil || !strings.Contains(string(page), `href="changes/staging/next.html"`) {
		t.Errorf("no link: %v", err)
	}
	dir := t.TempDir()
	writtenOnce(t, d, p, dir)
	if err := site.Write(dir, p); err != nil {
		t.Fatal(err)
	}
	history, _, err := p.Render("history.html")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, part := range strings.Split(string(history)+string(page), `href="changes/`)[1:] {
		path, _, _ := strings.Cut(part, `"`)
		text, err := os.ReadFile(filepath.Join(dir, "changes", path))
		if err != nil || !strings.HasPrefix(string(text), "<!doctype html>") {
			t.Errorf("%s: the error is %v", path, err)
		}
		links++
	}
	if links < 3 {
		t.Errorf("%d links to reports", links)
	}
	remadeForTheRegistry(t, d, dir)
}

// remadeForTheRegistry writes reports before and after changes of the trunk's registry: only one that a report reads
// has it made again.
func remadeForTheRegistry(t *testing.T, d *demo, dir string) {
	t.Helper()
	var made []string
	write := func() int {
		t.Helper()
		p, err := site.NewPages(d.read(t), site.Options{Reports: 1})
		if err != nil {
			t.Fatal(err)
		}
		made = nil
		if err := site.WriteChanges(dir, p, site.Reports{
			Fleet: "harbour", Version: "third", Key: []byte("k"),
			Reads: d.reads(t), Make: func(c site.Change) (*report.Review, error) {
				made = append(made, c.Environment)
				return c.Report(t.Context(), d.h, d.tip.Tree, "third", []byte("k"))
			},
		}); err != nil {
			t.Fatal(err)
		}
		return len(made)
	}
	if all, again := write(), write(); all < 2 || again != 0 {
		t.Errorf("%d reports, %d by the second run", all, again)
	}
	const file = "clusters/dev-1.yaml"
	d.repo.Write(file, strings.Replace(d.repo.Read(file), "ring: canary", "ring: last", 1)+"    unused: value\n")
	d.repo.Commit("Another ring, and a variable that no app uses")
	if write() != 0 {
		t.Errorf("made again for what no app reads: %q", made)
	}
	const us = "clusters/prod-us-1.yaml"
	d.repo.Write(us, strings.Replace(d.repo.Read(us), "shortName: pu1", "shortName: first", 1))
	d.repo.Commit("Another name, which the shop has in its host")
	if write() != 1 || made[0] != "prod" {
		t.Errorf("made again for a variable of a cluster of prod: %q", made)
	}
	cut := filepath.Join(dir, "changes", "dev")
	names, err := os.ReadDir(cut)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	for _, text := range []string{"", "<!doctype html>"} { // what remains of a disk that was full
		if err := os.WriteFile(filepath.Join(cut, names[0].Name()), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if write() != 1 {
			t.Errorf("the report %q is taken for a whole one", text)
		}
	}
	data, err := os.ReadFile(filepath.Join(cut, names[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	_, digest, _ := strings.Cut(string(data), "\n<!-- made with ")
	if len(digest) != len("01234567 -->\n") {
		t.Errorf("the published digest %q is longer than a fingerprint, and lets people test guesses of the key",
			digest)
	}
}

// writtenOnce writes the reports of changes into a folder: a later run makes only the report of the next promotion, and
// removes those that no page links to.
func writtenOnce(t *testing.T, d *demo, p *site.Pages, dir string) {
	t.Helper()
	made := 0
	write := func(version string) int {
		t.Helper()
		made = 0
		if err := site.WriteChanges(dir, p, site.Reports{
			Fleet: "harbour", Version: version, Key: []byte("k"),
			Reads: d.reads(t), Make: func(c site.Change) (*report.Review, error) {
				made++
				return c.Report(t.Context(), d.h, d.tip.Tree, version, []byte("k"))
			},
		}); err != nil {
			t.Fatal(err)
		}
		return made
	}
	all := write("test")
	old := filepath.Join(dir, "changes", "dev", "old..older.html")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if again := write("test"); all < 3 || again != 1 {
		t.Errorf("%d reports are made, and %d by the second run, which needs only that of the next promotion", all,
			again)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("a report that no page links to stays")
	}
	if other := write("another version"); other != all {
		t.Errorf("another version makes %d reports of %d", other, all)
	}
}

// fourStates is the demo with a workspace, whose environment dev has had four states, newest first.
func fourStates(t *testing.T) (*demo, []string) {
	t.Helper()
	d := newDemo(t)
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	d.repo.Write("workspaces/team.yaml", base+
		"Workspace\nmetadata: {name: team}\nspec: {clusters: {}, namespaces: [team]}\n")
	d.repo.Write("workspaces/team/apps/web/app.yaml", base+
		"App\nmetadata: {name: web}\nspec: {namespace: team, placement: {}, source: {manifests: {path: m}}}\n")
	d.repo.Write("workspaces/team/m/web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-the-team}\n")
	for _, currency := range []string{"MXN", "USD"} {
		d.repo.Write("apps/shop/layers/environment/dev/values.yaml", "config: {currency: "+currency+"}\n")
		d.repo.Commit("Sell in " + currency)
		d.repo.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} })
	}
	var out []string
	for _, h := range d.read(t).Environments[0].History {
		out = append(out, h.Commit)
	}
	if len(out) != 4 {
		t.Fatalf("dev has %d states", len(out))
	}
	return d, out
}

// reads digests what comparisons read of the trunk as it was last read.
func (d *demo) reads(t *testing.T) func(site.Change) ([]byte, error) {
	t.Helper()
	f, _, err := d.h.Fleet(t.Context(), d.tip.Tree)
	if err != nil {
		t.Fatal(err)
	}
	r := compare.NewReads(f)
	return func(c site.Change) ([]byte, error) { return c.Reads(t.Context(), d.h, r) }
}

// writeSite writes pages and reports into a folder, and counts the reports that it makes.
func (d *demo) writeSite(t *testing.T, dir string, o site.Options, r site.Reports) (made int) {
	t.Helper()
	p, err := site.NewPages(d.read(t), o)
	if err != nil {
		t.Fatal(err)
	}
	r.Fleet, r.Version, r.Key, r.Reads = "harbour", "test", []byte("k"), d.reads(t)
	r.Make = func(c site.Change) (*report.Review, error) {
		made++
		return c.Report(t.Context(), d.h, d.tip.Tree, "test", []byte("k"))
	}
	if err := site.WriteChanges(dir, p, r); err != nil {
		t.Fatal(err)
	}
	if err := site.Write(dir, p); err != nil {
		t.Fatal(err)
	}
	return made
}

// offers counts the pairs of states that the page of the history compares, and the options of its form.
func offers(t *testing.T, dir string, states []string) (pairs, options int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "history.html"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	for i, newer := range states {
		for _, older := range states[i+1:] {
			path := "changes/dev/" + older + ".." + newer + ".html"
			if !strings.Contains(doc, `<a href="`+path+`"><code>`) {
				continue
			}
			pairs++
			text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
			if err != nil || !strings.HasPrefix(string(text), "<!doctype html>") ||
				!strings.Contains(string(text), `src="../report.js"`) {
				t.Errorf("%s: the error is %v", path, err)
			}
		}
	}
	_, dev, _ := strings.Cut(doc, `id="env-dev"`)
	dev, _, _ = strings.Cut(dev, "</section>")
	return pairs, strings.Count(dev, "<option")
}

// TestAnyTwoStates: static pages compare any two of the newest states of an environment. A limit reduces the number of
// these states, and a later run continues.
func TestAnyTwoStates(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	d, states := fourStates(t)
	dir := t.TempDir()
	offered := func() (pairs, options int) { return offers(t, dir, states) }
	d.writeSite(t, dir, site.Options{Reports: 1, Compare: 3}, site.Reports{})
	if pairs, options := offered(); pairs != 3 || options != 2*3 {
		t.Errorf("of 3 states %d pairs are compared, the form has %d options", pairs, options)
	}
	for _, name := range []string{"report.css", "report.js"} {
		if _, err := os.Stat(filepath.Join(dir, "changes", name)); err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "changes", "dev", states[2]+".."+states[0]+".html"))
	if err != nil || !strings.Contains(string(data), "USD") || strings.Contains(string(data), "MXN") ||
		!strings.Contains(string(data), "of-the-team") {
		t.Errorf("the report skips the state between: %v", err)
	}
	if !strings.Contains(string(data), "Policy not evaluated") {
		t.Error("the report does not say that no policy is evaluated")
	}
	if !strings.Contains(string(data), `<a href="../../history.html#env-dev">History of dev</a>`) {
		t.Error("the report has no link to the history that it belongs to")
	}
	if made := d.writeSite(t, dir, site.Options{Reports: 1, Compare: 3}, site.Reports{}); made != 0 {
		t.Errorf("a later run makes %d reports again", made)
	}
	dir = t.TempDir()
	// four states have three comparisons that are no neighbours: one in the first run, two more later
	for run, want := range []int{3, 3, 6} {
		d.writeSite(t, dir, site.Options{Reports: 1, Compare: 4}, site.Reports{MaxTargets: 1})
		if pairs, _ := offered(); pairs != want {
			t.Errorf("run %d compares %d pairs, want %d", run+1, pairs, want)
		}
	}
	dir = t.TempDir()
	d.writeSite(t, dir, site.Options{Reports: 1, Compare: 4}, site.Reports{MaxBytes: 1})
	if pairs, options := offered(); pairs != 3 || options != 6 {
		t.Errorf("above the limit of bytes: %d pairs, %d options", pairs, options)
	}
	d.writeSite(t, dir, site.Options{Reports: 1}, site.Reports{})
	if pairs, options := offered(); pairs != 0 || options != 0 {
		t.Errorf("without comparisons: %d pairs, %d options", pairs, options)
	}
}

// TestCommandsAreNoDeployments: a command that changed the record alone is listed with its verb, and counts in no
// figure.
func TestCommandsAreNoDeployments(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	before := d.read(t).Environments[2]
	d.h = d.repo.Hydrator(2)
	now := d.tip.Committer.When.Add(time.Hour)
	freeze := promote.Command{
		Event: rollout.Event{
			Kind: rollout.EventFreeze, By: "ada", Reason: "the fair", At: now,
			Until: now.Add(time.Hour),
		}, Environment: "prod", CLI: true,
	}
	if _, err := promote.Look(t.Context(), d.h, promote.Request{
		Trunk: d.tip, Now: now,
		Commands: []promote.Command{freeze}, CommandPrefix: "sluice",
	}); err != nil {
		t.Fatal(err)
	}
	prod := d.read(t).Environments[2]
	if len(prod.History) != len(before.History)+1 || prod.History[0].Kind != "freeze" || prod.History[0].By != "ada" ||
		prod.History[0].Commit != "" || len(prod.History[0].Apps) > 0 {
		t.Errorf("history %+v", prod.History)
	}
	if prod.Figures.Deployed != before.Figures.Deployed {
		t.Errorf("%d deployments, before the freeze %d", prod.Figures.Deployed, before.Figures.Deployed)
	}
}
