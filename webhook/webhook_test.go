package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/webhook"
)

const (
	secret  = "It's a Secret to Everybody"
	other   = "the next secret, while they rotate"
	signing = "whsec_plJ3nmyCDGBKInavdOK15jsl"
)

// sink stores hints in memory.
type sink struct {
	mu    sync.Mutex
	hints []hint.Hint
	notes map[string]bool
	fail  error
	slow  time.Duration
}

func (s *sink) Put(ctx context.Context, h hint.Hint) error {
	select {
	case <-time.After(s.slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.hints = append(s.hints, h)
	return nil
}

func (s *sink) Known(_ context.Context, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes[id], nil
}

func (s *sink) Note(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notes == nil {
		s.notes = map[string]bool{}
	}
	s.notes[id] = true
	return nil
}

func (s *sink) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, h := range s.hints {
		out = append(out, fmt.Sprintf("%s %s %s #%d c%d %s %t", h.Place.Forge(), h.Kind, h.Place.Repo().Path, h.Number,
			h.Comment, h.Ref, h.Force))
	}
	return out
}

func now() time.Time { return time.Unix(1731705121, 0) }

func handler(tb testing.TB, s *sink, log io.Writer) http.Handler {
	tb.Helper()
	h, err := webhook.New(webhook.Config{
		Endpoints: []webhook.Endpoint{
			{Forge: "hub", Kind: "github", Path: "/hooks/hub", Secrets: []string{other, secret}},
			{Forge: "lab", Kind: "gitlab", Path: "/hooks/lab", Secrets: []string{secret}, Signing: []string{signing}},
			{Forge: "tea", Kind: "gitea", Path: "/hooks/tea", Secrets: []string{other, secret}},
		},
		Sink: s, Clock: now, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func hub(event string, body []byte) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hooks/hub", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	r.Header.Set("X-Hub-Signature-256", sign(secret, body))
	return r
}

func lab(event string, body []byte) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hooks/lab", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gitlab-Event", event)
	r.Header.Set("X-Gitlab-Token", secret)
	return r
}

func tea(event string, body []byte) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hooks/tea", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gitea-Event", event)
	r.Header.Set("X-Gitea-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0959")
	r.Header.Set("X-Gitea-Signature", strings.TrimPrefix(sign(secret, body), "sha256="))
	return r
}

