package bundle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/site/index"
)

// gap is a home with the environment dev, and a site that shares nothing with it.
type gap struct {
	*hydratetest.Repo
	site string // a bare repository
	key  envelope.Signer
}

func newGap(t *testing.T) *gap {
	t.Helper()
	g := &gap{Repo: hydratetest.Demo(t)}
	key, _ := hydratetest.NewKey(t)
	g.key = envelope.SSH(key.(envelope.SSHKey)) //nolint:forcetypeassert // it is an SSH key
	g.hydrate()
	g.site = g.newSite()
	return g
}

func (g *gap) newSite() string {
	g.T.Helper()
	dir := g.T.TempDir()
	g.Git("init", "-q", "--bare", "-b", "main", dir)
	return dir
}

func (g *gap) hydrate() {
	g.T.Helper()
	if got := g.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} }); !got.OK() {
		g.T.Fatalf("%+v", got)
	}
}

// release changes an app at home.
func (g *gap) release(text string) {
	g.T.Helper()
	g.Write("apps/shop/layers/global/values.yaml", "config:\n  motd: \""+text+"\"\n")
	g.Commit(text)
	g.hydrate()
}

func (g *gap) request(change func(*bundle.ExportRequest)) bundle.ExportRequest {
	g.T.Helper()
	r := bundle.ExportRequest{
		Trunk: g.Resolve("main"), Environment: "dev", Since: "last", Signers: []envelope.Signer{g.key}, Images: index.Images,
		Output: g.T.TempDir(), Now: time.Now(),
	}
	if change != nil {
		change(&r)
	}
	return r
}

func (g *gap) export(change func(*bundle.ExportRequest)) *bundle.Exported {
	g.T.Helper()
	out, err := bundle.Export(g.T.Context(), g.Hydrator(1), g.request(change))
	if err != nil {
		g.T.Fatal(err)
	}
	return out
}

func full(r *bundle.ExportRequest) { r.Full, r.Since = true, "" }

func withSource(r *bundle.ExportRequest) { full(r); r.Source = true }

func (g *gap) open(file string) *envelope.Envelope {
	g.T.Helper()
	f, err := os.Open(file)
	if err != nil {
		g.T.Fatal(err)
	}
	g.T.Cleanup(func() { _ = f.Close() })
	info, err := f.Stat()
	if err != nil {
		g.T.Fatal(err)
	}
	e, err := envelope.Open(f, info.Size())
	if err != nil {
		g.T.Fatal(err)
	}
	return e
}

// imports imports an envelope at a site.
func (g *gap) imports(dir string, e *envelope.Envelope) (incoming.Import, error) {
	g.T.Helper()
	store, err := gitstore.Open(g.T.Context(), gitstore.Options{Dir: dir})
	if err != nil {
		g.T.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	s := bundle.Site{Store: store, Branches: store.Local(), Version: "test", Now: time.Now()}
	o, err := bundle.Open(g.T.Context(), s, e)
	if err != nil {
		return incoming.Import{}, err
	}
	defer o.Close()
	return bundle.Import(g.T.Context(), s, o)
}

func (g *gap) mustImport(dir, file string) incoming.Import {
	g.T.Helper()
	got, err := g.imports(dir, g.open(file))
	if err != nil {
		g.T.Fatal(err)
	}
	return got
}

func (g *gap) refuses(what, dir, file, want string) {
	g.T.Helper()
	before := g.Git("--git-dir", dir, "for-each-ref")
	_, err := g.imports(dir, g.open(file))
	if err == nil || !strings.Contains(err.Error(), want) {
		g.T.Errorf("%s: the error is %v; want %q", what, err, want)
	}
	if after := g.Git("--git-dir", dir, "for-each-ref"); after != before {
		g.T.Errorf("%s: branches moved from\n%s\nto\n%s", what, before, after)
	}
}

// resealed writes a bundle with other parts, as a signer could.
func (g *gap) resealed(file string, change func(m *envelope.Manifest, parts map[string][]byte)) string {
	g.T.Helper()
	e := g.open(file)
	m, parts := e.Manifest, map[string][]byte{}
	for _, p := range e.Parts {
		data, err := e.Read(p.Name, 1<<30)
		if err != nil {
			g.T.Fatal(err)
		}
		parts[p.Name] = data
	}
	change(&m, parts)
	var list []envelope.Content
	for _, p := range e.Parts {
		if p.Name == "objects.pack" { // what is new comes before it
			for name, data := range parts {
				if !e.Has(name) {
					list = append(list, envelope.Text(name, data))
				}
			}
		}
		if data, ok := parts[p.Name]; ok {
			list = append(list, envelope.Text(p.Name, data))
		}
	}
	manifest, err := envelope.Seal(m, list)
	if err != nil {
		g.T.Fatal(err)
	}
	var out bytes.Buffer
	if err := envelope.Write(&out, manifest, list, g.key); err != nil {
		g.T.Fatal(err)
	}
	name := filepath.Join(g.T.TempDir(), "resealed.sluice")
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		g.T.Fatal(err)
	}
	return name
}

