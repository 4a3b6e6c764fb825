package artifacts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sluice-gitops/sluice/hydrate/artifacts"
)

func endToEnd(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
}

func noSleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// The artifact of a cluster has the files of its branch, in the form that Flux writes and reads.
func TestArtifactIsTheBranch(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.publish(artifacts.Options{})
	p.want(r, "artifacts: 2 pushed")
	commit := p.tip("cluster/dev-1")
	if a := r.Artifacts[0]; a.Cluster != "dev-1" || a.Commit != commit || a.Digest != p.digest("latest") ||
		a.Digest != p.digest(commit) || !r.OK() {
		t.Errorf("the artifact is %+v", a)
	}
	registry, err := p.fetcher().Registry(r.Artifacts[0].Repository)
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := registry.Manifest(t.Context(), "latest")
	if err != nil {
		t.Fatal(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if m.Config.MediaType != "application/vnd.cncf.flux.config.v1+json" || len(m.Layers) != 1 ||
		m.Layers[0].MediaType != "application/vnd.cncf.flux.content.v1.tar+gzip" {
		t.Errorf("the manifest is %s", data)
	}
	for key, want := range map[string]string{
		"org.opencontainers.image.revision": "cluster/dev-1@sha1:" + commit,
		"org.opencontainers.image.created":  "2024-01-02T02:04:05Z",
		"org.opencontainers.image.source":   "file://" + p.Bare.Dir,
		"sluice.dev/source":                 p.Bare.Git("rev-parse", "main"),
	} {
		if m.Annotations[key] != want {
			t.Errorf("the annotation %s is %q, want %q", key, m.Annotations[key], want)
		}
	}
	layer, err := registry.Blob(t.Context(), m.Layers[0], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, layer)
	want := strings.Split(p.Bare.Git("ls-tree", "-r", "--name-only", commit), "\n")
	if len(files) != len(want) || len(want) < 3 {
		t.Errorf("the artifact has %d files, the branch %d", len(files), len(want))
	}
	for _, name := range want {
		if text := p.Bare.Git("show", commit+":"+name); strings.TrimSpace(files[name]) != text {
			t.Errorf("%s is\n%s\nwant\n%s", name, files[name], text)
		}
	}
}

func untar(t *testing.T, layer []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uid+h.Gid != 0 || h.Uname+h.Gname != "" {
			t.Errorf("%s has the time %s and the owner %d %s", h.Name, h.ModTime, h.Uid, h.Uname)
		}
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			out[h.Name] = string(data)
		}
	}
}

// A run asks the registry once if nothing moved, and pushes to what moved only. Equal branches give equal bytes.
func TestCostFollowsTheChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.publish(artifacts.Options{})
	first := p.digest("latest")
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "")
	if got := p.server.requests(); len(got) != 1 {
		t.Errorf("a run without a change asks %q", got)
	}
	p.want(p.publish(artifacts.Options{Rebuild: true}), "artifacts: 2 present")
	for _, r := range p.server.requests() {
		if strings.HasPrefix(r, "PUT") || strings.HasPrefix(r, "POST") {
			t.Errorf("a run that makes the same again sends %s", r)
		}
	}
	p.Next("X")
	p.hydrate()
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "artifacts: 1 pushed")
	if now := p.digest("latest"); now == first || now != p.digest(p.tip("cluster/dev-1")) {
		t.Errorf("latest is %s, before %s", now, first)
	}
}