func send(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// TestVectors checks the examples of
// https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries and of
// https://www.standardwebhooks.com, whose signatures GitLab uses.
func TestVectors(t *testing.T) {
	const vector = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	if got := sign(secret, []byte("Hello, World!")); got != vector {
		t.Errorf("the test's own signature is %s", got)
	}
	h := handler(t, &sink{}, io.Discard)
	r := hub("ping", []byte("Hello, World!"))
	r.Header.Set("X-Hub-Signature-256", vector)
	if code := send(h, r); code != http.StatusOK {
		t.Errorf("GitHub's example: %d", code)
	}
	body := []byte(`{"event_type":"ping","data":{"success":true}}`)
	s := lab("Emoji Hook", body)
	s.Header.Del("X-Gitlab-Token")
	s.Header.Set("webhook-id", "msg_loFOjxBNrRLzqYUf")
	s.Header.Set("webhook-timestamp", "1731705121")
	s.Header.Set("webhook-signature", "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=")
	if code := send(h, s); code != http.StatusOK {
		t.Errorf("the example of Standard Webhooks: %d", code)
	}
}

func TestHints(t *testing.T) {
	for _, c := range []struct {
		kind, event, body string
		code              int
		want              string
	}{
		{
			"hub", "push", `{"ref":"refs/heads/main","after":"a","repository":{"full_name":"acme/fleet"}}`, 202,
			"hub trunk acme/fleet #0 c0 main false",
		},
		{"hub", "push", `{"ref":"refs/heads/gone","after":"0000000000000000000000000000000000000000","repository":{"full_name":"acme/fleet"}}`, 200, ""},
		{
			"hub", "push", `{"ref":"refs/tags/v1","after":"a","repository":{"full_name":"acme/fleet"}}`, 202,
			"hub tag acme/fleet #0 c0  false",
		},
		{
			"lab", "Tag Push Hook",
			`{"object_kind":"tag_push","ref":"refs/tags/v1","after":"a","project":{"path_with_namespace":"acme/fleet"}}`, 202, "lab tag acme/fleet #0 c0  false",
		},
		{"lab", "System Hook", `{"object_kind":"tag_push","event_name":"tag_push","ref":"refs/tags/v1","after":"a","project":{"path_with_namespace":"acme/fleet"}}`, 202, "lab tag acme/fleet #0 c0  false"},
		{
			"lab", "Tag Push Hook",
			`{"object_kind":"tag_push","ref":"refs/notes/v1","after":"a","project":{"path_with_namespace":"acme/fleet"}}`, 200, "",
		},
		{"hub", "pull_request", `{"action":"opened","pull_request":{"number":7},"repository":{"full_name":"acme/fleet"}}`, 202, "hub review acme/fleet #7 c0  false"},
		{
			"hub", "issue_comment",
			`{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"id":5},"repository":{"full_name":"acme/fleet"}}`, 202, "hub comment acme/fleet #7 c5  false",
		},
		{
			"hub", "issue_comment",
			`{"action":"edited","issue":{"number":7,"pull_request":{}},"comment":{"id":5},"repository":{"full_name":"acme/fleet"}}`, 200, "",
		},
		{
			"hub", "issue_comment",
			`{"action":"created","issue":{"number":7},"comment":{"id":5},"repository":{"full_name":"acme/fleet"}}`, 200,
			"",
		},
		{"hub", "check_run", `{"action":"rerequested","check_run":{"pull_requests":[{"number":3}]},"repository":{"full_name":"acme/fleet"}}`, 202, "hub review acme/fleet #3 c0  true"},
		{"hub", "check_suite", `{"action":"rerequested","check_suite":{"pull_requests":[]},"repository":{"full_name":"acme/fleet"}}`, 202, "hub sweep acme/fleet #0 c0  true"},
		{"hub", "installation", `{"action":"created"}`, 202, "hub sweep  #0 c0  false"},
		{"hub", "star", `{}`, 200, ""},
		{
			"tea", "push", `{"ref":"refs/heads/main","after":"a","repository":{"full_name":"acme/fleet"}}`, 202,
			"tea trunk acme/fleet #0 c0 main false",
		},
		{
			"tea", "pull_request",
			`{"action":"synchronized","number":7,"pull_request":{"number":7},"repository":{"full_name":"acme/fleet"}}`, 202,
			"tea review acme/fleet #7 c0  false",
		},
		{
			"tea", "issue_comment",
			`{"action":"created","issue":{"number":7,"pull_request":{"merged":false}},"comment":{"id":5,"body":"/sluice help"},"is_pull":true,"repository":{"full_name":"acme/fleet"}}`, 202, "tea comment acme/fleet #7 c5  false",
		},
		{
			"tea", "issue_comment",
			`{"action":"created","issue":{"number":7,"pull_request":null},"comment":{"id":5,"body":"/sluice help"},"is_pull":false,"repository":{"full_name":"acme/fleet"}}`, 200, "",
		},
		{"tea", "status", `{"sha":"a","repository":{"full_name":"acme/fleet"}}`, 200, ""},
		{"hub", "membership", `{"action":"removed"}`, 202, "hub members  #0 c0  false"},
		{"hub", "organization", `{"action":"member_removed"}`, 202, "hub members  #0 c0  false"},
		{"lab", "Member Hook", `{"event_name":"user_remove_from_group"}`, 202, "lab members  #0 c0  false"},
		{
			"hub", "issue_comment",
			`{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"id":5,"body":"looks good\n/sluice help"},"repository":{"full_name":"acme/fleet"}}`, 202, "hub comment acme/fleet #7 c5  false",
		},
		{
			"hub", "issue_comment",
			`{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"id":5,"body":"<!-- sluice-review v1 -->\nsee /sluice help"},"repository":{"full_name":"acme/fleet"}}`, 200, "",
		},
		{"lab", "Note Hook", `{"object_kind":"note","object_attributes":{"id":9,"noteable_type":"MergeRequest","note":"<!-- sluice-review v1 -->\nLGTM"},"merge_request":{"iid":4},"project":{"path_with_namespace":"acme/fleet"}}`, 200, ""},
		{
			"hub", "push", `{"ref":"refs/heads/main","after":"a","repository":{"full_name":"acme/.github"}}`, 202,
			"hub trunk acme/.github #0 c0 main false",
		},
		{
			"hub", "push", `{"ref":"refs/heads/main","after":"a","repository":{"full_name":"../../etc"}}`, 202,
			"hub sweep  #0 c0  false",
		},
		{
			"hub", "push", `{"ref":["refs/heads/main"],"after":"a","repository":{"full_name":"acme/fleet"}}`, 202,
			"hub sweep acme/fleet #0 c0  false",
		},
		{"hub", "push", `not json`, 202, "hub sweep  #0 c0  false"},
		{"hub", "pull_request", `{"action":"opened","number":"x","pull_request":{"number":7,"base":"","head":4,"user":[]},"sender":1,"repository":{"full_name":"acme/fleet","owner":7}}`, 202, "hub review acme/fleet #7 c0  false"},
		{"hub", "pull_request", `{"action":"opened","pull_request":{"number":"7"},"repository":{"full_name":"acme/fleet"}}`, 202, "hub sweep acme/fleet #0 c0  false"},
		{
			"hub", "issue_comment",
			`{"action":"created","issue":{"number":7,"pull_request":null},"comment":{"id":5},"repository":{"full_name":"acme/fleet"}}`, 200, "",
		},
		{"lab", "Push Hook", `{"object_kind":"push","ref":"refs/heads/main","after":"a","project":{"path_with_namespace":"acme/sub/fleet"}}`, 202, "lab trunk acme/sub/fleet #0 c0 main false"},
		{"lab", "System Hook", `{"event_name":"push","ref":"refs/heads/main","after":"a","project":{"path_with_namespace":"acme/fleet"}}`, 202, "lab trunk acme/fleet #0 c0 main false"},
		{"lab", "System Hook", `{"event_name":"user_create"}`, 200, ""},
		{
			"lab", "Merge Request Hook",
			`{"object_kind":"merge_request","object_attributes":{"iid":4},"project":{"path_with_namespace":"acme/fleet"}}`, 202, "lab review acme/fleet #4 c0  false",
		},
		{
			"lab", "Merge Request Hook",
			`{"object_kind":7,"object_attributes":{"iid":4,"source":{"name":"x"},"target":[],"action":{}},"user":"x","changes":7,"project":{"path_with_namespace":"acme/fleet","id":"x"}}`, 202, "lab review acme/fleet #4 c0  false",
		},
		{
			"lab", "Merge Request Hook",
			`{"object_kind":"merge_request","object_attributes":{"id":4},"project":{"path_with_namespace":"acme/fleet"}}`, 202, "lab sweep acme/fleet #0 c0  false",
		},
		{
			"lab", "Merge Request Hook",
			`{"object_kind":"merge_request","object_attributes":"x","project":{"path_with_namespace":"acme/fleet"}}`,
			202, "lab sweep acme/fleet #0 c0  false",
		},
		{"lab", "Note Hook", `{}`, 202, "lab sweep  #0 c0  false"},
		{"lab", "System Hook", `[]`, 202, "lab sweep  #0 c0  false"},
		{"lab", "Note Hook", `{"object_kind":"note","object_attributes":{"id":9,"noteable_type":"MergeRequest","action":"create"},"merge_request":{"iid":4},"project":{"path_with_namespace":"acme/fleet"}}`, 202, "lab comment acme/fleet #4 c9  false"},
		{"lab", "Note Hook", `{"object_kind":"note","object_attributes":{"id":9,"noteable_type":"MergeRequest","action":"update"},"merge_request":{"iid":4},"project":{"path_with_namespace":"acme/fleet"}}`, 200, ""},
		{"lab", "Note Hook", `{"object_kind":"note","object_attributes":{"id":9,"noteable_type":"MergeRequest","system":true},"merge_request":{"iid":4},"project":{"path_with_namespace":"acme/fleet"}}`, 200, ""},
		{"lab", "Note Hook", `{"object_kind":"note","object_attributes":{"id":9,"noteable_type":"Issue"},"project":{"path_with_namespace":"acme/fleet"}}`, 200, ""},
		{
			"lab", "Pipeline Hook",
			`{"object_kind":"pipeline","object_attributes":{"id":1},"merge_request":{"iid":4},"project":{"path_with_namespace":"acme/fleet"}}`, 202, "lab trunk acme/fleet #0 c0  false",
		},
		{"lab", "Emoji Hook", `{"object_kind":"emoji"}`, 200, ""},
	} {
		s := &sink{}
		h := handler(t, s, io.Discard)
		r := hub(c.event, []byte(c.body))
		switch c.kind {
		case "lab":
			r = lab(c.event, []byte(c.body))
		case "tea":
			r = tea(c.event, []byte(c.body))
		}
		if code := send(h, r); code != c.code || strings.Join(s.got(), "|") != c.want {
			t.Errorf("the event is %s, the body is %s: the status code is %d, got is %q, want %d, want %q", c.event,
				c.body, code, s.got(), c.code, c.want)
		}
	}
}

const push = `{"ref":"refs/heads/main","after":"a","repository":{"full_name":"acme/fleet"}}`

func TestRefusedRequests(t *testing.T) {
	signed := func(stamp int64, key string) *http.Request {
		body := []byte(`{"object_kind":"push","ref":"refs/heads/main","after":"a","project":{"path_with_namespace":"acme/fleet"}}`)
		r := lab("Push Hook", body)
		r.Header.Del("X-Gitlab-Token")
		raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
		mac := hmac.New(sha256.New, raw)
		fmt.Fprintf(mac, "m.%d.%s", stamp, body)
		r.Header.Set("webhook-id", "m")
		r.Header.Set("webhook-timestamp", strconv.FormatInt(stamp, 10))
		r.Header.Set("webhook-signature", "v1,AAAA v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		return r
	}
	with := func(change func(r *http.Request)) *http.Request {
		r := hub("push", []byte(push))
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		r    *http.Request
		code int
	}{
		"good": {hub("push", []byte(push)), 202},
		"the other secret": {with(func(r *http.Request) {
			r.Header.Set("X-Hub-Signature-256",
				sign(other, []byte(push)))
		}), 202},
		"signed by GitLab": {signed(now().Unix(), signing), 202},
		"another key": {signed(now().Unix(), "whsec_"+
			base64.StdEncoding.EncodeToString([]byte("wrong wrong wrong"))), 401},
		"old":           {signed(now().Add(-6*time.Minute).Unix(), signing), 401},
		"from tomorrow": {signed(now().Add(24*time.Hour).Unix(), signing), 401},
		"no signature":  {with(func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }), 401},
		"SHA-1":         {with(func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha1=0000") }), 401},
		"another body's": {with(func(r *http.Request) {
			r.Header.Set("X-Hub-Signature-256",
				sign(secret, []byte("x")))
		}), 401},
		"wrong secret": {with(func(r *http.Request) {
			r.Header.Set("X-Hub-Signature-256",
				sign("guess", []byte(push)))
		}), 401},
		"no event": {with(func(r *http.Request) { r.Header.Del("X-GitHub-Event") }), 400},
		"a form": {with(func(r *http.Request) {
			r.Header.Set("Content-Type",
				"application/x-www-form-urlencoded")
		}), 415},
		"another method": {httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/hooks/hub",
			nil), 405},
		"another path": {httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hooks/hub/",
			nil), 404},
		"GitLab without token": {func() *http.Request {
			r := lab("Push Hook",
				[]byte(push))
			r.Header.Del("X-Gitlab-Token")
			return r
		}(), 401},
		"GitLab's token wrong": {func() *http.Request {
			r := lab("Push Hook", []byte(push))
			r.Header.Set("X-Gitlab-Token", "x")
			return r
		}(), 401},
		"GitHub's hook to GitLab": {func() *http.Request {
			r := hub("push",
				[]byte(push))
			r.URL.Path = "/hooks/lab"
			return r
		}(), 400},
		"signed by Gitea": {tea("push", []byte(push)), 202},
		"signed by Forgejo": {func() *http.Request {
			r := tea("push", []byte(push))
			r.Header.Set("X-Forgejo-Event", "push")
			r.Header.Set("X-Forgejo-Signature", r.Header.Get("X-Gitea-Signature"))
			return r
		}(), 202},
		"Gitea without signature": {func() *http.Request {
			r := tea("push", []byte(push))
			r.Header.Del("X-Gitea-Signature")
			return r
		}(), 401},
		"Gitea's signature of another body": {func() *http.Request {
			r := tea("push", []byte(push))
			r.Header.Set("X-Gitea-Signature", strings.TrimPrefix(sign(secret, []byte("x")), "sha256="))
			return r
		}(), 401},
		"only GitHub's signature to Gitea": {func() *http.Request {
			r := tea("push", []byte(push))
			r.Header.Del("X-Gitea-Signature")
			r.Header.Set("X-Hub-Signature-256", sign(secret, []byte(push)))
			return r
		}(), 401},
		"too large": {func() *http.Request { return hub("push", make([]byte, 26<<20)) }(), 413},
	} {
		s := &sink{}
		if code := send(handler(t, s, io.Discard), c.r); code != c.code || (code >= 300) == (len(s.hints) > 0) {
			t.Errorf("%s: %d, want %d; hints %v", name, code, c.code, s.got())
		}
	}
}

func TestEndpointsNeedSecrets(t *testing.T) {
	for name, e := range map[string]webhook.Endpoint{
		"none":       {Forge: "hub", Kind: "github", Path: "/h"},
		"empty":      {Forge: "hub", Kind: "github", Path: "/h", Secrets: []string{""}},
		"short":      {Forge: "hub", Kind: "github", Path: "/h", Secrets: []string{"hunter2"}},
		"no whsec":   {Forge: "lab", Kind: "gitlab", Path: "/h", Signing: []string{"0123456789abcdef"}},
		"no signing": {Forge: "tea", Kind: "gitea", Path: "/h", Signing: []string{signing}},
		"other kind": {Forge: "x", Kind: "gerrit", Path: "/h", Secrets: []string{secret}},
		"no path":    {Forge: "x", Kind: "github", Path: "h", Secrets: []string{secret}},
	} {
		if _, err := webhook.New(webhook.Config{
			Endpoints: []webhook.Endpoint{e}, Sink: &sink{}, Clock: now,
			Log: slog.New(slog.DiscardHandler),
		}); err == nil {
			t.Errorf("%s: New returns no error", name)
		}
	}
}

func TestReplays(t *testing.T) {
	s := &sink{}
	h := handler(t, s, io.Discard)
	codes := []int{send(h, hub("push", []byte(push))), send(h, hub("push", []byte(push)))}
	again := hub("push", []byte(push))
	again.Header.Set("X-GitHub-Delivery", "another")
	codes = append(codes, send(h, again))
	if !slices.Equal(codes, []int{202, 200, 200}) || len(s.hints) != 1 {
		t.Errorf("%v, %d hints", codes, len(s.hints))
	}
}

func TestQueueFails(t *testing.T) {
	s := &sink{fail: errors.New("disk full")}
	h := handler(t, s, io.Discard)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, hub("push", []byte(push)))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("the code is %d, Header is %v", w.Code, w.Header())
	}
	s.fail = nil
	if code := send(h, hub("push", []byte(push))); code != http.StatusAccepted || len(s.hints) != 1 {
		t.Errorf("redelivered: %d, %d hints; want a hint, because the first delivery was not stored", code,
			len(s.hints))
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		code := send(handler(t, &sink{slow: time.Minute}, io.Discard), hub("push", []byte(push)))
		if took := time.Since(began); code != http.StatusServiceUnavailable || took != 900*time.Millisecond {
			t.Errorf("a slow queue: %d after %v", code, took)
		}
	})
}

