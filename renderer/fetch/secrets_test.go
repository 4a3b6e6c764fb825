package fetch

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-gitops/sluice/internal/hostile"
)

// leaks lists the forms in which the password must not be seen.
func leaks(text string) bool {
	for _, form := range []string{
		password, base64.StdEncoding.EncodeToString([]byte("alice:" + password)),
		base64.StdEncoding.EncodeToString([]byte(password)), "X-Amz-Signature",
	} {
		if strings.Contains(text, form) {
			return true
		}
	}
	return false
}

// chain is every text in the tree of an error: what a careless caller could print.
func chain(err error) string {
	if err == nil {
		return ""
	}
	text := fmt.Sprintf("%v %+v %#v\n", err, err, err)
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case interface{ Unwrap() error }:
		text += chain(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text += chain(inner)
		}
	}
	return text
}

// hostileAnswer is a case of fetch.yaml, whose head explains the fields.
type hostileAnswer struct {
	hostile.Head `yaml:",inline"`

	Status   int               `yaml:"status"`
	Headers  map[string]string `yaml:"headers"`
	Body     string            `yaml:"body"`
	Raw      string            `yaml:"raw"`
	Refused  *string           `yaml:"refused"`
	Harmless *string           `yaml:"harmless"`
}

// serve gives the answer of the case.
func (c *hostileAnswer) serve(other string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		expand := strings.NewReplacer("@PASSWORD@", password, "@SENT@", r.Header.Get("Authorization"), "@HOST@", r.Host,
			"@OTHER@", other).Replace
		if c.Raw != "" {
			conn, buf, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_, _ = buf.WriteString(expand(c.Raw))
			_ = buf.Flush()
			_ = conn.Close()
			return
		}
		for name, value := range c.Headers {
			w.Header().Set(name, expand(value))
		}
		w.WriteHeader(cmp.Or(c.Status, http.StatusOK))
		_, _ = w.Write([]byte(expand(c.Body)))
	}
}

// TestHostileServers reads from servers that repeat the credential which they were sent, in every part of an answer, or
// send it elsewhere.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	var cases []hostileAnswer
	if err := hostile.Load("../../testdata/hostile/fetch.yaml", &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 24 {
		t.Fatalf("only %d cases", len(cases))
	}
	for i := range cases {
		c := &cases[i]
		for from := range 3 {
			t.Run(fmt.Sprintf("%s, from request %d on", c.Name, from), func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int64
				other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					if seen := fmt.Sprint(r.URL, r.Header); leaks(seen) || strings.Contains(seen, "Authorization") {
						t.Errorf("the other server gets a credential: %s", seen)
					}
					http.NotFound(w, r)
				}))
				t.Cleanup(other.Close)
				failure := c.serve(hostOf(other))
				repo := newChartRepo(t, httptest.NewServer)
				repo.offer(t, false, "1.2.3")
				repo.intercept(failingFrom(from, failure))
				oci := newOCI(t)
				oci.push(t, "1.2.3", "")
				oci.set(failingFrom(from, failure))
				hostileEvidence(t, from, failure)
				for host, ref := range map[string]Ref{
					hostOf(repo.Server): {repo.repo(), "web", "^1"}, hostOf(oci.Server): {"", oci.chart(), "^1"},
				} {
					name := EnvName(host)
					creds := NewCredentials(env(name+"_USERNAME", "alice", name+"_PASSWORD", password),
						CredentialFiles{})
					_, err := newFetcher(t, withCredentials(creds)).Resolve(t.Context(), ref)
					if leaks(chain(err)) {
						t.Errorf("%s leaks: %v", ref, chain(err))
					}
					if from == 0 && c.Refused != nil && (err == nil || !strings.Contains(err.Error(), *c.Refused)) {
						t.Errorf("%s: %v, want an error with %q", ref, err, *c.Refused)
					}
				}
				if from == 0 && c.Status/100 == 3 && strings.Contains(c.Headers["Location"], "@OTHER@") &&
					asked.Load() == 0 {
					t.Error("no redirect reached the other server, so the case shows nothing")
				}
			})
		}
	}
}

