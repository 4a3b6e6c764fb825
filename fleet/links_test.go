package fleet

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func TestLinksInsideTheRepositoryAreFollowed(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, fleettest.Linked(), NewCache())
	for name, want := range map[string]any{"a": "eu", "b": "b", "c": "c"} {
		values, err := f.Values(target(t, f, name), "")
		if err != nil {
			t.Fatal(err)
		}
		if got := values["m"].(map[string]any)["d"]; got != want {
			t.Errorf("cluster %s: m.d is %v, want %v", name, got, want)
		}
	}
	if got := f.Components(target(t, f, "a")); len(got) != 1 || got[0].Path != "shared/europe" {
		t.Errorf("components of a: %+v", got)
	}
}

func TestLinkOfAClusterThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	files := fleettest.Linked()
	files["clusters/c.yaml"] = linkTo + "../../c.yaml"
	if p := problemsOf(t, files); !strings.Contains(p.Error(),
		`clusters/c.yaml: error: the symbolic link clusters/c.yaml points to "../../c.yaml", which is outside the repository`) {
		t.Errorf("a cluster's file: %v", p)
	}
}

// Links of another repository lead to its own files only.
func TestLinksOfAnotherRepository(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"private/values.yaml": "fleet's own", ".repositories/next/values.yaml": "of the next",
		".repositories/lib/values.yaml": "lib's own", ".repositories/lib/layers/own.yaml": linkTo + "../values.yaml",
		".repositories/lib/layers/file.yaml": linkTo + "../../../private/values.yaml",
		".repositories/lib/dir":              linkTo + "../../private",
		".repositories/lib/chain":            linkTo + "dir/values.yaml", ".repositories/lib/next.yaml": linkTo +
			"../next/values.yaml", ".repositories/lib/all": linkTo + "..",
		"linked.yaml": linkTo + ".repositories/lib/layers/file.yaml",
	}
	tree := &linkTree{Tree: fleettest.NewTree(files)}
	if data, err := tree.ReadFile(".repositories/lib/layers/own.yaml"); err != nil || string(data) != "lib's own" {
		t.Errorf("a link inside: %s, %v", data, err)
	}
	for _, name := range []string{
		"layers/file.yaml", "dir/values.yaml", "chain", "next.yaml", "all/next/values.yaml",
		"../../linked.yaml",
	} {
		data, err := tree.ReadFile(path.Join(".repositories/lib", name))
		if err == nil || !strings.Contains(err.Error(), "which is outside the repository") {
			t.Errorf("%s: the data is %s, the error is %v", name, data, err)
		}
	}
}

// An error of the storage is not a problem of the fleet, so that the caller retries. Mistakes in files are problems.
func TestFaultsOfTheStorage(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	for _, name := range []string{
		"sluice.yaml", "clusters", "clusters/a.yaml", "apps/web/app.yaml", "apps",
	} {
		tree := fleettest.NewTree(small())
		tree.Fail[name] = lost
		f, problems := Load(t.Context(), tree, NewCache())
		err := problems.Err()
		if _, blamed := errors.AsType[Problems](err); f != nil || !errors.Is(err, lost) || blamed {
			t.Errorf("%s: fleet %v, error %v", name, f != nil, err)
		}
		delete(tree.Fail, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, problems := Load(ctx, fleettest.NewTree(small()), NewCache())
	if err := problems.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for _, err := range []error{fs.ErrNotExist, fs.ErrInvalid} {
		tree := fleettest.NewTree(small())
		tree.Fail["clusters/a.yaml"] = err
		_, problems := Load(t.Context(), tree, NewCache())
		if _, blamed := errors.AsType[Problems](problems.Err()); !blamed {
			t.Errorf("%v is no problem of the fleet: %v", err, problems.Err())
		}
	}
}

// Changes the targets of links, and links themselves.
func TestAffectedThroughLinks(t *testing.T) {
	t.Parallel()
	for changed, edit := range map[string]struct {
		text string
		want []string
	}{
		"shared/real/us.yaml":       {"m: {d: 9}\n", []string{"b", "c"}},
		"shared/us.yaml":            {linkTo + "europe/values.yaml", []string{"b", "c"}},
		"shared/europe/values.yaml": {"m: {d: 8}\n", []string{"a"}},
		"apps/web/layers/region/eu": {linkTo + "us", []string{"a"}},
		"shared/europe/new.yaml":    {"x: 1\n", []string{"a"}},
		"shared/cluster.txt":        {cluster("c", "prod", "base", "us", "size: 7"), []string{"c"}},
		"elsewhere/x.yaml":          {"x: 1\n", nil},
	} {
		cache := NewCache()
		before := mustLoad(t, fleettest.Linked(), cache)
		files := fleettest.Linked()
		files[changed] = edit.text
		after := mustLoad(t, files, cache)
		var got []string
		for _, a := range Affected(before, after, []string{changed},
			func(_ *Fleet, s Source) []string { return []string{s.Path()} }) {
			got = append(got, a.Cluster)
		}
		if !reflect.DeepEqual(got, edit.want) {
			t.Errorf("%s: affected %v, want %v", changed, got, edit.want)
		}
	}
}
