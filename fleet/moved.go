package fleet

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// Moved returns the fleet of another tree, and its warnings, without reading the declarations again. It returns nil if
// it cannot tell that they are equal; Load then reads the tree. A commit that changes values, charts or manifests thus
// costs nothing for the clusters and apps that the fleet declares, however many there are. The fleets share what does
// not change.
//
// The trees differ in regular files only: edited are those whose content differs, and others those that only one of the
// trees has. The new fleet keeps the values that it decodes in cache.
func Moved(f *Fleet, tree Tree, cache *Cache, edited, others []string) (*Fleet, Problems) {
	b := f.basis
	if b == nil || !b.covers(f) || slices.ContainsFunc(edited, b.decides) ||
		slices.ContainsFunc(others, func(p string) bool { return b.decides(p) || b.finds(f, p) }) {
		return nil, nil
	}
	out := &Fleet{
		Name: f.Name, Spec: f.Spec, Clusters: f.Clusters, Apps: f.Apps, Repositories: f.Repositories,
		Workspaces: f.Workspaces, Catalog: f.Catalog, Detected: f.Detected,
		tree: &linkTree{Tree: tree}, unavailable: f.unavailable, names: f.names, cache: cache, unread: f.unread,
		classes: f.classes, clusters: f.clusters, apps: f.apps, repeated: f.repeated, signers: f.signers, basis: b, file: f.file,
	}
	out.prepareLayers() // not shared: what another tree could not read must not be remembered here
	if len(others) == 0 {
		return out, b.warned
	}
	problems := b.problems
	if b.warn != nil {
		problems = slices.Concat(b.problems, b.warn(out)).Sorted()
	}
	if problems.Err() != nil || !out.tree.complete() {
		return nil, nil //nolint:nilerr // Load finds the same errors, and says which workspace or commit has them
	}
	moved := *b
	moved.warned = problems
	out.basis = &moved
	return out, problems
}

// basis is what the declarations of a fleet were read from.
type basis struct {
	files    *readFiles // whose content was read
	globs    []glob     // that found files of the fleet itself
	warn     func(*Fleet) Problems
	problems Problems // of the declarations, without the warnings about what has no effect
	warned   Problems // all problems
}

// covers reports whether all of the fleet was read from the basis. What other repositories and importers have is not in
// it, and a workspace with an error may lack files that could not be read.
func (b *basis) covers(f *Fleet) bool {
	return !f.Detected && len(f.Repositories)+len(f.Spec.Import) == 0 &&
		!slices.ContainsFunc(f.Workspaces, func(w *Workspace) bool { return w.Err != nil })
}

func (b *basis) decides(name string) bool { return b.files.has(name) }

// finds reports whether a file is one of the fleet's declarations by its path.
func (b *basis) finds(f *Fleet, name string) bool {
	if strings.HasPrefix(name, CapabilitiesDir+"/") || slices.ContainsFunc(b.globs,
		func(g glob) bool { return g.matches(name) }) {
		return true
	}
	return slices.ContainsFunc(f.Workspaces, func(w *Workspace) bool {
		rest, ok := strings.CutPrefix(name, w.Root+"/")
		return ok && path.Base(rest) == "app.yaml" && strings.HasPrefix(rest, "apps/")
	})
}

// readFiles are the files whose content was read, by their paths without links. It is safe for concurrent use. A nil
// one records nothing.
type readFiles struct {
	mu    sync.Mutex
	names map[string]bool
}

func (r *readFiles) add(name string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[name] = true
}

func (r *readFiles) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[name]
}

// end stops the recording of a tree, and returns the files of which something read the content.
func (t *linkTree) end() *readFiles {
	read := t.reads
	t.reads = nil
	return read
}
