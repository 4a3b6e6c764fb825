package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sluice-gitops/sluice/internal/treefs"
)

// maxLinks is the number of symbolic links that a path may contain, as in Linux.
const maxLinks = 40

// linkTree follows symbolic links that stay inside the tree. A link that leaves the tree, has no target, or leads
// through too many other links is an error other than fs.ErrNotExist, so that nobody treats the file as missing. It
// is safe for concurrent use.
type linkTree struct {
	Tree
	known sync.Map                  // path → realPath
	reads *readFiles                // nil after the fleet is loaded
	fault atomic.Pointer[readFault] // the first one in the fleet's own files
	lacks atomic.Bool               // there was one in the content of another repository
}

// readFault is an error of the storage, such as a lost connection. It is not a problem of the fleet, and a retry may
// help.
type readFault struct{ err error }

// watch records an error of the storage from reading a path, and returns it. One in another repository concerns only
// what needs that file: the workspaces and targets with it get the error themselves.
func (t *linkTree) watch(name string, err error) error {
	if !isFault(err) {
		return err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok { // the name can be that of a link
		name = at.Path
	}
	if RepositoryOf(name) != "" {
		t.lacks.Store(true)
		return err
	}
	t.remember(err)
	return err
}

// watched returns the tree that an importer reads. It does not follow links. An error of the storage in the fleet's own
// files makes Load fail, even if the importer treats it as an error of one target or file.
func (t *linkTree) watched() Tree { return treefs.Record{FS: t.Tree, Asked: t.watch} }

// complete reports whether the storage gave everything that was read.
func (t *linkTree) complete() bool { return t.fault.Load() == nil && !t.lacks.Load() }

// remember makes an error of the storage the result of Load.
func (t *linkTree) remember(err error) { t.fault.CompareAndSwap(nil, &readFault{err}) }

// isFault reports whether an error belongs to the storage. A missing file, a file of another type or size, and a link
// that cannot be followed are problems of the fleet.
func isFault(err error) bool {
	if _, ok := errors.AsType[*linkError](err); err == nil || ok {
		return false
	}
	if malformed, ok := errors.AsType[interface {
		error
		Malformed() bool
	}](err); ok && malformed.Malformed() { // an object from the commit
		return false
	}
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, syscall.ENOTDIR) &&
		!errors.Is(err, syscall.EISDIR)
}

// linkError is a link that cannot be followed.
type linkError struct{ message string }

func (e *linkError) Error() string { return e.message }

func linkErrorf(format string, args ...any) realPath {
	return realPath{err: &linkError{fmt.Sprintf(format, args...)}}
}

// linkReader is the interface that a tree needs for following links: fs.ReadLinkFS without Lstat.
type linkReader interface {
	ReadLink(name string) (string, error)
}

// realPath is the target of a path.
type realPath struct {
	name string
	hops []string // the paths after each replaced link, including the last one, and the links among its parents
	err  error
}

func (t *linkTree) Stat(name string) (fs.FileInfo, error) {
	info, err := t.Tree.Stat(name)
	if err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return info, nil
	}
	if errors.Is(err, fs.ErrNotExist) { // no link leads to it if its folder is in the tree: most layers of most apps
		if parent, at := t.Tree.Stat(path.Dir(name)); at == nil && parent.Mode()&fs.ModeSymlink == 0 {
			return nil, err
		}
	}
	found := t.resolve(name, 0)
	if found.err != nil {
		return nil, t.watch(name, found.err)
	}
	info, err = t.Tree.Stat(found.name)
	return info, t.watch(found.name, err)
}

func (t *linkTree) ReadFile(name string) ([]byte, error) {
	found := t.resolve(name, 0)
	if found.err != nil {
		return nil, t.watch(name, found.err)
	}
	t.reads.add(found.name)
	data, err := t.Tree.ReadFile(found.name)
	return data, t.watch(found.name, err)
}

