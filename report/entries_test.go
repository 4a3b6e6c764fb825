package report_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

// hostNetwork is the change of one line of a chart that an app uses.
func hostNetwork(app string) diff.ObjectChange {
	o := configMap(app, app, "hostNetwork", "false", "true")
	o.ID.Kind, o.Rolls, o.Risk = "Deployment", true, diff.RiskMedium
	o.Fields[0].Path = "spec.template.spec.containers[name=" + app + "].hostNetwork"
	return o
}

// oneLine is the change of one line of a chart that ten apps use, with a warning in each, and the removal of another app.
func oneLine() *report.Review {
	r := review()
	all, where := everywhere()
	cause := &diff.Cause{File: "charts/hello/templates/deployment.yaml", Line: 14}
	var groups []diff.Group
	for app := range strings.FieldsSeq("assets cart catalog checkout ledger mail payment search users web") {
		g := group(app, all, where, "Deployment "+app+"/"+app+" changed; rolls 1 workload", hostNetwork(app))
		g.Cause = cause
		groups = append(groups, g)
		for _, env := range []string{"prod", "staging"} {
			names := all[:80]
			if env == "staging" {
				names = all[80:]
			}
			r.Findings.Introduced = append(r.Findings.Introduced, report.Finding{
				Rule: "privileged", Severity: report.SeverityWarning, Message: "the pod shares the network of the host",
				Hint: "remove it, or add an Exemption for Deployment " + app, App: app, Environment: env, Clusters: names,
				Object: manifest.Identity{Group: "apps", Kind: "Deployment", Namespace: app, Name: app},
				File:   cause.File, Line: cause.Line,
			})
		}
	}
	groups = append(groups, group("old", all, where, "3 removed",
		whole(diff.Removed, diff.RiskHigh, manifest.Identity{Kind: "ConfigMap", Namespace: "old", Name: "old"}),
		whole(diff.Removed, diff.RiskHigh, manifest.Identity{Kind: "Service", Namespace: "old", Name: "old"})))
	r.Changes = set(groups...)
	r.Verdict = report.VerdictWarn
	r.Findings.Notes = []string{"schemas of Kubernetes 1.35 were not checked"}
	return r
}

func TestOneLineOfManyApps(t *testing.T) {
	text, cut := report.Markdown(oneLine(), githubLimit)
	if cut.Any() || len(text) > 5000 {
		t.Errorf("%d bytes, cut %+v:\n%s", len(text), cut, text)
	}
	if cut.Full != 12 {
		t.Errorf("objects shown in full: got %d, want 12", cut.Full)
	}
	for form, text := range map[string]string{"markdown": text, "terminal": terminal(oneLine(), false)} {
		at := -1
		for _, want := range []string{ // in this order
			"10 new warnings", "Objects are removed", "privileged", "10 objects on", "an Exemption for", "old", "10 apps",
			"charts/hello/templates/deployment.yaml:14", "users", "schemas of Kubernetes",
		} {
			i := strings.Index(text[at+1:], want)
			if i < 0 {
				t.Fatalf("%s: no %q after byte %d in\n%s", form, want, at, text)
			}
			at += 1 + i
		}
		for _, once := range []string{"+  hostNetwork: true", "shares the network", "Exemption for Deployment NAME"} {
			if n := strings.Count(text, once); n != 1 {
				t.Errorf("%s: %q is there %d times, want once:\n%s", form, once, n, text)
			}
		}
	}
}

// Other clusters, another value or another effect make another entry; names of the app, the object and its namespace do
// not.
func TestEntries(t *testing.T) {
	all, where := everywhere()
	same := func(app string) diff.Group { return group(app, all, where, "s", hostNetwork(app)) }
	value := same("d")
	value.Objects[0].Fields[0].New = "host"
	effect := same("e")
	effect.Objects[0].Effects = []diff.Effect{{Name: diff.EffectHostAccess, Risk: diff.RiskHigh}}
	swapped := func(app, now string) diff.Group {
		return group(app, all, where, "s", configMap(app, app+"-settings", "who", "nobody", now))
	}
	fewer := group("f", all[:3], where[:1], "s", hostNetwork("f"))
	var got []string
	for _, e := range report.Entries([]*diff.Group{
		new(same("a")), new(value), new(same("b")), new(effect), new(fewer), new(same("a")), new(same("c")),
		new(swapped("g", "g")), new(swapped("h", "h-settings")), new(swapped("i", "i")),
	}) {
		names := e.App
		for _, o := range e.Others {
			names += " " + o.App
		}
		got = append(got, names)
	}
	if text, want := strings.Join(got, ", "), "a b c, d, e, f, a, g i, h"; text != want {
		t.Errorf("entries: got %q, want %q", text, want)
	}
}

