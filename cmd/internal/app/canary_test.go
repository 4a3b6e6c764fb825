package app_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// leaks searches the credentials of the service in its comments and in the files that it leaves. The writer of the log
// searches there.
func (s *story) leaks(credentials []string) {
	s.t.Helper()
	search := leakSearch{credentials: credentials}
	for _, number := range s.requests() {
		search.look("comments", []byte(strings.Join(s.comments(number), "\n")))
	}
	if err := search.folder(s.dir); err != nil || search.places == 0 {
		s.t.Errorf("searched %d places: %v", search.places, err)
	}
	for _, where := range search.found {
		s.t.Errorf("a credential in %s", where)
	}
}

// leakSearch searches credentials in files, in what compressed files contain, and in the objects of Git repositories.
type leakSearch struct {
	credentials []string
	places      int
	found       []string
}

func (l *leakSearch) look(where string, data []byte) {
	l.places++
	if slices.ContainsFunc(l.credentials, func(c string) bool { return bytes.Contains(data, []byte(c)) }) {
		l.found = append(l.found, where)
	}
}

func (l *leakSearch) folder(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a process of Git may still end
			return nil
		}
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return l.objects(path)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		l.look(path, data)
		switch filepath.Ext(path) {
		case ".gz":
		case ".report": // a line, then a compressed page
			_, data, _ = bytes.Cut(data, []byte("\n"))
		default:
			return nil
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if data, err = io.ReadAll(z); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		l.look(path, data)
		return nil
	})
}

// objects searches all objects of a Git repository if the folder is one.
func (l *leakSearch) objects(dir string) error {
	for _, part := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, part)); err != nil {
			return nil //nolint:nilerr // no repository
		}
	}
	cmd := exec.CommandContext(context.Background(), "git", "--git-dir", dir, "cat-file", "--batch-all-objects",
		"--unordered", "--batch")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_NO_LAZY_FETCH=1")
	data, err := cmd.Output()
	if _, gone := os.Stat(dir); err != nil && gone == nil {
		return fmt.Errorf("objects of %s: %w", dir, err)
	}
	l.look("objects of "+dir, data)
	return nil
}

// TestLeakSearch: the search finds a credential in a plain file, in a compressed one and in an object of a repository.
func TestLeakSearch(t *testing.T) {
	t.Parallel()
	const credential = "a-credential-that-somebody-planted"
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("<p>" + credential + "</p>")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"page.html.gz": packed.String(), "one.report": "{}\n" + packed.String(),
		"plain": credential, "clean": "nothing",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(input string, args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("", "init", "-q", "--bare", "mirror")
	git("token: "+credential+"\n", "--git-dir", "mirror", "hash-object", "-w", "--stdin")
	search := leakSearch{credentials: []string{credential}}
	if err := search.folder(dir); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"objects of " + filepath.Join(dir, "mirror"), filepath.Join(dir, "plain"),
		filepath.Join(dir, "page.html.gz"), filepath.Join(dir, "one.report"),
	}
	slices.Sort(search.found)
	if slices.Sort(want); !slices.Equal(search.found, want) {
		t.Errorf("found in %q, expected %q", search.found, want)
	}
}

// writer is the log of a test. It drops what comes after the end of the test, for which testing would end all tests.
type writer struct {
	t    *testing.T
	mu   sync.Mutex
	over bool
}

// newWriter returns a log that is open during the cleanups that are registered later.
func newWriter(t *testing.T) *writer {
	t.Helper()
	w := &writer{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over = true
	})
	return w
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// guardedWriter is a log in which a credential fails the test.
type guardedWriter struct {
	*writer
	credentials []string
}

func (w guardedWriter) Write(p []byte) (int, error) {
	if slices.ContainsFunc(w.credentials, func(c string) bool { return strings.Contains(string(p), c) }) {
		w.t.Error("a credential in the log")
	}
	return w.writer.Write(p)
}
