package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site/index"
)

// digits returns the SHA-256 of a chart.
func digits(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// outsideGap is a gap whose fleet takes an app from another repository, and whose sluice.lock names a chart.
func outsideGap(t *testing.T, chart []byte) (g *gap, host *hydratetest.Host, pin func(text string) string) {
	t.Helper()
	g = newGap(t)
	host = hydratetest.NewHost(t)
	pin = func(text string) string {
		commit := host.Commit("lib", hydratetest.ConfigMap(text))
		g.Git("fetch", "-q", filepath.Join(host.Root, "lib"), "main")
		lock := strings.Replace(host.Lock(map[string]string{"lib": commit}), "charts: []", fmt.Sprintf(
			"charts:\n  - {chart: extra, repo: 'https://charts.example.com', version: '1', resolved: 1.0.0, digest: 'sha256:%s'}", digits(chart)), 1)
		g.Write("repositories/lib.yaml", host.Repository("lib"))
		g.Write("apps/web/app.yaml", hydratetest.AppIn("lib"))
		g.Write("sluice.lock", lock)
		g.Commit("pin " + text)
		g.hydrate()
		return commit
	}
	return g, host, pin
}

// withChart adds a part with a chart to a bundle, and describes it.
func withChart(name string, data []byte, described ...string) func(*envelope.Manifest, map[string][]byte) {
	return func(m *envelope.Manifest, parts map[string][]byte) {
		parts[name] = data
		says(func(c *bundle.Contents) {
			for _, d := range described {
				c.Charts = append(c.Charts, bundle.Chart{Chart: "extra", Repo: "https://charts.example.com", Version: "1.0.0", SHA256: d})
			}
		})(m, parts)
	}
}

// TestCommitsOfOtherRepositories holds that a bundle brings the files of pinned commits, once, and of the next ones what
// changed.
func TestCommitsOfOtherRepositories(t *testing.T) {
	t.Parallel()
	g, _, pin := outsideGap(t, []byte("x"))
	first := pin("one")
	one := g.export(withSource)
	if c := one.Contents.Commits; len(c) != 1 || c[0].Commit != first || c[0].From != "" || len(one.Warnings) > 0 {
		t.Fatalf("it brings %+v, %q", c, one.Warnings)
	}
	g.mustImport(g.site, one.File)
	g.Git("--git-dir", g.site, "fsck", "--strict")
	mirror := "sluice/mirror/dev:commits/" + first
	if a, b := g.Git("--git-dir", g.site, "rev-parse", mirror+"/tree"), g.Git("rev-parse", first+"^{tree}"); a != b {
		t.Errorf("the site has the tree %s, and the commit has %s", a, b)
	}
	second := pin("two")
	source := func(r *bundle.ExportRequest) { r.Source = true }
	two := g.export(source)
	if c := two.Contents.Commits; len(c) != 1 || c[0].Commit != second || c[0].From != first {
		t.Errorf("the second brings %+v", c)
	}
	g.mustImport(g.site, two.File)
	g.release("third")
	three := g.export(source)
	if c := three.Contents.Commits; len(c) > 0 {
		t.Errorf("the third brings %+v again", c)
	}
	again := g.export(func(r *bundle.ExportRequest) { source(r); r.Since, r.Again = "", 2 })
	a, err := os.ReadFile(again.File)
	b, err2 := os.ReadFile(two.File)
	if err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Errorf("--again writes other bytes: %v %v", err, err2)
	}
	g.mustImport(g.site, three.File)
	for _, c := range []string{first, second} {
		g.Git("--git-dir", g.site, "rev-parse", "--verify", "sluice/mirror/dev:commits/"+c)
	}
	full := g.export(withSource)
	if c := full.Contents.Commits; len(c) != 1 || c[0].Commit != second || c[0].From != "" {
		t.Errorf("a full bundle brings %+v", c)
	}
}

