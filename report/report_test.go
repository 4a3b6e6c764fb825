package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

func terminal(r *report.Review, full bool) string {
	var out strings.Builder
	report.Terminal(&out, r, report.TerminalOptions{Width: 120, Full: full})
	return out.String()
}

// routineBump is an image bump as a chart makes it: a Deployment with two containers of one image, a Job, and noise.
func routineBump() *report.Review {
	r := review()
	all, where := everywhere()
	web := imageChange("web", "1.2.0", "1.3.0")
	second := web.Fields[0]
	second.Path = "spec.template.spec.initContainers[name=init].image"
	web.Fields = append(web.Fields, second)
	web.Images = append(web.Images, diff.Image{Container: "init", Old: web.Images[0].Old, New: web.Images[0].New})
	web.Noise = noise("web", true).Noise
	job := imageChange("migrate", "1.2.0", "1.3.0")
	job.ID.Kind, job.ID.Group, job.Rolls = "Job", "batch", false
	job.Images[0].Old, job.Images[0].New = web.Images[0].Old, web.Images[0].New
	r.Changes = set(group("web", all, where, "web 1.2.0 → 1.3.0; rolls 1 workload", web, job,
		noise("web-config", false), noise("web-service", false)))
	return r
}

func TestRoutineImageBumpIsShort(t *testing.T) {
	text, cut := report.Markdown(routineBump(), githubLimit)
	if len(text) > 2048 || cut.Any() {
		t.Errorf("%d bytes (%+v):\n%s", len(text), cut, text)
	}
	if n := strings.Count(text, "registry.example.com/web"); n > 2 {
		t.Errorf("the image of one workload is named %d times:\n%s", n, text)
	}
	for _, want := range []string{"`web`, `init`", "`1.2.0` → `1.3.0`", "prod/* (80), staging/* (40)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "🔴") || strings.Contains(text, "CAUTION") {
		t.Errorf("a routine bump is critical:\n%s", text)
	}
	if lines := strings.Count(terminal(routineBump(), false), "\n"); lines > 14 {
		t.Errorf("%d lines on a terminal:\n%s", lines, terminal(routineBump(), false))
	}
}

func TestCautionsComeFirst(t *testing.T) {
	r := threeApps()
	r.Warnings = []string{"clusters/eu.yaml:12: the selector matches no cluster"}
	markdown, _ := report.Markdown(r, githubLimit)
	for form, text := range map[string]string{"markdown": markdown, "terminal": terminal(r, false)} {
		at := strings.Index(text, "The cluster refuses the change")
		for _, later := range []string{"image-tag", "matches no cluster", "agent"} {
			if i := strings.Index(text, later); i >= 0 && i < at && later != "agent" || at < 0 {
				t.Errorf("%s: %q at %d, the caution at %d", form, later, i, at)
			}
		}
	}
}

// TestSameChangeIsShownOnce: one hunk for the same change on many objects, also over apps.
func TestSameChangeIsShownOnce(t *testing.T) {
	r := review()
	var objects []diff.ObjectChange
	for i := range 8 {
		objects = append(objects, configMap("web", fmt.Sprintf("part-%d", i), "level", "info", "debug"))
	}
	other := configMap("api", "settings", "level", "info", "debug")
	r.Changes = set(
		group("web", clusters("eu", 3), []diff.Reach{{Environment: "prod", Pattern: "prod/*", Clusters: 3}}, "s",
			objects...),
		group("api", clusters("eu", 3), []diff.Reach{{Environment: "prod", Pattern: "prod/*", Clusters: 3}}, "s",
			other),
	)
	markdown, cut := report.Markdown(r, githubLimit)
	for form, text := range map[string]string{"markdown": markdown, "terminal": terminal(r, false)} {
		if n := strings.Count(text, "+  level: debug"); n != 1 {
			t.Errorf("%s shows the hunk %d times:\n%s", form, n, text)
		}
		if !strings.Contains(text, "The same change on 7 more") || !strings.Contains(text, "same change as on") {
			t.Errorf("%s does not name the other objects:\n%s", form, text)
		}
	}
	if cut.Full != 9 {
		t.Errorf("%d objects count as shown", cut.Full)
	}
}

