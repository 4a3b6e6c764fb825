package expression

import (
	"strings"
	"testing"
	"time"
)

func facts() *Facts {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) // a Monday
	return &Facts{
		Now:         now,
		Environment: Environment{Name: "prod", Clusters: []string{"eu-1", "us-1"}, Runs: "aaa"},
		Commit:      Commit{ID: "bbb", Time: now.Add(-30 * time.Hour), Age: 30 * time.Hour, Authors: []string{"mia", "ada"}, Files: []string{"apps/web/values.yaml"}},
		Changes:     Changes{Added: 1, Changed: 4, Apps: []string{"web"}, Kinds: []string{"Deployment"}, Risk: "low"},
		Upstreams:   map[string]Upstream{"dev": {Runs: "bbb", Healthy: true, Soak: 26 * time.Hour}},
		History:     History{Rollbacks: []time.Time{now.Add(-40 * 24 * time.Hour)}, Promotions: []time.Time{now.Add(-time.Hour)}},
		Approvals:   Approvals{Count: 1, By: []string{"ada"}},
		Checks:      map[string]Check{"errors": {Green: true, Value: 0.5}},
	}
}

func TestEvaluate(t *testing.T) {
	for text, want := range map[string]string{
		`upstreams.dev.soak >= duration("24h")`:                                               "true",
		`upstreams["dev"].soak >= duration("27h")`:                                            "false",
		`upstreams.staging.healthy`:                                                           "no such key: staging",
		`commit.age > duration("1h") && commit.authors.size() > 1`:                            "true",
		`commit.files.all(f, f.startsWith("apps/"))`:                                          "true",
		`changes.risk in ["none", "low"] || approvals.count >= 2`:                             "true",
		`changes.removed == 0 && changes.kinds.all(k, k != "CustomResourceDefinition")`:       "true",
		`history.rollbacks.filter(t, now - t < duration("720h")).size() == 0`:                 "true",
		`history.rollbacks.exists(t, now - t < duration("2000h"))`:                            "true",
		`!history.promotions.exists(t, now - t < duration("4h"))`:                             "false",
		`checks.errors.value < 1`:                                                             "true",
		`now.getDayOfWeek("Europe/Berlin") in [1, 2, 3, 4] && now.getHours("UTC") < 16`:       "true",
		`sets.intersects(approvals.by, ["ada", "bob"])`:                                       "true",
		`request.reason == "" && environment.name == "prod" && environment.clusters.size()<9`: "true",
	} {
		e, err := Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		r := e.Evaluate(facts())
		got := "false"
		if r.Open {
			got = "true"
		}
		if len(r.Unknown) > 0 {
			got = strings.Join(r.Unknown, "; ")
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// What is not known leaves an expression open only if it is true whatever the fact is.
func TestUnknown(t *testing.T) {
	f := facts()
	f.Changes = Changes{}
	f.Unknown = map[string]string{"changes": "they are not compared yet", "checks.errors": "it has not run yet", "commit.files": "the clone is shallow"}
	for text, want := range map[string]string{
		`changes.removed == 0`:                                       "changes is not known: they are not compared yet",
		`changes.removed == 0 && false`:                              "false",
		`changes.removed == 0 || approvals.count == 1`:               "true",
		`checks.errors.green`:                                        "checks.errors is not known: it has not run yet",
		`commit.files.exists(f, f == "a") && commit.age > now - now`: "commit.files is not known: the clone is shallow",
		`commit.id == "bbb"`:                                         "true",
	} {
		e, err := Compile(text)
		if err != nil {
			t.Fatal(text, err)
		}
		r := e.Evaluate(f)
		got := "false"
		if r.Open {
			got = "true"
		}
		if len(r.Unknown) > 0 {
			got = strings.Join(r.Unknown, "; ")
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// Names of environments and checks may have dots.
func TestDottedNames(t *testing.T) {
	f := facts()
	f.Checks = map[string]Check{"a.b": {Green: true}}
	f.Unknown = map[string]string{Path("checks", "a.b", "value"): "it is no query", Path("upstreams", "eu.dev"): "its branch is foreign"}
	for text, want := range map[string]string{
		`checks["a.b"].value < 1`:                            "checks.a.b.value is not known: it is no query",
		`checks["a.b"].green`:                                "",
		`upstreams[?"eu.dev"].?healthy.orValue(true)`:        "upstreams.eu.dev is not known: its branch is foreign",
		`upstreams.all(n, upstreams[n].healthy)`:             "upstreams is not known: eu.dev: its branch is foreign",
		`["a.b"].all(n, n in checks && checks[n].value < 1)`: "checks is not known: a.b.value: it is no query; checks.a.b.value is not known: it is no query",
	} {
		e, err := Compile(text)
		if err != nil {
			t.Fatal(text, err)
		}
		r := e.Evaluate(f)
		if got := strings.Join(r.Unknown, "; "); got != want || r.Open != (want == "") {
			t.Errorf("%s: got %t, %s, want %s", text, r.Open, got, want)
		}
	}
	e, err := Compile(`upstreams["eu.dev"].healthy && checks["c"].green`)
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Keys("upstreams"); len(got) != 1 || got[0] != "eu.dev" {
		t.Errorf("got %q", got)
	}
}

func TestTerms(t *testing.T) {
	e, err := Compile(`upstreams.dev.soak >= duration("48h") && (changes.risk == "low" || approvals.by.exists(a, a == "bob"))`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, term := range e.Explain(facts()) {
		got = append(got, term.Text+": "+term.Value+" ("+strings.Join(term.Facts, ", ")+")")
	}
	want := `upstreams.dev.soak >= duration("48h"): false (upstreams.dev.soak = 26h0m0s)
changes.risk == "low": true (changes.risk = "low")
approvals.by.exists(a, a == "bob"): false (approvals.by = ["ada"])`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestAsks(t *testing.T) {
	e, err := Compile(`commit.files.size() > 0 && upstreams["dev"].healthy`)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"commit.files": true, "commit": true, "commit.authors": false, "changes": false, "upstreams": true} {
		if got := e.Asks(path); got != want {
			t.Errorf("%s: got %t", path, got)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`commit.aeg > duration("1h")`:   "undefined field 'aeg'",
		`commit.age > 3`:                "found no matching overload",
		`commit.id`:                     "the value is a string, and a gate needs true or false",
		`commits.size() > 1`:            "undeclared reference to 'commits'",
		`now >`:                         "line 1, column 6",
		strings.Repeat("(", 400) + "1":  "recursion",
		`commit.age > duration("1d")`:   "line 1, column 23: invalid duration",
		`now < timestamp("2026-03-02")`: "invalid timestamp",
		`commit.id.matches("(")`:        "invalid matches argument",
		"true" + strings.Repeat(` || commit.id == "a"`, 300): "the expression has 6004 characters, more than 4096",
		`http.get("http://a").ok`:                            "undeclared reference",
	} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", text, err, want)
		}
	}
}

// An expression that would take long stops, and has no value.
func TestCost(t *testing.T) {
	f := facts()
	for range 2000 {
		f.Commit.Files = append(f.Commit.Files, "a/file/with/a/name")
	}
	e, err := Compile(`commit.files.all(a, commit.files.all(b, commit.files.all(c, a + b + c != "")))`)
	if err != nil {
		t.Fatal(err)
	}
	r := e.Evaluate(f)
	if len(r.Unknown) != 1 || !strings.Contains(r.Unknown[0], "cost limit") || r.Open {
		t.Errorf("got %+v", r)
	}
	for _, term := range e.Explain(f) {
		if term.Value != "unknown" {
			t.Errorf("got %+v", term)
		}
	}
}
