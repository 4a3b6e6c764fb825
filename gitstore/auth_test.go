package gitstore

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/internal/plainhttp"
)

func TestErrorsContainNoCredentials(t *testing.T) {
	root := t.TempDir()
	runGit(t, root, "init", "-q", "--bare", "r.git")
	server := backend(t, root, "me", "right")
	s := open(t, Options{Dir: source(t)})
	for _, c := range []struct {
		address string
		auth    Auth
	}{
		{server.URL + "/r.git", Auth{User: "me", Password: "hunter2"}},
		{server.URL + "/r.git", Auth{Token: "hunter2"}},
		{strings.Replace(server.URL, "http://", "http://me:hunter2@", 1) + "/r.git", Auth{}},
		{"http://me:hunter2@127.0.0.1:1/r.git", Auth{}},
		{"https://me:hunter2@%zz/r.git", Auth{}},
	} {
		b, err := s.Remote(c.address, c.auth)
		if err == nil {
			_, err = b.List(t.Context(), "")
			if strings.Contains(b.String(), "hunter2") {
				t.Errorf("the address shows it: %s", b)
			}
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(fmt.Sprintf("%+v %#v", err, err), "hunter2") {
			t.Errorf("%s: the error is %v", redactURL(c.address), err)
		}
	}
	ok, err := s.Remote(strings.Replace(server.URL, "http://", "http://me:right@", 1)+"/r.git", Auth{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ok.List(t.Context(), ""); err != nil {
		t.Errorf("credentials of the address were not used: %v", err)
	}
}

func TestCredentialsGoIntoHeaders(t *testing.T) {
	for want, auth := range map[string]Auth{
		"Basic " + base64.StdEncoding.EncodeToString([]byte("me:s3cret")):             {User: "me", Password: "s3cret"},
		"Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:s3cret")): {Token: "s3cret"},
		"Basic " + base64.StdEncoding.EncodeToString([]byte("oauth2:s3cret")): {
			User:  "oauth2",
			Token: "s3cret",
		},
		"Bearer s3cret": {Bearer: "s3cret"},
		"":              {},
	} {
		var got, address string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, address = r.Header.Get("Authorization"), r.URL.String()
			http.Error(w, "no", http.StatusForbidden)
		}))
		t.Cleanup(server.Close)
		b, err := OpenMemory().Remote(server.URL+"/r.git", auth)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.List(t.Context(), ""); err == nil || got != want || strings.Contains(address, "s3cret") {
			t.Errorf("got %q at %s: %v", got, address, err)
		}
	}
	if _, err := OpenMemory().Remote("https://example.com/r.git", Auth{Password: "a", Token: "b"}); err == nil {
		t.Error("a password and a token were taken")
	}
}

// Redirects to another host, which must not get the credentials.
func TestCredentialsStayWithTheirHost(t *testing.T) {
	leaked := false
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = leaked || r.Header.Get("Authorization") != ""
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	t.Cleanup(thief.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(thief.URL, "127.0.0.1", "localhost", 1)+r.URL.String(), http.StatusFound)
	}))
	t.Cleanup(server.Close)
	b, err := OpenMemory().Remote(server.URL+"/r.git", Auth{User: "me", Password: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.List(t.Context(), ""); err == nil || leaked {
		t.Errorf("leaked %v, %v", leaked, err)
	}
}

// A token must not be sent unencrypted.
func TestCredentialsAreNotSentOverPlainHTTP(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: source(t)})
	for name, c := range map[string]struct {
		address string
		auth    Auth
		refused bool
	}{
		"a token":                    {"http://git.example.com/a.git", Auth{Token: "hunter2"}, true},
		"a password":                 {"http://git.example.com/a.git", Auth{User: "me", Password: "hunter2"}, true},
		"a bearer token":             {"http://git.example.com:3000/a.git", Auth{Bearer: "hunter2"}, true},
		"credentials in the address": {"http://me:hunter2@git.example.com/a.git", Auth{}, true},
		"no credentials":             {"http://git.example.com/a.git", Auth{}, false},
		"https":                      {"https://git.example.com/a.git", Auth{Token: "hunter2"}, false},
		"this machine":               {"http://127.0.0.1:3000/a.git", Auth{Token: "hunter2"}, false},
		"this machine, IPv6":         {"http://[::1]:3000/a.git", Auth{Token: "hunter2"}, false},
		"a host of the operator": {
			"http://git.internal:3000/a.git",
			Auth{Token: "hunter2", PlainHTTP: []string{"git.internal"}},
			false,
		},
		"another host": {
			"http://git.example.com/a.git",
			Auth{Token: "hunter2", PlainHTTP: []string{"git.internal"}},
			true,
		},
	} {
		_, err := s.Remote(c.address, c.auth)
		_, plain := errors.AsType[*plainhttp.Error](err)
		if plain != c.refused || !c.refused && err != nil {
			t.Errorf("%s: the error is %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") ||
			!strings.Contains(err.Error(), "SLUICE_PLAIN_HTTP")) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
