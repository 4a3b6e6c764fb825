package page_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/page"
)

func trialOf(text string, reviews ...*report.Review) *report.Trial {
	t := &report.Trial{
		Repository: "home-ops" + text, Trunk: "main" + text, Head: strings.Repeat("a", 40), Version: "v1",
		Took: 3 * time.Second,
		Layout: report.TrialLayout{
			Found: "a Flux repository" + text, Detected: true, Clusters: []string{"prod" + text},
			Coverage: "9 of 11 Flux objects on 1 cluster", Unreached: []string{"x.yaml:1" + text},
			Unreadable: []string{"web on prod: no chart" + text}, Failed: 1,
		},
		Next: []report.TrialStep{{Title: "Store what was found" + text, Text: "kind: Fleet" + text + "\n"}},
	}
	for _, r := range reviews {
		t.Changes = append(t.Changes, report.TrialChange{
			Commit: strings.Repeat("b", 40), Title: "Bump web" + text,
			Author: "Ada" + text, When: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Took: time.Second, Review: r,
		})
	}
	return t
}

func renderTrial(tb testing.TB, t *report.Trial) string {
	tb.Helper()
	var b bytes.Buffer
	if err := page.WriteTrial(&b, t); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func TestTrial(t *testing.T) {
	t.Parallel()
	failing := fleetReview(t)
	failing.Verdict = report.VerdictError
	markup := renderTrial(t, trialOf("", fleetReview(t), &report.Review{Fleet: "acme", Verdict: report.VerdictPass},
		failing))
	doc := parse(t, []byte(markup))

	// Every id is there once, and every link within the page has its element.
	ids := map[string]int{}
	var links []string
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			for _, a := range n.Attr {
				switch {
				case a.Key == "id":
					ids[a.Val]++
				case a.Key == "href" && strings.HasPrefix(a.Val, "#"):
					links = append(links, a.Val[1:])
				}
			}
			if n.Data == "script" || n.Data == "noscript" {
				t.Errorf("the page has the element %s, but no script", n.Data)
			}
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("the id %s is on %d elements, want 1", id, n)
		}
	}
	for _, link := range links {
		if ids[link] == 0 {
			t.Errorf("the link to #%s leads nowhere", link)
		}
	}
	if ids["c1"] != 1 || ids["c3"] != 1 {
		t.Errorf("reports behind the changes: got ids %v, want c1 to c3", ids)
	}

	body := strings.Join(strings.Fields(text(doc)), " ")
	for _, want := range []string{
		"a Flux repository; 9 of 11 Flux objects on 1 cluster.", "1 target cannot be read", "web on prod: no chart",
		"x.yaml:1", "Bump web", "2026-11-01", "1.0 s",
		"3 changes: 1 incomplete", "Store what was found", "kind: Fleet", "spec.serviceName", "replicas",
		"What to write to read the rest",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{" src=", "url(", " style=", "ZgotmplZ", "http-equiv=\"refresh\"", "class=\"ctx"} {
		if strings.Contains(markup, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !regexp.MustCompile(`content="default-src 'none'; style-src 'sha256-[^;]*; img-src data:;`).MatchString(html.UnescapeString(markup)) {
		t.Error("the content security policy allows more than the style, or is missing")
	}
}

// A change of thousands of objects must not make a page of hundreds of megabytes, and what is cut is said.
func TestTrialOfLargeChanges(t *testing.T) {
	t.Parallel()
	text := renderTrial(t, trialOf("", many(10_000, 1, "")))
	const most = 2 << 20
	if len(text) > most || !strings.Contains(text, "more groups") {
		t.Errorf("a change of 10,000 objects: %d bytes, want at most %d, and a line about the others", len(text), most)
	}
}

// Nothing that a repository or its history says is markup or a control character.
func TestTrialOfHostileText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"</details><script>alert(1)</script>", "\" onmouseover=\"alert(1)",
		"</pre></style><img src=x>", "<!-- ", "user\u202egnp\u200b.exe\x1b[31m",
	} {
		plain := strings.Repeat("a", len(s))
		got := renderTrial(t, trialOf(s, hostileReview(t, s)))
		want := renderTrial(t, trialOf(plain, hostileReview(t, plain)))
		if a, b := elements(parse(t, []byte(got))), elements(parse(t, []byte(want))); a != b {
			t.Errorf("%q changes the structure of the page", s)
		}
		if strings.ContainsAny(got, "\u202e\u200b\x1b") {
			at := strings.IndexAny(got, "\u202e\u200b\x1b")
			t.Errorf("%q: a control character reaches the page: %q", s, got[max(0, at-200):at+20])
		}
	}
}
