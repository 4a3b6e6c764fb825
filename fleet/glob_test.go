package fleet

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func TestGlobsMatchAsDoublestarDoes(t *testing.T) {
	tree := fleettest.NewTree(map[string]string{
		"a.yaml": "", "clusters/a.yaml": "", "clusters/b.yml": "", "clusters/x/c.yaml": "", "clusters/x/y/d.yaml": "",
		"apps/web/app.yaml":    "",
		"apps/web/v2/app.yaml": "", "apps/app.yaml": "", "x/clusters/z.yaml": "", "app{1}/app.yaml": "",
	})
	for _, pattern := range []string{
		"clusters/*.yaml", "clusters/**/*.yaml", "**/*.yaml", "**", "clusters/**", "**/app.yaml", "apps/**/app.yaml",
		"apps/*/app.yaml", "**/x/**/*.yaml",
		"clusters/*.{yaml,yml}", "{apps,clusters}/*", "./clusters/*.yaml", "clusters/[ab].y*ml", "nope/*", "a.yaml",
		"apps/??b/*", "**/clusters/*", "app\\{1\\}/*",
	} {
		g, err := parseGlob(pattern)
		if err != nil {
			t.Fatalf("%s: the error is %v", pattern, err)
		}
		got, err := walkGlobs(t.Context(), tree, []glob{g})
		if err != nil {
			t.Fatal(err)
		}
		if linked, err := walkGlobs(t.Context(), &linkTree{Tree: tree}, []glob{g}); err != nil ||
			!slices.Equal(linked, got) {
			t.Errorf("%s: from its last literal folder %q %v, from the top %q", pattern, linked, err, got)
		}
		want, err := doublestar.Glob(tree, strings.TrimPrefix(pattern, "./"), doublestar.WithFilesOnly(),
			doublestar.WithNoFollow())
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the result of walkGlobs is %v, want %v", pattern, got, want)
		}
	}
}

// countingTree counts the listed directories, and can be cancelled while it is walked.
type countingTree struct {
	*fleettest.Tree
	listed int
	after  int
	cancel context.CancelFunc
}

func (c *countingTree) ReadDir(name string) ([]fs.DirEntry, error) {
	if c.listed++; c.listed == c.after {
		c.cancel()
	}
	return c.Tree.ReadDir(name)
}

// In a folder of many levels, patterns with ** visit each directory once, and the walk can be stopped.
func TestHostileGlobs(t *testing.T) {
	files := tiny(nil)
	const depth = 200
	files[strings.Repeat("d/", depth)+"app.yml"] = ""
	tree := &countingTree{Tree: fleettest.NewTree(files)}
	globs := make([]glob, 0, 40)
	for range 20 {
		for _, pattern := range []string{"**/d/**/app.yaml", "**/*d*/**/*.yaml"} {
			g, err := parseGlob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			globs = append(globs, g)
		}
	}
	if _, err := walkGlobs(t.Context(), tree, globs); err != nil || tree.listed > depth+20 {
		t.Errorf("%d directories were listed for %d: %v", tree.listed, depth, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tree = &countingTree{Tree: fleettest.NewTree(files), after: 10, cancel: cancel}
	if _, err := walkGlobs(ctx, tree, globs); !errors.Is(err, context.Canceled) || tree.listed != 10 {
		t.Errorf("cancelled after 10 directories, stopped after %d: %v", tree.listed, err)
	}
	for pattern, want := range map[string]string{
		strings.Repeat("**/", 12) + "app.yaml": "12 times **", "apps/**x/app.yaml": "must stand alone",
		"../**/app.yaml":        "leaves the repository",
		"apps/{a/b,c}/app.yaml": "braces cannot hold a slash", "/apps/*/app.yaml": "begins with a slash",
		"apps/" + strings.Repeat("{a,b}", 20): "pairs of braces", strings.Repeat("a/", 300): "longer than",
		"apps/[/app.yaml": "is not a pattern",
	} {
		files["sluice.yaml"] = base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  files: {apps: ['" + pattern +
			"']}\n  layers: [region]\n  environments: [{name: dev}]\n"
		if _, problems := Load(t.Context(), fleettest.NewTree(files), NewCache()); !strings.Contains(problems.Error(), want) ||
			!strings.Contains(problems.Error(), "sluice.yaml:5:18") {
			t.Errorf("%.40s: want %q, the error is %s", pattern, want, problems.Error())
		}
	}
}

// A folder that a glob names is not followed if it or a parent is a link, even one that leads nowhere or outside; one
// that the storage cannot give is an error, because its clusters would count as gone.
func TestGlobOfAFolderThatIsNone(t *testing.T) {
	t.Parallel()
	tree := fleettest.NewTree(map[string]string{
		"real/clusters/a.yaml": "", "file": "", "folder": linkTo + "real", "dangling": linkTo + "nowhere",
		"outside": linkTo + "../../etc",
	})
	for _, pattern := range []string{
		"folder/*/*.yaml", "folder/clusters/*.yaml", "dangling/*.yaml",
		"dangling/clusters/*.yaml", "outside/*.yaml", "file/*.yaml", "file/x/*.yaml", "missing/*.yaml",
	} {
		g, err := parseGlob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		linked := &linkTree{Tree: tree}
		if got, err := walkGlobs(t.Context(), linked, []glob{g}); err != nil || len(got) > 0 ||
			linked.fault.Load() != nil {
			t.Errorf("%s: the result of walkGlobs is %q, the error is %v", pattern, got, err)
		}
	}
	g, err := parseGlob("real/clusters/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	linked := &linkTree{Tree: tree}
	// a later answer of the storage counts, not what is known of the path
	if _, err := linked.ReadDir("real/clusters"); err != nil {
		t.Fatal(err)
	}
	linked.Tree = failing{tree}
	if got, err := walkGlobs(t.Context(), linked, []glob{g}); err == nil || linked.fault.Load() == nil {
		t.Errorf("a storage that fails: %q %v", got, err)
	}
}

// failing is a storage that answers no questions about files.
type failing struct{ *fleettest.Tree }

func (failing) Stat(name string) (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: name, Err: errors.New("the server does not answer")}
}
