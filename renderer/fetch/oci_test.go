package fetch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v3/pkg/registry"
)

// ociServer is a real registry in process; before can answer first.
type ociServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
	headers  []http.Header
	before   func(http.ResponseWriter, *http.Request) bool
}

func newOCI(tb testing.TB) *ociServer {
	tb.Helper()
	s := &ociServer{}
	handler := ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.headers = append(s.headers, r.Header.Clone())
		before := s.before
		s.mu.Unlock()
		if before == nil || !before(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	tb.Cleanup(s.Close)
	return s
}

func (s *ociServer) set(before func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.requests, s.headers = before, nil, nil
}

func (s *ociServer) asked(part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.Contains(r, part) {
			n++
		}
	}
	return n
}

func (s *ociServer) chart() string { return "oci://" + hostOf(s.Server) + "/charts/web" }

// push publishes with Helm's own client, under a tag of its own choice where tag is given.
func (s *ociServer) push(tb testing.TB, version, note string) []byte {
	tb.Helper()
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
	if err != nil {
		tb.Fatal(err)
	}
	data := packChart(tb, "web", version, note)
	if _, err := client.Push(data, hostOf(s.Server)+"/charts/web:"+version); err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestOCIResolve(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	archives := map[string][]byte{}
	for _, v := range []string{"1.0.0", "1.2.3", "1.10.0", "2.0.0-rc.1", "1.2.4+build.1", "v1.11.0"} {
		archives[v] = s.push(t, v, "")
	}
	for _, tag := range []string{"latest", "1", "1.99"} { // floating tags are no versions
		retag(t, s, "1.0.0", tag)
	}
	for want, version := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3": "1.2.3", "*": "1.10.0", "^1.0.0": "1.10.0", "~1.2.0": "1.2.4+build.1",
		"1.2.4+build.1": "1.2.4+build.1",
		"2.0.0-rc.1":    "2.0.0-rc.1", "^2.0.0-0": "2.0.0-rc.1", "1.11.0": "v1.11.0", "v1.11.0": "v1.11.0",
		"^1.11": "v1.11.0", "1.2.4": "1.2.4+build.1",
	} {
		f := newFetcher(t)
		for _, ref := range []Ref{{"", s.chart(), want}, {strings.TrimSuffix(s.chart(), "/web"), "web", want}} {
			locked, err := f.Resolve(t.Context(), ref)
			if err != nil || locked != (Locked{version, digestOf(archives[version])}) {
				t.Errorf("want %s: the locked is %v, the error is %v; want %s", want, locked, err, version)
				continue
			}
			if data, err := f.Archive(t.Context(), ref, locked); err != nil || !bytes.Equal(data, archives[version]) {
				t.Errorf("want %s: the error is %v", want, err)
			}
		}
	}
	s.set(nil)
	if _, err := newFetcher(t).Resolve(t.Context(), Ref{"", s.chart(), "1.2.3"}); err != nil ||
		s.asked("tags/list") > 0 {
		t.Errorf("an exact version needs no list of tags: %v", err)
	}
	for _, c := range []struct{ chart, version, text string }{
		{s.chart(), "^7", "the newest is v1.11.0"},
		{s.chart(), "^2.0.0", "write ^2.0.0-0"},
		{s.chart() + "x", "*", "404 Not Found"},
		{s.chart() + "x", "1.2.3", "404 Not Found"},
	} {
		_, err := newFetcher(t).Resolve(t.Context(), Ref{"", c.chart, c.version})
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: the error is %v", c.version, err)
		}
	}
}

func retag(tb testing.TB, s *ociServer, from, to string) {
	tb.Helper()
	base := s.URL + "/v2/charts/web/manifests/"
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, base+from, nil)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	put(tb, s, base+to, resp.Header.Get("Content-Type"), resp.Body)
}

func put(tb testing.TB, s *ociServer, address, mediaType string, body io.Reader) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPut, address, body)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", mediaType)
	resp, err := s.Client().Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		tb.Fatal(resp.Status)
	}
}

func TestOCITagsArePaged(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	newest := s.push(t, "1.0.9", "")
	pages := 0
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		pages++
		n := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("last"), &n)
		if n < 9 {
			w.Header().Set("Link", fmt.Sprintf(`</v2/charts/web/tags/list?last=%d>; rel="next"`, n+1))
		}
		_, _ = fmt.Fprintf(w, `{"name":"charts/web","tags":["1.0.%d","%s"]}`, n, strings.Repeat("9", 500))
		return true
	})
	locked, err := newFetcher(t).Resolve(t.Context(), Ref{"", s.chart(), "~1.0.0"})
	if err != nil || locked != (Locked{"1.0.9", digestOf(newest)}) || pages != 10 {
		t.Errorf("%v, %v after %d pages", locked, err, pages)
	}
	s.set(func(w http.ResponseWriter, r *http.Request) bool { // pages without end
		w.Header().Set("Link", `</v2/charts/web/tags/list?last=x>; rel="next"`)
		_, _ = fmt.Fprintf(w, `{"tags":[%s"1.0.0"]}`, strings.Repeat(`"1.0.0",`, 5000))
		return true
	})
	if _, err = newFetcher(t).Resolve(t.Context(), Ref{"", s.chart(), "^1"}); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "more than 200000 tags") {
		t.Error(err)
	}
}

