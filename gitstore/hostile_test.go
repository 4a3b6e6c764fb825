package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// served returns an empty repository behind HTTP. handle sees each request first, and reports whether it answered.
func served(t *testing.T, handle func(w http.ResponseWriter, r *http.Request) bool) (bare, address string) {
	t.Helper()
	root := t.TempDir()
	bare = filepath.Join(root, "r.git")
	runGit(t, root, "init", "-q", "--bare", bare)
	runGit(t, bare, "config", "http.receivepack", "true")
	runGit(t, bare, "config", "uploadpack.allowAnySHA1InWant", "true")
	inner := backend(t, root, "", "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handle(w, r) {
			inner.Config.Handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return bare, server.URL + "/r.git"
}

// Text from a server is shown as plain text, without credentials that it repeats.
func TestErrorsOfServers(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, status := range []int{401, 403, 404, 413, 500, 503} {
			bare, address := served(t, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == method {
					w.WriteHeader(status)
					_, _ = io.WriteString(w, "your password\r\n\x1b[2J\u202e hunter2 \u009b31m"+
						strings.Repeat("long ", 1000))
				}
				return r.Method == method
			})
			s := open(t, Options{Dir: source(t)})
			b, err := s.Remote(address, Auth{User: "me", Password: "hunter2"})
			if err != nil {
				t.Fatal(err)
			}
			w := writer(t, s)
			results, err := b.Push(t.Context(), w, []Move{{"env/dev", Hash{}, commitOf(t, w, "one")}}, PushOptions{})
			switch {
			case err == nil:
				t.Errorf("%s %d is no error: %+v", method, status, results)
				continue
			case strings.ContainsAny(err.Error(), "\r\n\x1b\u202e\u009b"), strings.Contains(err.Error(), "hunter2"),
				len(err.Error()) > 2000:
				t.Errorf("the method is %s, the status is %d: the error is %q", method, status, err)
			case status < 404 && !strings.Contains(err.Error(), "SLUICE_GIT_TOKEN"):
				t.Errorf("%s %d: no hint: %v", method, status, err)
			}
			for _, r := range results {
				if r.State != Unknown {
					t.Errorf("the method is %s, the status is %d: the result is %+v", method, status, r)
				}
			}
			if refs := runGit(t, bare, "for-each-ref"); refs != "" {
				t.Errorf("%s %d: moved: %s", method, status, refs)
			}
		}
	}
}

// A server that accepts a push and never answers does not block a caller whose context ends. The result of the push
// is unknown.
func TestServerThatNeverAnswersAPush(t *testing.T) {
	stop := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, address := served(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		cancel() // not earlier: the push must be sent, however slow the machine is
		select {
		case <-stop:
		case <-r.Context().Done():
		}
		return true
	})
	t.Cleanup(func() { close(stop) })
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(address, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	patience, enough := context.WithTimeout(t.Context(), 2*time.Minute)
	defer enough()
	results, err := b.Push(ctx, w, []Move{{"env/dev", Hash{}, commitOf(t, w, "one")}}, PushOptions{})
	if !errors.Is(err, context.Canceled) || len(results) != 1 || results[0].State != Unknown || patience.Err() != nil {
		t.Errorf("%+v %v; too late: %v", results, err, patience.Err())
	}
}

// A service pushes and fetches for weeks, so it must not leak files or goroutines.
func TestNoLeakedFilesOrGoroutines(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	bare, address := served(t, func(http.ResponseWriter, *http.Request) bool { return false })
	for _, at := range []string{address, bare} {
		s := open(t, Options{Dir: source(t)})
		b, err := s.Remote(at, Auth{})
		if err != nil {
			t.Fatal(err)
		}
		before := opened(t)
		for i := range 15 {
			w, err := s.NewWriter()
			if err != nil {
				t.Fatal(err)
			}
			h := commitOf(t, w, fmt.Sprint(at, i))
			if got := push(t, b, w, Move{fmt.Sprintf("env/%d/%d", len(at), i), Hash{}, h}); got[0].State != Updated {
				t.Fatalf("the result of push is %+v", got)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			other := open(t, Options{URL: at})
			if _, err := other.FetchRevision(t.Context(), h.String()); err != nil {
				t.Fatal(err)
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < 3000 && opened(t) > before+10; i++ {
			time.Sleep(20 * time.Millisecond)
		}
		if now := opened(t); now > before+10 {
			t.Errorf("%s: %d files and goroutines were open, %d are", at, before, now)
		}
	}
}

func opened(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil && !errors.Is(err, os.ErrNotExist) { // not every system has /proc
		t.Fatal(err)
	}
	return len(files) + runtime.NumGoroutine()
}

// The zero id names no object. A server that advertises it is refused, rather than taken for one without the branch.
func TestAdvertisedZeroIsRefused(t *testing.T) {
	zero := strings.Repeat("0", 40)
	for _, name := range []string{"refs/heads/main", "refs/tags/v1^{}"} {
		line := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
		one := strings.Repeat("1", 40)
		body := line("# service=git-upload-pack\n") + "0000" + line(one+" refs/heads/other\x00agent=x\n") +
			line(one+" refs/tags/v1\n") + line(zero+" "+name+"\n") + "0000"
		_, address := served(t, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = io.WriteString(w, body)
			return true
		})
		s, err := Open(t.Context(), Options{URL: address, CacheDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		_, revision := s.FetchRevision(t.Context(), "main")
		b, err := s.Remote(address, Auth{})
		if err != nil {
			t.Fatal(err)
		}
		_, list := b.List(t.Context(), "")
		for what, err := range map[string]error{"FetchRevision": revision, "List": list} {
			if err == nil || errors.Is(err, ErrNoRef) || !strings.Contains(err.Error(), "names no object") {
				t.Errorf("the name is %s, the what is %s: the error is %v", name, what, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