func (t *linkTree) ReadDir(name string) ([]fs.DirEntry, error) {
	found := t.resolve(name, 0)
	if found.err != nil {
		return nil, t.watch(name, found.err)
	}
	entries, err := t.Tree.ReadDir(found.name)
	return entries, t.watch(found.name, err)
}

// real returns the path without links, or name itself if it cannot be followed.
func (t *linkTree) real(name string) string {
	if found := t.resolve(name, 0); found.err == nil {
		return found.name
	}
	return name
}

// isDir reports whether an entry of a folder is a folder or a link to one.
func (t *linkTree) isDir(folder string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := t.Stat(path.Join(folder, e.Name()))
	return err == nil && info.IsDir()
}

func (t *linkTree) resolve(name string, links int) realPath {
	if known, ok := t.known.Load(name); ok {
		return known.(realPath) //nolint:forcetypeassert // only this function stores here
	}
	out := t.follow(name, links)
	// an error within a chain can depend on the length of the chain
	if out.err == nil || links == 0 && !isFault(out.err) {
		t.known.Store(name, out)
	}
	return out
}

func (t *linkTree) follow(name string, links int) realPath {
	info, err := t.Tree.Stat(name)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink == 0:
		return realPath{name: name}
	case err == nil:
		return t.followLink(name, links)
	case !errors.Is(err, fs.ErrNotExist) || path.Dir(name) == ".":
		return realPath{err: err}
	}
	dir := path.Dir(name)
	parent := t.resolve(dir, links)
	if parent.err != nil {
		if errors.Is(parent.err, fs.ErrNotExist) {
			return realPath{err: err}
		}
		return realPath{err: parent.err}
	}
	if parent.name == dir {
		return realPath{err: err}
	}
	to := path.Join(parent.name, path.Base(name))
	rest := t.resolve(to, links+1)
	rest.hops = slices.Concat([]string{dir}, parent.hops, []string{to}, rest.hops)
	return rest
}

func (t *linkTree) followLink(name string, links int) realPath {
	reader, ok := t.Tree.(linkReader)
	if !ok {
		return linkErrorf("%s is a symbolic link, and this tree cannot read links: put the file itself there", name)
	}
	if links >= maxLinks {
		return linkErrorf("the symbolic link %s leads through more than %d links: link to the file itself", name,
			maxLinks)
	}
	target, err := reader.ReadLink(name)
	if err != nil {
		return realPath{err: err}
	}
	to := path.Join(path.Dir(name), target)
	own := RepositoryOf(name) // whoever may write to another repository need not be allowed to read this one
	if path.IsAbs(target) || leavesRepository(to) || own != "" && RepositoryOf(to) != own {
		return linkErrorf("the symbolic link %s points to %q, which is outside the repository: put the file itself there", name, target)
	}
	out := t.resolve(to, links+1)
	if errors.Is(out.err, fs.ErrNotExist) {
		return linkErrorf("the symbolic link %s points to %q, which does not exist: %s is not in the repository", name,
			target, to)
	}
	out.hops = slices.Concat([]string{to}, out.hops)
	return out
}

// linked lists the paths through links that a change of the given paths also changes: the link to a changed file, and
// everything below a link to a changed folder. It looks only in folders from which the fleet's layers and some apps
// read values and versions.
func (f *Fleet) linked(changed []string, apps []*App) []string {
	if len(changed) == 0 {
		return nil
	}
	set := make(map[string]bool, len(changed))
	for _, p := range changed {
		set[p] = true
	}
	w := linkWalk{fleet: f, seen: map[string]bool{}}
	for _, root := range f.linkRoots(apps) {
		w.root(root)
	}
	var out []string
	for _, link := range w.links {
		hops := f.tree.resolve(link, 0).hops
		if set[link] || slices.ContainsFunc(hops, func(h string) bool { return set[h] }) {
			out = append(append(out, link), f.filesBelow(link)...)
			continue
		}
		for _, p := range changed {
			for _, hop := range hops {
				if rest, ok := strings.CutPrefix(p, hop+"/"); ok {
					out = append(out, path.Join(link, rest))
				}
			}
		}
	}
	return out
}