func TestOCIMovedTagAndTampering(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	old := s.push(t, "1.2.3", "old")
	ref := Ref{"", s.chart(), "1.2.3"}
	locked, err := newFetcher(t).Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	evil := s.push(t, "1.2.3", "new")
	if data, err := newFetcher(t).Archive(t.Context(), ref, locked); err != nil || !bytes.Equal(data, old) {
		t.Errorf("a moved tag must not matter to a locked chart: %v", err)
	}
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			_, _ = w.Write(evil)
			return true
		}
		return false
	})
	_, err = newFetcher(t).Archive(t.Context(), ref, locked)
	if !errors.Is(err, ErrDigest) || !strings.Contains(err.Error(), locked.Digest) ||
		!strings.Contains(err.Error(), digestOf(evil)) {
		t.Errorf("tampered blob: %v", err)
	}
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.NotFound(w, r)
			return true
		}
		return false
	})
	_, err = newFetcher(t).Archive(t.Context(), ref, locked)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "no longer has the archive "+locked.Digest) {
		t.Errorf("deleted blob: %v", err)
	}
}

// The digest of a manifest decides, whatever the tag means by then.
func TestOCIVersionWithDigest(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	old := s.push(t, "1.2.3", "old")
	ref := Ref{"", s.chart(), "1.2.3"}
	where, err := ref.place()
	if err != nil {
		t.Fatal(err)
	}
	_, manifest, err := chartManifest(t.Context(), newFetcher(t), *where.oci, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	s.push(t, "1.2.3", "new")
	ref.Version = "1.2.3@" + digestOf(manifest)
	locked, err := newFetcher(t).Resolve(t.Context(), ref)
	if err != nil || locked.Version != "1.2.3" || locked.Digest != digestOf(old) {
		t.Fatalf("the locked is %+v, the error is %v", locked, err)
	}
	if data, err := newFetcher(t).Archive(t.Context(), ref, locked); err != nil || !bytes.Equal(data, old) {
		t.Errorf("the archive: %v", err)
	}
	if offers, err := newFetcher(t).Offers(t.Context(), ref); err != nil || offers.InRange != "1.2.3" {
		t.Errorf("offers: %+v, %v", offers, err)
	}
	missing := "sha256:" + strings.Repeat("0", 64)
	for version, want := range map[string]string{
		"1.2.3@sha256:00": "after @ there is no digest", "1.2.3@": "after @ there is no digest",
		"^1.2.0@" + missing: "no exact version", "1.2.3@" + missing: "404 Not Found",
	} {
		if _, err := newFetcher(t).Resolve(t.Context(), Ref{"", s.chart(), version}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %s", version, err, want)
		}
	}
	if err := (Ref{"https://charts.example.com", "web", "1.2.3@" + missing}).Check(); err == nil ||
		!strings.Contains(err.Error(), "is one of an OCI registry") {
		t.Errorf("a chart repository: %v", err)
	}
}

func TestOCIRefusesWhatIsNoChart(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	type object = map[string]any
	digest := digestOf(nil)
	layer := object{"mediaType": chartLayerType, "digest": digest, "size": 1}
	for text, manifest := range map[string]any{
		"is not a Helm chart but": object{
			"config": object{"mediaType": "application/vnd.oci.image.config.v1+json"},
			"layers": []any{layer},
		},
		"has 0 chart layers": object{"config": object{"mediaType": chartConfigType}, "layers": []any{}},
		"has 2 chart layers": object{
			"config": object{"mediaType": chartConfigType},
			"layers": []any{layer, layer},
		},
		"else than a SHA-256": object{
			"config": object{"mediaType": chartConfigType},
			"layers": []any{object{"mediaType": chartLayerType, "digest": "../../etc"}},
		},
		"the manifest is not one":  []any{},
		"manifest is larger than ": strings.Repeat("x", maxManifest+1),
	} {
		data, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		s.set(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			_, _ = w.Write(data)
			return true
		})
		if _, err := newFetcher(t).Resolve(t.Context(), Ref{"", s.chart(), "1.2.3"}); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v; want %q", err, text)
		}
	}
}

func TestOCIBoundsAndRetries(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	s.push(t, "1.2.3", "")
	ref := Ref{"", s.chart(), "1.2.3"}
	f := newFetcher(t, func(o *Options) { o.MaxArchive = 10 })
	if _, err := f.Resolve(t.Context(), ref); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "larger than the limit of 10 bytes") {
		t.Errorf("limit: %v", err)
	}
	left := 2
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		left--
		if left >= 0 {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(429)
		}
		return left >= 0
	})
	pauses := &instant{}
	if _, err := newFetcher(t, func(o *Options) { o.Sleep = pauses.sleep }).Resolve(t.Context(), ref); err != nil ||
		fmt.Sprint(pauses.pauses) != "[3s 3s]" {
		t.Errorf("retry: %v, %v", err, pauses.pauses)
	}
}

// Some chart repositories have indexes that point into a registry.
func TestIndexThatPointsToOCI(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	data := s.push(t, "1.2.3", "")
	repo := newChartRepo(t, httptest.NewServer)
	repo.index = "entries:\n  web:\n  - version: 1.2.3\n    urls: [\"" + s.chart() + ":1.2.3\"]\n"
	ref := Ref{repo.repo(), "web", "^1"}
	locked, err := newFetcher(t).Resolve(t.Context(), ref)
	if err != nil || locked != (Locked{"1.2.3", digestOf(data)}) {
		t.Fatalf("the locked is %v, the error is %v", locked, err)
	}
	if got, err := newFetcher(t).Archive(t.Context(), ref, locked); err != nil || !bytes.Equal(got, data) {
		t.Error(err)
	}
}
