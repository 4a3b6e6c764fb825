package page_test

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/page"
)

// The page of a plan shows the verdicts, the issues and the changes, and nothing in it acts.
func TestUpgradePage(t *testing.T) {
	t.Parallel()
	const text = `<script>alert(1)</script>"'`
	u := &report.Upgrade{
		Repository: "acme" + text, To: "Kubernetes 1.25", Steps: []string{"1.24", "1.25"}, Notes: []string{"note" + text},
		Clusters: []report.UpgradeCluster{
			{Name: "eu-1" + text, Environment: "prod", From: "1.23", To: "1.25"},
			{Name: "eu-2", Environment: "prod", From: "1.23", To: "1.25"},
		},
		Issues: []report.UpgradeIssue{{At: "1.25", Finding: report.Finding{
			Rule: "api-removed", Severity: report.SeverityError, Message: "it is gone" + text, Hint: "use v1" + text,
			App: "web" + text, Environment: "prod", Clusters: []string{"eu-1" + text}, File: "apps/web" + text,
		}}},
		Changes: &diff.ChangeSet{
			Groups: []diff.Group{{App: "shop" + text, Clusters: []string{"eu-2"}, Counts: diff.Counts{Changed: 1}}},
			Apps:   []diff.App{{Name: "shop" + text, Clusters: 1, Groups: 1}},
		},
	}
	u.Settle(u.Changes)
	var out bytes.Buffer
	if err := page.WriteUpgrade(&out, u); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "script" {
			t.Error("the page has a script")
		}
		if n.Type == html.TextNode {
			words.WriteString(n.Data + "\n")
		}
	}
	for _, want := range []string{"1 cluster is blocked, 1 cluster changes", "Blocked by, at 1.25", "it is gone" + text, "use v1", "What changes", "note" + text, "1.24, 1.25"} {
		if !strings.Contains(words.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
