package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/internal/memo"
)

// manyClusters is a fleet with n files of clusters, one of which is a link, and one of which a parser reads.
func manyClusters(n int) map[string]string {
	files := map[string]string{
		"sluice.yaml":          base + "kind: Fleet\nmetadata: {name: acme}\nspec:\n  environments: [{name: dev}]\n",
		"clusters/parsed.yaml": base + "kind: Cluster\nmetadata: {name: parsed}\nspec:\n  environment: &e dev\n  vars: {e: *e}\n",
		"clusters/link.yaml":   linkTo + "../other/linked.yaml",
		"other/linked.yaml":    numberedCluster(1000, 0),
	}
	for i := range n {
		files[fmt.Sprintf("clusters/c-%04d.yaml", i)] = numberedCluster(i, 0)
	}
	return files
}

func numberedCluster(i, version int) string {
	return fmt.Sprintf("%skind: Cluster\nmetadata:\n  name: c-%04d\n  labels:\n    region: r%d\nspec:\n  environment: dev\n  kubeVersion: 1.33.2\n  vars:\n    version: %d\n", base, i, i%3, version)
}

// Runs after the first take a list of declarations from an earlier run, and read only the files that differ.
func TestKeptLists(t *testing.T) {
	t.Parallel()
	const clusters = 200
	name := filepath.Join(t.TempDir(), "kept")
	files := manyClusters(clusters)
	run := func() (read []string) {
		t.Helper()
		memory := memo.Open(name, "build")
		tree := &readingTree{memTree: newMemTree(files), names: map[string]bool{}}
		got, problems := Load(t.Context(), tree, NewCache().Keeping(memory))
		want, wanted := Load(t.Context(), newMemTree(files), NewCache())
		if got == nil || want == nil || !reflect.DeepEqual(texts(problems), texts(wanted)) || !sameFleet(t, got, want) {
			t.Fatalf("another fleet: %q, want %q", texts(problems), texts(wanted))
		}
		if err := memory.Save(); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(tree.names))
	}
	always := []string{"clusters/parsed.yaml", "sluice.yaml"} // a file that a parser reads is not kept
	for n := range 2 {
		if read := run(); len(read) != clusters+3 {
			t.Errorf("run %d reads %d files", n, len(read))
		}
	}
	if read := run(); !slices.Equal(read, always) && !slices.Equal(read, append([]string{always[0], "other/linked.yaml"}, always[1:]...)) {
		t.Errorf("the third run reads %q", read)
	}
	changed := 0
	for round := range 40 { // so many that the list is written again several times
		changed = (changed + 7) % clusters
		edited := fmt.Sprintf("clusters/c-%04d.yaml", changed)
		switch round % 8 {
		case 5:
			delete(files, edited)
		case 6:
			edited = fmt.Sprintf("clusters/new-%d.yaml", round)
			files[edited] = numberedCluster(2000+round, round)
		default:
			files[edited] = numberedCluster(changed, round+1)
		}
		if read := run(); len(read) > 30 || round%8 != 5 && !slices.Contains(read, edited) {
			t.Errorf("round %d reads %d files: %q", round, len(read), read)
		}
	}
}

// A second commit that a run reads shares the declarations that are equal, and each file is decoded for the commit that has it.
func TestListsOfTwoCommits(t *testing.T) {
	t.Parallel()
	const clusters = 100
	files := manyClusters(clusters)
	cache := NewCache()
	load := func() (*Fleet, int) {
		t.Helper()
		tree := &readingTree{memTree: newMemTree(files), names: map[string]bool{}}
		f, problems := Load(t.Context(), tree, cache)
		if problems.Err() != nil {
			t.Fatal(problems.Err())
		}
		return f, len(tree.names)
	}
	first, _ := load()
	files["clusters/c-0040.yaml"] = numberedCluster(40, 1)
	second, read := load()
	files["clusters/c-0040.yaml"] = numberedCluster(40, 0)
	third, again := load()
	if read != 2 || again != 1 {
		t.Errorf("%d and %d files are read, want 2 and 1", read, again)
	}
	for i, c := range first.Clusters {
		if shared, want := c.doc.nodes == second.Clusters[i].doc.nodes, c.Name != "c-0040"; shared != want {
			t.Errorf("%s is shared: %v", c.Name, shared)
		}
		if v := third.Clusters[i].Vars["version"]; c.Name != "parsed" && v != int64(0) {
			t.Errorf("%s of the third commit has version %v", c.Name, v)
		}
	}
	if v := second.clusters["c-0040"].Vars["version"]; v != int64(1) {
		t.Errorf("version %v of the second commit", v)
	}
}

// unreadable is a tree whose storage does not give one file.
type unreadable struct {
	*memTree
	name string
}

func (u unreadable) ReadFile(name string) ([]byte, error) {
	if name == u.name {
		return nil, errors.New("the connection broke")
	}
	return u.memTree.ReadFile(name)
}