func TestLog(t *testing.T) {
	var log bytes.Buffer
	h := handler(t, &sink{}, &log)
	r := hub("push", []byte(strings.Replace(push, `"a"`, `"hunter2"`, 1)))
	r.URL.RawQuery = "token=hunter2"
	r.Header.Set("X-GitHub-Delivery", "evil\nline hunter2")
	r.Header.Set("Authorization", "hunter2")
	send(h, r)
	if text := log.String(); strings.Contains(text, "hunter2") || strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "event=push") {
		t.Errorf("log %q", text)
	}
}

func FuzzHandler(f *testing.F) {
	f.Add("push", []byte(push), true)
	f.Add("Note Hook", []byte(`{"object_attributes":{}}`), false)
	f.Fuzz(func(t *testing.T, event string, body []byte, github bool) {
		s := &sink{}
		h := handler(t, s, io.Discard)
		r := lab("x", body)
		if github {
			r = hub("x", body)
			r.Header["X-Github-Event"] = []string{event}
		} else {
			r.Header["X-Gitlab-Event"] = []string{event}
		}
		if code := send(h, r); code >= 500 {
			t.Fatalf("the event is %q, the body is %q: the status code is %d", event, body, code)
		}
		for _, one := range s.hints {
			if path := one.Place.Repo().Path; strings.Contains(path, "..") && strings.Contains(path, "/../") ||
				strings.ContainsAny(one.Ref, "\n\x00") {
				t.Fatalf("the one is %+v", one)
			}
		}
	})
}