// TestFindingsAreGrouped: 57 warnings of one rule in three environments printed 288 lines.
func TestFindingsAreGrouped(t *testing.T) {
	r := oneTarget()
	for i := range 19 {
		for _, env := range []string{"dev", "staging", "prod"} {
			r.Findings.Introduced = append(r.Findings.Introduced, report.Finding{
				Rule: "image-tag", Severity: report.SeverityWarning, Message: "the image has no digest",
				Hint: "pin the image", Path: "spec.image", App: "web",
				Object: manifest.Identity{
					Group: "apps", Kind: "Deployment", Namespace: "web",
					Name: fmt.Sprintf("web-%d", i),
				}, Environment: env, Clusters: []string{env},
			})
			r.Warnings = append(r.Warnings, fmt.Sprintf("clusters/%s-%d.yaml:3: the label tier is not used", env, i))
		}
	}
	text := terminal(r, false)
	var findings, warnings int
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, "image-tag") || strings.Contains(line, "pin the image") {
			findings++
		}
		if strings.Contains(line, "tier") {
			warnings++
		}
	}
	if findings > 3 || warnings != 1 {
		t.Errorf("%d lines of findings, %d of warnings:\n%s", findings, warnings, text)
	}
	for _, want := range []string{"19 objects", "on dev, staging, prod", "and 16 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	markdown, _ := report.Markdown(r, githubLimit)
	if n := strings.Count(markdown, "image-tag`]"); n != 1 {
		t.Errorf("%d findings in\n%s", n, markdown)
	}
	if full := terminal(r, true); !strings.Contains(full, "web-18") {
		t.Errorf("--full leaves out objects:\n%s", full)
	}
}

func TestEqualFailuresAreGrouped(t *testing.T) {
	r := oneTarget()
	r.Verdict = report.VerdictError
	for i := range 339 {
		r.Changes.Withheld = append(r.Changes.Withheld, diff.Withheld{
			App: fmt.Sprintf("app-%d", i), Cluster: "eu-1",
			Environment: "prod", Message: "base/kustomization.yaml:3: no file patch.yaml",
		})
	}
	text := terminal(r, false)
	if n := strings.Count(text, "no file patch.yaml"); n != 1 ||
		!strings.Contains(text, "app-0, app-1, app-2 and 336 more apps on prod (339)") {
		t.Errorf("%d times in\n%s", n, text)
	}
}

// The last line of the findings does not count targets as checked that could not be rendered.
func TestFindingsOfWithheldTargets(t *testing.T) {
	r := &report.Review{Changes: &diff.ChangeSet{Compared: 3, Withheld: []diff.Withheld{{
		App: "web", Cluster: "eu-1",
		Message: "no chart",
	}}}}
	var out strings.Builder
	report.TerminalFindings(&out, r, report.TerminalOptions{})
	if got := out.String(); !strings.Contains(got, "\n3 targets checked, 1 not checked, 0 errors, ") ||
		strings.HasPrefix(got, "\n") {
		t.Errorf("the output is %q", got)
	}
}

func TestPointersAreComplete(t *testing.T) {
	text, cut := report.Markdown(tenThousand(), 20_000)
	if !cut.Any() {
		t.Fatal("nothing was cut")
	}
	line := text[strings.Index(text, "✂️"):]
	line, _, _ = strings.Cut(line, "\n")
	if !strings.Contains(line, "sluice diff --full ") || !strings.Contains(line, "HTML report") ||
		strings.Contains(line, "/compare/") {
		t.Errorf("pointers: %s", line)
	}
}

func TestPlaceIsNotRepeated(t *testing.T) {
	if got := diff.Place("production", "production"); got != "production" {
		t.Errorf("the result of Place is %q", got)
	}
	r := oneTarget()
	r.Findings.Introduced = []report.Finding{{
		Rule: "r", Severity: report.SeverityError, Message: "m",
		Environment: "production", Clusters: []string{"production"},
	}}
	if text, _ := report.Markdown(r, githubLimit); strings.Contains(text, "production/production") {
		t.Errorf("the text is %s", text)
	}
}

