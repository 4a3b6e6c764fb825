package objects

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/memo"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// openMemory opens results that are kept.
func openMemory(t *testing.T) *memo.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "read")
	if err := memo.Open(name, "test").Save(); err != nil { // the first run keeps none
		t.Fatal(err)
	}
	return memo.Open(name, "test")
}

// An inventory that remembers folders of workspaces reads no trees of their apps and gives the same answers, also for a cluster with another
// folder.
func TestKeptFoldersOfWorkspaces(t *testing.T) {
	t.Parallel()
	const workspaces, apps = 20, 3
	all, none := gitstore.OpenMemory(), gitstore.OpenMemory() // the second one has the trees of clusters alone
	w, lacking := storeWriter(t, all), storeWriter(t, none)
	app := func(w *gitstore.Writer, names ...string) gitstore.Hash {
		var entries []gitstore.Entry
		for _, name := range names {
			entries = append(entries, gitstore.Entry{Name: "configmap-" + name + ".yaml", Mode: gitstore.ModeFile, Hash: must(w.Blob(fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: team}\n", name)))})
		}
		return must(w.Tree(entries))
	}
	cluster := func(changed string) gitstore.Hash {
		var folders, other []gitstore.Entry
		for i := range workspaces {
			var list []gitstore.Entry
			for j := range apps {
				tree := app(w, fmt.Sprintf("x-%d-%d", i, j), "shared")
				if i == 7 && j == 1 && changed != "" {
					tree = app(w, changed)
				}
				list = append(list, gitstore.Entry{Name: fmt.Sprint("app-", j), Mode: gitstore.ModeTree, Hash: tree})
			}
			folders = append(folders, gitstore.Entry{Name: fmt.Sprintf("team-%02d", i), Mode: gitstore.ModeTree, Hash: must(w.Tree(list))})
		}
		other = []gitstore.Entry{{Name: "workspaces", Mode: gitstore.ModeTree, Hash: must(w.Tree(folders))}}
		must(lacking.Tree(folders))
		if a, b := must(w.Tree(other)), must(lacking.Tree(other)); a != b {
			t.Fatal(a, b)
		}
		return must(w.Tree(other))
	}
	clusters := map[string]gitstore.Hash{"a": cluster(""), "b": cluster("other"), "c": cluster("x-1-1")}
	kept := openMemory(t)
	inventory := func(store *gitstore.Store, kept *memo.File) *Inventory {
		v := NewInventory(NewReader(store, diff.NewMasker(nil)), func(_ context.Context, cluster string) (Cluster, error) {
			return Cluster{Tree: clusters[cluster]}, nil
		})
		v.Keep(kept)
		return v
	}
	owners := func(v *Inventory, cluster, name string) []string {
		t.Helper()
		out, err := v.Owners(t.Context(), cluster, manifest.Identity{Kind: "ConfigMap", Namespace: "team", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, again, without := inventory(all, kept), inventory(all, kept), inventory(all, nil)
	for _, v := range []*Inventory{first, again, without} {
		for _, at := range []string{"a", "b", "c", "b", "a"} {
			for name, want := range map[string][]string{
				"x-1-1": map[string][]string{"c": {"team-01/app-1", "team-07/app-1"}}[at],
				"x-7-1": map[string][]string{"a": {"team-07/app-1"}}[at],
				"other": map[string][]string{"b": {"team-07/app-1"}}[at],
				"none":  nil,
			} {
				if name == "x-1-1" && want == nil {
					want = []string{"team-01/app-1"}
				}
				if got := owners(v, at, name); !slices.Equal(got, want) {
					t.Errorf("%s on %s: %v, want %v", name, at, got, want)
				}
			}
			if n, want := len(owners(v, at, "shared")), map[string]int{"a": 60, "b": 59, "c": 59}[at]; n != want {
				t.Errorf("%d owners on %s, want %d", n, at, want)
			}
		}
	}
	if got := owners(inventory(none, kept), "a", "none"); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if _, err := inventory(none, nil).Owners(t.Context(), "a", manifest.Identity{Kind: "ConfigMap", Name: "none"}); err == nil {
		t.Error("the trees of apps are not needed")
	}
	// Of the cluster b, one folder differs from the first cluster: it is not kept.
	if _, err := inventory(none, kept).Owners(t.Context(), "b", manifest.Identity{Kind: "ConfigMap", Name: "none"}); err == nil {
		t.Error("the folders of each cluster are kept")
	}
	if _, _, err := branch.Parts(t.Context(), none, clusters["b"]); err != nil {
		t.Error(err)
	}
}

func TestFilesOfAFolderAreDecodedOrRead(t *testing.T) {
	t.Parallel()
	files := []appFile{{"a", "configmap-x.yaml", gitstore.Hash{1}}, {"b", "", gitstore.Hash{}}, {string(make([]byte, 300)), "\xff", gitstore.Hash{2}}}
	data := encodeFiles(files)
	if got, ok := decodeFiles(data); !ok || !slices.Equal(got, files) {
		t.Errorf("%v, %v", got, ok)
	}
	if got, ok := decodeFiles(nil); !ok || got != nil {
		t.Errorf("no files: %v, %v", got, ok)
	}
	for i := range data {
		if got, ok := decodeFiles(data[:i]); ok && len(got) == len(files) {
			t.Errorf("%d bytes of %d have all files", i, len(data))
		}
	}
	for _, bad := range [][]byte{{1}, {0xff}, {1, 'a', 1}, {1, 'a', 1, 'b'}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		if got, ok := decodeFiles(bad); ok {
			t.Errorf("%v: %v", bad, got)
		}
	}
}

func storeWriter(t *testing.T, s *gitstore.Store) *gitstore.Writer {
	t.Helper()
	w, err := s.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func must(h gitstore.Hash, err error) gitstore.Hash {
	if err != nil {
		panic(err)
	}
	return h
}
