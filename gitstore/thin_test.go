package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// gitIn runs git with input.
func gitIn(t *testing.T, dir string, input []byte, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// thinSource makes a repository with renames, a merge, a change that goes back, and a submodule.
func thinSource(t *testing.T) (dir string, base Hash) {
	t.Helper()
	dir = source(t)
	long := strings.Repeat("line of a long file that deltas can be made of\n", 200)
	write(t, dir, "long.txt", long)
	for i := range 30 {
		write(t, dir, fmt.Sprintf("clusters/c%d/app.yaml", i), long+fmt.Sprint(i))
	}
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "-qm", "second")
	base = thinHead(t, dir)
	for i := range 30 {
		write(t, dir, fmt.Sprintf("clusters/c%d/app.yaml", i), long+"changed\n"+fmt.Sprint(i))
	}
	runGit(t, dir, "commit", "-qam", "change")
	runGit(t, dir, "revert", "--no-edit", "HEAD")
	runGit(t, dir, "checkout", "-q", "-b", "side", base.String())
	write(t, dir, "side.txt", "side")
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "-qm", "side")
	runGit(t, dir, "checkout", "-q", "main")
	runGit(t, dir, "merge", "-q", "--no-ff", "-m", "merge", "side")
	runGit(t, dir, "mv", "dir", "moved")
	runGit(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+base.String()+",module")
	runGit(t, dir, "commit", "-qm", "move")
	return dir, base
}

