package pack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// runGit runs the git command.
func runGit(tb testing.TB, dir string, args ...string) string {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A",
		"GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com")
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
	write(tb, dir, "a.txt", "a\n")
	write(tb, dir, "dir/b.txt", "b\n")
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

// folder opens the objects of a repository.
func folder(tb testing.TB, gitDir string) *Folder {
	tb.Helper()
	f := OpenFolder(gitDir, disk.OS{})
	tb.Cleanup(func() { _ = f.Close() }) // opened for reading only
	return f
}

func writer(tb testing.TB, gitDir string) *Writer {
	tb.Helper()
	w, err := NewWriter(disk.OS{}, filepath.Join(gitDir, "objects", "pack"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = w.Close() })
	return w
}
