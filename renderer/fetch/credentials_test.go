package fetch

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const password = "hunter2-pass"

func demandBasic(w http.ResponseWriter, r *http.Request) bool {
	if user, pass, ok := r.BasicAuth(); ok && user == "alice" && pass == password {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
	http.Error(w, "you sent "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	return true
}

func repositoriesYAML(tb testing.TB, url, extra string) CredentialFiles {
	tb.Helper()
	return CredentialFiles{Repositories: writeFile(tb, "repositories.yaml",
		fmt.Sprintf("apiVersion: \"\"\nrepositories:\n- name: x\n  url: https://elsewhere.example.com\n  username: no\n  password: no\n- name: acme\n  url: %s\n%s", url, extra))}
}

const aliceYAML = "  username: alice\n  password: " + password + "\n"

func dockerJSON(tb testing.TB, host string) string {
	tb.Helper()
	return writeFile(tb, "config.json",
		`{"auths":{"`+host+`":{"auth":"`+base64.StdEncoding.EncodeToString([]byte("alice:"+password))+`"}}}`)
}

func TestBasicAuthOfChartRepositories(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	repo.offer(t, false, "1.2.3")
	repo.before = demandBasic
	name := EnvName(hostOf(repo.Server))
	for what, creds := range map[string]*Credentials{
		"environment": NewCredentials(env(name+"_USERNAME", "alice", name+"_PASSWORD", password),
			CredentialFiles{}),
		"repositories.yaml": NewCredentials(nil, repositoriesYAML(t, repo.repo()+"/", aliceYAML)),
		"environment goes first": NewCredentials(env(name+"_USERNAME", "alice", name+"_PASSWORD", password),
			repositoriesYAML(t, repo.repo(), "  username: bob\n  password: x\n")),
	} {
		f := newFetcher(t, withCredentials(creds))
		ref := Ref{repo.repo(), "web", "*"}
		locked, err := f.Resolve(t.Context(), ref)
		if err != nil {
			t.Errorf("%s: the error is %v", what, err)
			continue
		}
		if _, err = newFetcher(t, withCredentials(creds)).Archive(t.Context(), ref, locked); err != nil {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	_, err := newFetcher(t).Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
	if !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), name+"_USERNAME") {
		t.Errorf("without: %v", err)
	}
	_, err = newFetcher(t, withCredentials(NewCredentials(nil,
		repositoriesYAML(t, repo.URL+"/other", aliceYAML)))).Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
	if !errors.Is(err, ErrDenied) {
		t.Errorf("an entry for another path must not count: %v", err)
	}
}

func TestTokenOfChartRepositories(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	repo.offer(t, false, "1.2.3")
	repo.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+password {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	creds := NewCredentials(env(EnvName(hostOf(repo.Server))+"_TOKEN", password), CredentialFiles{})
	if _, err := newFetcher(t, withCredentials(creds)).Resolve(t.Context(), Ref{repo.repo(), "web", "*"}); err != nil {
		t.Error(err)
	}
}

func TestContradictoryEnvironmentIsRefused(t *testing.T) {
	t.Parallel()
	for _, get := range []func(string) string{
		env("SLUICE_REPO_CHARTS_EXAMPLE_COM_TOKEN", password, "SLUICE_REPO_CHARTS_EXAMPLE_COM_USERNAME", "alice"),
		env("SLUICE_REPO_CHARTS_EXAMPLE_COM_PASSWORD", password),
		env("SLUICE_REPO_CHARTS_EXAMPLE_COM_USERNAME", "alice"),
	} {
		for _, ref := range []Ref{{"https://charts.example.com", "web", "*"}} {
			_, err := newFetcher(t, withCredentials(NewCredentials(get, CredentialFiles{}))).Resolve(t.Context(), ref)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(),
				"SLUICE_REPO_CHARTS_EXAMPLE_COM_USERNAME") || strings.Contains(err.Error(), password) {
				t.Error(err)
			}
		}
	}
}

func TestEnvName(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"charts.example.com": "SLUICE_REPO_CHARTS_EXAMPLE_COM", "charts-example.com": "SLUICE_REPO_CHARTS__EXAMPLE_COM",
		"r.lan:5000": "SLUICE_REPO_R_LAN_5000",
		"10.0.0.1":   "SLUICE_REPO_10_0_0_1", "": "", "a..b": "", "-a.b": "", "a-.b": "", "a_b.c": "", "[::1]:80": "",
		"é.com": "", "a.b.": "",
	} {
		if got := EnvName(host); got != want {
			t.Errorf("%q: the result of EnvName is %q, want %q", host, got, want)
		}
	}
}

func TestDefaultCredentialFiles(t *testing.T) {
	t.Parallel()
	got := DefaultCredentialFiles(env("HELM_CONFIG_HOME", "/h", "DOCKER_CONFIG", "/d"), "/home/u")
	want := CredentialFiles{
		filepath.Join("/h", "repositories.yaml"), filepath.Join("/h", "registry", "config.json"),
		filepath.Join("/d", "config.json"),
	}
	if got != want {
		t.Errorf("the result of DefaultCredentialFiles is %v", got)
	}
	got = DefaultCredentialFiles(env("HELM_REPOSITORY_CONFIG", "/r", "HELM_REGISTRY_CONFIG", "/g", "XDG_CONFIG_HOME",
		"/x"), "/home/u")
	if got.Repositories != "/r" || got.Registry != "/g" || got.Docker != filepath.Join("/home/u", ".docker",
		"config.json") {
		t.Errorf("the result of DefaultCredentialFiles is %v", got)
	}
	if got = DefaultCredentialFiles(env("XDG_CONFIG_HOME", "/x"), "/home/u"); got.Repositories != filepath.Join("/x",
		"helm", "repositories.yaml") {
		t.Errorf("the result of DefaultCredentialFiles is %v", got)
	}
	if got = DefaultCredentialFiles(env(), "/home/u"); !strings.HasSuffix(got.Repositories, "repositories.yaml") {
		t.Errorf("the result of DefaultCredentialFiles is %v", got)
	}
}

func TestTLSSettingsOfRepositories(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, quietTLS)
	repo.offer(t, false, "1.2.3")
	repo.before = demandBasic
	ca := writeFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: repo.Certificate().Raw,
	})))
	bad := writeFile(t, "bad.pem", "no certificate")
	for extra, text := range map[string]string{
		"  caFile: " + ca + "\n":                           "",
		"  insecure_skip_tls_verify: true\n":               "",
		"  pass_credentials_all: true\n":                   "certificate is not trusted",
		"  caFile: " + bad + "\n":                          "holds no certificate",
		"  caFile: /does/not/exist\n":                      "cannot be read",
		"  certFile: " + ca + "\n  keyFile: " + bad + "\n": "not a readable pair",
		"  certFile: " + ca + "\n":                         "not a readable pair",
	} {
		creds := NewCredentials(nil, repositoriesYAML(t, repo.repo(), aliceYAML+extra))
		_, err := newFetcher(t, withCredentials(creds)).Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
		if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("%q: the error is %v; want %q", extra, err, text)
		}
	}
	// What is allowed for one repository is not for another host that its index points to.
	other := newChartRepo(t, quietTLS)
	other.files["web-1.2.3.tgz"] = repo.files["web-1.2.3.tgz"]
	repo.index = strings.Replace(repo.index, "web-1.2.3.tgz", other.repo()+"/web-1.2.3.tgz", 1)
	creds := NewCredentials(nil, repositoriesYAML(t, repo.repo(), aliceYAML+"  insecure_skip_tls_verify: true\n"))
	_, err := newFetcher(t, withCredentials(creds)).Resolve(t.Context(), Ref{repo.repo(), "web", "*"})
	if err == nil || !strings.Contains(err.Error(), "certificate is not trusted") {
		t.Errorf("other host: %v", err)
	}
}

