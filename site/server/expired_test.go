package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestExpiredSession uses a codec for which every cookie is too old.
func TestExpiredSession(t *testing.T) {
	t.Parallel()
	s, err := NewSessions(GitHub{}, []byte("key"), "http://localhost", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if err := s.set(w, s.session, "session", signedIn{"ada"}, sessionFor); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.AddCookie(w.Result().Cookies()[0])
	if name, known := s.Person(r); !known || name != "ada" {
		t.Fatal("a new session is not known")
	}
	s.session.MaxAge(-1)
	if _, known := s.Person(r); known {
		t.Error("an expired session is known")
	}
	for back, want := range map[string]string{
		"/a/-/b?q=1": "/a/-/b?q=1", "//evil.example.com": "/",
		"https://evil.example.com/": "/", "/\\evil": "/", "": "/",
	} {
		if got := local(back); got != want {
			t.Errorf("%q leads to %q", back, got)
		}
	}
}

// club is a sign-in whose members change.
type club struct {
	member *bool
	lasts  time.Duration
}

func (club) URL(_ context.Context, state, _, _ string) (string, error) {
	return "/-/callback?" + url.Values{"state": {state}, "code": {"c"}}.Encode(), nil
}

func (c club) Finish(context.Context, string, string, string) (string, error) {
	if !*c.member {
		return "", ErrNotAllowed
	}
	return "ada", nil
}

func (club) Identity() string { return "club" }

func (c club) Lasts() time.Duration { return c.lasts }

// TestFormerMember: when a sign-in is no longer believed, its session is that of a stranger, who is sent to the
// provider again. The provider lets a member in, and nobody else.
func TestFormerMember(t *testing.T) {
	t.Parallel()
	member := true
	s, err := NewSessions(club{&member, time.Minute}, []byte("key"), "http://localhost", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	signIn := func() (code int, session *http.Cookie) {
		t.Helper()
		w := httptest.NewRecorder()
		s.SignIn(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, w.Header().Get("Location"), nil)
		r.AddCookie(w.Result().Cookies()[0])
		w = httptest.NewRecorder()
		if !s.Handle(w, r) {
			t.Fatal("the answer of the provider is not handled")
		}
		for _, c := range w.Result().Cookies() {
			if c.Name == "sluice-session" {
				session = c
			}
		}
		return w.Code, session
	}
	known := func(c *http.Cookie) bool {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
		r.AddCookie(c)
		_, known := s.Person(r)
		return known
	}
	code, session := signIn()
	if code != http.StatusFound || session == nil || session.MaxAge != 60 || !known(session) {
		t.Fatalf("a member: %d, %+v", code, session)
	}
	s.session.MaxAge(-1) // a minute later
	if known(session) {
		t.Error("the sign-in is believed for longer than it lasts")
	}
	if code, _ := signIn(); code != http.StatusFound {
		t.Errorf("a member again: %d", code)
	}
	member = false
	if code, session := signIn(); code != http.StatusForbidden || session != nil {
		t.Errorf("a former member: %d, %+v", code, session)
	}
	late, err := NewSessions(club{&member, -time.Second}, []byte("key"), "http://localhost",
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if s = late; known(session) {
		t.Error("the server does not hold a session to the time of its sign-in")
	}
}

// TestCookieOfAnotherSignIn: with one key, the session of one provider, client, claim or list of groups is none of
// another, and neither is a sign-in that has begun. The order of groups does not matter.
func TestCookieOfAnotherSignIn(t *testing.T) {
	t.Parallel()
	of := func(in SignIn) *Sessions {
		t.Helper()
		s, err := NewSessions(in, []byte("key"), "http://localhost", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	config := OIDC{Issuer: "https://id.example.com", ClientID: "sluice", Groups: []string{"sre", "dev"}}
	change := func(f func(o *OIDC)) SignIn {
		o := config
		f(&o)
		return o.SignIn()
	}
	first := of(config.SignIn())
	w := httptest.NewRecorder()
	if err := first.set(w, first.session, "session", signedIn{"ada"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := first.set(w, first.pending, "signin", pending{State: "s"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	cookies := w.Result().Cookies()
	for name, c := range map[string]struct {
		in    SignIn
		known bool
	}{
		"the same":         {config.SignIn(), true},
		"another order":    {change(func(o *OIDC) { o.Groups = []string{"dev", "sre"} }), true},
		"another secret":   {change(func(o *OIDC) { o.ClientSecret = "new" }), true},
		"another issuer":   {change(func(o *OIDC) { o.Issuer = "https://id.example.org" }), false},
		"another client":   {change(func(o *OIDC) { o.ClientID = "other" }), false},
		"another claim":    {change(func(o *OIDC) { o.Claim = "sub" }), false},
		"fewer groups":     {change(func(o *OIDC) { o.Groups = []string{"sre"} }), false},
		"no groups":        {change(func(o *OIDC) { o.Groups = nil }), false},
		"another provider": {GitHub{Web: "https://id.example.com", ClientID: "sluice"}, false},
	} {
		s := of(c.in)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.AddCookie(cookies[0])
		if _, known := s.Person(r); known != c.known {
			t.Errorf("%s: the session is known: %t", name, known)
		}
		var p pending
		if err := s.pending.Decode("sluice-signin", cookies[1].Value, &p); (err == nil) != c.known {
			t.Errorf("%s: the sign-in that has begun: %v", name, err)
		}
	}
	if first.signIn.Lasts() != renewAfter || (OIDC{Rights: true}).SignIn().Lasts() != sessionFor ||
		(GitHub{}).Lasts() != sessionFor {
		t.Error("a sign-in lasts for hours only where the forge says what the person may read")
	}
}

// browser is a browser's cookies by name.
type browser map[string]*http.Cookie

func (b browser) request(t *testing.T, path string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for _, c := range b {
		r.AddCookie(c)
	}
	return r
}

// keep takes the cookies of an answer and returns where it leads.
func (b browser) keep(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		if b[c.Name] = c; c.MaxAge < 0 {
			delete(b, c.Name)
		}
	}
	return w.Header().Get("Location")
}

// TestSignInOfSeveralTabs: the sign-ins of a browser's tabs do not break each other, whether one begins after another
// or all at once.
func TestSignInOfSeveralTabs(t *testing.T) {
	t.Parallel()
	member := true
	for name, c := range map[string]struct {
		tabs   int
		atOnce bool // no tab sends the cookies of the others
		lost   int  // tabs that end on the first page
	}{
		"two tabs":          {tabs: 2},
		"eight tabs":        {tabs: 8},
		"all begin at once": {tabs: 40, atOnce: true, lost: 32},
		"one after another": {tabs: 40, lost: 32},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := NewSessions(club{&member, time.Minute}, []byte("key"), "http://localhost",
				slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			b := browser{}
			answers := make([]string, c.tabs)
			for i := range answers {
				w := httptest.NewRecorder()
				sent := b
				if c.atOnce {
					sent = browser{}
				}
				s.SignIn(w, sent.request(t, fmt.Sprintf("/page-%d?q=x", i)))
				answers[i] = b.keep(w)
			}
			if size := len(b.request(t, "/").Header.Get("Cookie")); len(b) > signIns || size > 5000 {
				t.Errorf("%d cookies with %d bytes", len(b), size)
			}
			lost := 0
			for i := c.tabs - 1; i >= 0; i-- { // the last one's cookie was replaced by none
				w := httptest.NewRecorder()
				s.Handle(w, b.request(t, answers[i]))
				switch to := b.keep(w); {
				case w.Code == http.StatusFound && to == fmt.Sprintf("/page-%d?q=x", i):
				case w.Code == http.StatusFound && to == "/" && i < c.tabs-1:
					lost++
				default:
					t.Errorf("tab %d ends at %q: %d %s", i, to, w.Code, w.Body)
				}
			}
			if lost < c.lost || c.lost == 0 && lost > 0 || lost == c.tabs {
				t.Errorf("%d tabs are not where they were", lost)
			}
			if len(b) != 1 {
				t.Errorf("afterwards there are %d cookies", len(b))
			}
		})
	}
}

// TestSignInFromALongAddress: an address that does not fit into a cookie does not prevent a sign-in.
func TestSignInFromALongAddress(t *testing.T) {
	t.Parallel()
	member := true
	s, err := NewSessions(club{&member, time.Minute}, []byte("key"), "http://localhost", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.SignIn(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x?q="+strings.Repeat("y", 5000), nil))
	if w.Code != http.StatusFound {
		t.Errorf("the code is %d, the body is %s", w.Code, w.Body)
	}
}