// TestOutsideAttacks holds what is refused of charts and other repositories although enough signers signed it.
func TestOutsideAttacks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many imports: run make test-e2e")
	}
	chart, stranger := []byte("a packed chart"), []byte("a chart that nobody needs")
	g, host, pin := outsideGap(t, chart)
	pin("one")
	good := g.export(withSource).File
	part, d := "chart-"+digits(chart)+".tgz", digits(chart)
	large := make([]byte, gitstore.MaxObject+1)
	other := host.Commit("other", map[string]string{"x": "y"})
	raw := []byte(host.Git("other", "cat-file", "commit", other) + "\n")
	for _, c := range []struct {
		name, want string
		change     func(*envelope.Manifest, map[string][]byte)
	}{
		{"a wrong digest in the name", "has the SHA-256", withChart("chart-"+digits(stranger)+".tgz", chart, digits(stranger))},
		{"a chart that nobody needs", "does not name", withChart("chart-"+digits(stranger)+".tgz", stranger, digits(stranger))},
		{"a chart that is not described", "does not describe the chart", withChart(part, chart)},
		{"a description without a chart", "the bundle does not have it", says(func(c *bundle.Contents) {
			c.Charts = []bundle.Chart{{Chart: "x", Version: "1", SHA256: d}}
		})},
		{"a description twice", "not in order", withChart(part, chart, d, d)},
		{"a description without a digest", "not in order", withChart(part, chart, "../../x")},
		{"another kind of file", "which no bundle has", withChart("chart-"+d+".zip", chart, d)},
		{"more names", "which no bundle has", withChart("chart-"+d+".tgz.tgz", chart, d)},
		{"a part of another kind", "which no bundle has", withChart("evil.sh", chart)},
		{"too large", "more than it may have", withChart("chart-"+digits(large)+".tgz", large, digits(large))},
		{"signatures that are none", "is not JSON", withChart("chart-"+d+".signatures.json", []byte("{"), d)},
		{"too many charts", "more than 1000", says(func(c *bundle.Contents) {
			for i := range 1001 {
				c.Charts = append(c.Charts, bundle.Chart{SHA256: fmt.Sprintf("%064x", i)})
			}
		})},
		{"a chart without the trunk", "no trunk that needs them", func(m *envelope.Manifest, p map[string][]byte) {
			withChart(part, chart, d)(m, p)
			says(func(c *bundle.Contents) { c.Refs = c.Refs[:1] })(m, p)
		}},
		{"a commit without its id", "do not have this id", says(func(c *bundle.Contents) { c.Commits[0].Object = append(c.Commits[0].Object, 'x') })},
		{"a commit of another id", "do not have this id", says(func(c *bundle.Contents) { c.Commits[0].Commit = other })},
		{"a commit without files", "one is missing", says(func(c *bundle.Contents) {
			c.Commits = append(c.Commits, bundle.Commit{URL: "https://x", Commit: other, Object: raw})
		})},
		{"files without a commit", "are not reachable", says(func(c *bundle.Contents) { c.Commits = nil })},
		{"a commit twice", "twice", says(func(c *bundle.Contents) { c.Commits = append(c.Commits, c.Commits[0]) })},
		{"a commit that is none", "is not a commit", says(func(c *bundle.Contents) { c.Commits[0].Commit = "main" })},
		{"a base that is none", "is not a commit", says(func(c *bundle.Contents) { c.Commits[0].From = "main" })},
		{"too many commits", "more than 500", says(func(c *bundle.Contents) { c.Commits = make([]bundle.Commit, 501) })},
		{"other promotions", "tells of other promotions", says(func(c *bundle.Contents) { c.Promotions[0].ApprovedBy = []string{"ana"} })},
		{"fewer promotions", "tells of other promotions", says(func(c *bundle.Contents) { c.Promotions = c.Promotions[1:] })},
		{"more clusters", "clusters and", says(func(c *bundle.Contents) { c.Clusters++ })},
		{"more manifests", "manifests, and its branch has", says(func(c *bundle.Contents) { c.Manifests++ })},
		{"more objects", "objects, and it has", says(func(c *bundle.Contents) { c.Objects++ })},
		{"a verdict of its own", "want pass, fail or unknown", says(func(c *bundle.Contents) { c.Policy = &bundle.Policy{Verdict: "great"} })},
		{"a number that uses up all others", "a lower number", func(m *envelope.Manifest, _ map[string][]byte) {
			m.Sequence, m.Previous = 1<<62, strings.Repeat("a", 64)
		}},
	} {
		g.refuses(c.name, g.newSite(), g.resealed(good, c.change), c.want)
	}
	site := g.newSite()
	g.mustImport(site, g.resealed(good, withChart(part, chart, d)))
	if got := g.Git("--git-dir", site, "show", "sluice/mirror/dev:charts/"+d+".tgz"); got != string(chart) {
		t.Errorf("the mirror has %q", got)
	}
	jump := g.resealed(g.export(withSource).File, func(m *envelope.Manifest, _ map[string][]byte) { m.Sequence = 20_000 })
	g.refuses("a jump", site, jump, "a jump of more than 10000")
}

