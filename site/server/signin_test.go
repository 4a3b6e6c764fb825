package server_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/sluice-gitops/sluice/site/server"
)

// newProvider is an OpenID provider and a GitHub. claims are what its next ID token says beside the standard claims.
func newProvider(t *testing.T, claims map[string]any) *httptest.Server {
	t.Helper()
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/auth", "token_endpoint": s.URL +
			"/token", "jwks_uri": s.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
			Key: &key.PublicKey, KeyID: "1", Algorithm: "RS256",
			Use: "sig",
		}}})
	})
	var nonce atomic.Value
	nonce.Store("nonce")
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("client_id") != "client" || q.Get("scope") != "openid profile email" {
			http.Error(w, "unknown client or scope", http.StatusBadRequest)
			return
		}
		nonce.Store(q.Get("nonce"))
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"state": {q.Get("state")}, "code": {"good"}}.Encode(),
			http.StatusFound)
	})
	token := func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Form.Get("code") != "good" || r.Form.Get("code_verifier") == "" {
			http.Error(w, "bad code", http.StatusBadRequest)
			return
		}
		body := map[string]any{
			"iss": s.URL, "aud": "client", "sub": "1", "iat": time.Now().Unix(),
			"exp": time.Now().Add(time.Hour).Unix(), "nonce": nonce.Load(),
		}
		maps.Copy(body, claims)
		text, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Error(err)
			return
		}
		id, err := signed.CompactSerialize()
		if err != nil {
			t.Error(err)
		}
		answer(w, map[string]any{"access_token": "access", "token_type": "bearer", "id_token": id})
	}
	mux.HandleFunc("/token", token)
	mux.HandleFunc("/login/oauth/access_token", token)
	mux.HandleFunc("/user", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer access" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		answer(w, map[string]any{"login": "ada"})
	})
	return s
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims    map[string]any
		o         server.OIDC
		code      string
		want, err string
	}{
		"verified address": {
			claims: map[string]any{"email": "ada@example.com", "email_verified": true},
			want:   "ada@example.com",
		},
		"another address": {claims: map[string]any{"email": "ada@example.com"}, err: "not verified"},
		"user name": {
			claims: map[string]any{"preferred_username": "ada"},
			o:      server.OIDC{Claim: "preferred_username"}, want: "ada",
		},
		"no name": {o: server.OIDC{Claim: "preferred_username"}, err: "no claim"},
		"group": {
			claims: map[string]any{"n": "ada", "groups": []string{"x", "sre"}},
			o:      server.OIDC{Claim: "n", Groups: []string{"sre"}}, want: "ada",
		},
		"other group": {
			claims: map[string]any{"n": "ada", "groups": []string{"x"}},
			o:      server.OIDC{Claim: "n", Groups: []string{"sre"}}, err: "not among",
		},
		"other sign-in": {
			claims: map[string]any{"n": "ada", "nonce": "other"}, o: server.OIDC{Claim: "n"},
			err: "another sign-in",
		},
		"other audience": {
			claims: map[string]any{"n": "ada", "aud": "other"}, o: server.OIDC{Claim: "n"},
			err: "audience",
		},
		"expired":  {claims: map[string]any{"n": "ada", "exp": 1}, o: server.OIDC{Claim: "n"}, err: "expired"},
		"bad code": {o: server.OIDC{Claim: "n"}, code: "bad", err: "exchange"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, c.claims)
			c.o.Issuer, c.o.ClientID, c.o.ClientSecret, c.o.Redirect, c.o.Client = p.URL, "client", "secret",
				"https://s.example.com/-/callback", p.Client()
			in := c.o.SignIn()
			address, err := in.URL(t.Context(), "state", "nonce", "verifier")
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(address)
			if err != nil || u.Query().Get("state") != "state" || u.Query().Get("nonce") != "nonce" ||
				u.Query().Get("code_challenge_method") != "S256" {
				t.Errorf("the result of Parse is %v, the error is %v", u, err)
			}
			if c.code == "" {
				c.code = "good"
			}
			got, err := in.Finish(t.Context(), c.code, "nonce", "verifier")
			if got != c.want || c.err == "" && err != nil || c.err != "" &&
				(err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("the result of Finish is %q, the error is %v", got, err)
			}
		})
	}
}