// TestDigestIgnoresTheBase: a commit on the trunk that changes nothing of the outcome must not rewrite comments.
func TestDigestIgnoresTheBase(t *testing.T) {
	digest := func(base string, image string) string {
		r := oneTarget()
		r.Base, r.Links.Base = base, "https://git.example.com/acme/fleet/commit/"+base
		r.Changes.Groups[0].Objects[0].Images[0].New = image
		text, _ := report.Markdown(r, githubLimit)
		info, ok := report.ParseMarker(text)
		if !ok || info.Digest == "" {
			t.Fatalf("no marker in %s", text)
		}
		return info.Digest
	}
	if digest(strings.Repeat("a", 40), "web:2") != digest(strings.Repeat("b", 40), "web:2") {
		t.Error("another base gives another digest")
	}
	if digest(strings.Repeat("a", 40), "web:2") == digest(strings.Repeat("a", 40), "web:3") {
		t.Error("another outcome gives the same digest")
	}
}

func TestSince(t *testing.T) {
	at := func(head string, r *report.Review) *report.Review {
		r.Head = head
		return r
	}
	names := func(d *report.Delta) string {
		if d == nil {
			return "nothing"
		}
		return fmt.Sprintf("%s: %d new, %d changed, %d gone", d.Commit, len(d.New), len(d.Changed), len(d.Gone))
	}
	first := at("h1", threeApps())
	m1 := report.NextMarker("acme", first, report.MarkerInfo{})
	if got := names(report.Since(m1, first)); got != "nothing" {
		t.Errorf("of the same head: %s", got)
	}
	two := at("h2", threeApps())
	two.Changes.Groups = two.Changes.Groups[:2]
	if got := names(report.Since(m1, two)); got != "h1: 0 new, 0 changed, 1 gone" {
		t.Errorf("a group less: %s", got)
	}
	m2 := report.NextMarker("acme", two, m1)
	// The trunk moves and the same head is reviewed again: what is new since the push stays.
	if got := names(report.Since(m2, two)); got != "h1: 0 new, 0 changed, 1 gone" {
		t.Errorf("after a commit on the trunk: %s", got)
	}
	m2 = report.NextMarker("acme", two, m2)
	if got := names(report.Since(m2, two)); got != "h1: 0 new, 0 changed, 1 gone" {
		t.Errorf("after two commits on the trunk: %s", got)
	}
	// A head that cannot be rendered says nothing, and the next one is compared with the last complete head.
	failed := at("h3", broken())
	if got := names(report.Since(m2, failed)); got != "nothing" {
		t.Errorf("of a failed head: %s", got)
	}
	m3 := report.NextMarker("acme", failed, m2)
	if got := names(report.Since(m3, at("h4", threeApps()))); got != "h2: 1 new, 0 changed, 0 gone" {
		t.Errorf("after a failed head: %s", got)
	}
	// A withheld target is not gone.
	withheld := at("h5", threeApps())
	gone := withheld.Changes.Groups[2]
	withheld.Changes.Groups = withheld.Changes.Groups[:2]
	withheld.Changes.Withheld = []diff.Withheld{{
		App: gone.App, Cluster: gone.Clusters[0], Environment: "prod",
		Message: "m",
	}}
	if got := names(report.Since(m1, withheld)); got != "h1: 0 new, 0 changed, 0 gone" {
		t.Errorf("of a withheld target: %s", got)
	}
	if m := report.NextMarker("acme", withheld, m1); m.Groups.Head != "h1" || m.Head != "h5" {
		t.Errorf("an incomplete head is remembered: %+v", m)
	}
	// The marker survives the comment.
	back, ok := report.ParseMarker(report.Marker(m2) + "\nbody")
	if got := names(report.Since(back, two)); !ok || got != "h1: 0 new, 0 changed, 1 gone" {
		t.Errorf("after a round trip: %s", got)
	}
}

// TestVerdictWordsOfCriticals: the words of pass and warn never stand above a critical change.
func TestVerdictWordsOfCriticals(t *testing.T) {
	r := deletions()
	if !report.Critical(r.Changes) {
		t.Fatal("a deleted namespace is not critical")
	}
	r.Verdict = report.VerdictCaution
	text, _ := report.Markdown(r, githubLimit)
	if strings.Contains(text, "✅") || !strings.Contains(text, "Critical changes") {
		t.Errorf("the text is %s", text)
	}
	if h := report.Headline(r); !strings.HasPrefix(h, "2 critical changes: ") {
		t.Errorf("headline %q", h)
	}
}

