package pack

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// Merging keeps what real git packed, deltas included, and what Writers packed, in a pack that git verifies.
func TestMergedPacks(t *testing.T) {
	t.Parallel()
	dir := source(t)
	text := strings.Repeat("a line that is in each version\n", 400)
	for i := range 4 {
		write(t, dir, "large.txt", fmt.Sprint(text, i))
		runGit(t, dir, "add", ".")
		runGit(t, dir, "commit", "-qm", fmt.Sprint("version ", i))
	}
	runGit(t, dir, "tag", "-a", "-m", "a tag", "v1")
	runGit(t, dir, "repack", "-adfq")
	git := filepath.Join(dir, ".git")
	objects := folder(t, git)
	for i := range ManySmall {
		w := writer(t, git)
		if _, err := w.Add("blob", fmt.Appendf(nil, "object %d", i)); err != nil {
			t.Fatal(err)
		}
		if err := w.StoreIn(objects); err != nil {
			t.Fatal(err)
		}
	}
	list := func() string {
		return runGit(t, dir, "cat-file", "--batch-all-objects",
			"--batch-check=%(objectname) %(objecttype) %(objectsize)")
	}
	bases := runGit(t, dir, "cat-file", "--batch-all-objects", "--batch-check=%(deltabase)")
	if !slices.ContainsFunc(strings.Fields(bases), func(base string) bool { return base != Hash{}.String() }) {
		t.Fatal("git made no delta")
	}
	before := list()
	if err := mergePacks(git, disk.OS{}); err != nil {
		t.Fatal(err)
	}
	packs, err := packsOf(git)
	if err != nil || len(packs) != 1 {
		t.Fatalf("%d packs, %v", len(packs), err)
	}
	if after := list(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	runGit(t, dir, "verify-pack", filepath.Join(git, "objects", "pack", packs[0].Name()))
	runGit(t, dir, "fsck", "--full", "--strict")
}

// Objects are copied as they were compressed, and those whose bytes differ from the checksum in the index are not.
func TestPackedObjectsAreCopied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "--bare")
	objects := folder(t, dir)
	w := writer(t, dir)
	var all []Hash
	for i := range 50 {
		h, err := w.Add("blob", bytes.Repeat(fmt.Appendf(nil, "text %d ", i), 100))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	if err := w.StoreIn(objects); err != nil {
		t.Fatal(err)
	}
	packs, err := packsOf(dir)
	if err != nil || len(packs) != 1 {
		t.Fatalf("%d packs, %v", len(packs), err)
	}
	name := packs[0].Name()
	index, err := openIndex(filepath.Join(dir, "objects", "pack", strings.TrimSuffix(name, ".pack")+".idx"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = index.close() }() // opened for reading only
	data, err := os.ReadFile(filepath.Join(dir, "objects", "pack", name))
	if err != nil {
		t.Fatal(err)
	}
	again := writer(t, dir)
	copied := 0
	for i, place := range packedPlaces(index, len(data)-hashSize) {
		text := data[place.begin:place.end]
		for at := range text {
			wrong := bytes.Clone(text)
			if wrong[at] ^= 4; i < 3 {
				if ok, err := again.addPacked(index.name(i), wrong, place.crc); ok || err != nil {
					t.Fatalf("object %d with another byte %d is copied: %v", i, at, err)
				}
			}
		}
		ok, err := again.addPacked(index.name(i), text, place.crc)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			copied++
		}
		if o, found, err := again.Read(index.name(i)); !found || err != nil ||
			Sum(o.Kind, o.Data) != index.name(i) || !slices.Contains(all, index.name(i)) {
			t.Errorf("object %d: %v, %v", i, found, err)
		}
	}
	if copied != len(all) {
		t.Errorf("%d of %d objects are copied", copied, len(all))
	}
}

// A pack that lost its end is no reason to fail, and the objects of the others stay.
func TestDamagedPacksAreMerged(t *testing.T) {
	t.Parallel()
	// in the middle of the object; in the table of the index
	for suffix, at := range map[string]int{".pack": 25, ".idx": 9} {
		dir := t.TempDir()
		runGit(t, dir, "init", "-q", "--bare")
		objects := folder(t, dir)
		var all []Hash
		for i := range ManySmall {
			w := writer(t, dir)
			h, err := w.Add("blob", bytes.Repeat(fmt.Appendf(nil, "text %d ", i), 100))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.StoreIn(objects); err != nil {
				t.Fatal(err)
			}
			all = append(all, h)
		}
		name := ""
		for _, p := range objects.packs {
			if _, ok, err := p.index.find(all[0]); ok && err == nil {
				name = p.base + suffix
			}
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o600); err != nil {
			t.Fatal(err)
		}
		data[at] ^= 1
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := mergePacks(dir, disk.OS{}); err != nil {
			t.Fatal(err)
		}
		after := OpenCache(dir, disk.OS{})
		defer func() { _ = after.Close() }() // opened for reading only
		for i, h := range all {
			if _, err := after.Read(h); (err == nil) != (i > 0) {
				t.Errorf("object %d: %v", i, err)
			}
		}
	}
}

// An object that is too large to read is small in a packfile if it repeats itself. It keeps no packs from being merged.
func TestPacksWithATooLargeObjectAreMerged(t *testing.T) {
	t.Parallel()
	dir := source(t)
	write(t, dir, "large", string(make([]byte, MaxObject+1)))
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "-qm", "large")
	runGit(t, dir, "repack", "-adfq")
	git := filepath.Join(dir, ".git")
	objects := folder(t, git)
	for i := range ManySmall {
		w := writer(t, git)
		if _, err := w.Add("blob", fmt.Appendf(nil, "object %d", i)); err != nil {
			t.Fatal(err)
		}
		if err := w.StoreIn(objects); err != nil {
			t.Fatal(err)
		}
	}
	if err := mergePacks(git, disk.OS{}); err != nil {
		t.Fatal(err)
	}
	packs, err := packsOf(git)
	if err != nil || len(packs) != 1 {
		t.Fatalf("%d packs, %v", len(packs), err)
	}
	runGit(t, dir, "fsck", "--full")
}

func TestOldPacksOfACacheArePruned(t *testing.T) {
	dir := t.TempDir()
	packs := filepath.Join(dir, "objects", "pack")
	for i := range manyPacks {
		write(t, packs, fmt.Sprintf("pack-%03d.pack", i), "")
		write(t, packs, fmt.Sprintf("pack-%03d.idx", i), "")
	}
	if err := prunePacks(dir, disk.OS{}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(packs)
	if err != nil || len(entries) != manyPacks {
		t.Errorf("%d files, %v", len(entries), err)
	}
}
