package rest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

func client(t *testing.T, h http.HandlerFunc, conditional bool) (*Client, *http.Client, *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	now, waits := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), &[]time.Duration{}
	c := New(Config{
		Base: base, Next: http.DefaultTransport, Clock: func() time.Time { return now }, Conditional: conditional,
		Sleep: func(_ context.Context, d time.Duration) error {
			*waits = append(*waits, d)
			now = now.Add(d)
			return nil
		},
	})
	return c, c.HTTP(), waits
}

func get(t *testing.T, c *Client, h *http.Client, path string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Base.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// An unchanged answer is returned again with its headers, and the memory for answers is limited.
func TestConditional(t *testing.T) {
	version, sent := 1, 0
	c, h, _ := client(t, func(w http.ResponseWriter, r *http.Request) {
		tag := fmt.Sprintf("%q", fmt.Sprint(r.URL.Path, version))
		w.Header().Set("ETag", tag)
		w.Header().Set("Link", "next")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent++
		_, _ = io.WriteString(w, fmt.Sprint("version ", version))
	}, true)
	for range 3 {
		if code, body, err := get(t, c, h, "/a"); code != 200 || body != "version 1" || err != nil || sent != 1 {
			t.Fatalf("%d %q %v, sent %d times", code, body, err, sent)
		}
	}
	version = 2
	if _, body, err := get(t, c, h, "/a"); body != "version 2" || err != nil {
		t.Errorf("after a change: %q %v", body, err)
	}
	if one := mustGet(c, "/a"); c.answers.bytes != one.size() {
		t.Errorf("%d bytes are counted", c.answers.bytes)
	}
}

func mustGet(c *Client, path string) answer {
	a, _ := c.answers.get("\n\n" + c.Base.String() + path)
	return a
}

func TestAnswersAreBounded(t *testing.T) {
	a := newAnswers()
	random := make([]byte, 10<<20)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		resp := &http.Response{
			StatusCode: 200, Header: http.Header{"Etag": {"x"}},
			Body: io.NopCloser(strings.NewReader(string(random))),
		}
		if err := a.put(fmt.Sprint(i%15), resp); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, key := range a.cache.Keys() {
		one, _ := a.cache.Peek(key)
		total += one.size()
	}
	if total != a.bytes || total > maxAnswersBytes || a.cache.Len() != 6 {
		t.Errorf("%d answers of %d bytes, counted %d", a.cache.Len(), total, a.bytes)
	}
}

// The cache has room for ten answers of each of 1,000 repositories, with as many headers as a forge sends.
func TestAnswersOfManyRepositories(t *testing.T) {
	a := newAnswers()
	header := http.Header{}
	for i := range 25 {
		header.Set(fmt.Sprint("X-Header-", i), "some thirty bytes, as is usual")
	}
	const n = 10_000
	for i := range n {
		h := header.Clone()
		h.Set("ETag", fmt.Sprint(i))
		if err := a.put(fmt.Sprint(i), &http.Response{
			StatusCode: 200, Header: h,
			Body: io.NopCloser(strings.NewReader(strings.Repeat(fmt.Sprint(i), 500))),
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if one, ok := a.get(fmt.Sprint(i)); !ok || one.tag != fmt.Sprint(i) {
			t.Fatalf("answer %d is forgotten", i)
		}
	}
}

// Which requests are repeated, and how long the client waits.
func TestRetries(t *testing.T) {
	for name, c := range map[string]struct {
		method  string
		codes   []int // of the answers, the last one for ever
		header  string
		tries   int
		code    int
		limited bool
		waits   int
	}{
		"success":                 {http.MethodGet, []int{200}, "", 1, 200, false, 0},
		"fails for a moment":      {http.MethodGet, []int{502, 503, 200}, "", 3, 200, false, 2},
		"keeps failing":           {http.MethodGet, []int{502}, "", 4, 502, false, 3},
		"creates":                 {http.MethodPost, []int{502}, "", 1, 502, false, 0},
		"no reason to repeat":     {http.MethodGet, []int{404}, "", 1, 404, false, 0},
		"limited for a moment":    {http.MethodPost, []int{429, 200}, "7", 2, 200, false, 2},
		"limited for long":        {http.MethodGet, []int{429}, "3600", 1, 0, true, 0},
		"limited again and again": {http.MethodGet, []int{429}, "7", 4, 0, true, 6},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			rc, h, waits := client(t, func(w http.ResponseWriter, _ *http.Request) {
				code := c.codes[min(tries, len(c.codes)-1)]
				tries++
				if c.header != "" && code == 429 {
					w.Header().Set("Retry-After", c.header)
				}
				w.WriteHeader(code)
			}, false)
			req, err := http.NewRequestWithContext(t.Context(), c.method, rc.Base.String(), strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := h.Do(req)
			code := 0
			if err == nil {
				code = resp.StatusCode
				_ = resp.Body.Close()
			}
			_, limited := errors.AsType[*forge.RateLimitError](err)
			if tries != c.tries || code != c.code || limited != c.limited || len(*waits) != c.waits {
				t.Errorf("%d tries, code %d, limited %t, waits %v, %v", tries, code, limited, *waits, err)
			}
		})
	}
}

// An answer with an absurd Retry-After blocks its repository for some minutes, after which the next request is the
// probe, and blocks no other repository.
func TestAbsurdLimits(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, header := range map[string]string{
		"a day": "86400", "a year": "31536000", "overflow of 32 bits": "4294967297",
		"overflow": "99999999999999999999999", "padded": "  86400 ", "a date": "Fri, 31 Dec 9999 23:59:59 GMT",
		"overflow of a duration": "Mon, 01 Jan 2400 00:00:00 GMT", "an hour": "3600",
	} {
		for _, paths := range [][2]string{
			{"/repos/acme/a/pulls", "/repos/acme/b/pulls"},
			{"/projects/acme%2Fa/issues", "/projects/acme%2Fb/issues"},
			{"/user", "/repos/acme/a/pulls"},
		} {
			limited := true
			c, h, _ := client(t, func(w http.ResponseWriter, r *http.Request) {
				if limited && r.URL.EscapedPath() == paths[0] {
					w.Header().Set("Retry-After", header)
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}, false)
			_, _, err := get(t, c, h, paths[0])
			limit, ok := errors.AsType[*forge.RateLimitError](err)
			if !ok || limit.Until.Sub(start) > 10*time.Minute || limit.Until.Sub(start) < time.Minute {
				t.Errorf("%s: the error of %s is %v, want a limit of some minutes", name, paths[0], err)
				continue
			}
			if code, _, err := get(t, c, h, paths[1]); code != http.StatusOK || err != nil {
				t.Errorf("%s: after it, %s answers %d, %v", name, paths[1], code, err)
			}
			if _, _, err := get(t, c, h, paths[0]); !errors.Is(err, forge.ErrUnavailable) {
				t.Errorf("%s: before the end, %s answers %v", name, paths[0], err)
			}
			limited = false
			c.Clock = func() time.Time { return limit.Until }
			if code, _, err := get(t, c, h, paths[0]); code != http.StatusOK || err != nil {
				t.Errorf("%s: the probe of %s answers %d, %v", name, paths[0], code, err)
			}
		}
	}
}
