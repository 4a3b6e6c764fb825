package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/page"
)

func render(tb testing.TB, r *report.Review) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := page.Write(&b, r); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// parse reads the page as a browser without scripts does.
func parse(tb testing.TB, text []byte) *html.Node {
	tb.Helper()
	doc, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// elements lists the elements and their attributes' names.
func elements(doc *html.Node) string {
	var out []string
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		s := n.Data
		for _, a := range n.Attr {
			s += " " + a.Key
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func text(doc *html.Node) string {
	var out strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" && n.Parent.Data != "script" {
			out.WriteString(n.Data)
		}
	}
	return out.String()
}

func FuzzNothingIsMarkup(f *testing.F) {
	f.Add("</script><script>alert(1)</script>")
	f.Add("<!-- <script>")
	f.Add("</noscript><img src=x onerror=alert(1)>")
	f.Add("</pre></template></style>\u2028]]>&lt;img src=x>")
	f.Add("\" onmouseover=\"alert(1)")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 200 {
			return
		}
		plain := strings.Repeat("a", len(s))
		a, b := render(t, hostileReview(t, s)), render(t, hostileReview(t, plain))
		if x, y := elements(parse(t, a)), elements(parse(t, b)); x != y {
			t.Fatalf("%q changes the page's structure", s)
		}
		// A browser with scripts reads what <noscript> holds as text: it must end where it began.
		if x, y := bytes.Count(a, []byte("</noscript")), bytes.Count(a, []byte("<noscript>")); x != y {
			t.Fatalf("%q: %d noscript elements begin, %d end", s, y, x)
		}
	})
}

func TestPageNeedsNothingElse(t *testing.T) {
	r := fleetReview(t)
	r.MergeRequest.URL = ""
	for i := range r.Findings.Introduced {
		r.Findings.Introduced[i].Docs = ""
	}
	page := string(render(t, r))
	for _, bad := range []string{
		"http-equiv=\"refresh\"", " src=", "@import", "url(", "innerHTML", "eval(", "ZgotmplZ",
		" style=", " onclick", "unsafe-inline",
	} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for i, part := range strings.Split(page, "http")[1:] {
		if !strings.HasPrefix(part, "-equiv") && !strings.HasPrefix(part, "://catalog.") { // a value of the sample
			t.Errorf("address %d: http%.40s", i, part)
		}
	}
}

// TestPolicyAllowsExactlyOurParts compares the hashes of the policy with the page's style sheet and script.
func TestPolicyAllowsExactlyOurParts(t *testing.T) {
	page := string(render(t, fleetReview(t)))
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)[1])
	for _, tag := range []string{"style", "script"} {
		parts := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
		if len(parts) != 1 {
			t.Fatalf("%d elements %s", len(parts), tag)
		}
		sum := sha256.Sum256([]byte(parts[0][1]))
		if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(policy, tag+"-src 'sha256-"+hash+"'") {
			t.Errorf("the policy does not allow %s: %s", tag, policy)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("policy %s", policy)
	}
}

// TestWaits: the page of a change that may not be merged yet says so beside its verdict.
func TestWaits(t *testing.T) {
	t.Parallel()
	r := &report.Review{Fleet: "demo", Verdict: report.VerdictPass, Waits: "waits for <b>acme/components!12</b>"}
	got := strings.Join(strings.Fields(text(parse(t, render(t, r)))), " ")
	if !strings.Contains(got, "waiting") || !strings.Contains(got,
		"This merge request waits for <b>acme/components!12</b>.") {
		t.Error(got)
	}
	r.Waits = ""
	if got := text(parse(t, render(t, r))); strings.Contains(got, "waiting") ||
		strings.Contains(got, "This merge request") {
		t.Error(got)
	}
}

// TestReadableWithoutScript: everything is in the page's own markup.
func TestReadableWithoutScript(t *testing.T) {
	r := many(1000, 1, "x")
	body := text(parse(t, render(t, r)))
	for _, want := range []string{"Deployment shop/web-0", "Service shop/web-999", "replicas: 1001", "prod/eu-49"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q without a script", want)
		}
	}
	body = text(parse(t, render(t, fleetReview(t))))
	for _, want := range []string{
		"Cautions", "The cluster refuses the change", "spec.serviceName", "A volume cannot shrink",
		"Rights are widened", "+ added", "− removed", "secrets",
		"1.2.0@sha256:0123456789ab", "1.3.0@sha256:fedcba987654", "The same change on 8 more", "Service edge/gateway-8",
		"1 target cannot be rendered", "${cluster.vars.shards}",
		"cluster.labels.region", "a ClusterRole must not read Secrets", "prod (40)", "the label tier is not used",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q without a script", want)
		}
	}
	if strings.Contains(body, "1.2.0@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef →") {
		t.Error("a digest is not shortened in the row of images")
	}
}

func TestInvisibleCharactersAreShown(t *testing.T) {
	body := string(render(t, hostileReview(t, "user\u202egnp\u200b.exe\x1b[31m")))
	if strings.ContainsAny(body, "\u202e\u200b\x1b") || !strings.Contains(body, `user\u202egnp\u200b.exe\x1b[31m`) {
		t.Error("a character that steers the text's direction reaches the page")
	}
}