// says changes bundle.json.
func says(change func(c *bundle.Contents)) func(*envelope.Manifest, map[string][]byte) {
	return func(_ *envelope.Manifest, parts map[string][]byte) {
		var c bundle.Contents
		if err := json.Unmarshal(parts["bundle.json"], &c); err != nil {
			panic(err)
		}
		change(&c)
		data, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			panic(err)
		}
		parts["bundle.json"] = data
	}
}

func TestABundleCrossesTheGap(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	first := g.export(withSource)
	got := g.mustImport(g.site, first.File)
	if got.Sequence != 1 || got.Digest != first.Digest || got.Home.String() != g.Git("rev-parse", "env/dev") {
		t.Errorf("the import is %+v", got)
	}
	g.Git("--git-dir", g.site, "fsck", "--strict", "--connectivity-only")
	if main := g.Git("--git-dir", g.site, "rev-parse", "main"); main != g.Git("rev-parse", "main") {
		t.Errorf("main is at %s", main)
	}
	if refs := g.Git("--git-dir", g.site, "for-each-ref", "--format=%(refname)"); strings.Contains(refs, "env/") || strings.Contains(refs, "cluster/") {
		t.Errorf("an import moved %s", refs)
	}
	if !strings.Contains(strings.Join(first.Images, " "), "registry.example.com") {
		t.Errorf("the images are %q", first.Images)
	}
	e := g.open(first.File)
	for part, want := range map[string]string{"sbom.cdx.json": `"bomFormat": "CycloneDX"`, "images.txt": first.Images[0]} {
		if data, err := e.Read(part, 1<<20); err != nil || !bytes.Contains(data, []byte(want)) {
			t.Errorf("%s is %q, %v", part, data, err)
		}
	}
	g.release("second")
	second := g.export(nil)
	if second.Size*2 > first.Size {
		t.Errorf("the second bundle has %d bytes, and the first %d", second.Size, first.Size)
	}
	g.mustImport(g.site, second.File)
	if a, b := g.Git("--git-dir", g.site, "rev-parse", "sluice/incoming/dev^{tree}"), g.Git("rev-parse", "env/dev^{tree}"); a != b {
		t.Errorf("the site has %s, and home %s", a, b)
	}
	again := g.export(func(r *bundle.ExportRequest) { r.Since, r.Again = "", 2 })
	a, err := os.ReadFile(again.File)
	b, err2 := os.ReadFile(second.File)
	if err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Errorf("--again writes other bytes: %v %v", err, err2)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many imports: run make test-e2e")
	}
	g := newGap(t)
	one := g.export(full)
	g.release("second")
	two := g.export(nil)
	g.release("third")
	three := g.export(nil)
	sinceOne := g.export(func(r *bundle.ExportRequest) { r.Since = "1" })
	g.refuses("no first", g.site, two.File, "it builds on bundle 1, and this site has none")
	g.mustImport(g.site, one.File)
	g.refuses("a gap", g.site, three.File, "it builds on bundle 2, and this site has 1")
	g.mustImport(g.site, sinceOne.File)
	g.refuses("an older one", g.site, two.File, "it has the number 2, and this site has 4 already")
	_, err := g.imports(g.site, g.open(sinceOne.File))
	if known, ok := errors.AsType[*bundle.KnownError](err); !ok || !known.Newest || !errors.Is(err, bundle.ErrOrder) {
		t.Errorf("once more: %v", err)
	}

	// The site is restored from a backup that has bundle 1, and gets all since.
	restored := g.newSite()
	g.mustImport(restored, one.File)
	g.release("fourth")
	g.mustImport(restored, g.export(func(r *bundle.ExportRequest) { r.Since = one.Digest }).File)

	// Home is restored from a backup: it issues a number again.
	g.Git("update-ref", "refs/heads/sluice/bundles", "sluice/bundles~1")
	g.release("fifth")
	g.refuses("the same number", restored, g.export(func(r *bundle.ExportRequest) { r.Since = one.Digest }).File, "another bundle 5")
	g.mustImport(restored, g.export(full).File) // the next number, which builds on nothing
}