// TestMirrorOutOfOrder holds that the parts have one order.
func TestMirrorOutOfOrder(t *testing.T) {
	t.Parallel()
	chart := []byte("a packed chart")
	d := digits(chart)
	c := bundle.Contents{
		Refs: []bundle.Ref{
			{Role: "environment", Branch: "env/dev", To: strings.Repeat("a", 40)}, {Role: "trunk", Branch: "main", To: strings.Repeat("b", 40)},
		},
		Charts: []bundle.Chart{{Chart: "x", Version: "1", SHA256: d}},
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	parts := []envelope.Content{
		envelope.Text("bundle.json", text), envelope.Text("chart-"+d+".signatures.json", []byte("{}")),
		envelope.Text("chart-"+d+".tgz", chart), envelope.Text("objects.pack", nil),
	}
	if _, err := bundle.ReadContents(sealedOf(t, parts)); err != nil {
		t.Error(err)
	}
	for i := range parts[1:] {
		bad := slices.Clone(parts)
		bad[i], bad[i+1] = bad[i+1], bad[i]
		if _, err := bundle.ReadContents(sealedOf(t, bad)); err == nil || !strings.Contains(err.Error(), "is not where sluice writes it") {
			t.Errorf("parts %d and %d changed places: %v", i, i+1, err)
		}
	}
}

func sealedOf(t *testing.T, parts []envelope.Content) *envelope.Envelope {
	t.Helper()
	manifest, err := envelope.Seal(envelope.Manifest{Kind: envelope.Bundle, Fleet: "a", Environment: "dev", Sequence: 1, Created: time.Unix(0, 0)}, parts)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := envelope.Write(&out, manifest, parts, plain{}); err != nil {
		t.Fatal(err)
	}
	e, err := envelope.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// registry has packed charts by their digests, and counts how often each is asked for.
type registry struct {
	charts map[string][]byte
	asked  int
	down   bool
}

func (r *registry) Archive(_ context.Context, _ fetch.Ref, l fetch.Locked) ([]byte, error) {
	r.asked++
	if data, ok := r.charts[l.Digest]; ok && !r.down {
		return data, nil
	}
	return nil, errors.New("the registry is down")
}

func (*registry) Verify(context.Context, fetch.Ref, fetch.Locked, []signature.Signer) error {
	return nil
}

// pack returns a chart that renders nothing.
func pack(t *testing.T, version string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	archive := tar.NewWriter(z)
	text := "apiVersion: v2\nname: tiny\nversion: " + version + "\n"
	if err := archive.WriteHeader(&tar.Header{Name: "tiny/Chart.yaml", Size: int64(len(text)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(archive.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCharts holds that a bundle brings each chart and its signatures once, that a registry which is down holds up no
// bundle, and that the verdict of the policy is what it was when the bundle is written again.
func TestCharts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many exports: run make test-e2e")
	}
	g := newGap(t)
	charts := &registry{charts: map[string][]byte{}}
	hydrator := func() *hydrate.Hydrator {
		config := g.Hydrator(1).Config
		config.Archives = charts
		return hydrate.New(config)
	}
	release := func(version, keys string) string {
		t.Helper()
		data := pack(t, version)
		charts.charts["sha256:"+digits(data)] = data
		g.Write("apps/tiny/app.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: tiny}\nspec:\n  namespace: tiny\n  placement: {}\n"+
			"  source: {helm: {chart: tiny, repo: 'https://charts.example.com', version: '"+version+"'"+keys+"}}\n")
		g.Write("sluice.lock", fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts:\n"+
			"  - {chart: tiny, repo: 'https://charts.example.com', version: '%s', resolved: %[1]s, digest: 'sha256:%s'}\n", version, digits(data)))
		g.Commit("tiny " + version + keys)
		got, err := hydrator().Hydrate(t.Context(), hydrate.Request{Commit: g.Resolve("HEAD"), Write: true, Environments: []string{"dev"}})
		if err != nil || !got.OK() {
			t.Fatalf("%+v %v", got, err)
		}
		return digits(data)
	}
	verdict := &judge{state: rollout.Red, why: "no limits"}
	export := func(change func(*bundle.ExportRequest)) *bundle.Exported {
		t.Helper()
		r := bundle.ExportRequest{
			Trunk: g.Resolve("main"), Environment: "dev", Source: true, Signers: []envelope.Signer{g.key}, Images: index.Images,
			Output: t.TempDir(), Now: time.Now(), Policy: verdict,
			Evidence: func(context.Context, fetch.Ref, fetch.Locked) (fetch.Evidence, error) {
				return fetch.Evidence{File: "tiny.tgz"}, nil
			},
		}
		change(&r)
		out, err := bundle.Export(t.Context(), hydrator(), r)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	last := func(r *bundle.ExportRequest) { r.Since = "last" }
	parts := func(out *bundle.Exported) []string {
		var names []string
		for _, p := range out.Manifest.Parts {
			if strings.HasPrefix(p.Name, "chart-") {
				names = append(names, p.Name)
			}
		}
		return names
	}
	is := func(what string, out *bundle.Exported, want ...string) {
		t.Helper()
		if got := parts(out); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", what, got, want)
		}
	}
	first := release("1.0.0", "")
	one := export(func(r *bundle.ExportRequest) { r.Full = true })
	is("the first", one, "chart-"+first+".tgz")
	g.mustImport(g.site, one.File)
	if c := one.Contents; len(c.Charts) != 1 || c.Charts[0].Version != "1.0.0" || c.Policy.String() != "fail: no limits" {
		t.Errorf("the contents are %+v, %s", c.Charts, c.Policy)
	}
	if bom, err := g.open(one.File).Read("sbom.cdx.json", 1<<20); err != nil || !bytes.Contains(bom, []byte(first)) {
		t.Errorf("the SBOM is %s, %v", bom, err)
	}
	verdict.state, verdict.why = rollout.Green, ""
	again := export(func(r *bundle.ExportRequest) { r.Again = 1 })
	if a, err := os.ReadFile(again.File); err != nil || digits(a) != fileDigest(t, one.File) {
		t.Errorf("--again writes other bytes: %v", err)
	}

	// A signature is demanded now: the chart itself is not brought again.
	g.Write("keys/cosign.pub", "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjBdz3VJXO9jCmYBHLwBlnJ3qNQbT\nkLTkX8Kx2OZd2VbuHQ2FLyqtPvSuIHWZ3kFZLv5lSXnQn4bPE/dGTXvR8g==\n-----END PUBLIC KEY-----\n")
	g.Write("sluice.yaml", g.Read("sluice.yaml")+"  charts:\n    signers: [{name: us, cosign: {key: keys/cosign.pub}}]\n")
	release("1.0.0", ", verify: [us]")
	two := export(last)
	is("the second", two, "chart-"+first+".signatures.json")
	g.mustImport(g.site, two.File)

	// The registry is down: the next bundle brings what this one lacks.
	second := release("1.1.0", "")
	charts.down = true
	three := export(last)
	is("the third", three)
	if len(three.Warnings) != 1 || !strings.Contains(three.Warnings[0], "the registry is down") {
		t.Errorf("the warnings are %q", three.Warnings)
	}
	g.mustImport(g.site, three.File)
	charts.down = false
	g.Write("README.md", "x")
	g.Commit("another commit of the trunk")
	four := export(last)
	is("the fourth", four, "chart-"+second+".tgz")
	g.mustImport(g.site, four.File)
	before := charts.asked
	g.Write("README.md", "y")
	g.Commit("one more")
	is("the fifth", export(last))
	if charts.asked != before {
		t.Errorf("the registry is asked %d times for what the site has", charts.asked-before)
	}
}

func fileDigest(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return digits(data)
}

// judge is a policy that says one thing.
type judge struct {
	state rollout.State
	why   string
}

func (j *judge) Judge(context.Context, promote.Part) (rollout.State, string) { return j.state, j.why }

// FuzzOutside holds that charts and commits of what bundle.json says have their digests.
func FuzzOutside(f *testing.F) {
	object := "tree " + strings.Repeat("a", 40) + "\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n"
	refs := `"refs": [{"role": "environment", "branch": "env/gov", "to": "` + strings.Repeat("a", 40) + `"}, {"role": "trunk", "branch": "main", "to": "` + strings.Repeat("b", 40) + `"}]`
	f.Add([]byte(`{`+refs+`, "charts": [{"chart": "x", "version": "1", "sha256": "`+digits([]byte("chart"))+`"}]}`), "chart-"+digits([]byte("chart"))+".tgz", []byte("chart"))
	f.Add([]byte(`{`+refs+`, "charts": [{"chart": "x", "version": "1", "sha256": "`+digits([]byte("chart"))+`"}]}`), "chart-"+digits([]byte("chart"))+".signatures.json", []byte("{}"))
	f.Add([]byte(`{`+refs+`, "commits": [{"url": "https://x", "commit": "`+gitstore.Sum("commit", []byte(object)).String()+`", "object": "`+
		base64.StdEncoding.EncodeToString([]byte(object))+`"}]}`), "images.txt", []byte("x"))
	f.Fuzz(func(t *testing.T, data []byte, name string, chart []byte) {
		parts := []envelope.Content{envelope.Text("bundle.json", data), envelope.Text(name, chart)}
		manifest, err := envelope.Seal(envelope.Manifest{Kind: envelope.Bundle, Fleet: "a", Environment: "b", Sequence: 1}, parts)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := envelope.Write(&out, manifest, parts, plain{}); err != nil {
			t.Fatal(err)
		}
		e, err := envelope.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		c, err := bundle.ReadContents(e)
		if err != nil {
			return
		}
		if strings.HasSuffix(name, ".tgz") && name != "chart-"+digits(chart)+".tgz" {
			t.Errorf("%s with other bytes is accepted", name)
		}
		for _, k := range c.Commits {
			if gitstore.Sum("commit", k.Object).String() != k.Commit {
				t.Errorf("%+v is accepted", k)
			}
		}
	})
}