// BenchmarkDeliveries sends 5,000 deliveries over 50 connections.
func BenchmarkDeliveries(b *testing.B) {
	s := &sink{}
	server := httptest.NewServer(handler(b, s, io.Discard))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 50}}
	for b.Loop() {
		const deliveries, connections = 5000, 50
		took := make([]time.Duration, deliveries)
		var next atomic.Int64
		var group sync.WaitGroup
		began := time.Now()
		for range connections {
			group.Go(func() {
				for i := next.Add(1) - 1; i < deliveries; i = next.Add(1) - 1 {
					body := []byte(strings.Replace(push, `"a"`, fmt.Sprintf(`"%d-%d"`, time.Now().UnixNano(), i), 1))
					r := hub("push", body)
					out, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL+"/hooks/hub",
						bytes.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					out.Header = r.Header
					out.Header.Set("X-GitHub-Delivery", fmt.Sprint(time.Now().UnixNano(), "-", i))
					start := time.Now()
					resp, err := client.Do(out)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					took[i] = time.Since(start)
				}
			})
		}
		group.Wait()
		slices.Sort(took)
		b.ReportMetric(deliveries/time.Since(began).Seconds(), "accepted/s")
		b.ReportMetric(float64(took[deliveries*99/100].Milliseconds()), "p99-ms")
	}
}