func TestSizeIsBounded(t *testing.T) {
	const most = 3 << 20
	if n := len(render(t, many(1000, 1, ""))); n > most {
		t.Errorf("1,000 changes take %d bytes", n)
	}
}

func BenchmarkPage(b *testing.B) {
	r := many(10_000, 1, "text")
	for b.Loop() {
		render(b, r)
	}
}

// TestArrowsAreDrawn: an arrow between an old and a new value is drawn, since fonts may lack it. A text beside it is
// escaped.
func TestArrowsAreDrawn(t *testing.T) {
	t.Parallel()
	r := fleetReview(t)
	html := string(render(t, r))
	body, _, _ := strings.Cut(html[strings.Index(html, "<body>"):], "<script>")
	if n, drawn := strings.Count(body, "→"), strings.Count(body, `→</span>`); n == 0 || n != drawn ||
		!strings.Contains(body, `store 3.1.0 <span class="to">→</span> 3.2.0`) {
		t.Errorf("%d arrows, %d of them drawn", n, drawn)
	}
	r.Changes.Apps[0].Summary = "web <img src=x> → \u202e<b>2</b>"
	if html := string(render(t, r)); !strings.Contains(html, `web &lt;img src=x&gt; <span class="to">→</span> `) ||
		strings.Contains(html, "<b>2") || strings.Contains(html, "\u202e") {
		t.Error("a text with an arrow is not escaped")
	}
}

// TestEqualChangesOfApps: a change that is the same on several apps is there once, with the place that it comes from
// and the apps, also for the links of findings and in the tree.
func TestEqualChangesOfApps(t *testing.T) {
	apps := []string{"cart", "catalog", "checkout"}
	r := oneLineOf(apps)
	doc := parse(t, render(t, r))
	got := strings.Join(strings.Fields(text(doc)), " ")
	for _, want := range []string{
		"From charts/hello/templates/deployment.yaml:14 on cart, catalog, checkout; shown for cart.",
		"of cart and 2 other apps on", "4 apps",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q: %s", want, got)
		}
	}
	objects, sections, targets, ids := 0, []string{}, map[string]bool{}, map[string]bool{}
	for n := range doc.Descendants() {
		attr := map[string]string{}
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
		}
		ids[attr["id"]] = true
		if n.Data == "article" {
			objects++
		}
		if n.Data == "section" && attr["class"] == "app" {
			sections = append(sections, strings.TrimPrefix(attr["aria-labelledby"], "h-"))
		}
		if n.Data == "a" && n.FirstChild != nil && n.FirstChild.Data == "Show the change" {
			targets[attr["href"]] = true
		}
	}
	if len(sections) != 2 || objects != 2 {
		t.Errorf("got the sections %q with %d objects, want one of three apps and one of the fourth, with an object each",
			sections, objects)
	}
	if len(targets) != 1 {
		t.Errorf("findings of three apps link to %v, want one object", targets)
	}
	for to := range targets {
		if !ids[strings.TrimPrefix(to, "#")] {
			t.Errorf("a finding links to %s, which does not exist", to)
		}
	}
}

// oneLineOf is the change of one line of a chart that apps use, with a finding in each, and of another app.
func oneLineOf(apps []string) *report.Review {
	r := &report.Review{Fleet: "acme", Version: "v1", Verdict: report.VerdictWarn}
	cause := &diff.Cause{File: "charts/hello/templates/deployment.yaml", Line: 14}
	workload := func(app string, host bool) manifest.Object {
		pod := map[string]any{"containers": []any{map[string]any{"name": app, "image": "registry.example.com/web:1"}}}
		if host {
			pod["hostNetwork"] = true
		}
		return manifest.Object{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": app, "namespace": app},
			"spec": map[string]any{"template": map[string]any{"spec": pod}},
		}
	}
	var targets []diff.Target
	for _, app := range apps {
		targets = append(targets, diff.Target{
			App: app, Cluster: "a", Environment: "prod", Before: []diff.Object{{Key: app + "1", Object: workload(app, false)}},
			After: []diff.Object{{Key: app + "2", Object: workload(app, true)}},
		})
		r.Findings.Introduced = append(r.Findings.Introduced, report.Finding{
			Rule: "privileged", Severity: report.SeverityWarning, App: app,
			Message:     "the pod of " + app + " shares the network of the host",
			Environment: "prod", Clusters: []string{"a"},
			Object: manifest.Identity{Group: "apps", Kind: "Deployment", Namespace: app, Name: app},
		})
	}
	targets = append(targets, diff.Target{
		App: "zoo", Cluster: "a", Environment: "prod",
		After: []diff.Object{{Key: "zoo", Object: manifest.Object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "zoo", "namespace": "zoo"},
		}}},
	})
	r.Changes = diff.Compare(targets, nil, []string{"prod"}, placed(targets))
	for i := range r.Changes.Groups {
		if r.Changes.Groups[i].App != "zoo" {
			r.Changes.Groups[i].Cause = cause
		}
	}
	return r
}
