package memo_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/internal/memo"
)

// openSecond opens a file in a place where a run has been before.
func openSecond(t *testing.T) (name string, f *memo.File) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "sluice", "known")
	first := memo.Open(name, "a build")
	first.Put(memo.KeyOf("x"), []byte("y"))
	if _, ok := first.Get(memo.KeyOf("x")); ok || first.Puts() {
		t.Error("the first run in a place keeps results")
	}
	if err := first.Save(); err != nil {
		t.Fatal(err)
	}
	return name, memo.Open(name, "a build")
}

func TestResultsStay(t *testing.T) {
	t.Parallel()
	name, f := openSecond(t)
	for i := range 100 {
		f.Put(memo.KeyOf("number", fmt.Sprint(i)), fmt.Appendf(nil, "value %d", i))
	}
	f.Put(memo.KeyOf("empty"), nil)
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	again := memo.Open(name, "a build")
	for i := range 100 {
		if v, ok := again.Get(memo.KeyOf("number", fmt.Sprint(i))); !ok || string(v) != fmt.Sprintf("value %d", i) {
			t.Errorf("result %d: %q, %v", i, v, ok)
		}
	}
	if v, ok := again.Get(memo.KeyOf("empty")); !ok || len(v) != 0 {
		t.Errorf("an empty result: %q, %v", v, ok)
	}
	if _, ok := again.Get(memo.KeyOf("number", "100")); ok {
		t.Error("a result that nobody kept")
	}
	if _, ok := memo.Open(name, "another build").Get(memo.KeyOf("number", "1")); ok {
		t.Error("the result of another build")
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	seen := map[memo.Key]string{}
	for _, parts := range [][]string{nil, {""}, {"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab"}, {"a\x01b"}} {
		k := memo.KeyOf(parts...)
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %s have one key", parts, other)
		}
		seen[k] = fmt.Sprintf("%q", parts)
	}
}

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	name, f := openSecond(t)
	f.Put(memo.KeyOf("a"), bytes.Repeat([]byte("value"), 10))
	for i := range 15 {
		f.Put(memo.KeyOf("other", fmt.Sprint(i)), []byte("other"))
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	try := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		f := memo.Open(name, "a build")
		if v, ok := f.Get(memo.KeyOf("a")); ok {
			t.Errorf("a damaged file of %d bytes gives %q", len(data), v)
		}
		f.Put(memo.KeyOf("a"), []byte("again"))
		if v, ok := f.Get(memo.KeyOf("a")); !ok || string(v) != "again" {
			t.Error("after a damaged file nothing is kept")
		}
	}
	for i := range len(whole) {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		try(damaged)
		try(whole[:i])
	}
	try(append(bytes.Clone(whole), 0))
}

// A file is written when enough is new, loses what nobody uses, and never more than half.
func TestFileFollowsItsUse(t *testing.T) {
	t.Parallel()
	name, f := openSecond(t)
	put := func(f *memo.File, from, to int) {
		for i := from; i < to; i++ {
			f.Put(memo.KeyOf(fmt.Sprint(i)), []byte("v"))
		}
	}
	has := func(f *memo.File, from, to int) (n int) {
		for i := from; i < to; i++ {
			if _, ok := f.Get(memo.KeyOf(fmt.Sprint(i))); ok {
				n++
			}
		}
		return n
	}
	save := func(f *memo.File) {
		t.Helper()
		if err := f.Save(); err != nil {
			t.Fatal(err)
		}
	}
	put(f, 0, 100)
	save(f)
	f = memo.Open(name, "a build")
	if n := has(f, 0, 100); n != 100 {
		t.Fatalf("%d of 100", n)
	}
	put(f, 100, 115)
	save(f)
	if n := has(memo.Open(name, "a build"), 0, 115); n != 100 {
		t.Errorf("15 new results caused a write: %d are there", n)
	}
	f = memo.Open(name, "a build")
	has(f, 0, 60)
	put(f, 200, 216)
	save(f)
	f = memo.Open(name, "a build")
	if n := has(f, 0, 216); n != 116 {
		t.Errorf("%d, want all of which most were used", n)
	}
	f = memo.Open(name, "a build")
	has(f, 0, 20)
	put(f, 300, 316)
	save(f)
	if n := has(memo.Open(name, "a build"), 0, 316); n != 36 {
		t.Errorf("%d, want only the 36 that were used", n)
	}
}

// What a process left that was killed while it wrote goes with the next write.
func TestLeftFilesGo(t *testing.T) {
	t.Parallel()
	name, f := openSecond(t)
	old, young := name+".new-1", name+".new-2"
	for _, n := range []string{old, young} {
		if err := os.WriteFile(n, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		f.Put(memo.KeyOf(fmt.Sprint(i)), nil)
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(name + "*")
	if want := []string{name, young}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v, want %q", names, err, want)
	}
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	var none *memo.File
	none.Put(memo.KeyOf("a"), nil)
	if _, ok := none.Get(memo.KeyOf("a")); ok || none.Puts() {
		t.Error("no file keeps results")
	}
	if err := none.Save(); err != nil {
		t.Error(err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := memo.Open(filepath.Join(blocked, "known"), "")
	f.Put(memo.KeyOf("a"), []byte("v"))
	if v, ok := f.Get(memo.KeyOf("a")); !ok || string(v) != "v" {
		t.Error("a place that cannot be written to keeps nothing for the run itself")
	}
	for i := range 16 {
		f.Put(memo.KeyOf(fmt.Sprint(i)), nil)
	}
	if f.Save() == nil {
		t.Error("the file was written below a file")
	}
}
