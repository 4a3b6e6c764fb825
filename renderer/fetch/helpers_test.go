package fetch

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// packChart makes a real chart archive; note lands in it, so that equal versions can have different bytes.
func packChart(tb testing.TB, name, version, note string) []byte {
	tb.Helper()
	c := &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: chart.APIVersionV2, Name: name, Version: version, Description: note},
		Templates: []*chart.File{{Name: "templates/cm.yaml", Data: []byte("kind: ConfigMap # " + note + "\n")}},
	}
	file, err := chartutil.Save(c, tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// chartRepo is a chart repository whose every answer a test can change.
type chartRepo struct {
	*httptest.Server
	mu       sync.Mutex
	index    string
	files    map[string][]byte
	requests []*http.Request
	before   func(http.ResponseWriter, *http.Request) bool // true: answered
}

func newChartRepo(tb testing.TB, start func(http.Handler) *httptest.Server) *chartRepo {
	tb.Helper()
	r := &chartRepo{files: map[string][]byte{}, index: "apiVersion: v1\nentries: {}\n"}
	r.Server = start(http.HandlerFunc(r.serve))
	tb.Cleanup(r.Close)
	return r
}

// quietTLS is httptest.NewTLSServer without a log of the handshakes that tests make fail.
func quietTLS(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	return s
}

func (r *chartRepo) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.Clone(req.Context()))
	before, index, file := r.before, r.index, r.files[strings.TrimPrefix(req.URL.Path, "/charts/")]
	r.mu.Unlock()
	switch {
	case before != nil && before(w, req):
	case req.URL.Path == "/charts/index.yaml":
		_, _ = w.Write([]byte(index))
	case file != nil:
		w.Header().Set("Content-Type", "application/gzip")
		_, _ = w.Write(file)
	default:
		http.NotFound(w, req)
	}
}

func (r *chartRepo) repo() string { return r.URL + "/charts" }

// intercept sets what happens before the usual answer.
func (r *chartRepo) intercept(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = f
}

// asked counts the requests whose path ends so.
func (r *chartRepo) asked(suffix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, req := range r.requests {
		if strings.HasSuffix(req.URL.Path, suffix) {
			n++
		}
	}
	return n
}

// offer publishes versions of the chart web, with or without digests in the index, and returns the archives.
func (r *chartRepo) offer(tb testing.TB, digests bool, versions ...string) map[string][]byte {
	tb.Helper()
	archives := map[string][]byte{}
	index := "apiVersion: v1\nentries:\n  other:\n  - version: 9.9.9\n    urls: [other.tgz]\n  web:\n"
	for _, v := range versions {
		archives[v] = packChart(tb, "web", v, "")
		name := "web-" + v + ".tgz"
		index += fmt.Sprintf("  - apiVersion: v2\n    name: web\n    version: %s\n    urls:\n    - %s\n", v, name)
		if digests {
			index += "    digest: " + strings.TrimPrefix(digestOf(archives[v]), digestPrefix) + "\n"
		}
		r.files[name] = archives[v]
	}
	r.index = index + "generated: \"2024-01-01T00:00:00Z\"\n"
	return archives
}

// instant is a Sleep that notes its pauses.
type instant struct {
	mu     sync.Mutex
	pauses []time.Duration
}

func (s *instant) sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses = append(s.pauses, d)
	return ctx.Err()
}

func newFetcher(tb testing.TB, change ...func(*Options)) *Fetcher {
	tb.Helper()
	// for machines that stand still
	o := Options{CacheDir: filepath.Join(tb.TempDir(), "cache"), Sleep: (&instant{}).sleep, Timeout: 5 * time.Minute}
	for _, f := range change {
		f(&o)
	}
	return New(o)
}

func withCredentials(c *Credentials) func(*Options) { return func(o *Options) { o.Credentials = c } }

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func hostOf(s *httptest.Server) string {
	_, host, _ := strings.Cut(s.URL, "://")
	return host
}

func writeFile(tb testing.TB, name, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