// hostileEvidence reads signatures from a registry: its requests are for the chart's manifest, cosign's tag, and the
// list of referrers.
func hostileEvidence(t *testing.T, from int, failure http.HandlerFunc) {
	t.Helper()
	s := newOCI(t)
	locked := Locked{"1.2.3", digestOf(s.push(t, "1.2.3", ""))}
	s.set(failingFrom(from, failure))
	name := EnvName(hostOf(s.Server))
	creds := NewCredentials(env(name+"_USERNAME", "alice", name+"_PASSWORD", password), CredentialFiles{})
	got, err := newFetcher(t, withCredentials(creds)).Evidence(t.Context(), Ref{"", s.chart(), "1.2.3"}, locked, true,
		true)
	if leaks(chain(err)) {
		t.Errorf("signatures: %v", chain(err))
	}
	if err == nil && len(got.Cosign)+len(got.Bundles) > 0 {
		t.Errorf("signatures that nobody made: %+v", got)
	}
	if from == 2 && s.asked("referrers/") == 0 {
		t.Errorf("the list of referrers is not asked for: %v", err)
	}
}

// failingFrom lets some authenticated requests pass.
func failingFrom(from int, failure http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		if demandBasic(w, r) {
			return true
		}
		if seen.Add(1) <= int64(from) {
			return false
		}
		failure(w, r)
		return true
	}
}

func TestURLsWithCredentialsAreRefusedUnseen(t *testing.T) {
	t.Parallel()
	for _, ref := range []Ref{
		{"https://alice:" + password + "@charts.example.com", "web", "*"},
		{"https://" + password + "@charts.example.com", "web", "*"},
		{"https://alice:" + password + "@charts.example.com:port/%zz", "web", "*"},
		{"alice:" + password + "@charts.example.com", "web", "*"},
		{"https:/alice:" + password + "@charts.example.com", "web", "*"},
		{"https:alice:" + password + "@charts.example.com", "web", "*"},
		{"//alice:" + password + "@charts.example.com", "web", "*"},
		{"https://charts.example.com?token=" + password, "web", "*"},
		{"https://charts.example.com#" + password, "web", "*"},
		{"oci://alice:" + password + "@charts.example.com/charts", "web", "*"},
		{"", "oci://alice:" + password + "@charts.example.com/charts/web", "*"},
		{"", "oci://alice:" + password + "@charts.example.com:x/charts/%zz", "*"},
		{"", "alice:" + password + "@charts.example.com/charts/web", "*"},
		{"", "oci://charts.example.com/alice:" + password + "@charts/web", "*"},
	} {
		_, err := newFetcher(t).Resolve(t.Context(), ref)
		_, err2 := newFetcher(t).Archive(t.Context(), ref, Locked{"1.2.3", digestOf(nil)})
		lock := &Lock{}
		_, err3 := lock.Require(ref)
		lock.Set(ref, Locked{"1.2.3", digestOf(nil)})
		data, err4 := lock.Bytes()
		if err4 != nil {
			t.Fatal(err4)
		}
		_, err4 = ParseLock(data)
		for _, err := range []error{err, err2, ref.Check()} {
			if !errors.Is(err, ErrInvalid) || leaks(err.Error()) {
				t.Errorf("the error is %v", err)
			}
		}
		if err4 == nil || leaks(err4.Error()) {
			t.Errorf("parsed lock: %v", err4)
		}
		if err3 == nil || leaks(err3.Error()) {
			t.Errorf("unlocked: %v", err3)
		}
	}
}

func TestBrokenCredentialFilesAreNotQuoted(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	s.push(t, "1.2.3", "")
	s.set(demandBasic)
	host := hostOf(s.Server)
	repo := newChartRepo(t, httptest.NewServer)
	docker := func(content string) CredentialFiles {
		return CredentialFiles{Docker: writeFile(t, "config.json", content)}
	}
	helm := func(content string) CredentialFiles {
		return CredentialFiles{Repositories: writeFile(t, "repositories.yaml", content)}
	}
	noColon := base64.StdEncoding.EncodeToString([]byte(password))
	for _, c := range []struct {
		ref   Ref
		files CredentialFiles
	}{
		{Ref{"", s.chart(), "*"}, docker(`{"auths":{"` + host + `":{"auth":"` + noColon + `"}}}`)},
		{Ref{"", s.chart(), "*"}, docker(`{"auths":{"` + host + `":{"auth":"` + password + `"}}}`)},
		{Ref{"", s.chart(), "*"}, docker(`{"auths":{"` + host + `":"` + password + `"}}`)},
		{Ref{"", s.chart(), "*"}, docker(`{"auths":"` + password + `"`)},
		{Ref{"", s.chart(), "*"}, docker(`{"credHelpers":{"` + host + `":"` + password + `-not-there"}}`)},
		{Ref{repo.repo(), "web", "*"}, helm("repositories: " + password)},
		{Ref{repo.repo(), "web", "*"}, helm("repositories:\n- password: [" + password + "]\n")},
		{Ref{repo.repo(), "web", "*"}, helm(password + ": {")},
		{Ref{repo.repo(), "web", "*"}, CredentialFiles{Repositories: t.TempDir()}},
	} {
		_, err := newFetcher(t, withCredentials(NewCredentials(nil, c.files))).Resolve(t.Context(), c.ref)
		if !errors.Is(err, ErrInvalid) || leaks(chain(err)) {
			t.Errorf("%v: the error is %v", c.files, err)
		}
	}
}

