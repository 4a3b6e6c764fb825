package server_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/server"
)

// source serves fleets without a repository.
type source struct {
	mu    sync.Mutex
	tips  string
	reads atomic.Int64
	looks atomic.Int64
	err   error

	incomplete error // the list of repositories

	changes atomic.Int64
	reviews atomic.Int64 // merge requests in the list
	health  atomic.Pointer[site.Health]
}

func (s *source) Reviews(string) (version string, list func() []site.MergeRequest) {
	return strconv.FormatInt(s.reviews.Load(), 10), s.mergeRequests
}

func (s *source) mergeRequests() (out []site.MergeRequest) {
	for i := range s.reviews.Load() {
		out = append(out, site.MergeRequest{
			Number: int(i) + 1, Title: "Change " + strconv.FormatInt(i+1, 10),
			State: "open",
		})
	}
	return out
}

func (s *source) Repositories(context.Context) ([]string, error) {
	return []string{"acme/fleet", "secret/fleet"}, s.incomplete
}

func (s *source) Tips(context.Context, string) (string, error) {
	s.looks.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tips, s.err
}

func (s *source) Read(_ context.Context, name string, _ *site.Fleet) (*site.Fleet, error) {
	s.reads.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &site.Cluster{Name: "prod-1", Environment: &site.Environment{Name: "prod"}, Health: s.health.Load()}
	return &site.Fleet{
		Clusters: []*site.Cluster{c}, Name: name + " at " + s.tips, Trunk: "main", Made: time.Now(),
		Tip: site.Commit{Hash: "0123456789abcdef"}, Reviews: true, MergeRequests: s.mergeRequests(),
	}, nil
}

func (s *source) move(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tips = to
}

// clock is a clock that a test advances.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func start(t *testing.T, c server.Config) *httptest.Server {
	t.Helper()
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Log = quiet()
	s := server.New(c)
	h := httptest.NewServer(s)
	t.Cleanup(func() { s.Close(); h.Close() })
	return h
}

func get(t *testing.T, client *http.Client, address string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header.Get("Content-Security-Policy") == "" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: no security headers", address)
	}
	return answer.StatusCode, string(body)
}

func TestLoopbackOnly(t *testing.T) {
	t.Parallel()
	h := start(t, server.Config{Source: &source{tips: "1"}})
	page := h.URL + "/acme/fleet/-/index.html"
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8081": 200, "127.0.0.1": 200, "[::1]:80": 200,
		"evil.example.com": 403, "127.0.0.1.evil.example.com": 403, "10.0.0.1": 403,
	} {
		if got, _ := get(t, h.Client(), page, "Host", host); got != want {
			t.Errorf("host %s: %d, want %d", host, got, want)
		}
	}
}

// TestCompressedPages: a page is the same for a client that takes it compressed.
func TestCompressedPages(t *testing.T) {
	t.Parallel()
	h := start(t, server.Config{Source: &source{tips: "1"}})
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	const page = "/acme/fleet/-/index.html"
	_, plain := get(t, client, h.URL+page)
	_, packed := get(t, client, h.URL+page, "Accept-Encoding", "br, gzip;q=0.5")
	_, refused := get(t, client, h.URL+page, "Accept-Encoding", "gzip;q=0")
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil || string(got) != plain || refused != plain || len(packed) >= len(plain) {
		t.Errorf("%d bytes plain, %d compressed: %v", len(plain), len(packed), err)
	}
}

// TestReviewsAreListed: a new review changes the list of merge requests without a read of the fleet.
func TestReviewsAreListed(t *testing.T) {
	t.Parallel()
	from := &source{tips: "1"}
	c := &clock{}
	h := start(t, server.Config{Source: from, Clock: c.now})
	for i, want := range []int64{0, 1, 2, 2} {
		from.reviews.Store(want)
		c.advance(2 * time.Second)
		_, body := get(t, h.Client(), h.URL+"/acme/fleet/-/merge-requests.html")
		if listed := strings.Contains(body, "Change "+strconv.FormatInt(want, 10)); listed != (want > 0) ||
			from.reads.Load() != 1 {
			t.Errorf("page %d: %d merge requests, the last one is listed: %t; the fleet was read %d times", i, want,
				listed, from.reads.Load())
		}
	}
	from.move("2")
	c.advance(2 * time.Second)
	if _, body := get(t, h.Client(), h.URL+"/acme/fleet/-/merge-requests.html"); !strings.Contains(body, "Change 2") ||
		from.reads.Load() != 2 {
		t.Errorf("after a push the fleet was read %d times: %s", from.reads.Load(), body)
	}
}