// linkRoots lists the folders whose files can be values, components of layers or versions of charts, of the fleet and
// of some apps.
func (f *Fleet) linkRoots(apps []*App) []string {
	roots := map[string]bool{}
	literal := func(in, template string) {
		before, _, _ := strings.Cut(template, "$")
		roots[path.Join(in, path.Dir(path.Clean(before+"x")))] = true
	}
	places := map[string]bool{"": true} // the fleet's tree, and the folders of workspaces
	for _, a := range apps {
		places[a.root()] = true
		if a.Dir != "" {
			roots[path.Join(a.Dir, "layers")] = true
		}
		if a.catalog != nil {
			roots[path.Join(a.catalog.dir, "layers")] = true
		}
		for _, s := range a.AllSources() {
			if s.Helm != nil && s.Helm.VersionFrom != nil && s.Helm.VersionFrom.File != "" {
				literal(a.root(), s.Helm.VersionFrom.File)
			}
		}
	}
	for in := range places {
		roots[path.Join(in, "layers")] = true
		for _, l := range f.layers {
			for _, template := range l.templates() {
				literal(in, template)
			}
		}
	}
	var out []string
	for root := range roots {
		if !leavesRepository(root) {
			out = append(out, root)
		}
	}
	slices.Sort(out)
	return out
}

// linkWalk finds links.
type linkWalk struct {
	fleet *Fleet
	seen  map[string]bool // folder → it has no links
	links []string
}

// root visits the parents of a folder, and everything below it.
func (w *linkWalk) root(dir string) {
	if dir != "." {
		parts := strings.Split(dir, "/")
		for i := range parts {
			p := path.Join(parts[:i+1]...)
			if info, err := w.fleet.tree.Tree.Stat(p); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				w.links = append(w.links, p)
				break // everything below it has this prefix
			}
		}
	}
	w.below(dir, nil)
}

// below visits a folder and the folders in it and behind links in it. It reports whether there are no links; such
// folders are cached by content. parents are the real paths of the folders above, so that a link to one of them ends
// the walk.
func (w *linkWalk) below(dir string, parents []string) bool {
	tree := w.fleet.tree
	real := tree.real(dir)
	if free, seen := w.seen[dir]; seen {
		return free
	}
	if slices.Contains(parents, real) || !w.fleet.Has(dir) {
		return true
	}
	info, err := tree.Stat(dir)
	if err != nil {
		return false // the reader of the file gets the error
	}
	if !info.IsDir() {
		return true // a file has no links below it
	}
	id, hasID := idOf(info)
	if _, clean := w.fleet.cache.linkFree.Load(id); hasID && clean {
		return true
	}
	entries, err := tree.ReadDir(dir)
	if err != nil {
		return false
	}
	free := true
	for _, e := range entries {
		inner := path.Join(dir, e.Name())
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			free = false
			w.links = append(w.links, inner)
			w.below(inner, append(parents, real))
		case e.IsDir():
			free = w.below(inner, append(parents, real)) && free
		}
	}
	w.seen[dir] = free
	if hasID && free {
		w.fleet.cache.linkFree.Store(id, true)
	}
	return free
}

// filesBelow lists the files behind a link to a folder.
func (f *Fleet) filesBelow(dir string) []string {
	var out []string
	var walk func(dir string, parents []string)
	walk = func(dir string, parents []string) {
		real := f.tree.real(dir)
		info, err := f.tree.Stat(dir)
		if err != nil || !info.IsDir() || slices.Contains(parents, real) {
			return
		}
		entries, err := f.tree.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			inner := path.Join(dir, e.Name())
			if f.tree.isDir(dir, e) {
				walk(inner, append(parents, real))
			} else {
				out = append(out, inner)
			}
		}
	}
	walk(dir, nil)
	return out
}
