package gitstore

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestConnectionCutAfterThePush(t *testing.T) {
	root := t.TempDir()
	runGit(t, root, "init", "-q", "--bare", "r.git")
	runGit(t, filepath.Join(root, "r.git"), "config", "http.receivepack", "true")
	inner := backend(t, root, "", "")
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied := httptest.NewRecorder()
		inner.Config.Handler.ServeHTTP(proxied, r)
		if strings.HasSuffix(r.URL.Path, "git-receive-pack") && r.Method == http.MethodPost {
			panic(http.ErrAbortHandler) // the server applied the push, and the answer is lost
		}
		maps.Copy(w.Header(), proxied.Header())
		w.WriteHeader(proxied.Code)
		_, _ = w.Write(proxied.Body.Bytes())
	}))
	t.Cleanup(cut.Close)
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(cut.URL+"/r.git", Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	one := commitOf(t, w, "one")
	got, err := b.Push(t.Context(), w, []Move{{"env/dev", Hash{}, one}}, PushOptions{})
	if err != nil || len(got) != 1 || got[0].State != Updated {
		t.Errorf("the result of Push is %+v, the error is %v", got, err)
	}
}

func TestHangingServerAndCancel(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	s := open(t, Options{Dir: source(t)})
	b, _ := s.Remote(server.URL+"/r.git", Auth{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.List(ctx, "env/"); err == nil {
		t.Error("listing succeeded although the server never answered")
	}
}

// The caller gives up while the server's hook runs. The hook ends with the test, or after two minutes.
func TestCancelWhileTheServerWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	for _, kind := range []string{"file", "http"} {
		t.Run(kind, func(t *testing.T) {
			root, bare := bareRepo(t)
			runs := filepath.Join(bare, "hook-runs")
			hook(t, bare, "echo $PPID >'"+runs+".new'\nmv '"+runs+".new' '"+runs+"'\ni=0\nwhile [ -e '"+runs+
				"' ] && [ $i -lt 1200 ]; do sleep 0.1; i=$((i+1)); done\n")
			address := bare
			if kind == "http" {
				address = backend(t, root, "", "").URL + "/r.git"
			}
			s := open(t, Options{Dir: source(t)})
			b, err := s.Remote(address, Auth{})
			if err != nil {
				t.Fatal(err)
			}
			w := writer(t, s)
			one := commitOf(t, w, "one")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					if _, err := os.Stat(runs); err == nil {
						cancel()
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
			got, err := b.Push(ctx, w, []Move{{"env/dev", Hash{}, one}}, PushOptions{})
			if err == nil || len(got) != 1 || got[0].State != Unknown {
				t.Errorf("%+v %v: it waited for the hook", got, err)
			}
			ended(t, runs)
		})
	}
}

// ended ends a hook and waits for the process that runs it, whose number is in a file: it could write into a folder
// that the test removes.
func ended(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		t.Fatalf("%q is no process: %v", text, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

func TestConnectionCutBeforeThePush(t *testing.T) {
	root, _ := bareRepo(t)
	inner := backend(t, root, "", "")
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
		inner.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(cut.Close)
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(cut.URL+"/r.git", Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	got, err := b.Push(t.Context(), w, []Move{{"env/dev", Hash{}, commitOf(t, w, "one")}}, PushOptions{})
	if err == nil || len(got) != 1 || got[0].State != Unknown || !strings.Contains(got[0].Reason, "not moved yet") {
		t.Errorf("the result of Push is %+v, the error is %v", got, err)
	}
}

func TestSilentHost(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s := open(t, Options{Dir: source(t)})
	known := filepath.Join(t.TempDir(), "known_hosts")
	write(t, filepath.Dir(known), "known_hosts", "")
	_, key := newKey(t)
	b, err := s.Remote("ssh://git@"+listener.Addr().String()+"/r.git",
		Auth{SSHKeyFile: key, KnownHostsFiles: []string{known}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.List(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}
