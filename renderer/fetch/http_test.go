package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRetryPassingFailures(t *testing.T) {
	t.Parallel()
	hijack := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	truncate := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("half"))
	}
	code := func(n int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if len(header) > 0 {
				w.Header().Set(header[0], header[1])
			}
			w.WriteHeader(n)
		}
	}
	ms := time.Millisecond
	for _, c := range []struct {
		name   string
		fail   http.HandlerFunc
		times  int
		asked  int
		kind   error // nil: succeeds
		pauses []time.Duration
	}{
		{"503 twice", code(503), 2, 3, nil, []time.Duration{500 * ms, 1000 * ms}},
		{"502 always", code(502), 99, 4, ErrUnavailable, []time.Duration{500 * ms, 1000 * ms, 2000 * ms}},
		{"429 with Retry-After", code(429, "Retry-After", "7"), 1, 2, nil, []time.Duration{7000 * ms}},
		{
			"429 with an absurd Retry-After", code(429, "Retry-After", "99999999"), 1, 2, nil,
			[]time.Duration{30000 * ms},
		},
		{"429 with a bad Retry-After", code(429, "Retry-After", "-5"), 1, 2, nil, []time.Duration{500 * ms}},
		{"connection closed", hijack, 1, 2, nil, nil},
		{"body cut off", truncate, 1, 2, nil, []time.Duration{500 * ms}},
		{"404", code(404), 99, 1, ErrNotFound, nil},
		{"401", code(401), 99, 1, ErrDenied, nil},
		{"403", code(403), 99, 1, ErrDenied, nil},
		{"418", code(418), 99, 1, ErrUnavailable, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			repo := newChartRepo(t, httptest.NewServer)
			repo.offer(t, true, "1.2.3")
			left := c.times
			repo.before = func(w http.ResponseWriter, r *http.Request) bool {
				if left == 0 || !strings.HasSuffix(r.URL.Path, "index.yaml") {
					return false
				}
				left--
				c.fail(w, r)
				return true
			}
			pauses := &instant{}
			f := newFetcher(t, func(o *Options) {
				o.Sleep = pauses.sleep
				o.Transport = &http.Transport{DisableKeepAlives: true} // else net/http itself retries once more
			})
			_, err := f.Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
			if !errors.Is(err, c.kind) {
				t.Errorf("error %v, want kind %v", err, c.kind)
			}
			if n := repo.asked("index.yaml"); n != c.asked {
				t.Errorf("asked %d times, want %d", n, c.asked)
			}
			if c.pauses != nil && fmt.Sprint(pauses.pauses) != fmt.Sprint(c.pauses) {
				t.Errorf("pauses %v, want %v", pauses.pauses, c.pauses)
			}
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/plain")
		for chunk := bytes.Repeat([]byte("a: b\n"), 2000); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	for _, suffix := range []string{"index.yaml", ".tgz"} {
		for _, announced := range []bool{true, false} {
			repo := newChartRepo(t, httptest.NewServer)
			repo.offer(t, true, "1.2.3")
			repo.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, suffix) {
					return false
				}
				if announced {
					w.Header().Set("Content-Length", "99999999999")
				}
				endless(w)
				return true
			}
			f := newFetcher(t, func(o *Options) { o.MaxIndex, o.MaxArchive = 100_000, 100_000 })
			_, err := f.Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "larger than the limit of 100000 bytes") {
				t.Errorf("%s: the error is %v", suffix, err)
			}
			if n := repo.asked(suffix); n != 1 {
				t.Errorf("%s: asked %d times", suffix, n)
			}
		}
	}
}

func TestLimitIsExact(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]bool{9: true, 10: true, 11: false} {
		for _, announced := range []int64{-1, int64(size)} {
			data, err := readBounded(strings.NewReader(strings.Repeat("x", size)), announced, 10)
			if (err == nil) != want || want && len(data) != size {
				t.Errorf("%d bytes: %d, %v", size, len(data), err)
			}
		}
	}
}

// A server that serves .tgz with `Content-Encoding: gzip`, as some static file servers do, must not change the bytes.
func TestContentEncodingKeepsTheArchive(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	archives := repo.offer(t, true, "1.2.3")
	repo.before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			w.Header().Set("Content-Encoding", "gzip")
		}
		return false
	}
	locked, err := newFetcher(t).Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
	if err != nil || locked.Digest != digestOf(archives["1.2.3"]) {
		t.Errorf("the locked is %v, the error is %v", locked, err)
	}
}