// A hint has the digest of the comment's original text, so that the bot detects an edit. It has none if the comment
// was edited before the event was sent.
func TestTextOfComments(t *testing.T) {
	const onHub = `{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"id":5,"body":"/sluice help","created_at":"2026-04-01T12:00:00Z","updated_at":"2026-04-01T12:00:%sZ"},"repository":{"full_name":"acme/fleet"}}`
	const onLab = `{"object_kind":"note","project":{"path_with_namespace":"acme/fleet"},"merge_request":{"iid":7},"object_attributes":{"id":5,"noteable_type":"MergeRequest","action":"create","note":"/sluice help","created_at":"2026-04-01 12:00:00 UTC","updated_at":"2026-04-01 12:00:%s UTC"}}`
	for second, want := range map[string]string{"00": forge.TextDigest("/sluice help"), "01": ""} {
		s := &sink{}
		h := handler(t, s, io.Discard)
		for _, r := range []*http.Request{
			hub("issue_comment", fmt.Appendf(nil, onHub, second)),
			lab("Note Hook", fmt.Appendf(nil, onLab, second)),
		} {
			if code := send(h, r); code != http.StatusAccepted {
				t.Fatal(code)
			}
		}
		if len(s.hints) != 2 || s.hints[0].Text != want || s.hints[1].Text != want {
			t.Errorf("%s: the hints are %+v", second, s.hints)
		}
	}
}

