package notify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-playground/webhooks/v6/github"

	"github.com/sluice-gitops/sluice/internal/plainhttp"
	"github.com/sluice-gitops/sluice/service/notify"
)

const secret = "the secret of the test"

// listener is a server that records requests.
type listener struct {
	*httptest.Server
	mu    sync.Mutex
	heard []heard
	fail  []int // statuses of the next answers
}

type heard struct {
	path   string
	header http.Header
	body   []byte
}

func newEar(t *testing.T) *listener {
	t.Helper()
	e := &listener{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard = append(e.heard, heard{r.URL.Path, r.Header, body})
		if len(e.fail) > 0 {
			status := e.fail[0]
			e.fail = e.fail[1:]
			if status == http.StatusFound {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *listener) paths() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []string{}
	for _, h := range e.heard {
		out = append(out, h.path)
	}
	slices.Sort(out)
	return out
}

func notifier(r ...notify.Receiver) *notify.Notifier {
	for i := range r {
		r[i].Secret = []byte(secret)
	}
	return &notify.Notifier{Receivers: r, Client: notify.NewClient(), UserAgent: "sluice/test", Wait: time.Millisecond}
}

func moves() []notify.Move {
	return []notify.Move{
		{Branch: "env/prod", Environment: "prod", Before: strings.Repeat("1", 40), After: strings.Repeat("2", 40)},
		{Branch: "cluster/eu-1", Environment: "prod", Cluster: "eu-1", After: strings.Repeat("3", 40)},
		{
			Branch: "cluster/us-1", Environment: "prod", Cluster: "us-1", Before: strings.Repeat("4", 40),
			After: strings.Repeat("5", 40),
		},
	}
}

func TestFlux(t *testing.T) {
	t.Parallel()
	e := newEar(t)
	n := notifier(
		notify.Receiver{
			Kind: notify.Flux, URL: e.URL + "/${environment}/${cluster.name}/hook",
			Clusters: []string{"eu-*"},
		},
		notify.Receiver{Kind: notify.Flux, URL: e.URL + "/all"},
	)
	if err := n.Notify(t.Context(), "https://git.example.com/acme/fleet.git", moves()); err != nil {
		t.Fatal(err)
	}
	if got := e.paths(); !slices.Equal(got, []string{"/all", "/prod/eu-1/hook"}) {
		t.Fatalf("told %v", got)
	}
	for _, h := range e.heard {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(h.body)
		if got := h.header.Get("X-Signature"); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("signature %q of %s", got, h.body)
		}
	}
}

// Argo CD's own webhook library parses the messages.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	e := newEar(t)
	n := notifier(notify.Receiver{Kind: notify.ArgoCD, URL: e.URL + "/api/webhook"})
	if err := n.Notify(t.Context(), "git@git.example.com:acme/fleet.git", moves()); err != nil {
		t.Fatal(err)
	}
	if len(e.heard) != 3 {
		t.Fatalf("%d messages", len(e.heard))
	}
	hook, err := github.New(github.Options.Secret(secret))
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, h := range e.heard {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, h.path, strings.NewReader(string(h.body)))
		r.Header = h.header
		got, err := hook.Parse(r, github.PushEvent)
		if err != nil {
			t.Fatal(err)
		}
		p, ok := got.(github.PushPayload)
		if !ok || p.Repository.HTMLURL != "https://git.example.com/acme/fleet" || len(p.After) != 40 ||
			len(p.Before) != 40 || len(p.Commits) != 0 {
			t.Errorf("the result of Parse is %+v", got)
		}
		refs = append(refs, p.Ref)
		var raw map[string]any
		if err := json.Unmarshal(h.body, &raw); err != nil || strings.Contains(string(h.body), secret) {
			t.Errorf("%s: the error is %v", h.body, err)
		}
	}
	slices.Sort(refs)
	if want := []string{
		"refs/heads/cluster/eu-1", "refs/heads/cluster/us-1",
		"refs/heads/env/prod",
	}; !slices.Equal(refs, want) {
		t.Errorf("the refs are %v", refs)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	one := moves()[:1]
	for name, c := range map[string]struct {
		answers []int
		sent    int
		want    string
	}{
		"once is enough":   {nil, 1, ""},
		"the third time":   {[]int{500, 429}, 3, ""},
		"it stays down":    {[]int{503, 503, 503}, 3, "it answers 503"},
		"it says no":       {[]int{401}, 1, "it answers 401"},
		"it points away":   {[]int{302}, 1, "it answers 302"},
		"no such receiver": {[]int{404}, 1, "it answers 404"},
	} {
		e := newEar(t)
		e.fail = c.answers
		err := notifier(notify.Receiver{Kind: notify.Flux, URL: e.URL + "/hook/very-secret"}).Notify(t.Context(), "x",
			one)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			len(e.paths()) != c.sent {
			t.Errorf("%s: %v after %v", name, err, e.paths())
		}
		if err != nil && (strings.Contains(err.Error(), "very-secret") || strings.Contains(err.Error(), secret)) {
			t.Errorf("%s: the error contains a secret: %v", name, err)
		}
	}
	gone := newEar(t)
	gone.Close()
	err := notifier(notify.Receiver{Kind: notify.Flux, URL: gone.URL + "/hook/very-secret"}).Notify(t.Context(), "x",
		one)
	if err == nil || strings.Contains(err.Error(), "very-secret") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestWeb(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://git.example.com/acme/fleet.git":          "https://git.example.com/acme/fleet",
		"https://user:pw@git.example.com/acme/fleet":      "https://git.example.com/acme/fleet",
		"git@git.example.com:acme/fleet.git":              "https://git.example.com/acme/fleet",
		"ssh://git@git.example.com:2222/acme/fleet.git":   "https://git.example.com/acme/fleet",
		"http://git.example.com:8080/group/sub/fleet.git": "http://git.example.com:8080/group/sub/fleet",
		"/srv/git/fleet.git":                              "/srv/git/fleet.git",
	} {
		if got := notify.Web(address); got != want {
			t.Errorf("%s: the result of Web is %s, want %s", address, got, want)
		}
	}
}

// The path of a Flux receiver is a secret, so it must not be sent unencrypted.
func TestFluxReceiversNeedHTTPS(t *testing.T) {
	t.Parallel()
	n := notifier(notify.Receiver{Kind: notify.Flux, URL: "http://flux.example.com/hook/very-secret"})
	err := n.Notify(t.Context(), "x", moves())
	if _, plain := errors.AsType[*plainhttp.Error](err); !plain || strings.Contains(err.Error(), "very-secret") ||
		!strings.Contains(err.Error(), "flux.example.com") {
		t.Errorf("the error is %v", err)
	}
	reached := false
	n.Client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		reached = true
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	})
	n.PlainHTTP = []string{"flux.example.com"}
	if err := n.Notify(t.Context(), "x", moves()); err != nil || !reached {
		t.Errorf("a host of the operator: %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
