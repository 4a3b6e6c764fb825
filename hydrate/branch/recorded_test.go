package branch_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

func digestOf(n int) string { return fmt.Sprintf("sha256:%064x", n) }

// recordedOf returns the inputs of all clusters of a state.
func recordedOf(t *testing.T, store *gitstore.Store, st *branch.State, clusters ...string) map[string]branch.Inputs {
	t.Helper()
	out := map[string]branch.Inputs{}
	for _, c := range clusters {
		in, err := st.Recorded(store, c).All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out[c] = in
	}
	return out
}

// written returns the state with the edited files.
func written(t *testing.T, store *gitstore.Store, w *gitstore.Writer, files *branch.InputFiles) *branch.State {
	t.Helper()
	var root branch.Root
	if err := files.Write(t.Context(), store, w, &root); err != nil {
		t.Fatal(err)
	}
	st := branch.NewState("env/x")
	st.Inputs, st.Scoped = root.Inputs, root.Scoped
	return st
}

// threeClusters returns a state that records four apps of each of three clusters.
func threeClusters(t *testing.T) (*gitstore.Store, *gitstore.Writer, *branch.State, map[string]branch.Inputs) {
	t.Helper()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	empty := branch.NewState("env/x")
	files := empty.InputFiles()
	want := map[string]branch.Inputs{}
	for n, c := range []string{"c-1", "c-2", "c-3"} {
		want[c] = fill(t, w, files, empty.Recorded(store, c), n*10)
	}
	return store, w, written(t, store, w, files), want
}

// The inputs of each workspace have a file of their own: an edit of one changes neither those of the others nor those
// of other clusters.
func TestInputsOfAWorkspaceAreAFile(t *testing.T) {
	t.Parallel()
	store, w, before, want := threeClusters(t)
	if got := recordedOf(t, store, before, "c-1", "c-2", "c-3"); !reflect.DeepEqual(got, want) {
		t.Fatalf("the result of recordedOf is %v\nwant %v", got, want)
	}
	if got := slices.Sorted(maps.Keys(before.Scoped)); !slices.Equal(got, []string{"team-a", "team-b"}) {
		t.Fatalf("folders of %v", got)
	}

	files := before.InputFiles()
	r := before.Recorded(store, "c-2")
	if err := r.Set(t.Context(), "team-a/shop", digestOf(99), nil); err != nil {
		t.Fatal(err)
	}
	if err := files.Put(w, r); err != nil {
		t.Fatal(err)
	}
	after := written(t, store, w, files)
	want["c-2"].Apps["team-a/shop"] = digestOf(99)
	delete(want["c-2"].Scopes, "team-a/shop")
	if got := recordedOf(t, store, after, "c-1", "c-2", "c-3"); !reflect.DeepEqual(got, want) {
		t.Errorf("after an edit: %v\nwant %v", got, want)
	}
	if !maps.Equal(after.Inputs, before.Inputs) || after.Scoped["team-b"] != before.Scoped["team-b"] ||
		after.Scoped["team-a"] == before.Scoped["team-a"] {
		t.Errorf("an edit of team-a: %v, %v, before %v, %v", after.Inputs, after.Scoped, before.Inputs, before.Scoped)
	}
}

// fill records four apps of a cluster.
func fill(t *testing.T, w *gitstore.Writer, files *branch.InputFiles, r *branch.Recorded, first int) branch.Inputs {
	t.Helper()
	want := branch.NewInputs()
	for i, app := range []string{"ingress", "team-a/shop", "team-a/db", "team-b/shop"} {
		scopes := []string{"Cert.x"}[:i%2]
		if err := r.Set(t.Context(), app, digestOf(first+i), scopes); err != nil {
			t.Fatal(err)
		}
		if want.Apps[app] = digestOf(first + i); len(scopes) > 0 {
			want.Scopes[app] = scopes
		}
	}
	if err := files.Put(w, r); err != nil {
		t.Fatal(err)
	}
	return want
}

