package flux

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/fluxcd/pkg/sourceignore"
	"github.com/fluxcd/pkg/sourceignore/gitignore"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"

	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/internal/treefs"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// Tree is one commit's files. Paths are slash-separated and relative to its root, which is `.`. A Snapshot of gitstore
// is one.
type Tree interface {
	ReadFile(name string) ([]byte, error)
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
}

// artifact is what source-controller would hand to another controller: a set of files, each the content of a file of
// the commit. Its files are not changed after newArtifact. It is not safe for concurrent use.
type artifact struct {
	tree    Tree
	files   map[string]string   // path in the artifact → path in the commit
	dirs    map[string][]string // path in the artifact → names in it, sorted
	digests map[string]string   // of the names of directories, for namesDigest

	of         *content            // whose files a GitRepository's artifact has; nil for another artifact
	left       map[string][]string // by chart; see leftOut
	submodules []string            // of the repository, which source-controller checks out and the artifact lacks
}

func newArtifact(tree Tree, files map[string]string) *artifact {
	a := &artifact{tree: tree, files: files, dirs: map[string][]string{".": nil}, digests: map[string]string{}}
	listed := make(map[string]bool, len(files)) // a folder can have very many files
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for at := name; at != "." && !listed[at]; at = path.Dir(at) {
			listed[at] = true
			dir := path.Dir(at)
			a.dirs[dir] = append(a.dirs[dir], path.Base(at))
		}
	}
	for dir := range a.dirs {
		slices.Sort(a.dirs[dir])
	}
	return a
}

// original returns the path in the commit of a file of the artifact, and the path itself for anything else.
func (a *artifact) original(name string) string {
	if from, ok := a.files[name]; ok {
		return from
	}
	return name
}

// ReadFile implements kustomize.Tree.
func (a *artifact) ReadFile(name string) ([]byte, error) {
	from, ok := a.files[name]
	if !ok {
		return nil, treefs.Missing("read", name)
	}
	return a.tree.ReadFile(from)
}

// Stat implements kustomize.Tree.
func (a *artifact) Stat(name string) (fs.FileInfo, error) {
	if _, ok := a.dirs[name]; ok {
		return treefs.Dir(name), nil
	}
	from, ok := a.files[name]
	if !ok {
		return nil, treefs.Missing("stat", name)
	}
	return a.tree.Stat(from)
}

func (a *artifact) isDir(name string) bool { _, ok := a.dirs[name]; return ok }

func (a *artifact) isFile(name string) bool { _, ok := a.files[name]; return ok }

// names lists a directory.
func (a *artifact) names(dir string) []string { return a.dirs[dir] }

// missingSubmodule returns a submodule below a directory that has no kustomization: Flux builds the submodule's files
// too, and the artifact lacks them. It returns "" if there is none.
func (a *artifact) missingSubmodule(dir string) string {
	if _, ok := kustomizationFile(a, dir); ok { // it names its files, and one that is missing is an error
		return ""
	}
	for _, name := range a.submodules {
		if dir == "." || strings.HasPrefix(name, dir+"/") {
			return name
		}
	}
	return ""
}

// namesDigest is a digest of the names in a directory.
func (a *artifact) namesDigest(dir string) string {
	known, ok := a.digests[dir]
	if !ok {
		known = digest([]byte(strings.Join(a.names(dir), "\x00")))
		a.digests[dir] = known
	}
	return known
}

// kind returns "directory", "file", or "" for a path that is neither.
func (a *artifact) kind(name string) string {
	switch {
	case a.isDir(name):
		return "directory"
	case a.isFile(name):
		return "file"
	}
	return ""
}

// view is an artifact as a build sees it: the artifact itself, or a recorder of what the build asks.
type view interface {
	kustomize.Tree
	isDir(name string) bool
	isFile(name string) bool
	names(dir string) []string
	original(name string) string
}

// maxFiles bounds the files of one commit that an import lists.
const maxFiles = 500_000