// Without the list, or with one that lies or is none, a run asks what each repository has.
func TestLostList(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	p.publish(artifacts.Options{})
	lists := "/manifests/" + artifacts.ListTag
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"lost": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut || !strings.HasSuffix(r.URL.Path, lists) {
				return false
			}
			http.NotFound(w, r)
			return true
		},
		"denied": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut || !strings.HasSuffix(r.URL.Path, lists) {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		},
		"nonsense": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut || !strings.HasSuffix(r.URL.Path, lists) {
				return false
			}
			const text = `{"layers": [{"mediaType": "application/vnd.sluice.published.v1+text", "size": -1}, 7]}`
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", "sha256:83a1f4ea3ba8bfee3aed2e2f2a5f1cd5b5be2d29af1cba4db0e5bba0b0a5d1f5")
			w.Header().Set("Content-Length", "83")
			_, _ = w.Write([]byte(text[:83]))
			return true
		},
	} {
		p.server.answer(answer)
		if r := p.publish(artifacts.Options{}); r.Summary() != "artifacts: 2 present" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A tag that does not lead to what the branch has is moved by the next run that looks at it.
func TestMovedTags(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	p.publish(artifacts.Options{})
	old := p.tip("cluster/dev-1")
	p.Next("X")
	p.hydrate()
	p.publish(artifacts.Options{})
	registry, err := p.fetcher().Registry(p.config().Fleet.Artifact(p.cluster()))
	if err != nil {
		t.Fatal(err)
	}
	d, data, err := registry.Manifest(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Tag(t.Context(), d, data, "latest"); err != nil {
		t.Fatal(err)
	}
	p.want(p.publish(artifacts.Options{}), "") // the list says that all is published
	p.want(p.publish(artifacts.Options{Rebuild: true}), "artifacts: 1 pushed, 1 present")
	if p.digest("latest") != p.digest(p.tip("cluster/dev-1")) {
		t.Error("latest still leads to the older commit")
	}
	// another tag in sluice.yaml is written for clusters whose branches do not move
	p.setOCI("{repository: \"oci://" + p.server.host() + "/gitops\", tag: stable}")
	p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")
	if p.digest("stable") != p.digest(p.tip("cluster/dev-1")) {
		t.Error("the new tag leads elsewhere")
	}
}

// While a registry does not work, branches move all the same. The next run with one that works makes it good.
func TestRegistryDown(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	refuse := func(when func(*http.Request) bool, do http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !when(r) {
				return false
			}
			do(w, r)
			return true
		}
	}
	all := func(*http.Request) bool { return true }
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	puts := func(part string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == http.MethodPut && strings.Contains(r.URL.Path, part) }
	}
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		want   string
	}{
		{"uploads elsewhere", refuse(func(r *http.Request) bool { return r.Method == http.MethodPost }, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://localhost:1/upload")
			w.WriteHeader(http.StatusAccepted)
		}), "malformed"},
		{"busy", refuse(all, status(503)), "503 Service Unavailable, also after retries: try later; the next run pushes what is missing"},
		{"denied", refuse(puts("/manifests/"), status(403)), "403 Forbidden: give credentials for"},
		{"hangs up", refuse(all, func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.Close()
			}
		}), "the connection broke off"},
		{"a login page", refuse(all, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>log in</html>")
		}), "malformed"},
		{"elsewhere", refuse(all, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://registry.invalid"+r.URL.Path, http.StatusTemporaryRedirect)
		}), "http://registry.invalid is not encrypted"},
		{"in circles", refuse(all, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
		}), "more than 5 redirects"},
		{"refused", refuse(puts("/manifests/"), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"errors": [{"code": "TAG_IMMUTABLE", "message": "\u001b[31mno"}, {"code": "<script>"}]}`)
		}), "the registry refuses it: 400 Bad Request (TAG_IMMUTABLE)"},
	} {
		p.server.answer(c.answer)
		r := p.publish(artifacts.Options{})
		text := r.Unfinished
		for _, a := range r.Artifacts {
			text += a.Reason
		}
		if r.OK() || !strings.Contains(text, c.want) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: the result is %+v, want %s", c.name, r, c.want)
		}
		if c.name != "refused" && c.name != "denied" && p.digest("latest") != "" {
			t.Errorf("%s: there is an artifact", c.name)
		}
	}
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")

	// the list is the last thing that is written: without it, nothing is pushed again
	p.Next("X")
	p.hydrate()
	p.server.answer(refuse(puts("/manifests/"+artifacts.ListTag), status(500)))
	if r := p.publish(artifacts.Options{}); r.OK() || !strings.Contains(r.Unfinished, "the list of published commits") {
		t.Errorf("without a list: %+v", r)
	}
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "artifacts: 1 present")
}

// The moving tag is written last: a run that breaks off leaves it where it was.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	p.publish(artifacts.Options{})
	first := p.digest("latest")
	p.Next("X")
	p.hydrate()
	commit := p.tip("cluster/dev-1")
	for _, stop := range []string{"POST /v2/gitops/harbour/dev-1/blobs/", "PUT /v2/gitops/harbour/dev-1/manifests/" + commit, "PUT /v2/gitops/harbour/dev-1/manifests/latest"} {
		ctx, cancel := context.WithCancel(t.Context())
		p.server.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.Method+" "+r.URL.Path, stop) {
				_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
				cancel()
				<-r.Context().Done()
				return true
			}
			return false
		})
		if _, err := artifacts.Publish(ctx, p.config(), artifacts.Options{}); err == nil {
			t.Errorf("%s: an interrupted run has no error", stop)
		}
		cancel()
		p.server.answer(nil)
		if p.digest("latest") != first {
			t.Errorf("%s: latest moved", stop)
		}
	}
	p.want(p.publish(artifacts.Options{}), "artifacts: 1 pushed")
}

// A run that ends after it moved a tag to what the branch had, when another one has published what it has since, does not
// leave a list that hides it.
func TestInterruptedBesideAnother(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	for _, after := range []bool{false, true} { // the tag moved: before the interruption
		p := newPlace(t)
		p.publish(artifacts.Options{})
		p.Next("X")
		p.hydrate()
		ctx, cancel := context.WithCancel(t.Context())
		second := p.config() // the other replica
		var begun atomic.Bool
		p.server.answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "dev-1/manifests/latest") || !begun.CompareAndSwap(false, true) {
				return false
			}
			body, _ := io.ReadAll(r.Body)
			p.Next("Y")
			p.hydrate()
			if r, err := artifacts.Publish(t.Context(), second, artifacts.Options{}); err != nil || !r.OK() {
				t.Errorf("the other run: %+v %v", r, err)
			}
			late := r.Clone(context.WithoutCancel(t.Context()))
			late.Body = io.NopCloser(bytes.NewReader(body))
			if after {
				cancel()
			}
			p.server.real.ServeHTTP(w, late)
			cancel()
			return true
		})
		if _, err := artifacts.Publish(ctx, p.config(), artifacts.Options{}); err == nil {
			t.Error("an interrupted run has no error")
		}
		cancel()
		p.server.answer(nil)
		commit := p.tip("cluster/dev-1")
		if p.digest("latest") == p.digest(commit) {
			t.Fatal("the first run did not move the tag last")
		}
		p.want(p.publish(artifacts.Options{}), "artifacts: 1 pushed")
		if p.digest("latest") != p.digest(commit) {
			t.Error("latest is not what the branch has")
		}
	}
}

// A branch that moves while its artifact is pushed is published again, by the same run. Several runs at once end with
// what the branches have.
func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	p.Next("X")
	var begun atomic.Bool
	second := p.config() // the other replica
	p.server.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "dev-1/manifests/latest") {
			if begun.CompareAndSwap(false, true) {
				p.hydrate()
				if r, err := artifacts.Publish(t.Context(), second, artifacts.Options{}); err != nil || !r.OK() {
					t.Errorf("the other run: %+v %v", r, err)
				}
			}
		}
		return false
	})
	r := p.publish(artifacts.Options{})
	p.want(r, "artifacts: 2 pushed")
	if commit := p.tip("cluster/dev-1"); p.digest("latest") != p.digest(commit) || r.Artifacts[0].Commit != commit {
		t.Errorf("latest is not %s: %+v", commit, r)
	}
	var runs sync.WaitGroup
	p.Next("Y")
	p.hydrate()
	for range 4 {
		c := p.config()
		runs.Go(func() {
			if r, err := artifacts.Publish(t.Context(), c, artifacts.Options{}); err != nil || !r.OK() {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
	runs.Wait()
	if p.digest("latest") != p.digest(p.tip("cluster/dev-1")) {
		t.Error("latest leads elsewhere")
	}
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "")
}

// What Sluice did not write is not published, and stops nothing else.
func TestHeld(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	p.publish(artifacts.Options{})
	first, commit := p.digest("latest"), p.tip("cluster/dev-1")
	foreign := p.Bare.Git("commit-tree", "-p", commit, "-m", "mine", p.Bare.Git("rev-parse", commit+"^{tree}"))
	p.Bare.Git("update-ref", "refs/heads/cluster/dev-1", foreign)
	r := p.publish(artifacts.Options{})
	p.want(r, "artifacts: 1 held")
	if a := r.Artifacts[0]; !strings.Contains(a.Reason, "was not made by Sluice") || p.digest("latest") != first || p.digest(foreign) != "" {
		t.Errorf("the artifact is %+v", a)
	}
	// a cluster branch that is ahead of its environment's: a push that broke off
	p.Bare.Git("update-ref", "refs/heads/cluster/dev-1", commit)
	environment := p.tip("env/dev")
	p.Next("X")
	p.hydrate()
	next := p.tip("env/dev")
	p.Bare.Git("update-ref", "refs/heads/env/dev", environment)
	r = p.publish(artifacts.Options{})
	p.want(r, "artifacts: 1 held")
	if a := r.Artifacts[0]; !strings.Contains(a.Reason, "cluster/dev-1 has not what env/dev records") || p.digest("latest") != first {
		t.Errorf("the artifact is %+v", a)
	}
	p.Bare.Git("update-ref", "refs/heads/env/dev", next)
	p.want(p.publish(artifacts.Options{}), "artifacts: 1 pushed")
}

// Artifacts have a second tag that moves with them: by the environment, and by the wave where there is one.
func TestWaveTags(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	p := newPlace(t)
	p.publish(artifacts.Options{})
	repository := "{repository: \"oci://" + p.server.host() + "/gitops\", waveTags: true}"
	p.setOCI(repository)
	if p.digest("dev") != "" {
		t.Error("there is a second tag that nobody asked for")
	}
	p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")
	first := p.digest("latest")
	if first == "" || p.digest("dev") != first {
		t.Errorf("latest leads to %s, dev to %s", first, p.digest("dev"))
	}
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "")
	if n := len(p.server.requests()); n != 1 {
		t.Errorf("an unchanged fleet costs %d requests", n)
	}
	p.Next("X")
	p.hydrate()
	p.server.answer(func(w http.ResponseWriter, r *http.Request) bool { // breaks off between the two tags
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/latest") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	if r := p.publish(artifacts.Options{}); r.OK() || p.digest("latest") != first {
		t.Errorf("broken off: %+v", r)
	}
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "artifacts: 1 pushed")
	if now := p.digest("latest"); now == first || p.digest("dev") != now {
		t.Errorf("latest leads to %s, dev to %s", now, p.digest("dev"))
	}
	// An environment that has waves.
	p.Write("sluice.yaml", strings.Replace(p.Read("sluice.yaml"), "    - name: dev\n",
		"    - name: dev\n      promotion: {waves: [{name: canary, clusters: {matchLabels: {cluster: dev-1}}}, {name: rest}]}\n", 1))
	p.Commit("waves")
	p.Git("push", "-q", "origin", "main")
	p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")
	p.server.answer(nil)
	p.want(p.publish(artifacts.Options{}), "")
	if n := len(p.server.requests()); n != 1 {
		t.Errorf("an unchanged fleet with waves costs %d requests", n)
	}
	if p.digest("dev-canary") != p.digest("latest") || p.digest("dev-rest") != "" {
		t.Error("the artifact of dev-1 is not tagged by its wave")
	}
}
