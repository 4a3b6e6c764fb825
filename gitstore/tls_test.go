package gitstore

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// A server whose certificate is not from a system authority is accepted only with its authority's certificate.
func TestCABundle(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "r.git")
	runGit(t, root, "init", "-q", "--bare", bare)
	runGit(t, bare, "config", "http.receivepack", "true")
	plain := backend(t, root, "", "")
	server := httptest.NewUnstartedServer(plain.Config.Handler)
	server.Config.ErrorLog = plain.Config.ErrorLog
	server.StartTLS()
	t.Cleanup(server.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	s := open(t, Options{Dir: source(t)})
	stranger, err := s.Remote(server.URL+"/r.git", Auth{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "CA bundle") {
		t.Errorf("the error is %v", err)
	}
	known, err := s.Remote(server.URL+"/r.git", Auth{CABundle: bundle})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	one := commitOf(t, w, "one")
	if got := push(t, known, w, Move{"env/dev", Hash{}, one}); got[0].State != Updated {
		t.Errorf("the result of push is %+v", got)
	}
	if refs, err := known.List(t.Context(), "env/"); err != nil || refs["env/dev"] != one {
		t.Errorf("the refs are %v, the error is %v", refs, err)
	}
	if refs, err := RemoteRefs(t.Context(), server.URL+"/r.git", Auth{CABundle: bundle}); err != nil ||
		refs["refs/heads/env/dev"] != one {
		t.Errorf("the refs are %v, the error is %v", refs, err)
	}
	if _, err := s.Remote(server.URL+"/r.git", Auth{CABundle: []byte("no certificate")}); err == nil {
		t.Error("anything was taken for a certificate")
	}
}

// An HTTPS server cannot redirect credentials to an unencrypted address.
func TestNoDowngradeByRedirect(t *testing.T) {
	asked := false
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		http.Error(w, "no", http.StatusForbidden)
	}))
	t.Cleanup(plain.Close)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+r.URL.String(), http.StatusFound)
	}))
	t.Cleanup(server.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	b, err := OpenMemory().Remote(server.URL+"/r.git", Auth{User: "me", Password: "s3cret", CABundle: bundle})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.List(t.Context(), ""); err == nil || asked {
		t.Errorf("asked %v: %v", asked, err)
	}
}

// roundTripper is an HTTP client's transport that is not Go's own.
type roundTripper struct{ http.RoundTripper }

// Certificates of another repository need Go's own transport: an error says so.
func TestCertificatesWithOtherTransport(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	own := http.DefaultTransport
	http.DefaultTransport = roundTripper{own}
	defer func() { http.DefaultTransport = own }()
	_, err := RemoteRefs(t.Context(), server.URL+"/r.git", Auth{CABundle: bundle})
	if err == nil || !strings.Contains(err.Error(), "certificates need Go's own HTTP transport") {
		t.Error(err)
	}
}