// Apps and clusters that are gone leave no files.
func TestInputsOfWhatIsGone(t *testing.T) {
	t.Parallel()
	store, w, after, want := threeClusters(t)
	files := after.InputFiles()
	r := after.Recorded(store, "c-1")
	if err := r.Retain(t.Context(), func(app string) bool { return !strings.HasPrefix(app, "team-b/") }); err != nil {
		t.Fatal(err)
	}
	if err := files.Put(w, r); err != nil {
		t.Fatal(err)
	}
	files.Remove("c-2")
	files.Remove("c-3")
	last := written(t, store, w, files)
	delete(want["c-1"].Apps, "team-b/shop")
	delete(want["c-1"].Scopes, "team-b/shop")
	if got := recordedOf(t, store, last, "c-1"); !reflect.DeepEqual(got["c-1"], want["c-1"]) || len(last.Inputs) != 1 ||
		len(last.Scoped) != 1 {
		t.Errorf("after removals: %v, %v, %v", got, last.Inputs, last.Scoped)
	}
	if entries, err := store.Tree(t.Context(), last.Scoped["team-a"]); err != nil || len(entries) != 1 {
		t.Errorf("team-a has %v, %v", entries, err)
	}
}

// A file of an earlier version has the inputs of all workspaces. They are read, and every edit of the cluster gives
// them files of their own.
func TestInputsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	want := branch.Inputs{
		Apps:   map[string]string{"ingress": digestOf(1), "team-a/shop": digestOf(2), "team-b/shop": digestOf(3)},
		Scopes: map[string][]string{"team-b/shop": {"Cert.x"}, "ingress": {"Cert.x"}},
	}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	st := branch.NewState("env/x")
	if st.Inputs["c-1"], err = w.Blob(data); err != nil {
		t.Fatal(err)
	}
	for _, app := range []string{"", "ingress", "team-a/shop", "team-b/shop", "team-c/shop"} {
		if got, err := st.Recorded(store, "c-1").Digest(t.Context(), app); err != nil || got != want.Apps[app] {
			t.Errorf("%s: the result of Digest is %q, the error is %v", app, got, err)
		}
	}
	files := st.InputFiles()
	r := st.Recorded(store, "c-1")
	if err := r.Set(t.Context(), "team-a/shop", digestOf(4), nil); err != nil {
		t.Fatal(err)
	}
	if err := files.Put(w, r); err != nil {
		t.Fatal(err)
	}
	want.Apps["team-a/shop"] = digestOf(4)
	next := written(t, store, w, files)
	if got := recordedOf(t, store, next, "c-1")["c-1"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the result is %v, want %v", got, want)
	}
	if own, err := branch.ReadInputs(t.Context(), store, next.Inputs["c-1"]); err != nil || len(own.Apps) != 1 ||
		len(own.Scopes) != 1 || len(next.Scoped) != 2 {
		t.Errorf("the fleet's own: %v, folders %v, %v", own, next.Scoped, err)
	}
}

// The file of a workspace says nothing about apps of others, and what cannot be read as such a file has no digests.
func TestInputsOfAWorkspaceNameNoOther(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for name, text := range map[string]string{
		"another workspace": "apps:\n  team-a/shop: " + digestOf(1) + "\n  team-b/shop: " + digestOf(2) + "\n  z: " +
			digestOf(3) + "\n",
		"damaged": "{broken",
	} {
		blob, err := w.Blob([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		folder, err := w.Tree([]gitstore.Entry{{Name: "c-1.yaml", Mode: gitstore.ModeFile, Hash: blob}})
		if err != nil {
			t.Fatal(err)
		}
		st := branch.NewState("env/x")
		st.Scoped["team-a"] = folder
		r := st.Recorded(store, "c-1")
		for app, n := range map[string]int{"team-b/shop": 2, "z": 3} {
			if got, err := r.Digest(ctx, app); err != nil || got != "" {
				t.Errorf("%s: %s has %s (%d), %v", name, app, got, n, err)
			}
		}
		if got, err := r.Digest(ctx, "team-a/shop"); err != nil || (got != "") != (name == "another workspace") {
			t.Errorf("%s: the result of Digest is %q, the error is %v", name, got, err)
		}
	}
}
