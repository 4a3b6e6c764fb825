package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/site/server"
)

const head = "0123456789abcdef0123456789abcdef01234567"

func (s *source) Report(_ context.Context, repository string, number int, commit string) (*server.Report, error) {
	if repository != "acme/fleet" || number != 7 || commit != head {
		return nil, server.ErrNoReport
	}
	const text = "<!doctype html><title>report</title>"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return &server.Report{Policy: "default-src 'none'; script-src 'sha256-x'", Gzip: packed.Bytes()}, nil
}

// TestReport: the report of a head is served under its own policy, compressed or not, and only to who may read the repository.
func TestReport(t *testing.T) {
	t.Parallel()
	rights := func(_ context.Context, person, repository string) (bool, error) {
		return person == "ada" && repository == "acme/fleet", nil
	}
	h := start(t, server.Config{Source: &source{tips: "1"}, Access: everybody{}, Rights: rights})
	for path, want := range map[string]int{
		"/acme/fleet/-/merge-requests/7/" + head + ".html": 200, "/acme/fleet/-/merge-requests/8/" + head + ".html": 404, "/secret/fleet/-/merge-requests/7/" + head + ".html": 404,
		"/acme/fleet/-/merge-requests/07/" + head + ".html": 404, "/acme/fleet/-/merge-requests/7/" + head: 404, "/acme/fleet/-/merge-requests/7/../7/" + head + ".html": 404,
		"/acme/fleet/-/merge-requests/7/..%2f..%2fsecrets.html": 404, "/acme/fleet/-/merge-requests/-7/" + head + ".html": 404, "/acme/fleet/-/merge-requests/7/" + strings.ToUpper(head) + ".html": 404,
	} {
		for _, encoding := range []string{"identity", "gzip"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Person", "ada")
			r.Header.Set("Accept-Encoding", encoding)
			answer, err := h.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close() // its headers are enough
			if answer.StatusCode != want {
				t.Errorf("%s: %d, want %d", path, answer.StatusCode, want)
			}
			policy := answer.Header.Get("Content-Security-Policy")
			if want == 200 && (!strings.Contains(policy, "script-src 'sha256-x'; frame-ancestors 'none'") || (answer.Header.Get("Content-Encoding") == "gzip") != (encoding == "gzip")) {
				t.Errorf("%s: %v", encoding, answer.Header)
			}
		}
	}
	if code, body := get(t, h.Client(), h.URL+"/acme/fleet/-/merge-requests/7/"+head+".html", "X-Person", "ada"); code != 200 || !strings.Contains(body, "<title>report") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get(t, h.Client(), h.URL+"/acme/fleet/-/merge-requests/7/"+head+".html", "X-Person", "eve"); code != 404 {
		t.Errorf("a person without the right gets %d", code)
	}
}

// everybody believes a header, as a test may.
type everybody struct{}

func (everybody) Person(r *http.Request) (string, bool) {
	name := r.Header.Get("X-Person")
	return name, name != ""
}
func (everybody) Handle(http.ResponseWriter, *http.Request) bool { return false }
func (everybody) SignIn(w http.ResponseWriter, _ *http.Request)  { w.WriteHeader(http.StatusForbidden) }
