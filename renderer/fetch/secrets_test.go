package fetch

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// leaks lists the forms in which the password must not be seen.
func leaks(text string) bool {
	for _, form := range []string{
		password, base64.StdEncoding.EncodeToString([]byte("alice:" + password)), base64.StdEncoding.EncodeToString([]byte(password)), "X-Amz-Signature",
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

// Servers that fail in every way while they repeat the credential they were sent, on each request from the n-th on.
func TestNoErrorHoldsASecret(t *testing.T) {
	t.Parallel()
	raw := func(w http.ResponseWriter, answer string) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = buf.WriteString(answer)
		_ = buf.Flush()
		_ = conn.Close()
	}
	echo := func(r *http.Request) string { return r.Header.Get("Authorization") + " " + password }
	failures := map[string]http.HandlerFunc{
		"401": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="`+password+`"`)
			http.Error(w, `{"errors":[{"code":"DENIED","message":"`+echo(r)+`","detail":"`+password+`"}]}`, http.StatusUnauthorized)
		},
		"401 bearer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/`+password+`?X-Amz-Signature=1"`)
			http.Error(w, echo(r), http.StatusUnauthorized)
		},
		"bearer to elsewhere": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://169.254.169.254/`+password+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"403":        func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), http.StatusForbidden) },
		"404":        func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), 404) },
		"500":        func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), 500) },
		"malformed":  func(w http.ResponseWriter, r *http.Request) { raw(w, echo(r)+"\r\n\r\n") },
		"bad status": func(w http.ResponseWriter, r *http.Request) { raw(w, "HTTP/1.1 "+echo(r)+"\r\n\r\n") },
		"bad header": func(w http.ResponseWriter, r *http.Request) { raw(w, "HTTP/1.1 200 OK\r\n"+echo(r)+"\r\n\r\n") },
		"bad chunk": func(w http.ResponseWriter, _ *http.Request) {
			raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "+password+"\r\n\r\n")
		},
		"garbage":       func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, "entries: [%s", echo(r)) },
		"typed garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("entries:\n  web: " + password)) },
		"JSON garbage": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"entries":{"web":"` + password + `"}}`))
		},
		"redirect loop": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/"+password+"?X-Amz-Signature=1", http.StatusFound)
		},
		"redirect scheme": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "ftp://"+"h/"+password)
			w.WriteHeader(http.StatusFound)
		},
		"redirect user": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://alice:"+password+"@h.example.com/")
			w.WriteHeader(http.StatusFound)
		},
		"redirect unparsable": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://alice:"+password+"@h.example.com:port/%zz")
			w.WriteHeader(http.StatusFound)
		},
		"redirect refused": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/"+password+"?X-Amz-Signature=1")
			w.WriteHeader(http.StatusFound)
		},
		"wrong link": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "<http://h/"+password+">")
			_, _ = w.Write([]byte(`{"tags":[]}`))
		},
	}
	for what, failure := range failures {
		for from := range 3 {
			t.Run(fmt.Sprintf("%s from request %d", what, from), func(t *testing.T) {
				t.Parallel()
				repo := newChartRepo(t, httptest.NewServer)
				repo.offer(t, false, "1.2.3")
				repo.intercept(failingFrom(from, failure))
				oci := newOCI(t)
				oci.push(t, "1.2.3", "")
				oci.set(failingFrom(from, failure))
				for host, ref := range map[string]Ref{
					hostOf(repo.Server): {repo.repo(), "web", "^1"}, hostOf(oci.Server): {"", oci.chart(), "^1"},
				} {
					name := EnvName(host)
					creds := NewCredentials(env(name+"_USERNAME", "alice", name+"_PASSWORD", password), CredentialFiles{})
					_, err := newFetcher(t, withCredentials(creds)).Resolve(t.Context(), ref)
					if leaks(chain(err)) {
						t.Errorf("%s leaks: %v", ref, chain(err))
					}
					if err == nil && from == 0 {
						t.Errorf("%s: no error", ref)
					}
				}
			})
		}
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
				t.Errorf("%v", err)
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
			t.Errorf("%v: %v", c.files, err)
		}
	}
}