// TestBundlesWithoutReferrers: cosign keeps the list of referrers as a tag, whatever a registry without such lists
// answers.
func TestBundlesWithoutReferrers(t *testing.T) {
	t.Parallel()
	for _, status := range []int{
		http.StatusNotFound, http.StatusBadRequest, http.StatusNotAcceptable,
		http.StatusMethodNotAllowed, http.StatusNotImplemented,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			s := newOCI(t)
			locked := Locked{"1.2.3", digestOf(s.push(t, "1.2.3", ""))}
			const kind = "application/vnd.oci.image.manifest.v1+json"
			bundle := []byte("a bundle")
			manifest := fmt.Appendf(nil,
				`{"schemaVersion":2,"mediaType":%q,"layers":[{"mediaType":%q,"size":%d,"digest":%q}]}`, kind,
				BundleType, len(bundle), digestOf(bundle))
			index := fmt.Appendf(nil,
				`{"schemaVersion":2,"manifests":[{"mediaType":%q,"size":%d,"digest":%q,"artifactType":%q}]}`, kind,
				len(manifest), digestOf(manifest), BundleType)
			serve := func(w http.ResponseWriter, kind string, data []byte) bool {
				w.Header().Set("Content-Type", kind)
				w.Header().Set("Docker-Content-Digest", digestOf(data))
				_, _ = w.Write(data)
				return true
			}
			s.set(func(w http.ResponseWriter, r *http.Request) bool {
				name := path.Base(r.URL.Path)
				switch {
				case strings.Contains(r.URL.Path, "/referrers/"):
					w.WriteHeader(status)
					return true
				case strings.HasPrefix(name, "sha256-") && !strings.HasSuffix(name, ".sig"):
					return serve(w, "application/vnd.oci.image.index.v1+json", index)
				case name == digestOf(manifest):
					return serve(w, kind, manifest)
				case name == digestOf(bundle):
					return serve(w, "application/octet-stream", bundle)
				}
				return false
			})
			got, err := newFetcher(t).Evidence(t.Context(), Ref{"", s.chart(), "1.2.3"}, locked, false, true)
			if err != nil || len(got.Bundles) != 1 || string(got.Bundles[0]) != string(bundle) {
				t.Errorf("the bundles are %q, the error is %v", got.Bundles, err)
			}
		})
	}
}

// TestRegistriesWithoutReferrers: a registry that knows no list of referrers, and has no tag for one, has no bundles.
// Any other failure is an error, because a bundle can be there.
func TestRegistriesWithoutReferrers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{
		http.StatusNotFound: nil, http.StatusMethodNotAllowed: nil, http.StatusBadRequest: nil,
		http.StatusNotImplemented: nil,
		http.StatusForbidden:      ErrDenied, http.StatusInternalServerError: ErrUnavailable,
		http.StatusTeapot: ErrUnavailable,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			s := newOCI(t)
			locked := Locked{"1.2.3", digestOf(s.push(t, "1.2.3", ""))}
			s.set(func(w http.ResponseWriter, r *http.Request) bool {
				refused := strings.Contains(r.URL.Path, "/referrers/")
				if refused {
					w.WriteHeader(status)
				}
				return refused
			})
			got, err := newFetcher(t).Evidence(t.Context(), Ref{"", s.chart(), "1.2.3"}, locked, false, true)
			if !errors.Is(err, want) || err == nil && len(got.Manifest) == 0 {
				t.Errorf("the error is %v; want %v", err, want)
			}
			if s.asked("/referrers/") == 0 {
				t.Error("the list of referrers is not asked for")
			}
		})
	}
}
