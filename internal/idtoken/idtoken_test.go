package idtoken_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/internal/idtoken"
)

// tokenFor is an unsigned token with a claim aud, as JSON.
func tokenFor(aud string) string {
	return "eyJh." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":`+aud+`,"sub":"s3cret"}`)) + ".c2ln"
}

func source(t *testing.T, env map[string]string) func() (string, error) {
	t.Helper()
	get := idtoken.Source(func(name string) string { return env[name] })
	if get == nil {
		return nil
	}
	return func() (string, error) { return get(t.Context()) }
}

func TestSource(t *testing.T) {
	if source(t, nil) != nil || source(t, map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x"}) != nil {
		t.Error("an environment without a token has one")
	}
	jwt, first, second := tokenFor(`"sigstore"`), tokenFor(`["other","sigstore"]`), tokenFor(`["sigstore"]`)
	answer, status := `{"value":"`+jwt+`"}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("audience") != "sigstore" || r.URL.Query().Get("a") != "b" || r.Header.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("the request is %s with %v", r.URL, r.Header)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	actions := map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": server.URL + "/?a=b", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "s3cret"}
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first + "\n")
	for name, c := range map[string]struct {
		env        map[string]string
		want, fail string
	}{
		"GitHub":             {actions, jwt, ""},
		"GitLab":             {map[string]string{"SIGSTORE_ID_TOKEN": jwt}, jwt, ""},
		"a file":             {map[string]string{"SLUICE_SIGSTORE_TOKEN_FILE": file, "SIGSTORE_ID_TOKEN": jwt}, first, ""},
		"no file":            {map[string]string{"SLUICE_SIGSTORE_TOKEN_FILE": file + ".not"}, "", "no such file"},
		"no token":           {map[string]string{"SIGSTORE_ID_TOKEN": "s3cret"}, "", "SIGSTORE_ID_TOKEN has no token in the form of a JWT"},
		"another audience":   {map[string]string{"SIGSTORE_ID_TOKEN": tokenFor(`"https://kubernetes.default.svc"`)}, "", "another audience than sigstore"},
		"other audiences":    {map[string]string{"SIGSTORE_ID_TOKEN": tokenFor(`["a","b"]`)}, "", "another audience"},
		"a strange audience": {map[string]string{"SIGSTORE_ID_TOKEN": tokenFor(`{"sigstore":1}`)}, "", "no token"},
		"no claims":          {map[string]string{"SIGSTORE_ID_TOKEN": "a.b.c"}, "", "no token"},
		"two lines":          {map[string]string{"SIGSTORE_ID_TOKEN": "a.b\n.c"}, "", "no token"},
		"a long token":       {map[string]string{"SIGSTORE_ID_TOKEN": "a.b." + strings.Repeat("c", 1<<17)}, "", "no token"},
		"no URL":             {map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": "::", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "s3cret"}, "", "not a URL"},
		"a URL without TLS":  {map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": "http://example.com", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "s3cret"}, "", "ACTIONS_ID_TOKEN_REQUEST_URL: "},
		"a closed port":      {map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": "http://127.0.0.1:1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "s3cret"}, "", "does not answer"},
		"a missing workflow": {map[string]string{"SIGSTORE_ID_TOKEN": ""}, "", ""},
	} {
		get := source(t, c.env)
		if get == nil {
			if c.want != "" || c.fail != "" {
				t.Errorf("%s: there is no token", name)
			}
			continue
		}
		got, err := get()
		if got != c.want || (err == nil) != (c.fail == "") || err != nil && (!strings.Contains(err.Error(), c.fail) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	get := source(t, map[string]string{"SLUICE_SIGSTORE_TOKEN_FILE": file})
	write(second)
	if got, err := get(); got != second {
		t.Errorf("a token that changed: %q, %v", got, err)
	}
	for _, bad := range []string{``, `{}`, `{"value":7}`, `{"value":"` + strings.Repeat("a", 1<<17) + `"}`} {
		answer = bad
		if got, err := source(t, actions)(); err == nil {
			t.Errorf("%.20q gives %q", bad, got)
		}
	}
	status = http.StatusForbidden
	if _, err := source(t, actions)(); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a refusal: %v", err)
	}
}