func TestGitHub(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	in := server.GitHub{
		Web: p.URL, API: p.URL + "/", ClientID: "client", ClientSecret: "secret",
		Redirect: "https://s.example.com/-/callback", Client: p.Client(),
	}
	if u, err := in.URL(t.Context(), "state", "", "verifier"); err != nil ||
		!strings.HasPrefix(u, p.URL+"/login/oauth/authorize?") || !strings.Contains(u, "code_challenge=") ||
		strings.Contains(u, "scope=") {
		t.Error(u)
	}
	if got, err := in.Finish(t.Context(), "good", "", "verifier"); got != "ada" || err != nil {
		t.Errorf("the result of Finish is %q, the error is %v", got, err)
	}
	if got, err := in.Finish(t.Context(), "bad", "", "verifier"); got != "" || err == nil {
		t.Errorf("a bad code: %q %v", got, err)
	}
}

// TestGitLab signs in with GitLab, whose user name is what the forge is asked about. A session is worth nothing without
// the right, and the right of one person is not that of another.
func TestGitLab(t *testing.T) {
	t.Parallel()
	p := newProvider(t, map[string]any{"preferred_username": "ada", "name": "eve", "email": "eve@example.com"})
	var h *httptest.Server
	h = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	in := server.OIDC{
		Issuer: p.URL, ClientID: "client", ClientSecret: "secret", Redirect: h.URL + "/-/callback",
		Claim: "preferred_username", Rights: true, Client: p.Client(),
	}.SignIn()
	sessions, err := server.NewSessions(in, []byte("key"), h.URL, quiet())
	if err != nil {
		t.Fatal(err)
	}
	var may atomic.Value
	may.Store("ada")
	at := &clock{}
	s := server.New(server.Config{
		Source: &source{tips: "1"}, Access: sessions, Clock: at.now, Log: quiet(),
		Rights: func(_ context.Context, person, repository string) (bool, error) {
			return person == may.Load() && repository == "acme/fleet", nil
		},
	})
	t.Cleanup(s.Close)
	h.Config.Handler = s
	client := &http.Client{}
	if client.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	const page = "/acme/fleet/-/index.html"
	if code, body := get(t, client, h.URL+page); code != 200 || !strings.Contains(body, "acme/fleet at 1") {
		t.Fatalf("after signing in: %d %s", code, body)
	}
	if code, body := get(t, client, h.URL); code != 200 || !strings.Contains(body, "Signed in as ada") ||
		strings.Contains(body, "secret/fleet") {
		t.Errorf("the list of repositories: %d %s", code, body)
	}
	if code, _ := get(t, client, h.URL+"/secret/fleet/-/index.html"); code != 404 {
		t.Errorf("a repository that ada may not read: %d", code)
	}
	may.Store("eve")
	at.advance(6 * time.Minute)
	if code, _ := get(t, client, h.URL+page); code != 404 {
		t.Errorf("after ada lost the right: %d", code)
	}
	if code, body := get(t, client, h.URL); code != 200 || !strings.Contains(body, "no repository") {
		t.Errorf("after ada lost the right: %d %s", code, body)
	}
}

// TestProviderThatIsDown: a service starts without its sign-in provider; people are told to try again, and can sign in
// as soon as the provider answers.
func TestProviderThatIsDown(t *testing.T) {
	t.Parallel()
	p := newProvider(t, map[string]any{"n": "ada"})
	down := true
	client := p.Client()
	through := client.Transport
	client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if down {
			return nil, errors.New("connection refused")
		}
		return through.RoundTrip(r)
	})
	in := server.OIDC{
		Issuer: p.URL, ClientID: "client", ClientSecret: "secret",
		Redirect: "https://s.example.com/-/callback", Claim: "n", Client: client,
	}.SignIn()
	sessions, err := server.NewSessions(in, []byte(strings.Repeat("k", 64)), "https://s.example.com",
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	answer := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		sessions.SignIn(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://s.example.com/f/x",
			nil))
		return w
	}
	if w := answer(); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "try again") {
		t.Errorf("the code is %d, the body is %s", w.Code, w.Body)
	}
	down = false
	if w := answer(); w.Code != http.StatusFound || !strings.HasPrefix(w.Header().Get("Location"), p.URL) {
		t.Errorf("the code is %d, the body is %s", w.Code, w.Body)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
