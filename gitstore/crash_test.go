package gitstore

import (
	"bytes"
	"compress/zlib"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

var errKilled = errors.New("the process was killed here")

// mortalDisk works for a number of steps. Then nothing more reaches the disk, as after SIGKILL or a power cut:
// unsynced files lose the second half, or all, of their content.
type mortalDisk struct {
	left   int
	torn   int64 // how much of an unsynced file stays: size/torn, nothing for 0
	opened map[string]bool
}

func (m *mortalDisk) step() error {
	if m.left--; m.left >= 0 {
		return nil
	}
	for name := range m.opened {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		size := int64(0)
		if m.torn > 0 {
			size = info.Size() / m.torn
		}
		if err := os.Truncate(name, size); err != nil {
			return err
		}
	}
	clear(m.opened)
	return errKilled
}

func (m *mortalDisk) MkdirAll(dir string) error {
	return errors.Join(m.step(), unless(m.left < 0, func() error { return disk.OS{}.MkdirAll(dir) }))
}

func (m *mortalDisk) CreateTemp(dir, pattern string) (*os.File, error) {
	if err := m.step(); err != nil {
		return nil, err
	}
	f, err := disk.OS{}.CreateTemp(dir, pattern)
	if err == nil {
		m.opened[f.Name()] = true
	}
	return f, err
}

func (m *mortalDisk) Sync(f *os.File) error {
	if err := m.step(); err != nil {
		return err
	}
	delete(m.opened, f.Name())
	return f.Sync()
}

func (m *mortalDisk) Rename(from, to string) error {
	return errors.Join(m.step(), unless(m.left < 0, func() error { return os.Rename(from, to) }))
}

func (m *mortalDisk) RemoveAll(name string) error {
	return errors.Join(m.step(), unless(m.left < 0, func() error { return os.RemoveAll(name) }))
}

func unless(dead bool, do func() error) error {
	if dead {
		return nil
	}
	return do()
}

// Stops a session after each of its steps on the disk. The next session opens the same folders, reads everything and
// pushes.
func TestKilledAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	origin := source(t)
	generous(t, origin)
	many := t.TempDir() // a mirror with so many packs that the next session merges them
	for i := range pack.ManySmall {
		write(t, origin, "a.txt", fmt.Sprint("change ", i))
		runGit(t, origin, "commit", "-qam", fmt.Sprint("change ", i))
		s, err := Open(t.Context(), Options{URL: "file://" + origin, CacheDir: many})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.FetchRevision(t.Context(), "HEAD"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, origin, "a.txt", "last")
	runGit(t, origin, "commit", "-qam", "last")
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--bare", "--depth=1", "--filter=blob:none", "file://"+origin, clone)
	for _, c := range []struct {
		name, from string
		torn       int64
		least      int // minimal number of steps of a session
	}{{"new mirror", "", 0, 8}, {"mirror", many, 2, 12}, {"clone", clone, 2, 8}} {
		t.Run(c.name, func(t *testing.T) {
			steps := 0
			for finished := false; !finished; steps++ {
				dir := t.TempDir()
				if c.from != "" {
					if err := os.CopyFS(dir, os.DirFS(c.from)); err != nil {
						t.Fatal(err)
					}
				}
				o := Options{URL: "file://" + origin, CacheDir: dir}
				if c.from == clone {
					o = Options{Dir: dir}
				}
				o.disk = &mortalDisk{left: steps, torn: c.torn, opened: map[string]bool{}}
				err := crashSession(t, o)
				if finished = err == nil; !finished && !errors.Is(err, errKilled) {
					t.Fatalf("killed at step %d: %v", steps, err)
				}
				o.disk = nil
				if err := crashSession(t, o); err != nil {
					t.Fatalf("killed at step %d: the next session fails: %v", steps, err)
				}
			}
			if steps < c.least {
				t.Errorf("a session has only %d steps on the disk", steps)
			}
		})
	}
}

// crashSession fetches the newest commit and its parent, reads a file and pushes a branch.
func crashSession(t *testing.T, o Options) (err error) {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, err := s.FetchRevision(t.Context(), "HEAD")
	if err != nil {
		return err
	}
	data, err := s.Snapshot(t.Context(), c.Tree).ReadFile("a.txt")
	if err != nil {
		return err
	}
	if string(data) != "last" {
		t.Fatalf("a.txt is %q", data)
	}
	if _, err := s.Commit(t.Context(), c.Parents[0]); err != nil {
		return err
	}
	w, err := s.NewWriter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	branch := "env/" + rand.Text()
	one := commitOf(t, w, branch)
	place, err := s.Remote(s.remote, Auth{})
	if err != nil {
		return err
	}
	results, err := place.Push(t.Context(), w, []Move{{branch, Hash{}, one}}, PushOptions{})
	if err == nil && results[0].State != Updated {
		t.Fatalf("the results are %+v", results)
	}
	return err
}

// Damages every file of a cache in several ways. Every command afterwards works.
func TestDamagedCacheIsFetchedAgain(t *testing.T) {
	origin := source(t)
	generous(t, origin)
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+origin, clone)
	read := func() error {
		s := open(t, Options{Dir: clone})
		snapshot := s.Snapshot(t.Context(), resolve(t, s, "HEAD").Tree)
		for _, name := range []string{"a.txt", "dir/b.txt", "dir/sub/c.sh"} {
			if _, err := snapshot.ReadFile(name); err != nil {
				return err
			}
		}
		return nil
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(clone, ".git", sideName, "objects", "pack")
	damages := map[string]func(name string) error{
		"remove":   os.Remove,
		"empty":    func(name string) error { return os.Truncate(name, 0) },
		"cut":      func(name string) error { return os.Truncate(name, sizeOf(t, name)/2) },
		"cut last": func(name string) error { return os.Truncate(name, sizeOf(t, name)-1) },
		"flip": func(name string) error {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for i := 20; i < len(data)-20; i++ {
				data[i] ^= 0x55
			}
			return os.WriteFile(name, data, 0o600)
		},
	}
	for what, damage := range damages {
		for _, suffix := range []string{".pack", ".idx"} {
			files, err := filepath.Glob(filepath.Join(folder, "*"+suffix))
			if err != nil || len(files) == 0 {
				t.Fatalf("no %s in the cache: %v", suffix, err)
			}
			for _, name := range files {
				if err := errors.Join(os.Chmod(name, 0o600), damage(name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := read(); err != nil {
				t.Errorf("the what is %s, the suffix is %s: the error is %v", what, suffix, err)
			}
		}
	}
}

func sizeOf(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Damage in a user's repository is reported by file, and nothing is removed.
func TestDamageOfTheUsersOwnObjects(t *testing.T) {
	for _, suffix := range []string{".pack", ".idx"} {
		dir := source(t)
		runGit(t, dir, "gc", "-q")
		tree, err := ParseHash(runGit(t, dir, "rev-parse", "HEAD^{tree}"))
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, ".git", "objects", "pack", "*"+suffix))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := errors.Join(os.Chmod(files[0], 0o600), os.Truncate(files[0], sizeOf(t, files[0])/2)); err != nil {
			t.Fatal(err)
		}
		_, err = open(t, Options{Dir: dir}).Tree(t.Context(), tree)
		damaged, ok := errors.AsType[*DamagedError](err)
		if !ok || !errors.Is(err, ErrDamaged) || filepath.Dir(damaged.Path) != filepath.Dir(files[0]) {
			t.Errorf("%s: the error is %v", suffix, err)
		}
		if sizeOf(t, files[0]) == 0 {
			t.Errorf("%s was changed", files[0])
		}
	}
}

// A loose object with a size that is no size is damaged, and does not end the process.
func TestLooseObjectsWithImpossibleSizes(t *testing.T) {
	for _, header := range []string{"blob -5\x00", "blob 99999999999999999999\x00", "blob x\x00", "blob 5\x00"} {
		dir := t.TempDir()
		runGit(t, dir, "init", "-q")
		file := filepath.Join(dir, ".git", "objects", "11", strings.Repeat("1", 38))
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		_, err := w.Write([]byte(header))
		if err := errors.Join(err, w.Close(), os.MkdirAll(filepath.Dir(file), 0o750),
			os.WriteFile(file, packed.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		hash, err := ParseHash(strings.Repeat("1", 40))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, Options{Dir: dir}).Blob(t.Context(), hash); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: the error is %v", header, err)
		}
	}
}