func thinHead(t *testing.T, dir string) Hash {
	t.Helper()
	h, err := ParseHash(runGit(t, dir, "rev-parse", "HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func thinOf(t *testing.T, dir string, ranges ...Range) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := open(t, Options{Dir: dir}).WriteThin(t.Context(), &out, ranges...); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// thinReceiver is a repository with what a revision of another one contains.
func thinReceiver(t *testing.T, dir, rev string) string {
	t.Helper()
	out := t.TempDir()
	runGit(t, out, "init", "-q", "--bare")
	if rev != "" {
		runGit(t, out, "fetch", "-q", dir, rev+":refs/heads/base")
	}
	return out
}

// TestGitReadsThin holds that Git itself reads the packfile, alone where it is whole and beside the base otherwise, and
// then finds everything.
func TestGitReadsThin(t *testing.T) {
	t.Parallel()
	dir, base := thinSource(t)
	tip := thinHead(t, dir)
	for name, c := range map[string]struct {
		r    Range
		have string
	}{"whole": {Range{To: tip}, ""}, "thin": {Range{From: base, To: tip}, base.String()}} {
		into := thinReceiver(t, dir, c.have)
		data := thinOf(t, dir, c.r)
		if !bytes.Equal(data, thinOf(t, dir, c.r)) {
			t.Errorf("%s: the same range gives other bytes", name)
		}
		if out, err := gitIn(t, into, data, "index-pack", "--stdin", "--fix-thin", "--strict"); err != nil {
			t.Fatalf("%s: %v %s", name, err, out)
		}
		runGit(t, into, "update-ref", "refs/heads/main", tip.String())
		runGit(t, into, "fsck", "--strict", "--connectivity-only")
		if got, want := runGit(t, into, "rev-parse", "main^{tree}"), runGit(t, dir, "rev-parse", "HEAD^{tree}"); got != want {
			t.Errorf("%s: the tree is %s; want %s", name, got, want)
		}
	}
	// Git looks for bases everywhere, and we only at the same path.
	fromGit, err := gitIn(t, dir, []byte(tip.String()+"\n^"+base.String()+"\n"), "pack-objects", "--thin", "--stdout", "--revs", "-q")
	if err != nil {
		t.Fatal(err)
	}
	if thin := len(thinOf(t, dir, Range{From: base, To: tip})); thin > 2*len(fromGit) {
		t.Errorf("the thin packfile has %d bytes, and Git's %d", thin, len(fromGit))
	}
}

// TestReadThin holds that we read what we write, and what Git writes with --thin and whole deltas by name.
func TestReadThin(t *testing.T) {
	t.Parallel()
	dir, base := thinSource(t)
	tip := thinHead(t, dir)
	into := thinReceiver(t, dir, base.String())
	fromGit, err := gitIn(t, dir, []byte(tip.String()+"\n^"+base.String()+"\n"), "pack-objects", "--thin", "--stdout", "--revs", "-q")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"ours": thinOf(t, dir, Range{From: base, To: tip}), "Git's": []byte(fromGit)} {
		s := open(t, Options{Dir: into})
		w := writer(t, s)
		if err := ReadThin(t.Context(), bytes.NewReader(data), w, ThinLimits{Objects: 1000, Bytes: 10 << 20}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := CheckReach(t.Context(), w, []Hash{tip}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Local().Push(t.Context(), w, []Move{{Branch: "got", New: tip}}, PushOptions{}); err != nil {
			t.Fatal(err)
		}
		runGit(t, into, "fsck", "--strict", "--connectivity-only")
		runGit(t, into, "update-ref", "-d", "refs/heads/got")
	}
}

func TestReadThinRefuses(t *testing.T) {
	t.Parallel()
	dir, base := thinSource(t)
	tip := thinHead(t, dir)
	good := thinOf(t, dir, Range{From: base, To: tip})
	into := thinReceiver(t, dir, base.String())
	ample := ThinLimits{Objects: 1000, Bytes: 10 << 20}
	var tagged bytes.Buffer
	thin, err := pack.NewThin(&tagged, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := thin.Add(Raw{Kind: "tag", Data: []byte("x")}, Hash{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := thin.Close(); err != nil {
		t.Fatal(err)
	}
	byOffset := "" // delta by offset: Git writes them where the reader knows them
	if byOffset, err = gitIn(t, dir, []byte(tip.String()+"\n"), "pack-objects", "--stdout", "--revs", "-q", "--delta-base-offset"); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 1
	for _, c := range []struct {
		name, want string
		data       []byte
		limits     ThinLimits
	}{
		{"empty", "cannot be read", nil, ample},
		{"no packfile", "cannot be read", []byte("PACKxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), ample},
		{"cut", "cannot be read", good[:len(good)-30], ample},
		{"checksum cut", "cannot be read", good[:len(good)-3], ample},
		{"changed", "", changed, ample},
		{"a byte after it", "follow the end", append(bytes.Clone(good), 0), ample},
		{"its checksum after it", "follow the end", append(bytes.Clone(good), good[len(good)-20:]...), ample},
		{"itself after it", "follow the end", append(bytes.Clone(good), good...), ample},
		{"too many objects", "more than 5", good, ThinLimits{Objects: 5, Bytes: 10 << 20}},
		{"too many bytes", "too many bytes", good, ThinLimits{Objects: 1000, Bytes: 5000}},
		{"a tag", "does not write", tagged.Bytes(), ample},
		{"a delta by offset", "does not write", []byte(byOffset), ample},
	} {
		w := writer(t, open(t, Options{Dir: into}))
		err := ReadThin(t.Context(), bytes.NewReader(c.data), w, c.limits)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v; want %q", c.name, err, c.want)
		}
	}
	empty := writer(t, open(t, Options{Dir: thinReceiver(t, dir, "")}))
	if err := ReadThin(t.Context(), bytes.NewReader(good), empty, ample); !errors.Is(err, ErrNotFound) {
		t.Errorf("without the base: %v", err)
	}
}

func TestCheckReach(t *testing.T) {
	t.Parallel()
	dir := source(t)
	who := Signature{Name: "A", Email: "a@example.com"}
	commit := func(t *testing.T, w *Writer, tree Hash, parents ...Hash) Hash {
		t.Helper()
		h, err := w.Commit(CommitSpec{Tree: tree, Parents: parents, Author: who, Committer: who, Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	missing := Hash{1, 2, 3}
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, w *Writer) []Hash
	}{
		{"complete", "", func(t *testing.T, w *Writer) []Hash {
			t.Helper()
			return []Hash{commitOf(t, w, "x", thinHead(t, dir))}
		}},
		{"a blob too many", "1 of 4 objects are not reachable", func(t *testing.T, w *Writer) []Hash {
			t.Helper()
			_, _ = w.Blob([]byte("smuggled"))
			return []Hash{commitOf(t, w, "x")}
		}},
		{"a commit too many", "3 of 6", func(t *testing.T, w *Writer) []Hash {
			t.Helper()
			commitOf(t, w, "other")
			return []Hash{commitOf(t, w, "x")}
		}},
		{"a missing parent", "is missing", func(t *testing.T, w *Writer) []Hash {
			t.Helper()
			return []Hash{commitOf(t, w, "x", thinHead(t, dir), missing)}
		}},
		{"a missing file", "is missing", func(t *testing.T, w *Writer) []Hash {
			t.Helper()
			tree, _ := w.Tree([]Entry{{"f", ModeFile, missing}})
			return []Hash{commit(t, w, tree)}
		}},
		{"a missing tip", "is missing", func(*testing.T, *Writer) []Hash { return []Hash{missing} }},
		{"a tree where a file must be", "is a tree where a file must be", func(t *testing.T, w *Writer) []Hash {
			t.Helper()
			tree, _ := w.Tree([]Entry{})
			outer, _ := w.Tree([]Entry{{"f", ModeFile, tree}})
			return []Hash{commit(t, w, outer)}
		}},
		{"a file where a tree must be", "not a tree", func(t *testing.T, w *Writer) []Hash {
			t.Helper()
			blob, _ := w.Blob([]byte("x"))
			outer, _ := w.Tree([]Entry{{"f", ModeTree, blob}})
			return []Hash{commit(t, w, outer)}
		}},
		{"a file as the tip", "not a commit", func(t *testing.T, w *Writer) []Hash {
			t.Helper()
			blob, _ := w.Blob([]byte("x"))
			return []Hash{blob}
		}},
	} {
		w := writer(t, open(t, Options{Dir: dir}))
		err := CheckReach(t.Context(), w, c.make(t, w), nil)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrReach) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: the error is %v; want %q", c.name, err, c.want)
		}
	}
}

// A small delta against a large base costs as much as the base, so that a packfile of many cannot take hours.
func TestThinChargesBases(t *testing.T) {
	t.Parallel()
	s := OpenMemory()
	content := bytes.Repeat([]byte("base of a delta\n"), 4096) // 64 KiB
	base := s.keep("blob", content)
	const deltas = 20
	var packed bytes.Buffer
	thin, err := pack.NewThin(&packed, deltas)
	if err != nil {
		t.Fatal(err)
	}
	for i := range deltas {
		if err := thin.Add(Raw{Kind: "blob", Data: append(bytes.Clone(content), byte(i))}, base, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := thin.Close(); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{deltas*2*70_000 + 1: "", deltas * 70_000: "the deltas of the packfile have too large bases"} {
		err := ReadThin(t.Context(), bytes.NewReader(packed.Bytes()), writer(t, s), ThinLimits{Objects: deltas, Bytes: limit})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with %d bytes: %v, want %q", limit, err, want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := ReadThin(ended, bytes.NewReader(packed.Bytes()), writer(t, s), ThinLimits{Objects: deltas, Bytes: 1 << 30}); err == nil {
		t.Error("it reads on after its context ended")
	}
}

// FuzzReadThin holds that whatever comes, objects have their right names.
func FuzzReadThin(f *testing.F) {
	s := OpenMemory()
	base := s.keep("blob", bytes.Repeat([]byte("base of a delta\n"), 40))
	var valid bytes.Buffer
	thin, err := pack.NewThin(&valid, 2)
	if err != nil {
		f.Fatal(err)
	}
	raw, _ := s.readLocal(base)
	if err := errors.Join(thin.Add(Raw{Kind: "blob", Data: append(bytes.Clone(raw.Data), "more"...)}, base, raw.Data),
		thin.Add(Raw{Kind: "tree"}, Hash{}, nil)); err != nil {
		f.Fatal(err)
	}
	if err := thin.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(valid.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := pack.NewMemoryWriter()
		if err != nil {
			t.Fatal(err)
		}
		limits := ThinLimits{Objects: 100, Bytes: 1 << 20}
		if err := pack.ReadThin(bytes.NewReader(data), w, limits, s.readLocal); err != nil && w.Len() > limits.Objects {
			t.Errorf("%d objects", w.Len())
		}
		for _, h := range slices.Compact(w.Hashes()) {
			o, _, err := w.Read(h)
			if err != nil || pack.Sum(o.Kind, o.Data) != h {
				t.Errorf("%s reads as %s, %v", h, pack.Sum(o.Kind, o.Data), err)
			}
		}
	})
}
