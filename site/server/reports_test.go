package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/site/server"
)

const head = "0123456789abcdef0123456789abcdef01234567"

func (s *source) Report(_ context.Context, h server.Head) (*server.Report, error) {
	text := "<!doctype html><title>report</title>"
	var needs []string
	switch h {
	case server.Head{Fleet: "acme/fleet", Repository: "acme/fleet", Number: 7, Commit: head}:
	case server.Head{Fleet: "acme/fleet", Repository: "acme/fleet", Number: 8, Commit: head}:
		needs = []string{"acme/one", "acme/two"}
	case server.Head{Fleet: "acme/fleet", Repository: "acme/group/components", Number: 7, Commit: head}:
		text = "<!doctype html><title>report of components</title>"
	default:
		return nil, server.ErrNoReport
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return &server.Report{Policy: "default-src 'none'; script-src 'sha256-x'", Gzip: packed.Bytes(), Needs: needs}, nil
}

// TestReport: the report of a head is served under its own policy, compressed or not, and only to who may read the
// repository.
func TestReport(t *testing.T) {
	t.Parallel()
	rights := func(_ context.Context, person, repository string) (bool, error) {
		return person == "ada" && repository == "acme/fleet", nil
	}
	h := start(t, server.Config{Source: &source{tips: "1"}, Access: everybody{}, Rights: rights})
	for path, want := range map[string]int{
		"/acme/fleet/-/merge-requests/7/" + head + ".html":   200,
		"/acme/fleet/-/merge-requests/8/" + head + ".html":   404,
		"/acme/fleet/-/merge-requests/9/" + head + ".html":   404,
		"/secret/fleet/-/merge-requests/7/" + head + ".html": 404,
		"/acme/fleet/-/merge-requests/07/" + head + ".html":  404, "/acme/fleet/-/merge-requests/7/" + head: 404,
		"/acme/fleet/-/merge-requests/7/../7/" + head + ".html":             404,
		"/acme/fleet/-/merge-requests/7/..%2f..%2fsecrets.html":             404,
		"/acme/fleet/-/merge-requests/-7/" + head + ".html":                 404,
		"/acme/fleet/-/merge-requests/7/" + strings.ToUpper(head) + ".html": 404,
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
				t.Errorf("%s: the status code is %d, want %d", path, answer.StatusCode, want)
			}
			policy := answer.Header.Get("Content-Security-Policy")
			if want == 200 && (!strings.Contains(policy, "script-src 'sha256-x'; frame-ancestors 'none'") ||
				(answer.Header.Get("Content-Encoding") == "gzip") != (encoding == "gzip")) {
				t.Errorf("%s: the header is %v", encoding, answer.Header)
			}
		}
	}
	if code, body := get(t, h.Client(), h.URL+"/acme/fleet/-/merge-requests/7/"+head+".html", "X-Person",
		"ada"); code != 200 || !strings.Contains(body, "<title>report") {
		t.Errorf("the status code is %d, the body is %s", code, body)
	}
	if code, _ := get(t, h.Client(), h.URL+"/acme/fleet/-/merge-requests/7/"+head+".html", "X-Person",
		"eve"); code != 404 {
		t.Errorf("a person without the right gets %d", code)
	}
}

