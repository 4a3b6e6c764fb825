package report_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

// upgradeOf returns a plan with an issue of each kind. Names and messages end with a text.
func upgradeOf(text string) *report.Upgrade {
	object := manifest.Identity{Group: "policy", Kind: "PodDisruptionBudget", Namespace: "web", Name: "web" + text}
	issue := func(rule string, severity report.Severity, message, at string, clusters ...string) report.UpgradeIssue {
		return report.UpgradeIssue{At: at, Finding: report.Finding{
			Rule: rule, Severity: severity, Message: message + text, Hint: "use policy/v1" + text, Object: object,
			App: "web" + text, Environment: "prod", Clusters: clusters, File: "apps/web/app.yaml",
		}}
	}
	unknown := issue("not-rendered", report.SeverityError, "no chart", "1.23", "eu-3")
	unknown.Unknown = true
	existing := issue("api-removed", report.SeverityInfo, "gone already", "1.24", "eu-1")
	existing.Existing = true
	u := &report.Upgrade{
		Repository: "acme" + text, To: "Kubernetes 1.25", Steps: []string{"1.24", "1.25"}, Notes: []string{"a note" + text},
		Issues: []report.UpgradeIssue{
			existing, unknown, issue("api-deprecated", report.SeverityWarning, "it goes later", "1.25", "eu-2"),
			issue("api-removed", report.SeverityError, "it is gone", "1.25", "eu-1"),
			issue("chart-refuses", report.SeverityError, "it wants another", "1.24", "eu-1"),
		},
		Changes: &diff.ChangeSet{Groups: []diff.Group{{
			App: "web" + text, Clusters: []string{"eu-2"}, Counts: diff.Counts{Changed: 3, Noise: 1},
			Objects: []diff.ObjectChange{{ID: object, Verb: diff.Changed}},
		}}},
	}
	for _, name := range []string{"eu-0", "eu-1", "eu-2", "eu-3", "eu-4"} {
		u.Clusters = append(u.Clusters, report.UpgradeCluster{
			Name: name, Environment: "prod", From: "1.23", To: "1.25", Assumed: name == "eu-4",
		})
	}
	u.Clusters[0].Verdict, u.Clusters[0].From = report.UpgradeCurrent, "1.25"
	u.Settle(u.Changes)
	return u
}

func TestUpgradeVerdicts(t *testing.T) {
	t.Parallel()
	u := upgradeOf("")
	var got []string
	for _, c := range u.Clusters {
		got = append(got, c.Name+" "+string(c.Verdict))
	}
	if text := strings.Join(got, ", "); text != "eu-1 blocked, eu-3 blocked, eu-2 changes, eu-4 ready, eu-0 current" {
		t.Error(text)
	}
	if u.Clusters[2].Changed != 4 || u.Clusters[2].Warnings != 1 {
		t.Errorf("eu-2: %+v", u.Clusters[2])
	}
	if u.Blocked() != 2 || u.Summary() != "Kubernetes 1.25: 2 clusters are blocked, 1 cluster changes, 1 cluster is ready, 1 cluster has the version" {
		t.Error(u.Summary())
	}
}

func TestUpgradeTerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	report.UpgradeTerminal(&out, upgradeOf(""), report.TerminalOptions{})
	at := 0
	for _, want := range []string{
		"Kubernetes 1.25: 2 clusters are blocked", "✗ blocked  prod/eu-1  1.23 → 1.25", "    it wants another", "    it is gone",
		"✗ blocked  prod/eu-3  1.23 → 1.25\n    1 target cannot be rendered now", "! changes  prod/eu-2",
		"✓ ready  prod/eu-4  1.23 (assumed) → 1.25", "✓ current  prod/eu-0  1.25\n", "Blocked by, at 1.24\n  chart-refuses  it wants another",
		"Blocked by, at 1.25\n  api-removed  it is gone\n    PodDisruptionBudget.policy web/web of web on prod/eu-1 in apps/web/app.yaml\n    → use policy/v1",
		"To look at, at 1.25\n  api-deprecated", "Not known, because it cannot be rendered now\n  not-rendered  no chart",
		"Already so at the present version\n  api-removed  gone already", "What changes", "note: a note",
	} {
		want = strings.ReplaceAll(want, "PodDisruptionBudget.policy", "PodDisruptionBudget")
		n := strings.Index(out.String()[at:], want)
		if n < 0 {
			t.Fatalf("after %d characters, there is no %q in\n%s", at, want, out.String())
		}
		at += n
	}
}

// Nothing of a plan acts on a terminal. The hostile samples have a plan too, for comments.
func TestUpgradeIsInert(t *testing.T) {
	t.Parallel()
	const text = "\x1b[31m<script>@acme/sre|#12\r\n::error::x"
	var out strings.Builder
	report.UpgradeTerminal(&out, upgradeOf(text), report.TerminalOptions{Full: true})
	checkVisible(t, out.String())
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "::") {
			t.Errorf("a line begins with %q", line)
		}
	}
}

// The comment of a change of kubeVersion has the verdicts, those that are blocked first.
func TestUpgradeInTheComment(t *testing.T) {
	t.Parallel()
	r := &report.Review{Verdict: report.VerdictFail, Upgrade: upgradeOf(""), Changes: &diff.ChangeSet{}}
	comment, _ := report.Markdown(r, 60_000)
	for _, want := range []string{
		"### Kubernetes upgrade",
		"|  | Clusters | Version | Blocked by |\n|---|---|---|---|\n| ⛔ **blocked** | `prod/eu-1` | `1.23 → 1.25` | it wants another; it is gone |\n",
		"| ⚠️ changes | `prod/eu-2` |", "| ✅ ready | `prod/eu-4` |",
	} {
		if !strings.Contains(comment, want) {
			t.Errorf("there is no %q in\n%s", want, comment)
		}
	}
	if comment, _ = report.Markdown(&report.Review{Changes: &diff.ChangeSet{}}, 60_000); strings.Contains(comment, "upgrade") {
		t.Errorf("a review without an upgrade speaks of one:\n%s", comment)
	}
}
