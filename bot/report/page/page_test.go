package page_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/bot/report/page"
	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// review makes n groups of one object each.
func review(n int, text string) *report.Review {
	c := &diff.ChangeSet{}
	for i := range n {
		id := manifest.Identity{Group: "apps", Kind: []string{"Deployment", "Service"}[i%2], Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}
		c.Groups = append(c.Groups, diff.Group{
			ID: fmt.Sprintf("id%d", i), App: fmt.Sprintf("app-%d", i%7), Clusters: []string{fmt.Sprintf("eu-%d", i%50)}, Risk: diff.RiskMedium, Summary: text,
			Where: []diff.Reach{{Environment: "prod", Pattern: "prod/" + text, Clusters: 1}},
			Objects: []diff.ObjectChange{{
				Verb: diff.Changed, ID: id, APIVersion: "apps/v1", Fields: []diff.FieldChange{{Path: "spec.replicas", Old: 1, New: 2}},
				Hunks: []diff.Hunk{{Path: "spec", Lines: []string{" spec:", "-  replicas: 1", "+  replicas: 2", "   text: " + text}}},
			}},
		})
	}
	return &report.Review{
		Fleet: "acme", Base: strings.Repeat("a", 40), Head: strings.Repeat("b", 40), Version: "v1", Changes: c, Verdict: report.VerdictFail, Errors: []string{text},
		Findings: report.Findings{Introduced: []report.Finding{{Rule: "image-tag", Severity: report.SeverityError, Message: text, App: text}}},
	}
}

func render(tb testing.TB, r *report.Review) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := page.Write(&b, r); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// elements counts what an HTML parser sees.
func elements(tb testing.TB, text []byte) string {
	tb.Helper()
	doc, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			out = append(out, n.Data)
		}
	}
	return strings.Join(out, " ")
}

func FuzzNothingIsMarkup(f *testing.F) {
	f.Add("</script><script>alert(1)</script>")
	f.Add("<!-- <script>")
	f.Add("\u2028]]>&lt;img src=x onerror=alert(1)>")
	f.Fuzz(func(t *testing.T, text string) {
		hostile := review(1, text)
		hostile.Fleet, hostile.Version, hostile.Against = text, text, text
		if a, b := elements(t, render(t, hostile)), elements(t, render(t, review(1, "plain"))); a != b {
			t.Fatalf("%q changes the page's structure:\n%s\n%s", text, a, b)
		}
	})
}

func TestPageNeedsNothingElse(t *testing.T) {
	text := string(render(t, review(3, "x")))
	for _, bad := range []string{"http-equiv=\"refresh\"", " src=", "@import", "url(", "innerHTML", "eval(", "ZgotmplZ"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(text, "default-src &#39;none&#39;") && !strings.Contains(text, "default-src 'none'") {
		t.Error("no content security policy")
	}
	for i, part := range strings.Split(text, "http")[1:] {
		if !strings.HasPrefix(part, "-equiv") {
			t.Errorf("address %d: http%.40s", i, part)
		}
	}
}

// TestPageInADocument runs the page's own script against jsdom, a document without a screen.
func TestPageInADocument(t *testing.T) {
	modules := npm(t, "jsdom@26.1.0")
	file := filepath.Join(t.TempDir(), "page.html")
	const many = 10_000
	if err := os.WriteFile(file, render(t, review(many, "<b>bold</b> \u202e")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "testdata/page_test.js", file)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr(err))
	}
	var got struct {
		Errors                                                 []string
		Total, Drawn, Searched, ByCluster, ByApp, ByKind, Bold int
		Split, Jumped                                          bool
		Count, Finding                                         string
		FirstMs                                                float64
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	t.Logf("10,000 changes: first drawn after %.0f ms", got.FirstMs)
	if len(got.Errors) > 0 || got.Total != many || got.Drawn == 0 || got.Drawn > 200 || got.Searched != 1 || got.ByCluster != many/50 || got.ByApp != (many+6)/7 || got.ByKind != many/2 || got.Bold != 0 || !got.Split || !got.Jumped {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Finding, "<b>bold</b>") || !strings.Contains(got.Finding, "U+202E") {
		t.Errorf("finding %q", got.Finding)
	}
}

func stderr(err error) string {
	exit := &exec.ExitError{}
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// npm installs a pinned package into a cache and gives its folder of modules.
func npm(t *testing.T, spec string) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("needs node and npm, which are not here")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "sluice-test", strings.NewReplacer("@", "-", "/", "-").Replace(spec))
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, ".package-lock.json")); err == nil {
		return modules
	}
	if out, err := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, spec).CombinedOutput(); err != nil {
		t.Fatalf("npm install %s: %v\n%s", spec, err, out)
	}
	return modules
}

func BenchmarkPage(b *testing.B) {
	r := review(10_000, "text")
	for b.Loop() {
		render(b, r)
	}
}