func TestPathsStayInside(t *testing.T) {
	t.Parallel()
	h := start(t, server.Config{Source: &source{tips: "1"}})
	for path, want := range map[string]int{
		"/acme/fleet/-/index.html": 200, "/acme/fleet/-/": 200, "/acme/fleet/-/style.css": 200,
		"/acme/fleet/-/site.js": 200, "/acme/fleet/-/search.html?q=x": 200, "/": 200, "/-/style.css": 200,
		"/acme/fleet": 404, "/acme/other/-/index.html": 404, "/acme/fleet/-/../../../etc/passwd": 404,
		"/acme/fleet/-/%2e%2e/%2e%2e/etc/passwd": 404, "/acme/fleet/-/apps/..%2f..%2fsite.go": 404,
		"/acme/fleet/-/templates/layout.html": 404, "/acme/fleet/-/index.html%00": 404,
		"/acme%2ffleet/-/index.html": 200, "/../acme/fleet/-/index.html": 404, "/acme/fleet/-//index.html": 404,
		"/-/callback": 404,
	} {
		if got, _ := get(t, h.Client(), h.URL+path); got != want {
			t.Errorf("%s: the result of get is %d, want %d", path, got, want)
		}
	}
	answer, err := h.Client().Post(h.URL+"/acme/fleet/-/index.html", "text/plain", nil) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close() // it was only read
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", answer.StatusCode)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	rights := func(_ context.Context, person, repository string) (bool, error) {
		return person == "ada" && repository == "acme/fleet", nil
	}
	trusted := server.Proxy{Header: "X-User", From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	h := start(t, server.Config{Source: &source{tips: "1"}, Access: trusted, Rights: rights})
	for _, c := range []struct {
		page   string
		header []string
		want   int
	}{
		{"/acme/fleet/-/index.html", nil, 401},
		{"/acme/fleet/-/index.html", []string{"X-User", "ada"}, 200},
		{"/acme/fleet/-/index.html", []string{"X-User", "ada", "X-User", "bob"}, 401},
		{"/acme/fleet/-/index.html", []string{"X-User", "bob"}, 404},
		{"/acme/fleet/-/events", []string{"X-User", "bob"}, 404},
		{"/secret/fleet/-/index.html", []string{"X-User", "ada"}, 404},
	} {
		if got, _ := get(t, h.Client(), h.URL+c.page, c.header...); got != c.want {
			t.Errorf("%s with %q: %d, want %d", c.page, c.header, got, c.want)
		}
	}
	if _, body := get(t, h.Client(), h.URL, "X-User", "ada"); !strings.Contains(body, "acme/fleet") ||
		strings.Contains(body, "secret/fleet") {
		t.Errorf("the list of ada's repositories: %s", body)
	}
	trusted.From = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	h = start(t, server.Config{Source: &source{tips: "1"}, Access: trusted})
	if got, _ := get(t, h.Client(), h.URL+"/acme/fleet/-/index.html", "X-User", "ada"); got != 401 {
		t.Errorf("a header from elsewhere: %d", got)
	}
}

// TestLostRight: somebody who lost the right sees the pages for at most the minutes that an answer is kept; an unknown
// right shows nothing.
func TestLostRight(t *testing.T) {
	t.Parallel()
	var may, broken atomic.Bool
	may.Store(true)
	c := &clock{}
	h := start(t, server.Config{
		Source: &source{tips: "1"}, Clock: c.now, Access: server.Proxy{
			Header: "X-User",
			From:   []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		},
		Rights: func(context.Context, string, string) (bool, error) {
			if broken.Load() {
				return true, errors.New("the forge does not answer")
			}
			return may.Load(), nil
		},
	})
	status := func() int {
		got, _ := get(t, h.Client(), h.URL+"/acme/fleet/-/index.html", "X-User", "ada")
		return got
	}
	if got := status(); got != 200 {
		t.Fatalf("before: %d", got)
	}
	may.Store(false)
	c.advance(6 * time.Minute)
	if got := status(); got != 404 {
		t.Errorf("the right is lost: %d", got)
	}
	broken.Store(true)
	c.advance(6 * time.Minute)
	if got := status(); got != 503 {
		t.Errorf("the right is unknown: %d", got)
	}
}

