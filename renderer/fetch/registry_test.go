package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"oras.land/oras-go/v2/content"
)

// A registry gets what it does not have, with the credential of its host.
func TestRegistryPush(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user != "ada" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	})
	name := "oci://" + hostOf(s.Server) + "/a/b"
	push := func(env map[string]string) error {
		t.Helper()
		f := New(Options{Credentials: NewCredentials(func(n string) string { return env[n] }, CredentialFiles{}), Sleep: func(context.Context, time.Duration) error { return nil }})
		r, err := f.Registry(name)
		if err != nil {
			t.Fatal(err)
		}
		layer := content.NewDescriptorFromBytes("text/plain", []byte("hello"))
		if err := r.Upload(t.Context(), layer, []byte("hello")); err != nil {
			return err
		}
		manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"text/plain","digest":%q,"size":5},"layers":[]}`, layer.Digest)
		desc := content.NewDescriptorFromBytes("application/vnd.oci.image.manifest.v1+json", manifest)
		if err := r.Tag(t.Context(), desc, manifest, "latest"); err != nil {
			return err
		}
		got, data, err := r.Manifest(t.Context(), "latest")
		if err != nil || string(data) != string(manifest) || got.Digest != desc.Digest {
			t.Errorf("the registry has %s %v", data, err)
		}
		if blob, err := r.Blob(t.Context(), layer, 5); err != nil || string(blob) != "hello" {
			t.Errorf("the registry has %s %v", blob, err)
		}
		if _, err := r.Blob(t.Context(), layer, 4); !errors.Is(err, ErrInvalid) {
			t.Errorf("a blob above the limit: %v", err)
		}
		if list, err := r.Signatures(t.Context(), desc.Digest.String()); err != nil || len(list) != 0 {
			t.Errorf("signatures: %v %v", list, err)
		}
		return nil
	}
	own := EnvName(hostOf(s.Server))
	if err := push(map[string]string{own + "_USERNAME": "ada", own + "_PASSWORD": "wr0ng"}); !errors.Is(err, ErrDenied) || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := push(nil); !errors.Is(err, ErrDenied) {
		t.Errorf("without a credential: %v", err)
	}
	if err := push(map[string]string{own + "_USERNAME": "ada", own + "_PASSWORD": "hunter2"}); err != nil {
		t.Error(err)
	}
	before := s.asked("POST")
	if err := push(map[string]string{own + "_USERNAME": "ada", own + "_PASSWORD": "hunter2"}); err != nil || s.asked("POST") != before {
		t.Errorf("what is there is pushed again: %v", err)
	}
}

// Answers are bounded in size and time, and names are those of repositories.
func TestRegistryBounds(t *testing.T) {
	t.Parallel()
	s := newOCI(t)
	f := New(Options{Timeout: 300 * time.Millisecond, Sleep: func(context.Context, time.Duration) error { return nil }})
	r, err := f.Registry("oci://" + hostOf(s.Server) + "/a")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   error
	}{
		"a huge manifest": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("a", 64))
			w.Header().Set("Content-Length", "100000000000")
			w.WriteHeader(http.StatusOK)
		}, ErrInvalid},
		"an endless manifest": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
					return
				}
			}
		}, ErrUnavailable},
		"a slow answer": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}, ErrUnavailable},
		"another manifest than announced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("a", 64))
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "{}")
		}, ErrDigest},
		"no digest": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", "md5:x")
			_, _ = io.WriteString(w, "{}")
		}, ErrUnavailable},
	} {
		s.set(func(w http.ResponseWriter, r *http.Request) bool { c.answer(w, r); return true })
		if _, _, err := r.Manifest(t.Context(), "latest"); !errors.Is(err, c.kind) {
			t.Errorf("%s: the error is %v, want %v", name, err, c.kind)
		}
	}
	for _, name := range []string{"", "oci://", "oci://host", "https://host/x", "oci://host/x:v1", "oci://host/x@sha256:" + strings.Repeat("a", 64), "oci://me:hunter2@host/x", "oci://host/../x"} {
		if _, err := f.Registry(name); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error is %v", name, err)
		}
	}
}