// A file that the storage did not give is read again by the next load.
func TestListsKeepNoFailures(t *testing.T) {
	t.Parallel()
	files := manyClusters(100)
	for _, memory := range []*memo.File{nil, memo.Open(filepath.Join(t.TempDir(), "kept"), "build")} {
		cache := NewCache().Keeping(memory)
		if f, problems := Load(t.Context(), unreadable{newMemTree(files), "clusters/c-0040.yaml"}, cache); f != nil || problems.Err() == nil {
			t.Error("a fleet that cannot be read is valid")
		}
		if f, problems := Load(t.Context(), newMemTree(files), cache); f == nil || len(f.Clusters) != 102 {
			t.Errorf("the failure was kept: %v", problems.Err())
		}
	}
}

// listingTree also notes the folders that are listed.
type listingTree struct{ *readingTree }

func (l listingTree) ReadDir(name string) ([]fs.DirEntry, error) {
	l.note(name)
	return l.memTree.ReadDir(name)
}

// A run whose folder of clusters is that of an earlier run neither lists the folder nor reads its files.
func TestListsOfWholeFolders(t *testing.T) {
	t.Parallel()
	const clusters = 100
	name := filepath.Join(t.TempDir(), "kept")
	files := manyClusters(clusters)
	delete(files, "clusters/parsed.yaml")
	delete(files, "clusters/link.yaml")
	run := func(want ...string) {
		t.Helper()
		memory := memo.Open(name, "build")
		tree := listingTree{&readingTree{memTree: newMemTree(files), names: map[string]bool{}}}
		cache := NewCache().Keeping(memory)
		got, problems := Load(t.Context(), tree, cache)
		read := slices.Sorted(maps.Keys(tree.names))
		fresh, wanted := Load(t.Context(), newMemTree(files), NewCache())
		if got == nil || fresh == nil || !reflect.DeepEqual(texts(problems), texts(wanted)) || !sameFleet(t, got, fresh) {
			t.Fatalf("another fleet: %q, want %q", texts(problems), texts(wanted))
		}
		if again, _ := Load(t.Context(), newMemTree(files), cache); again.Clusters[0].doc.nodes != got.Clusters[0].doc.nodes {
			t.Error("the second commit of a run shares no declaration")
		}
		for _, path := range []string{"clusters/c-0007.yaml", "apps/new/app.yaml"} {
			if moved, _ := Moved(got, newMemTree(files), cache, []string{path}, nil); (moved == nil) != (files[path] != "") {
				t.Errorf("a change of %s is one of the declarations: %v", path, moved == nil)
			}
		}
		if err := memory.Save(); err != nil {
			t.Fatal(err)
		}
		if want != nil && !slices.Equal(read, want) {
			t.Errorf("the run reads %d: %.200q, want %q", len(read), read[:min(len(read), 5)], want)
		}
	}
	run()
	run()
	run("sluice.yaml")
	files["clusters/c-0007.yaml"] = numberedCluster(7, 1)
	run("clusters", "clusters/c-0007.yaml", "sluice.yaml")
	run("sluice.yaml") // the list of the new folder was kept
	files["clusters/new.yaml"] = numberedCluster(500, 1)
	run("clusters", "clusters/new.yaml", "sluice.yaml")
	run("sluice.yaml")
	delete(files, "clusters/c-0050.yaml")
	run("clusters", "sluice.yaml")
	run("sluice.yaml")
	files["clusters/link.yaml"] = linkTo + "../other/linked.yaml" // what it leads to can change without the folder
	run("clusters", "other/linked.yaml", "sluice.yaml")
	run("clusters", "other/linked.yaml", "sluice.yaml")
	files["other/linked.yaml"] = numberedCluster(1000, 1)
	run("clusters", "other/linked.yaml", "sluice.yaml")
	delete(files, "clusters/link.yaml")
	files["sluice.yaml"] += "  files: {clusters: [\"clusters/c-*.yaml\"]}\n" // other patterns
	run()
	run("sluice.yaml")
	files["sluice.yaml"] = files["sluice.yaml"][:len(files["sluice.yaml"])-len("\"clusters/c-*.yaml\"]}\n")] + "\"clusters/c-*.yaml\", \"more/*.yaml\"]}\n"
	files["more/one.yaml"] = numberedCluster(600, 1)
	run()
	run(".", "clusters", "more", "sluice.yaml")
}

// A list that is larger than what one run may keep is not kept, but its files are, as many as there is room for.
func TestListsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	const clusters = 100
	files := manyClusters(0)
	for i := range clusters {
		files[fmt.Sprintf("clusters/c-%04d.yaml", i)] = numberedCluster(i, 0) + "    long: " + strings.Repeat("x", 120_000) + "\n"
	}
	name := filepath.Join(t.TempDir(), "kept")
	read := 0
	for range 3 {
		memory := memo.Open(name, "build")
		tree := &readingTree{memTree: newMemTree(files), names: map[string]bool{}}
		if f, problems := Load(t.Context(), tree, NewCache().Keeping(memory)); f == nil {
			t.Fatal(problems.Err())
		}
		if err := memory.Save(); err != nil {
			t.Fatal(err)
		}
		read = len(tree.names)
	}
	if read > clusters/2 {
		t.Errorf("the third run reads %d files", read)
	}
}