// TestEventsOfHealth: an open page is told when the health of a cluster changes, although no branch moves, and only
// then.
func TestEventsOfHealth(t *testing.T) {
	t.Parallel()
	src, at := &source{tips: "1"}, &clock{}
	h := start(t, server.Config{Source: src, Clock: at.now, Poll: 5 * time.Millisecond})
	get(t, h.Client(), h.URL+"/acme/fleet/-/index.html")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+"/acme/fleet/-/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	for range 2 {                              // looks that find nothing new
		before := src.reads.Load()
		at.advance(2 * time.Minute)
		for src.reads.Load() == before {
			get(t, h.Client(), h.URL+"/acme/fleet/-/index.html")
		}
	}
	src.health.Store(&site.Health{ClusterHealth: rollout.ClusterHealth{State: rollout.Red, Reason: "sync is failure"}})
	before := src.reads.Load()
	at.advance(2 * time.Minute)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() && lines.Text() != "event: changed" {
	}
	if n := src.reads.Load(); lines.Err() != nil || n == before {
		t.Fatalf("%v; the event came after %d looks, before the look at the new health", lines.Err(), n)
	}
	if _, body := get(t, h.Client(), h.URL+"/acme/fleet/-/index.html"); !strings.Contains(body, "sync is failure") {
		t.Error("the page does not show the failure after the event")
	}
}

// TestEvents: an open page is told when a branch moves, and again after the next move.
func TestEvents(t *testing.T) {
	t.Parallel()
	src := &source{tips: "1"}
	h := start(t, server.Config{Source: src, Poll: 20 * time.Millisecond})
	if _, body := get(t, h.Client(), h.URL+"/acme/fleet/-/index.html"); !strings.Contains(body, "acme/fleet at 1") ||
		!strings.Contains(body, `data-live="events"`) {
		t.Fatal("no live page")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/acme/fleet/-/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := h.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %s", got)
	}
	lines := bufio.NewScanner(answer.Body)
	for _, tips := range []string{"2", "3"} {
		src.move(tips)
		for lines.Scan() && lines.Text() != "event: changed" {
		}
		if lines.Err() != nil {
			t.Fatal(lines.Err())
		}
		if _, body := get(t, h.Client(), h.URL+"/acme/fleet/-/index.html"); !strings.Contains(body, "acme/fleet at "+
			tips) {
			t.Errorf("the page does not show %s after the event", tips)
		}
	}
}

// TestFleetThatCannotBeRead: many requests for a fleet that cannot be read cost one look, and the next look is a few
// seconds later.
func TestFleetThatCannotBeRead(t *testing.T) {
	t.Parallel()
	src, at := &source{tips: "1", err: errors.New("the forge is down")}, &clock{}
	s := server.New(server.Config{Source: src, Clock: at.now, Log: quiet(), Poll: time.Second})
	get := func() int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://localhost/acme/fleet/-/index.html", nil))
		return w.Code
	}
	for range 100 {
		if code := get(); code != http.StatusBadGateway {
			t.Fatalf("the status code is %d", code)
		}
	}
	if n := src.looks.Load(); n != 1 {
		t.Errorf("%d looks at a fleet that cannot be read", n)
	}
	src.mu.Lock()
	src.err = nil
	src.mu.Unlock()
	at.advance(time.Minute)
	if code := get(); code != http.StatusOK {
		t.Errorf("%d after the forge is back", code)
	}
}