func TestHistoryOnlyGoesForward(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many imports: run make test-e2e")
	}
	g := newGap(t)
	g.mustImport(g.site, g.export(withSource).File)
	old, oldMain := g.Git("rev-parse", "env/dev"), g.Git("rev-parse", "main")
	g.release("second")
	g.mustImport(g.site, g.export(withSource).File)

	// A state from before, in a new commit that does not say that it is a rollback.
	message := g.Git("log", "-1", "--format=%B", old)
	tip := g.Git("rev-parse", "env/dev")
	g.Git("update-ref", "refs/heads/env/dev", g.Git("commit-tree", old+"^{tree}", "-p", tip, "-m", message))
	back := g.export(nil)
	if back.Contents.Rollback == "" {
		t.Error("the bundle does not say that it goes back")
	}
	silent := g.resealed(back.File, says(func(c *bundle.Contents) { c.Rollback = "" }))
	g.refuses("a silent rollback", g.site, silent, "does not say that it is a rollback")
	g.mustImport(g.site, back.File)

	// Home's branch, and its trunk, lose commits.
	g.Git("update-ref", "refs/heads/env/dev", tip)
	g.refuses("a rewritten branch", g.site, g.export(full).File, "does not contain commit")
	if _, err := bundle.Export(t.Context(), g.Hydrator(1), g.request(func(r *bundle.ExportRequest) { r.Since = "3" })); err == nil ||
		!strings.Contains(err.Error(), "somebody rewrote it") {
		t.Errorf("the error is %v", err)
	}
	own := g.newSite()
	g.mustImport(own, g.export(withSource).File)
	g.Git("--git-dir", own, "update-ref", "refs/heads/main",
		g.Git("--git-dir", own, "-c", "user.name=x", "-c", "user.email=x@y", "commit-tree", oldMain+"^{tree}", "-p", "main", "-m", "own"))
	g.release("third")
	g.refuses("a trunk with commits of its own", own, g.export(func(r *bundle.ExportRequest) { withSource(r) }).File,
		"has commits that home does not have")
}

// TestASignerCannotDoMore holds what is refused although enough signers signed it.
func TestASignerCannotDoMore(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("many imports: run make test-e2e")
	}
	g := newGap(t)
	good := g.export(withSource).File
	var other bytes.Buffer
	store := g.Hydrator(1).Store
	if _, err := store.WriteThin(t.Context(), &other, gitstore.Range{To: g.Resolve("main").Hash}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		change     func(*envelope.Manifest, map[string][]byte)
	}{
		{"no objects", "it has no part objects.pack", func(_ *envelope.Manifest, p map[string][]byte) { delete(p, "objects.pack") }},
		{"no content", "it has no part bundle.json", func(_ *envelope.Manifest, p map[string][]byte) { delete(p, "bundle.json") }},
		{"a receipt", "not a bundle", func(m *envelope.Manifest, _ map[string][]byte) { m.Kind = envelope.Receipt }},
		{"objects of the trunk alone", "one is missing", func(_ *envelope.Manifest, p map[string][]byte) { p["objects.pack"] = other.Bytes() }},
		{"a cut packfile", "cannot be read", func(_ *envelope.Manifest, p map[string][]byte) { p["objects.pack"] = p["objects.pack"][:200] }},
		{"more objects than the branches need", "are not reachable", says(func(c *bundle.Contents) { c.Refs = c.Refs[:1] })},
		{"no environment branch", "lists no environment branch", says(func(c *bundle.Contents) { c.Refs = c.Refs[1:] })},
		{"a ref twice", "twice", says(func(c *bundle.Contents) { c.Refs = append(c.Refs, c.Refs[1]) })},
		{"a ref of another kind", "that no bundle has", says(func(c *bundle.Contents) { c.Refs[1].Role = "state" })},
		{"the branch of records as the trunk", "cannot be the first trunk", says(func(c *bundle.Contents) { c.Refs[1].Branch = "sluice/state" })},
		{"a branch of a cluster as the trunk", "cannot be the first trunk", says(func(c *bundle.Contents) { c.Refs[1].Branch = "cluster/dev-1" })},
		{"a trunk that is no branch", "cannot be the first trunk", says(func(c *bundle.Contents) { c.Refs[1].Branch = "../x" })},
		{"the trunk as the environment", "are not reachable", says(func(c *bundle.Contents) { c.Refs[0].To = c.Refs[1].To; c.Refs = c.Refs[:1] })},
		{"no commit", "does not name a commit", says(func(c *bundle.Contents) { c.Refs[0].To = "main" })},
		{"another source commit", "the bundle says that it brings", says(func(c *bundle.Contents) { c.Source = strings.Repeat("1", 40) })},
		{"a full bundle on a base", "a full bundle builds on", says(func(c *bundle.Contents) { c.Refs[0].From = c.Refs[0].To })},
		{"another environment", "", func(m *envelope.Manifest, _ map[string][]byte) { m.Environment = "prod" }},
		{"an unknown field", "unknown field", func(_ *envelope.Manifest, p map[string][]byte) {
			p["bundle.json"] = bytes.Replace(p["bundle.json"], []byte("{"), []byte(`{"run": "x",`), 1)
		}},
	} {
		g.refuses(c.name, g.newSite(), g.resealed(good, c.change), c.want)
	}
	smuggled := g.resealed(good, func(_ *envelope.Manifest, p map[string][]byte) { p["objects.pack"] = append(p["objects.pack"], 0) })
	g.refuses("bytes after the packfile", g.newSite(), smuggled, "follow the end of the packfile")
	g.mustImport(g.newSite(), good) // what the attacks begin with
}