// The header must reach the repository's own origin only.
func TestCredentialsStayAtTheirOrigin(t *testing.T) {
	t.Parallel()
	for _, passAll := range []bool{false, true} {
		for _, way := range []string{"absolute URL", "redirect"} {
			repo := newChartRepo(t, quietTLS)
			other := newChartRepo(t, quietTLS) // same name, other port
			repo.offer(t, false, "1.2.3")
			other.files["web-1.2.3.tgz"] = repo.files["web-1.2.3.tgz"]
			target := other.repo() + "/web-1.2.3.tgz"
			repo.before = demandBasic
			if way == "redirect" {
				repo.before = func(w http.ResponseWriter, r *http.Request) bool {
					if demandBasic(w, r) || !strings.HasSuffix(r.URL.Path, ".tgz") {
						return false
					}
					http.Redirect(w, r, target, http.StatusTemporaryRedirect)
					return true
				}
			} else {
				repo.index = strings.Replace(repo.index, "web-1.2.3.tgz", target, 1)
			}
			creds := NewCredentials(nil, repositoriesYAML(t, repo.repo(),
				aliceYAML+fmt.Sprintf("  pass_credentials_all: %v\n", passAll)))
			f := newFetcher(t, withCredentials(creds), func(o *Options) { o.Transport = trusting(repo.Server) })
			if _, err := f.Resolve(t.Context(), Ref{repo.repo(), "web", "*"}); err != nil {
				t.Errorf("%s: the error is %v", way, err)
			}
			if len(other.requests) != 1 {
				t.Fatalf("%s: %d requests", way, len(other.requests))
			}
			got := other.requests[0].Header.Get("Authorization") != ""
			if want := passAll && way == "absolute URL"; got != want {
				t.Errorf("%s, pass_credentials_all %v: header sent to another origin: %v", way, passAll, got)
			}
		}
	}
}