// What a heading counts is what stands below it, whatever changes.
func TestHeadingsCountTheirLists(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	all, where := everywhere()
	heading := regexp.MustCompile(`<b>([\d,]+) apps</b> on`)
	folded := 0
	for range 60 {
		r := review()
		var groups []diff.Group
		for a := range 1 + random.IntN(60) {
			app := fmt.Sprintf("app-%02d", a)
			n := 1 + random.IntN(2)
			o := configMap(app, app, "level", "a", fmt.Sprint(random.IntN(3)))
			if random.IntN(4) == 0 {
				o = whole(diff.Removed, diff.RiskHigh, o.ID)
			}
			groups = append(groups, group(app, all[:n], where[:1], "s", o))
			if random.IntN(3) == 0 {
				r.Findings.Introduced = append(r.Findings.Introduced, report.Finding{
					Rule: "r", Severity: report.SeverityWarning, Message: fmt.Sprint("m", random.IntN(8)), App: app,
					Object: o.ID, Environment: "prod", Clusters: all[:n],
				})
			}
		}
		r.Changes = set(groups...)
		text, cut := report.Markdown(r, 1<<20)
		if cut.Any() {
			t.Fatalf("%d bytes are cut: %+v", len(text), cut)
		}
		if cut.Full != len(groups) {
			t.Errorf("objects of all entries: got %d, want %d", cut.Full, len(groups))
		}
		apps := 0
		for _, part := range strings.Split(text, "<details><summary>")[1:] {
			m := heading.FindStringSubmatch(part)
			if m == nil {
				if strings.Contains(strings.SplitN(part, "\n", 2)[0], "</b> on <code>") {
					apps++
				}
				continue
			}
			folded++
			want, _ := strconv.Atoi(m[1])
			_, list, _ := strings.Cut(part, "\nApps: ")
			list, _, _ = strings.Cut(list, "\n")
			have := strings.Count(list, ",") + 1
			if before, more, ok := strings.Cut(list, " and "); ok {
				n, _ := strconv.Atoi(strings.TrimSuffix(more, " more"))
				have = strings.Count(before, ",") + 1 + n
			}
			if apps += want; have != want {
				t.Errorf("%s apps, but the list has %d: %s", m[1], have, list)
			}
		}
		if apps != len(groups) {
			t.Errorf("the headings count %d apps, want %d", apps, len(groups))
		}
		objects := 0
		for _, g := range report.GroupFindings(r.Findings.Introduced, r.Changes) {
			objects += len(g.Breaches)
		}
		words := fmt.Sprintf("%d new warning", objects)
		if r.Verdict = report.VerdictWarn; objects > 0 {
			if text, _ := report.Markdown(r, 1<<20); !strings.Contains(text, words) {
				t.Errorf("the verdict does not count %q:\n%s", words, text)
			}
		}
		if objects != len(r.Findings.Introduced) {
			t.Errorf("the findings count %d objects, want %d", objects, len(r.Findings.Introduced))
		}
	}
	if folded < 20 {
		t.Errorf("%d entries of several apps, want at least 20", folded)
	}
}

// An object is never said to change as it does itself.
func TestTheSameChangeNamesAnother(t *testing.T) {
	all, where := everywhere()
	first := group("web", all[:80], where[:1], "s", configMap("web", "settings", "level", "a", "b"))
	second := group("web", all[80:], where[1:], "s", configMap("web", "settings", "level", "a", "b"),
		configMap("web", "other", "k", "1", "2"))
	third := group("api", all[:3], []diff.Reach{{Environment: "prod", Pattern: "prod/a", Clusters: 3}}, "s",
		configMap("web", "settings", "level", "a", "b"))
	r := review()
	r.Changes = set(first, second, third)
	markdown, _ := report.Markdown(r, githubLimit)
	for form, text := range map[string]string{
		"markdown": strings.ReplaceAll(markdown, "`", ""), "terminal": terminal(r, false),
	} {
		for _, want := range []string{"the same change as on prod/* (80)", "the same change as on ConfigMap web/settings of web"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", form, want, text)
			}
		}
	}
}

// Many messages of the policy are folded, but for the errors.
func TestFindingsDoNotPushChangesAway(t *testing.T) {
	r := oneTarget()
	for i := range 30 {
		severity := report.SeverityWarning
		if i < 5 {
			severity = report.SeverityError
		}
		r.Findings.Introduced = append(r.Findings.Introduced, report.Finding{
			Rule: fmt.Sprint("rule-", i), Severity: severity, Message: fmt.Sprint("message ", i),
		})
	}
	text, _ := report.Markdown(r, githubLimit)
	before, after, found := strings.Cut(text, "<details><summary>25 more messages of the policy</summary>")
	if !found || strings.Count(before, "❌ [") != 5 || strings.Count(before, "⚠️ [") != 0 || strings.Count(after, "⚠️ [") != 25 {
		t.Errorf("errors above the fold, and warnings in it:\n%s", text)
	}
}

// Removals come first, then what the API server refuses, security, rollouts and the rest.
func TestOrderOfCautions(t *testing.T) {
	all, where := everywhere()
	one := func(name diff.EffectName, risk diff.Risk) diff.ObjectChange {
		o := configMap("a", "b-"+string(name), "k", "1", "2")
		o.Risk, o.Effects = risk, []diff.Effect{{Name: name, Risk: risk, Message: "m"}}
		return o
	}
	c := set(group("a", all, where, "s", one(diff.EffectDependsOnSync, diff.RiskHigh),
		one(diff.EffectZeroReplicas, diff.RiskHigh), one(diff.EffectHostAccess, diff.RiskHigh),
		one(diff.EffectImmutable, diff.RiskCritical),
		whole(diff.Removed, diff.RiskHigh, manifest.Identity{Kind: "Service", Name: "s"})),
		group("b", all, where, "s", one(diff.EffectDataLoss, diff.RiskCritical)))
	var got []string
	for _, one := range report.Cautions(c, 4) {
		got = append(got, string(one.Name))
	}
	want := "data-loss removed immutable-field host-access zero-replicas depends-on-sync"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("order of the cautions: got %q, want %q", text, want)
	}
}