func TestCancellation(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"index.yaml", ".tgz"} {
		repo := newChartRepo(t, httptest.NewServer)
		repo.offer(t, false, "1.2.3")
		ctx, cancel := context.WithCancel(t.Context())
		repo.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, suffix) {
				return false
			}
			_, _ = w.Write([]byte("the beginning"))
			w.(http.Flusher).Flush()
			cancel()
			<-r.Context().Done()
			return true
		}
		_, err := newFetcher(t).Resolve(ctx, Ref{repo.repo(), "web", "*"})
		if !errors.Is(err, context.Canceled) { // the server would wait for ever
			t.Errorf("%s: the error is %v", suffix, err)
		}
	}
}

func TestTimeoutOfOneAttempt(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	repo.before = func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	f := newFetcher(t, func(o *Options) { o.Timeout = 50 * time.Millisecond })
	_, err := f.Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no whole answer within 50ms") {
		t.Error(err)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	archives := repo.offer(t, true, "1.2.3")
	hop := func(n int) { // index.yaml needs n redirects
		repo.intercept(func(w http.ResponseWriter, r *http.Request) bool {
			var i int
			switch _, err := fmt.Sscanf(r.URL.Path, "/charts/hop%d", &i); {
			case r.URL.Path == "/charts/index.yaml" && r.URL.RawQuery == "":
				i = 0
			case err != nil:
				return false
			}
			to := fmt.Sprintf("/charts/hop%d", i+1)
			if i+1 == n {
				to = "/charts/index.yaml?final"
			}
			http.Redirect(w, r, to, http.StatusFound)
			return true
		})
	}
	ref := Ref{repo.repo(), "web", "*"}
	hop(maxRedirects)
	if locked, err := newFetcher(t).Resolve(t.Context(), ref); err != nil ||
		locked.Digest != digestOf(archives["1.2.3"]) {
		t.Errorf("%d redirects: %v", maxRedirects, err)
	}
	hop(maxRedirects + 1)
	if _, err := newFetcher(t).Resolve(t.Context(), ref); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "more than 5 redirects") {
		t.Errorf("%d redirects: %v", maxRedirects+1, err)
	}
	for target, text := range map[string]string{
		"http://charts.example.com/index.yaml":  "http://charts.example.com is not encrypted",
		"ftp://charts.example.com/index.yaml":   `the scheme "ftp" is refused`,
		"file:///etc/passwd":                    `the scheme "file" is refused`,
		"https://u:hunter2@charts.example.com/": "URL with credentials in it",
	} {
		repo.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusFound)
			return true
		})
		_, err := newFetcher(t).Resolve(t.Context(), ref)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), text) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error is %v", target, err)
		}
	}
}

// A library follows addresses that no redirect names: a registry says where its tokens come from.
func TestTokensComeOverTLS(t *testing.T) {
	t.Parallel()
	oci := newOCI(t)
	oci.push(t, "1.2.3", "")
	oci.set(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://tokens.example.com/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	creds := NewCredentials(env(EnvName(hostOf(oci.Server))+"_USERNAME", "alice", EnvName(hostOf(oci.Server))+
		"_PASSWORD", password), CredentialFiles{})
	var seen []string
	f := newFetcher(t, withCredentials(creds), func(o *Options) {
		o.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			seen = append(seen, r.URL.Host)
			return http.DefaultTransport.RoundTrip(r)
		})
	})
	_, err := f.Resolve(t.Context(), Ref{"", oci.chart(), "1.2.3"})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "tokens.example.com is not encrypted") ||
		slices.Contains(seen, "tokens.example.com") {
		t.Errorf("asked %q: %v", seen, err)
	}
}

func trusting(s *httptest.Server) *http.Transport {
	t := newTransport()
	t.TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
	}
	return t
}

func TestNoDowngrade(t *testing.T) {
	t.Parallel()
	plain := newChartRepo(t, httptest.NewServer)
	plain.offer(t, true, "1.2.3")
	repo := newChartRepo(t, quietTLS)
	repo.before = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, plain.URL+r.URL.Path, http.StatusFound)
		return true
	}
	f := newFetcher(t, func(o *Options) { o.Transport = trusting(repo.Server) })
	_, err := f.Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "redirects from https to http://") {
		t.Error(err)
	}
	if len(plain.requests) > 0 {
		t.Error("the plain server was asked")
	}
}