func TestRegistryCredentials(t *testing.T) {
	s := newOCI(t)
	data := s.push(t, "1.2.3", "")
	ref := Ref{"", s.chart(), "^1"}
	host := hostOf(s.Server)
	helper := t.TempDir()
	writeHelper(t, helper, `{"ServerURL":"x","Username":"alice","Secret":"`+password+`"}`)
	name := EnvName(host)
	// All ways to the credential, against basic and token authentication.
	ways := map[string]*Credentials{
		"environment": NewCredentials(env(name+"_USERNAME", "alice", name+"_PASSWORD", password),
			CredentialFiles{}),
		"Helm's file": NewCredentials(nil, CredentialFiles{
			Registry: dockerJSON(t, host),
			Docker:   filepath.Join(helper, "none.json"),
		}),
		"Docker's file": NewCredentials(nil, CredentialFiles{
			Registry: dockerJSON(t, "elsewhere.example.com"),
			Docker:   dockerJSON(t, host),
		}),
		"Docker's helper": NewCredentials(nil, CredentialFiles{Docker: writeFile(t, "config.json",
			`{"credHelpers":{"`+host+`":"sluicetest"}}`)}),
	}
	token := false
	guard := func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			if !demandBasic(w, r) {
				_, _ = fmt.Fprintf(w, `{"token":"granted-%s"}`, password)
			}
			return true
		case !token:
			return demandBasic(w, r)
		case r.Header.Get("Authorization") == "Bearer granted-"+password:
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+s.URL+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	for _, token = range []bool{false, true} {
		s.set(guard)
		for what, creds := range ways {
			f := newFetcher(t, withCredentials(creds))
			locked, err := f.Resolve(t.Context(), ref)
			if err != nil || locked.Digest != digestOf(data) {
				t.Errorf("%s, token %v: %v", what, token, err)
			}
		}
		if _, err := newFetcher(t).Resolve(t.Context(), ref); !errors.Is(err, ErrDenied) ||
			!strings.Contains(err.Error(), "helm registry login") && !strings.Contains(err.Error(), "registry login") {
			t.Errorf("none, token %v: %v", token, err)
		}
	}
	token = true
	creds := NewCredentials(env(name+"_TOKEN", "granted-"+password), CredentialFiles{})
	if _, err := newFetcher(t, withCredentials(creds)).Resolve(t.Context(), ref); err != nil {
		t.Errorf("token from the environment: %v", err)
	}
	token = false
	if _, err := newFetcher(t, withCredentials(creds)).Resolve(t.Context(), ref); !errors.Is(err, ErrDenied) ||
		!strings.Contains(err.Error(), "not a token") {
		t.Errorf("token where basic is wanted: %v", err)
	}
}

// writeHelper puts docker-credential-sluicetest into a directory and that into PATH.
func writeHelper(t *testing.T, dir, answer string) {
	t.Helper()
	script := "#!/bin/sh\ncat >/dev/null\ncat <<'E'\n" + answer + "\nE\n"
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-sluicetest"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+"/usr/bin"+string(os.PathListSeparator)+"/bin")
}