// The group of a merge queue gives a hint with the number of its last pull request. A comment is urgent if a line
// begins with a command that does not wait for what runs: cancel, freeze, halt, rollback.
func TestGroupsAndUrgentCommands(t *testing.T) {
	const payload = `{"action":%q,"merge_group":{"head_ref":%q},"repository":{"full_name":"acme/fleet"}}`
	for _, c := range []struct{ action, ref, want string }{
		{
			"checks_requested", "refs/heads/gh-readonly-queue/main/pr-104-79fe1d03",
			"hub group acme/fleet #104 c0 gh-readonly-queue/main/pr-104-79fe1d03 false",
		},
		{
			"checks_requested", "refs/heads/gh-readonly-queue/release/1.2/pr-7-79fe1d03",
			"hub group acme/fleet #7 c0 gh-readonly-queue/release/1.2/pr-7-79fe1d03 false",
		},
		{"destroyed", "refs/heads/gh-readonly-queue/main/pr-104-79fe1d03", ""},
		{"checks_requested", "refs/heads/main", "hub sweep acme/fleet #0 c0  false"},
		{"checks_requested", "refs/heads/gh-readonly-queue/main/pr-x-79fe1d03", "hub sweep acme/fleet #0 c0  false"},
	} {
		s := &sink{}
		send(handler(t, s, io.Discard), hub("merge_group", fmt.Appendf(nil, payload, c.action, c.ref)))
		if got := strings.Join(s.got(), ";"); got != c.want {
			t.Errorf("the action is %s, the ref is %s: the result of got is %q", c.action, c.ref, got)
		}
	}
	const comment = `{"action":"created","issue":{"number":7,"pull_request":{}},"comment":{"id":5,"body":%q},"repository":{"full_name":"acme/fleet"}}`
	for text, want := range map[string]bool{
		"/sluice cancel": true, "Wrong branch!\n/sluice cancel": true, "/sluice cancel\r\n": true,
		"/sluice halt prod": true, "/sluice freeze prod --reason fire": true, "/sluice rollback prod": true,
		"/sluice help": false, "/sluice unfreeze prod": false, "please /sluice cancel": false,
		"> /sluice cancel": false, "/sluice cancelled": false,
	} {
		s := &sink{}
		send(handler(t, s, io.Discard), hub("issue_comment", fmt.Appendf(nil, comment, text)))
		if len(s.hints) != 1 || s.hints[0].Urgent != want {
			t.Errorf("%q: the hints are %+v", text, s.hints)
		}
	}
}