// The reason why a promotion is refused names the first thing to mend.
func TestRefusal(t *testing.T) {
	t.Parallel()
	finding := func(severity report.Severity, rule string) report.Finding {
		return report.Finding{
			Severity: severity, Rule: rule, App: "shop",
			Object: manifest.Identity{Kind: "Deployment", Namespace: "shop", Name: "web\nforged"},
		}
	}
	for want, r := range map[string]*report.Review{
		"": {
			Changes:  &diff.ChangeSet{},
			Findings: report.Findings{Introduced: []report.Finding{finding(report.SeverityWarning, "a")}},
		},
		"incomplete review — the fleet is broken": {Errors: []string{"the fleet is broken"}},
		"1 target cannot be rendered, 2 new errors of the policy, the first: image-tag in shop, Deployment shop/web\\nforged": {
			Changes: &diff.ChangeSet{Withheld: make([]diff.Withheld, 1)},
			Findings: report.Findings{Introduced: []report.Finding{
				finding(report.SeverityWarning, "a"),
				finding(report.SeverityError, "image-tag"), finding(report.SeverityError, "b"),
			}},
		},
		"1 new error of the policy: image-tag in shop, Deployment shop/web\\nforged": {
			Changes:  &diff.ChangeSet{Withheld: []diff.Withheld{{Before: true}}}, // the change mends it
			Findings: report.Findings{Introduced: []report.Finding{finding(report.SeverityError, "image-tag")}},
		},
		"1 new error of the policy: cluster-emptied on prod (4)": {
			Changes: &diff.ChangeSet{},
			Findings: report.Findings{Introduced: []report.Finding{
				{
					Severity: report.SeverityError, Rule: "cluster-emptied", Environment: "prod",
					Clusters: []string{"prod-1", "prod-2", "prod-3", "prod-4"},
				},
			}},
		},
	} {
		if got := report.Refusal(r); got != want {
			t.Errorf("the result of Refusal is %q, want %q", got, want)
		}
	}
}

// An error decides the status of a review, so the status begins with it, and no report says that a change has no
// effect.
func TestHeadlineOfErrors(t *testing.T) {
	t.Parallel()
	r := &report.Review{Changes: &diff.ChangeSet{}, Errors: []string{"acme/one#3 was closed\nwithout a merge"}}
	if h := report.Headline(r); h != "incomplete review — acme/one#3 was closed without a merge" {
		t.Errorf("one error: %q", h)
	}
	if text, _ := report.Markdown(r, 60_000); strings.Contains(text, "no effect") ||
		!strings.HasPrefix(text, "## Sluice: incomplete review — `acme/one#3 was closed without a merge`") {
		t.Errorf("in a comment:\n%s", text)
	}
	for n, want := range []string{
		1: "1 target cannot be rendered — its changes are unknown",
		2: "2 targets cannot be rendered — their changes are unknown",
	} {
		if h := report.Headline(&report.Review{Changes: &diff.ChangeSet{Withheld: make([]diff.Withheld, n)}}); n > 0 &&
			h != want {
			t.Errorf("%d withheld: %q", n, h)
		}
	}
	r.Errors = append(r.Errors, "second", "third")
	r.Changes.Totals.Noise = 1
	if h := report.Headline(r); !strings.HasPrefix(h,
		"incomplete review — acme/one#3 was closed without a merge, and 2 other errors; only noise on ") {
		t.Errorf("three errors: %q", h)
	}
}

func TestUnknownEffectIsNotNoEffect(t *testing.T) {
	t.Parallel()
	c := &diff.ChangeSet{Files: []diff.File{{Path: "a"}}, Unread: []string{"web on prod"}}
	r := &report.Review{Changes: c, Verdict: report.VerdictError}
	if got, want := report.Headline(r), "1 changed file of unknown effect — no known target reads it, and web on prod cannot be rendered"; got != want {
		t.Errorf("headline: got %q, want %q", got, want)
	}
	if got, want := report.Refusal(r), "1 changed file of unknown effect"; got != want {
		t.Errorf("refusal: got %q, want %q", got, want)
	}
	c.Unread, c.Targetless = nil, true
	if got, want := report.Headline(r), "1 changed file of unknown effect — Sluice finds no target in this repository"; got != want {
		t.Errorf("headline: got %q, want %q", got, want)
	}
}
