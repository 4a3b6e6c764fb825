package gitstore

import (
	"crypto/ed25519"
	"encoding/pem"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// runGit runs the git command.
func runGit(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A",
		"GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com", "GIT_AUTHOR_DATE=2024-01-02T03:04:05+0100",
		"GIT_COMMITTER_DATE=2024-01-02T03:04:05+0100")
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// source creates a repository with one commit.
func source(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	runGit(tb, dir, "init", "-q", "-b", "main")
	for name, data := range map[string]string{
		"a.txt": "a\n", "dir/b.txt": "b\n", "dir/sub/c.sh": "c\n",
		".gitignore": "ignored\n",
	} {
		write(tb, dir, name, data)
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		tb.Fatal(err)
	}
	runGit(tb, dir, "add", ".")
	runGit(tb, dir, "commit", "-qm", "first")
	return dir
}

func write(tb testing.TB, dir, name, data string) {
	tb.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(data), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, o Options) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func writer(tb testing.TB, s *Store) *Writer {
	tb.Helper()
	w, err := s.NewWriter()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = w.Close() })
	return w
}

func commitOf(tb testing.TB, w *Writer, content string, parents ...Hash) Hash {
	tb.Helper()
	blob, err := w.Blob([]byte(content))
	if err != nil {
		tb.Fatal(err)
	}
	tree, err := w.Tree([]Entry{{"f", ModeFile, blob}})
	if err != nil {
		tb.Fatal(err)
	}
	who := Signature{"Sluice", "s@example.com", time.Unix(1700000000, 0).UTC()}
	h, err := w.Commit(CommitSpec{Tree: tree, Parents: parents, Author: who, Committer: who, Message: "m\n"})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// backend serves a folder of repositories with git http-backend.
func backend(tb testing.TB, root, user, password string) *httptest.Server {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "git", "--exec-path").Output()
	if err != nil {
		tb.Fatal(err)
	}
	handler := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); user != "" && (u != user || p != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	return server
}

// newKey creates an SSH key, and returns it and the file of its private part.
func newKey(tb testing.TB) (ssh.Signer, string) {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "id")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		tb.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	return signer, file
}