// list lists the files, links and submodules of a repository, by their paths in it. It leaves out the directories that
// skip matches. Links are separate, because source-controller puts only regular files into an artifact.
func list(tree Tree, out *content, skip func(dir string) bool) error {
	var walk func(dir string) error
	walk = func(dir string) error {
		entries, err := tree.ReadDir(out.at(dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			switch {
			case e.IsDir() && skip(out.at(name)):
			case e.IsDir():
				if err := walk(name); err != nil {
					return err
				}
			case e.Type().IsRegular():
				out.files = append(out.files, name)
			case e.Type()&fs.ModeSymlink != 0:
				out.links = append(out.links, name)
			case e.Type()&fs.ModeIrregular != 0:
				out.submodules = append(out.submodules, name)
			}
			if len(out.files)+len(out.links) > maxFiles {
				return fmt.Errorf("the repository has more than %d files", maxFiles)
			}
		}
		return nil
	}
	return walk(".")
}

// domain returns the path at which the patterns of an artifact apply. It is not empty, because in package sourceignore
// a pattern with an empty domain applies everywhere.
func domain() []string { return []string{"artifact"} }

// repository returns the artifact that source-controller makes of a repository for a GitRepository. Clusters share it.
func (i *Importer) repository(of *content, spec *sourcev1.GitRepositorySpec) (*artifact, error) {
	ignore := "default"
	if spec.Ignore != nil {
		ignore = "spec " + *spec.Ignore
	}
	key := strings.Join(append([]string{of.dir, ignore, fmt.Sprint(spec.RecurseSubmodules)}, spec.SparseCheckout...),
		"\x00")
	if a, ok := i.repositories[key]; ok {
		return a, nil
	}
	files, err := i.withoutIgnored(of, checkedOut(of.files, spec.SparseCheckout), spec.Ignore)
	if err != nil {
		return nil, err
	}
	a := newArtifact(i.tree, files)
	a.of = of
	if spec.RecurseSubmodules {
		a.submodules = of.submodules
	}
	i.repositories[key] = a
	return a, nil
}

// checkedOut returns the files that source-controller checks out. An entry of spec.sparseCheckout is the beginning of a
// path, as in go-git.
func checkedOut(files, sparse []string) []string {
	if len(sparse) == 0 {
		return files
	}
	var out []string
	for _, name := range files {
		begins := func(dir string) bool { return strings.HasPrefix(name, strings.TrimPrefix(dir, "./")) }
		if slices.ContainsFunc(sparse, begins) {
			out = append(out, name)
		}
	}
	return out
}

// withoutIgnored returns those files that source-controller puts into an artifact: path in the artifact → path in the
// tree. It leaves out files that .sourceignore files, the GitRepository's spec.ignore and Flux's default patterns
// exclude. Memory keeps what the same names and patterns exclude.
func (i *Importer) withoutIgnored(of *content, files []string, spec *string) (map[string]string, error) {
	var patterns []gitignore.Pattern
	inputs := [][]byte{[]byte("ignoring"), []byte(strings.Join(files, "\x00"))} // of the key in Memory
	for _, name := range files {
		if path.Base(name) != sourceignore.IgnoreFile {
			continue
		}
		data, err := i.tree.ReadFile(of.at(name))
		if err != nil {
			return nil, err
		}
		at := domain()
		if dir := path.Dir(name); dir != "." {
			at = append(at, strings.Split(dir, "/")...)
		}
		patterns = append(patterns, sourceignore.ReadPatterns(bytes.NewReader(data), at)...)
		inputs = append(inputs, data)
	}
	if spec != nil {
		patterns = append(patterns, sourceignore.ReadPatterns(strings.NewReader(*spec), domain())...)
		inputs = append(inputs, []byte("spec "+*spec))
	}
	excluded, known, key := map[string]bool{}, false, digest(inputs...)
	if i.Memory != nil {
		var names []string
		known = wire.Unmarshal(i.Memory.Get(key), &names) == nil
		for _, name := range names {
			excluded[name] = true
		}
	}
	if !known {
		excluded = map[string]bool{}
		matcher := sourceignore.NewDefaultMatcher(patterns, domain())
		for _, name := range files {
			if matcher.Match(append(domain(), strings.Split(name, "/")...), false) {
				excluded[name] = true
			}
		}
		if i.Memory != nil {
			text, err := wire.Marshal(slices.Sorted(maps.Keys(excluded)))
			if err != nil {
				return nil, err
			}
			i.Memory.Put(key, text)
		}
	}
	out := make(map[string]string, len(files))
	for _, name := range files {
		if !excluded[name] {
			out[name] = of.at(name)
		}
	}
	return out, nil
}

var errGlob = errors.New("bad pattern")

// copyFiles applies a copy rule of an ArtifactGenerator, `@alias/pattern` to `@artifact/dir/`, and adds the copies to
// out.
func copyFiles(from map[string]string, pattern, to string, exclude []string, out map[string]string) error {
	for _, p := range append([]string{pattern}, exclude...) {
		if !doublestar.ValidatePattern(p) || strings.Count(p, "**") > 2 {
			return fmt.Errorf("%w %q", errGlob, p)
		}
	}
	// What stands before the first wildcard is not part of the name in the artifact.
	base, _ := doublestar.SplitPattern(pattern)
	single := !strings.ContainsAny(pattern, "*?[{")
	for _, name := range slices.Sorted(maps.Keys(from)) {
		rel := name
		switch {
		case single && name == path.Clean(pattern): // one file
			rel = path.Base(name)
			if !strings.HasSuffix(to, "/") {
				out[path.Clean(to)] = from[name]
				continue
			}
		case single && strings.HasPrefix(name, strings.TrimSuffix(pattern, "/")+"/"):
			// a directory: itself, or what is in it
			dir := strings.TrimSuffix(pattern, "/")
			if !strings.HasSuffix(pattern, "/") && strings.HasSuffix(to, "/") {
				dir = path.Dir(dir)
			}
			rel = strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		case !single && doublestar.MatchUnvalidated(pattern, name):
			rel = strings.TrimPrefix(strings.TrimPrefix(name, base), "/")
		default:
			continue
		}
		if slices.ContainsFunc(exclude, func(p string) bool {
			return doublestar.MatchUnvalidated(p, name) || doublestar.MatchUnvalidated(p, rel)
		}) {
			continue
		}
		out[path.Join(to, rel)] = from[name]
	}
	return nil
}