func TestArchiveURLs(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	other := newChartRepo(t, httptest.NewServer)
	data := packChart(t, "web", "1.2.3", "")
	repo.files["a/web.tgz"], other.files["web.tgz"] = data, data
	repo.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/root.tgz" {
			return false
		}
		_, _ = w.Write(data)
		return true
	}
	for ref, text := range map[string]string{
		"a/web.tgz": "", "./a/web.tgz": "", "/root.tgz": "", "/charts/a/web.tgz?x=1": "", other.repo() + "/web.tgz": "",
		strings.TrimPrefix(other.repo(), "http:") + "/web.tgz": "",
		"file:///etc/passwd":                      `the scheme "file" is refused`,
		"ftp://example.com/web.tgz":               `the scheme "ftp" is refused`,
		"gopher://example.com/web.tgz":            `the scheme "gopher" is refused`,
		"http://charts.example.com/web.tgz":       "not encrypted",
		"https://u:hunter2@charts.example.com/w":  "credentials in it",
		"https://charts.example.com:hunter2/a":    "malformed archive URL",
		"mailto:hunter2@example.com":              "malformed archive URL",
		"":                                        "no usable URL",
		"oci://":                                  "malformed oci:// URL",
		"oci://user:hunter2@example.com/web:1.23": "malformed oci:// URL",
		"missing.tgz":                             "404 Not Found",
	} {
		repo.index = "entries:\n  web:\n  - version: 1.2.3\n    urls: [\"" + ref + "\"]\n"
		_, err := newFetcher(t).Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
		if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("%s: the error is %v; want %q", ref, err, text)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: leaked: %v", ref, err)
		}
	}
}

func TestPlainHTTPHosts(t *testing.T) {
	t.Parallel()
	f := newFetcher(t, func(o *Options) { o.PlainHTTP = []string{"charts.lan", "other.lan:8080"} })
	for text, want := range map[string]bool{
		"http://charts.lan/x": true, "http://charts.lan:99/x": true, "http://other.lan:8080/": true,
		"http://other.lan/": false, "http://x.charts.lan/": false,
		"http://localhost:5000/": true, "http://127.0.0.1/": true, "http://[::1]:80/": true,
		"http://a.localhost/": true, "http://localhost.example.com/": false,
		"http://127.0.0.1.example.com/": false, "http://10.0.0.1/": false, "https://anything.example.com/": true,
		"gopher://localhost/": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.permitted(u); (err == nil) != want {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
}

func TestUserAgentAndGzipIndex(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	repo.offer(t, true, "1.2.3")
	f := newFetcher(t, func(o *Options) { o.UserAgent = "sluice/1.2" })
	if _, err := f.Resolve(t.Context(), Ref{repo.repo(), "web", "*"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range repo.requests {
		want := map[bool]string{true: "gzip", false: "identity"}[strings.HasSuffix(r.URL.Path, "index.yaml")]
		if r.UserAgent() != "sluice/1.2" || r.Header.Get("Accept-Encoding") != want {
			t.Errorf("%s: the header is %v", r.URL, r.Header)
		}
	}
	if len(repo.requests) != 2 {
		t.Errorf("%d requests", len(repo.requests))
	}
}

func TestConnectionFailures(t *testing.T) {
	t.Parallel()
	tlsServer := quietTLS(http.NotFoundHandler())
	t.Cleanup(tlsServer.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for address, text := range map[string]string{
		tlsServer.URL: "certificate is not trusted",
		strings.Replace(plain.URL, "http:", "https:", 1): "does not speak TLS",
		gone.URL:                      "connection refused",
		"https://name.invalid/charts": "sluice deps vendor",
	} {
		_, err := newFetcher(t).Resolve(t.Context(), Ref{address, "web", "*"})
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error is %v", address, err)
		}
	}
	for _, err := range []error{io.EOF, errors.New("net/http: something with hunter2")} {
		if got := connectionFailure(err, vendorAdvice); strings.Contains(got.text, "hunter2") || got.kind == nil {
			t.Errorf("the error is %v: the result of connectionFailure is %v", err, got)
		}
	}
}