// TestTenThousandRequests: many readers cost few reads of the repository and of the rights.
func TestTenThousandRequests(t *testing.T) {
	t.Parallel()
	src := &source{tips: "1"}
	var asked atomic.Int64
	s := server.New(server.Config{
		Source: src, Clock: time.Now, Log: quiet(), Poll: time.Hour,
		Access: server.Proxy{Header: "X-User", From: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		Rights: func(_ context.Context, person, _ string) (bool, error) {
			asked.Add(1)
			return person != "stranger", nil
		},
	})
	var wrong atomic.Int64
	var group sync.WaitGroup
	for worker := range 20 {
		group.Go(func() {
			for i := range 500 {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/acme/fleet/-/index.html", nil)
				person, want := "ada", 200
				switch i % 3 {
				case 1:
					person, want = "stranger", 404
				case 2:
					person, want = "", 401
				}
				if person != "" {
					r.Header.Set("X-User", person)
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != want {
					wrong.Add(1)
					t.Logf("worker %d: %d, want %d", worker, w.Code, want)
				}
			}
		})
	}
	group.Wait()
	if wrong.Load() > 0 || src.reads.Load() != 1 || asked.Load() > 40 {
		t.Errorf("%d wrong answers, %d reads of the fleet, %d questions for rights", wrong.Load(), src.reads.Load(),
			asked.Load())
	}
}

// place is a sign-in that lets people in by their code.
type place struct{ back string }

func (p place) URL(_ context.Context, state, nonce, verifier string) (string, error) {
	return p.back + "?" + url.Values{
		"state": {state}, "code": {"code-of-ada"}, "nonce": {nonce},
		"verifier": {verifier},
	}.Encode(), nil
}

func (place) Identity() string { return "place" }

func (place) Lasts() time.Duration { return time.Hour }

func (place) Finish(_ context.Context, code, nonce, verifier string) (string, error) {
	if code != "code-of-ada" || nonce == "" || verifier == "" {
		return "", server.ErrNotAllowed
	}
	return "ada", nil
}

func TestSessions(t *testing.T) {
	t.Parallel()
	key := []byte("the key of this test")
	sessions, err := server.NewSessions(place{"/-/callback"}, key, "http://localhost", quiet())
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, server.Config{Source: &source{tips: "1"}, Access: sessions})
	page := h.URL + "/acme/fleet/-/search.html?q=x"
	client := h.Client()
	if client.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	var last *http.Request
	client.CheckRedirect = func(r *http.Request, _ []*http.Request) error { last = r; return nil }
	if code, body := get(t, client, page); code != 200 || last.URL.RequestURI() != "/acme/fleet/-/search.html?q=x" ||
		!strings.Contains(body, "acme/fleet") {
		t.Fatalf("signing in ends with %d at %v", code, last.URL)
	}
	at, _ := url.Parse(h.URL)
	session := client.Jar.Cookies(at)[0].Value
	none := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	other, err := server.NewSessions(place{}, []byte("another key"), "http://localhost", quiet())
	if err != nil {
		t.Fatal(err)
	}
	for name, cookie := range map[string]string{
		"none": "", "forged": "eyJuIjoiYWRhIn0=",
		"cut": session[:len(session)-4], "changed": session[:10] + "x" + session[11:],
		"of the sign-in": "sluice-session=" + session,
	} {
		if code, _ := get(t, none, page, "Cookie", "sluice-session="+cookie); code != http.StatusFound {
			t.Errorf("a cookie that is %s: %d", name, code)
		}
	}
	if code, _ := get(t, none, page, "Cookie", "sluice-session="+session); code != 200 {
		t.Errorf("the cookie itself: %d", code)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Cookie", "sluice-session="+session)
	if _, known := other.Person(r); known {
		t.Error("a cookie of another key is taken")
	}
	for _, query := range []string{"", "?state=x&code=code-of-ada", "?state=&code=code-of-ada"} {
		if code, _ := get(t, none, h.URL+"/-/callback"+query); code != http.StatusBadRequest {
			t.Errorf("a callback %q that nobody began: %d", query, code)
		}
	}
	if code, _ := get(t, none, h.URL+"/acme/fleet/-/events", "Accept",
		"text/event-stream"); code != http.StatusUnauthorized {
		t.Errorf("an event stream without a session: %d", code)
	}
}

// TestCookies holds the attributes of cookies.
func TestCookies(t *testing.T) {
	t.Parallel()
	s, err := server.NewSessions(place{}, nil, "https://sluice.example.com", quiet())
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.SignIn(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil))
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" ||
		!strings.HasPrefix(c.Name, "__Host-sluice-signin-") || c.MaxAge != 600 || strings.Contains(c.Value, "/x") {
		t.Errorf("cookie %+v", c)
	}
	w = httptest.NewRecorder()
	if !s.Handle(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/-/signout", nil)) ||
		w.Result().Cookies()[0].MaxAge >= 0 {
		t.Error("signing out does not remove the cookie")
	}
}

// TestNotFoundIsAPage: a browser gets a page with a way back, another client one line.
func TestNotFoundIsAPage(t *testing.T) {
	t.Parallel()
	h := start(t, server.Config{Source: &source{tips: "1"}})
	for _, path := range []string{"/acme/fleet/-/clusters/gone.html", "/acme/other/-/index.html", "/nothing"} {
		code, page := get(t, h.Client(), h.URL+path, "Accept", "text/html,application/xhtml+xml")
		if code != http.StatusNotFound || !strings.HasPrefix(page, "<!doctype html>") ||
			!strings.Contains(page, "There is no such page") || !strings.Contains(page, `<a href="/">`) {
			t.Errorf("%s in a browser: got %d and %q, want a page with a link", path, code, page)
		}
		code, text := get(t, h.Client(), h.URL+path)
		if code != http.StatusNotFound || strings.Contains(text, "<") || strings.Count(text, "\n") != 1 {
			t.Errorf("%s in a script: got %d and %q, want one line", path, code, text)
		}
	}
}