// TestTwoHomes exports from two processes at the same time.
func TestTwoHomes(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	g.export(full)
	const most = 4
	got := make([]*bundle.Exported, most)
	var all sync.WaitGroup
	for i := range most {
		r := g.request(full)
		h := g.Hydrator(1)
		all.Go(func() {
			out, err := bundle.Export(t.Context(), h, r)
			if err != nil && !errors.Is(err, gitstore.ErrConflict) {
				t.Error(err)
			}
			got[i] = out
		})
	}
	all.Wait()
	seen := map[int64]bool{}
	for _, one := range got {
		if one == nil {
			continue
		}
		if n := one.Manifest.Sequence; seen[n] {
			t.Errorf("number %d was issued twice", n)
		} else {
			seen[n] = true
		}
	}
	if len(seen) == 0 {
		t.Error("nobody exported")
	}
}

// TestSignedImports holds that a site with spec.signers neither makes an import that they do not allow nor builds on
// one.
func TestSignedImports(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	signer, line := hydratetest.NewKey(t)
	file := g.export(full).File
	g.SetSigners(line)
	g.Commit("signers")
	f, _, err := g.Hydrator(1).Fleet(t.Context(), g.Resolve("main").Tree)
	if err != nil {
		t.Fatal(err)
	}
	store, err := gitstore.Open(t.Context(), gitstore.Options{Dir: g.site})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	s := bundle.Site{Store: store, Branches: store.Local(), Allowed: f.Signers(), Now: time.Now(), Committer: branch.Committer{}}
	once := func() error {
		o, err := bundle.Open(t.Context(), s, g.open(file))
		if err != nil {
			return err
		}
		defer o.Close()
		_, err = bundle.Import(t.Context(), s, o)
		return err
	}
	if err := once(); err == nil || !strings.Contains(err.Error(), "--sign-key") {
		t.Errorf("unsigned: %v", err)
	}
	s.Signer = signer
	if err := once(); err != nil {
		t.Fatal(err)
	}
	g.Git("--git-dir", g.site, "update-ref", "refs/heads/sluice/incoming/dev",
		g.Git("--git-dir", g.site, "-c", "user.name=x", "-c", "user.email=x@y", "commit-tree", "sluice/incoming/dev^{tree}", "-p", "sluice/incoming/dev", "-m", "mine"))
	if err := once(); !errors.Is(err, gitstore.ErrUnverified) {
		t.Errorf("on top of another's commit: %v", err)
	}
}

// FuzzContents holds that what a bundle says is bounded and checked.
func FuzzContents(f *testing.F) {
	f.Add([]byte(`{"refs": [{"role": "environment", "branch": "env/gov", "to": "` + strings.Repeat("a", 40) + `"}], "source": "x", "clusters": 1, "manifests": 1, "objects": 1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		parts := []envelope.Content{envelope.Text("bundle.json", data)}
		manifest, err := envelope.Seal(envelope.Manifest{Kind: envelope.Bundle, Fleet: "a", Environment: "b", Sequence: 1}, parts)
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
		c, err := bundle.ReadContents(e)
		if err != nil {
			return
		}
		for _, r := range c.Refs {
			if len(r.To) != 40 || r.Role != "environment" && r.Role != "trunk" {
				t.Errorf("%+v is accepted", r)
			}
		}
	})
}

// plain signs nothing.
type plain struct{}

func (plain) Sign([]byte) (string, error) { return "x", nil }

// TestExportWhereSomebodyPushed holds that a push below sluice/incoming/ stops no export at home.
func TestExportWhereSomebodyPushed(t *testing.T) {
	t.Parallel()
	g := newGap(t)
	g.Git("branch", "sluice/incoming/dev", "main")
	g.Git("branch", "sluice/incoming/any", "main")
	g.export(full)
}
