package gitstore

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
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
			panic(http.ErrAbortHandler) // applied, and the answer is lost
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
		t.Errorf("%+v %v", got, err)
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
	start := time.Now()
	if _, err := b.List(ctx, "env/"); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}
