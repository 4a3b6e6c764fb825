package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Limits of globs and of the walk that looks for their files.
const (
	maxGlob       = 500 // bytes
	maxGlobs      = 100 // of one field
	maxDoubleStar = 2
	maxBraces     = 3       // in one segment, because a matcher tries all combinations
	maxEntries    = 2000000 // directory entries that one walk visits
)

// glob is a pattern as a list of segments; `**` is a separate segment.
type glob []string

func parseGlob(text string) (glob, error) {
	if len(text) > maxGlob {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", maxGlob)
	}
	if path.IsAbs(text) {
		return nil, errors.New("the pattern begins with a slash: it is relative to the repository's root")
	}
	g := glob(strings.Split(path.Clean(text), "/"))
	doubles := 0
	for _, segment := range g {
		switch {
		case segment == "**":
			doubles++
		case strings.Contains(segment, "**"):
			return nil, errors.New("** must stand alone between slashes")
		case segment == "..":
			return nil, errors.New("the pattern leaves the repository")
		case strings.Count(segment, "{") != strings.Count(segment, "}"):
			return nil, errors.New("braces cannot hold a slash")
		case strings.Count(segment, "{") > maxBraces:
			return nil, fmt.Errorf("a segment has more than %d pairs of braces", maxBraces)
		case !doublestar.ValidatePattern(segment):
			return nil, fmt.Errorf("the segment %q is not a pattern", segment)
		}
	}
	if doubles > maxDoubleStar {
		return nil, fmt.Errorf("the pattern has %d times **, more than %d", doubles, maxDoubleStar)
	}
	return g, nil
}

// globState is a position in a glob: a directory's path has matched the segments before it.
type globState struct{ glob, segment int }

// foundFile is a file that a walk found. Its path has no links.
type foundFile struct {
	name  string
	entry fs.DirEntry
}

// walkGlobs lists the files that match one of the globs, by name. It visits each directory once, whatever the
// patterns, and stops when ctx ends. It lists links and does not follow them.
func walkGlobs(ctx context.Context, tree Tree, globs []glob) ([]string, error) {
	files, err := findGlobs(ctx, tree, globs)
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.name
	}
	return names, err
}

// findGlobs is walkGlobs with the entries of the files.
func findGlobs(ctx context.Context, tree Tree, globs []glob) ([]*foundFile, error) {
	w := globWalk{ctx: ctx, tree: tree, globs: globs}
	var start []globState
	for i := range globs {
		start = w.enter(start, globState{i, 0})
	}
	if links, ok := tree.(*linkTree); ok && len(globs) == 1 {
		return w.below(links, globs[0])
	}
	err := w.dir(".", start)
	return w.sorted(), err
}

// sorted returns the files by name. A walk visits each folder once, so it finds each file once.
func (w *globWalk) sorted() []*foundFile {
	slices.SortFunc(w.found, func(a, b *foundFile) int { return strings.Compare(a.name, b.name) })
	return w.found
}

// below walks one glob from the last folder that it names without a pattern. It lists no folder above, which may have
// many entries: that of the workspaces is listed once for each of them otherwise.
func (w *globWalk) below(tree *linkTree, g glob) ([]*foundFile, error) {
	n := 0
	for n < len(g)-1 && isLiteral(g[n]) {
		n++
	}
	dir := path.Join(append([]string{"."}, g[:n]...)...)
	info, err := tree.Tree.Stat(dir) // which follows no links, as a walk does not
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir():
		return nil, nil
	case err != nil:
		return nil, &fs.PathError{Op: "list", Path: dir, Err: tree.watch(dir, err)}
	}
	err = w.dir(dir, w.enter(nil, globState{0, n}))
	return w.sorted(), err
}

// isLiteral reports whether a segment of a glob matches only itself.
func isLiteral(segment string) bool {
	return segment != "" && segment != "." && !strings.ContainsAny(segment, `*?[]{}\`)
}

type globWalk struct {
	ctx   context.Context //nolint:containedctx // one walk
	tree  Tree
	globs []glob
	seen  int
	found []*foundFile
}

// enter adds a state, and the states after a ** that matches nothing.
func (w *globWalk) enter(states []globState, s globState) []globState {
	if slices.Contains(states, s) {
		return states
	}
	states = append(states, s)
	if g := w.globs[s.glob]; s.segment < len(g)-1 && g[s.segment] == "**" {
		states = w.enter(states, globState{s.glob, s.segment + 1})
	}
	return states
}

func (w *globWalk) dir(name string, states []globState) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := w.tree.ReadDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "list", Path: name, Err: err}
	}
	if w.seen += len(entries); w.seen > maxEntries {
		return fmt.Errorf("the patterns look at more than %d files", maxEntries)
	}
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	for _, e := range entries {
		inner := prefix + e.Name()
		next, matches := w.step(states, e.Name())
		switch {
		case !e.IsDir() && matches:
			w.found = append(w.found, &foundFile{inner, e})
		case e.IsDir() && len(next) > 0:
			if err := w.dir(inner, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// step returns the states after a name, and whether a file of that name matches a whole glob.
func (w *globWalk) step(states []globState, name string) (next []globState, matches bool) {
	for _, s := range states {
		g := w.globs[s.glob]
		last := s.segment == len(g)-1
		if g[s.segment] == "**" {
			next = w.enter(next, s)
			matches = matches || last
			continue
		}
		if ok, err := doublestar.Match(g[s.segment], name); err != nil || !ok {
			continue // parseGlob has refused invalid patterns
		}
		if last {
			matches = true
		} else {
			next = w.enter(next, globState{s.glob, s.segment + 1})
		}
	}
	return next, matches
}

// MatchesAny reports whether one of the patterns of a field such as spec.files.apps matches a file.
func MatchesAny(patterns []string, file string) bool {
	for _, text := range patterns {
		g, err := parseGlob(text)
		if err != nil {
			continue // Load has reported it
		}
		if g.matches(file) {
			return true
		}
	}
	return false
}

// matches reports whether a walk of the glob finds a file of that path.
func (g glob) matches(file string) bool {
	w := globWalk{globs: []glob{g}}
	states, matches := w.enter(nil, globState{0, 0}), false
	for name := range strings.SplitSeq(file, "/") {
		states, matches = w.step(states, name)
	}
	return matches
}
