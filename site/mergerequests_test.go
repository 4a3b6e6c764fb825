package site_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/site"
)

// reviewed is a list of merge requests in every state.
func reviewed(at time.Time) []site.MergeRequest {
	head := func(digit, verdict, headline string, stored bool) site.Head {
		return site.Head{
			Commit: strings.Repeat(digit, 40), Base: strings.Repeat("b", 40), At: at, Verdict: verdict,
			Headline: headline, Stored: stored,
		}
	}
	return []site.MergeRequest{
		{
			Number: 3, Title: "Raise the replicas of the shop", Author: "ada", Target: "main", State: "merged",
			Updated: at.Add(-48 * time.Hour), Heads: []site.Head{head("1", "pass", "2 objects on 3 clusters change",
				true)},
		},
		{
			Number: 4, Title: "Move ingress to the gateway API", URL: "https://forge.example.com/4", Author: "bob",
			Target: "main", State: "open", Updated: at, Heads: []site.Head{
				head("2", "caution",
					"1 critical change: 4 objects on 2 clusters change", true),
				head("3", "error", "web on prod-eu-1 cannot be rendered", false),
			},
		},
		{
			Number: 5, Title: "Collector 2.0", Author: "carol", Target: "main", State: "open", Draft: true,
			Updated: at.Add(-time.Hour), Heads: []site.Head{head("4", "warn",
				"1 object on 1 cluster changes; 1 new warning", true)},
		},
		{
			Number: 7, Title: "Depends on components", Author: "dan", Target: "main", State: "open",
			Updated: at.Add(-2 * time.Hour), Heads: []site.Head{{
				Commit: strings.Repeat("5", 40), At: at,
				Verdict: "pass", Headline: "2 objects change", Waits: "waits for acme/components!12",
			}},
		},
		{
			Number: 6, Title: "From a fork", Author: "mallory", Target: "main", State: "open", Updated: at,
			Waits: "its head waits for trust: somebody with write access must comment /sluice trust",
		},
	}
}

func TestMergeRequests(t *testing.T) {
	t.Parallel()
	f := newDemo(t).read(t)
	if _, ok := pagesOf(t, f)["merge-requests.html"]; ok {
		t.Error("a fleet without reviews has a page of merge requests")
	}
	f.Reviews, f.MergeRequests = true, reviewed(f.Made)
	p, err := site.NewPages(f, site.Options{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := p.Render("merge-requests.html")
	if err != nil {
		t.Fatal(err)
	}
	one, ok, err := p.Render("merge-requests/4.html")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for page, wants := range map[string][]string{
		string(list): {
			"4 open merge requests", "waiting", "The merge request waits for acme/components!12.",
			"critical change: 4 objects", `href="merge-requests/4/` + strings.Repeat("2", 40) + `.html"`,
			`href="merge-requests/3.html"`, "merged", "draft",
		},
		string(one): {`href="../merge-requests/4/` + strings.Repeat("2", 40) + `.html"`, "sluice diff --full " +
			strings.Repeat("b", 40) + ".." + strings.Repeat("3", 40), "https://forge.example.com/4"},
	} {
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
	}
	if waits, bad := strings.Index(string(list), "From a fork"),
		strings.Index(string(list), "Move ingress"); waits > bad ||
		bad > strings.Index(string(list), "Collector 2.0") || strings.Index(string(list),
		"Depends on") > strings.Index(string(list), "Collector 2.0") {
		t.Error("what waits for a person does not come first")
	}
}