// TestReportOfAnotherRepository: the report of a merge request of a repository that a fleet takes content from is read
// only by who may read both. Nobody learns from an answer which repositories exist, and the forge is asked only about
// repositories that have a report.
func TestReportOfAnotherRepository(t *testing.T) {
	t.Parallel()
	const fleet, other = "acme/fleet", "acme/group/components"
	may := map[string][]string{
		"ada": {fleet, other}, "bob": {fleet}, "carol": {other}, "dan": {},
		"eve": {fleet, other},
	}
	var asked sync.Map
	h := start(t, server.Config{
		Source: &source{tips: "1"}, Access: everybody{},
		Rights: func(_ context.Context, person, repository string) (bool, error) {
			asked.Store(repository, true)
			if person == "eve" && repository == other {
				return true, errors.New("the forge does not answer")
			}
			return slices.Contains(may[person], repository), nil
		},
	})
	page := server.Head{Fleet: fleet, Repository: other, Number: 7, Commit: head}.Path()
	if page != "acme/fleet/-/merge-requests/of/acme/group/components/7/"+head+".html" {
		t.Errorf("the page is at %s", page)
	}
	for _, one := range []server.Head{
		{Fleet: fleet, Repository: other, Number: 7, Commit: head},
		{Fleet: fleet, Repository: fleet, Number: 7, Commit: head},
	} {
		want := fleet + "/-/index.html"
		if one.Repository == fleet {
			want = fleet + "/-/merge-requests/7.html"
		}
		if to := path.Join(path.Dir(one.Path()), one.Back().Address); to != want || one.Back().Name == "" {
			t.Errorf("the report of %s leads back to %s, want %s", one.Repository, to, want)
		}
	}
	for person, want := range map[string]int{"ada": 200, "bob": 404, "carol": 404, "dan": 404, "eve": 503, "": 403} {
		code, body := get(t, h.Client(), h.URL+"/"+page, "X-Person", person)
		if shown := strings.Contains(body, "report of components"); code != want || shown != (want == 200) {
			t.Errorf("%q gets %d %s", person, code, body)
		}
	}
	_, without := get(t, h.Client(), h.URL+"/"+page, "X-Person", "bob")
	for _, path := range []string{
		"acme/fleet/-/merge-requests/of/acme/group/other/7/" + head + ".html",
		"acme/fleet/-/merge-requests/of/secret/fleet/7/" + head + ".html",
		"acme/fleet/-/merge-requests/of/acme/fleet/7/" + head + ".html",
		"acme/fleet/-/merge-requests/of/../7/" + head + ".html",
		"acme/fleet/-/merge-requests/of//7/" + head + ".html",
		"acme/fleet/-/merge-requests/of/..%2f..%2f7%2f" + head + ".html",
		"acme/fleet/-/merge-requests/of/7/" + head + ".html", "acme/fleet/-/merge-requests/of/" + other + "/07/" +
			head + ".html",
		"acme/fleet/-/merge-requests/" + other + "/7/" + head + ".html",
		"secret/fleet/-/merge-requests/of/" + other + "/7/" + head + ".html",
	} {
		code, body := get(t, h.Client(), h.URL+"/"+path, "X-Person", "ada")
		if code != 404 || strings.Contains(body, "<title>report") {
			t.Errorf("%s: the status code is %d, the body is %s", path, code, body)
		}
		if strings.Contains(path, "/of/acme/group/other/") && body != without {
			t.Errorf("who may not read the repository gets %q, a repository that does not exist %q", without, body)
		}
	}
	asked.Range(func(repository, _ any) bool {
		if repository != fleet && repository != other && repository != "secret/fleet" {
			t.Errorf("the forge is asked about %v", repository)
		}
		return true
	})
}

// TestReportWithCompanions: a report with content of other repositories is read only by who may read all of them.
func TestReportWithCompanions(t *testing.T) {
	t.Parallel()
	const fleet = "acme/fleet"
	may := map[string][]string{
		"ada": {fleet, "acme/one", "acme/two"}, "bob": {fleet}, "carol": {fleet, "acme/one"},
		"dan": {"acme/one", "acme/two"}, "eve": {fleet, "acme/one"},
	}
	h := start(t, server.Config{
		Source: &source{tips: "1"}, Access: everybody{},
		Rights: func(_ context.Context, person, repository string) (bool, error) {
			if person == "eve" && repository == "acme/two" {
				return true, errors.New("the forge does not answer")
			}
			return slices.Contains(may[person], repository), nil
		},
	})
	page := server.Head{Fleet: fleet, Repository: fleet, Number: 8, Commit: head}.Path()
	for person, want := range map[string]int{"ada": 200, "bob": 404, "carol": 404, "dan": 404, "eve": 503} {
		if code, body := get(t, h.Client(), h.URL+"/"+page, "X-Person", person); code != want ||
			strings.Contains(body, "<title>report") != (want == 200) {
			t.Errorf("%s gets %d %s", person, code, body)
		}
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
