package fetch

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

func TestExactReferences(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for version, want := range map[string]bool{
		"1.2.3": true, "v1.2.3": true, "1.2.3-rc.1": true, "1.2.3+build": true, "1.2.3@" + digest: true,
		"1.2": false, "1": false, "^1.2.3": false, "~1.2.3": false, "1.x": false, "*": false,
		">=1.2.3": false, "=1.2.3": false, "": false, "latest": false, "1.2.3 || 2.0.0": false,
		"1.2.3@sha256:00": false,
	} {
		if got := (Ref{Repo: "https://charts.example.com", Chart: "web", Version: version}).Exact(); got != want {
			t.Errorf("version %q is exact: got %t, want %t", version, got, want)
		}
	}
	for ref, want := range map[Ref]string{
		{Repo: "https://Charts.example.com/stable", Chart: "web"}:     "https://charts.example.com:443",
		{Repo: "https://charts.example.com:443/other", Chart: "x"}:    "https://charts.example.com:443",
		{Repo: "http://charts.example.com", Chart: "web"}:             "http://charts.example.com:80",
		{Chart: "oci://ghcr.io/acme/web"}:                             "oci://ghcr.io",
		{Repo: "oci://ghcr.io/acme", Chart: "web"}:                    "oci://ghcr.io",
		{Repo: "https://user:secret@charts.example.com", Chart: "x"}:  "",
		{Repo: "file:///etc", Chart: "passwd"}:                        "",
		{Repo: "https://charts.example.com.evil.org", Chart: "web"}:   "https://charts.example.com.evil.org:443",
		{Repo: "https://charts.example.com@evil.org/x", Chart: "web"}: "",
	} {
		if got := ref.Server(); got != want {
			t.Errorf("server of %v: got %q, want %q", ref, got, want)
		}
	}
}

// Each version is resolved once, a range never, and a server that does not answer is asked once.
func TestExactPinsOnce(t *testing.T) {
	t.Parallel()
	repo := newChartRepo(t, httptest.NewServer)
	archive := repo.offer(t, true, "1.2.0")["1.2.0"]
	e := NewExact(New(Options{CacheDir: t.TempDir(), Sleep: func(context.Context, time.Duration) error { return nil }}))
	ref := Ref{Repo: repo.repo(), Chart: "web", Version: "1.2.0"}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := e.Pin(t.Context(), ref); err != nil || got.Version != "1.2.0" ||
				got.Digest != digestOf(archive) {
				t.Errorf("pin: got %+v, %v, want version 1.2.0 with the digest of the archive", got, err)
			}
		})
	}
	group.Wait()
	if n := repo.asked("/index.yaml"); n != 1 {
		t.Errorf("requests for the index: got %d, want 1", n)
	}
	var unlocked *UnlockedError
	if _, err := e.Pin(t.Context(), Ref{Repo: repo.repo(), Chart: "web", Version: "^1.0.0"}); !errors.As(err,
		&unlocked) {
		t.Errorf("a range: got %v, want an UnlockedError", err)
	}
	dead := httptest.NewServer(nil)
	dead.Close()
	for _, version := range []string{"1.0.0", "2.0.0"} {
		if _, err := e.Pin(t.Context(), Ref{Repo: dead.URL, Chart: "web", Version: version}); !errors.Is(err,
			ErrUnavailable) {
			t.Errorf("a server that does not answer: got %v, want ErrUnavailable", err)
		}
	}
	if len(e.down) != 1 {
		t.Errorf("servers that did not answer: got %v, want one", e.down)
	}
}
