package kustomize

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Limits of one root. The library builds a base again for each path that leads to it, so that the time of a build can
// grow exponentially with the number of files.
const (
	maxDepth  = 100    // nested kustomizations
	maxVisits = 20_000 // kustomizations built; one that two paths reach counts twice
	maxFactor = 8      // bytes read, as a multiple of the budget's bytes
)

// Walker finds the files that Kustomize roots read in one tree. It caches every directory, so that a base shared by a
// thousand overlays is read once. It is safe for concurrent use if its tree is.
type Walker struct {
	tree    Tree
	budget  manifest.Budget
	shown   string // prefix of file names in messages
	area    string // name of the tree in messages, if it is not the repository
	mounts  string // see Mounts
	anyFile bool   // files may be anywhere in the tree
	charts  bool   // helmCharts are accepted

	mu   sync.Mutex
	dirs map[string]*directory
}

// NewWalker returns a walker for a tree. Every text that the library would parse as YAML must stay within the budget.
func NewWalker(tree Tree, budget manifest.Budget) *Walker {
	return &Walker{tree: tree, budget: budget, dirs: map[string]*directory{}}
}

// AnyFile permits kustomizations to read files from anywhere in the tree, as kustomize-controller does
// (`--load-restrictor LoadRestrictionsNone`), instead of only from their own directory. It returns the walker. Call it
// before any other method.
func (w *Walker) AnyFile() *Walker {
	w.anyFile = true
	return w
}

// Mounts says that the directories in dir are other repositories. Their kustomizations refer to nothing outside of dir:
// whoever may write to one of them need not be allowed to read this one. It returns the walker. Call it before any
// other method.
func (w *Walker) Mounts(dir string) *Walker {
	w.mounts = dir
	return w
}

// directory describes one kustomization without those that it refers to.
type directory struct {
	file      string // of the kustomization, for messages
	path      string // of the kustomization in the tree
	namespace string
	component bool
	origins   bool // has buildMetadata originAnnotations
	charts    []Chart
	openAPI   bool // has an API description of its own
	managedBy bool // has buildMetadata managedByLabel
	files     []string
	bytes     int // that one build reads
	children  []child
	targets   []target // of patches
	generated []manifest.Object
	err       error
}

// child is a reference from one kustomization to another.
type child struct {
	dir       string
	ref       string
	component bool
	at        place
}

// reach collects what a build of a root reads.
type reach struct {
	dirs    map[string]cost
	files   map[string]bool
	openAPI bool

	generated []manifest.Object // by generators, with their original names
	entries   int               // of helmCharts
}

// cost is the cost of one build of a kustomization with everything that it refers to.
type cost struct{ visits, bytes int }

// Closure returns the sorted paths of every file that a build of root reads. A build of these files alone equals a
// build in the whole tree, and changes of other files cannot change it, except for a second kustomization file in one
// of Directories. An error joins all errors of a kustomization; each names the kustomization, the line if it is
// unambiguous, the field and the reference that is refused or missing.
func (w *Walker) Closure(root string) ([]string, error) {
	r, err := w.reach(root)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(r.files)), nil
}

// Directories returns the sorted paths of every directory whose kustomization a build of root reads, including root.
func (w *Walker) Directories(root string) ([]string, error) {
	r, err := w.reach(root)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(r.dirs)), nil
}

// reach follows a root within the limits.
func (w *Walker) reach(root string) (*reach, error) {
	at := place{file: "the Kustomize root", field: "path", area: w.area}
	full, found, err := locate(w.tree, ".", path.Clean(root), at)
	switch {
	case err != nil:
		return nil, err
	case !found.IsDir():
		return nil, fmt.Errorf("the Kustomize root %s is a file: specify its directory", root)
	}
	r := &reach{dirs: map[string]cost{}, files: map[string]bool{}}
	total, err := w.visit(r, full, nil)
	if err != nil {
		return nil, err
	}
	switch most := maxFactor * w.budget.Bytes; {
	case total.visits > maxVisits:
		return nil, fmt.Errorf("the Kustomize root %s builds more than %d kustomizations, because a shared base counts once for each path to it: use it once", root, maxVisits)
	case total.bytes > most:
		return nil, fmt.Errorf("the Kustomize root %s reads more than %d bytes, because a shared base counts once for each path to it: split the root", root, most)
	}
	if n := r.entries; n > maxCharts {
		return nil, fmt.Errorf("the Kustomize root %s has %d entries of helmCharts, more than %d: split the root", root,
			n, maxCharts)
	}
	return r, nil
}

// visit adds a directory and everything that it refers to. Above lists the directories on the path to it.
func (w *Walker) visit(r *reach, dir string, above []string) (cost, error) {
	if known, ok := r.dirs[dir]; ok {
		return known, nil
	}
	d := w.directory(dir)
	if d.err != nil {
		return cost{}, d.err
	}
	r.openAPI = r.openAPI || d.openAPI
	r.entries += len(d.charts)
	r.generated = append(r.generated, d.generated...)
	for _, f := range d.files {
		r.files[f] = true
	}
	total := cost{1, d.bytes}
	above = append(slices.Clip(above), dir)
	for _, c := range d.children {
		if err := w.edge(c, above); err != nil {
			return cost{}, err
		}
		below, err := w.visit(r, c.dir, above)
		if err != nil {
			return cost{}, err
		}
		total.visits = min(total.visits+below.visits, maxVisits+1)
		total.bytes = min(total.bytes+below.bytes, maxFactor*w.budget.Bytes+1)
	}
	r.dirs[dir] = total
	return total, nil
}

// edge checks a reference from one kustomization to another: cycles, depth and kind.
func (w *Walker) edge(c child, above []string) error {
	for i, dir := range above {
		if dir == c.dir {
			return c.at.refuse(c.ref, "closes a cycle of kustomizations: %s",
				strings.Join(append(above[i:], c.dir), " → "))
		}
		if within(c.dir, dir) {
			return c.at.refuse(c.ref,
				"is a parent directory of %s, which Kustomize refuses as a cycle: move the base to a sibling directory",
				dir)
		}
	}
	if len(above) >= maxDepth {
		return c.at.refuse(c.ref, "is more than %d kustomizations deep: flatten the bases", maxDepth)
	}
	d := w.directory(c.dir)
	switch {
	case d.err != nil:
		return fmt.Errorf("%s: %s: %s: %w", c.at.where(c.ref), c.at.field, shown(c.ref), d.err)
	case c.component && !d.component:
		return c.at.refuse(c.ref, "is not a component: set `kind: Component` in %s, or list it under resources", d.file)
	case !c.component && d.component:
		return c.at.refuse(c.ref, "is a component: list it under components")
	}
	return nil
}

// directory returns the kustomization of a directory, which it reads once. Its error is in err.
func (w *Walker) directory(dir string) *directory {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d, ok := w.dirs[dir]; ok {
		return d
	}
	d := &directory{}
	d.err = w.read(dir, d)
	w.dirs[dir] = d
	return d
}

// FileNames returns the permitted names of a kustomization file.
func FileNames() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// find returns the path and the text of the kustomization file of a directory.
func (w *Walker) find(dir string) (name string, data []byte, err error) {
	for _, candidate := range FileNames() {
		full := path.Join(dir, candidate)
		i, err := lstat(w.tree, full)
		switch {
		case err != nil && !absent(err):
			return "", nil, fmt.Errorf("%s: %w", w.name(full), err)
		case err != nil || i.IsDir():
			continue
		case !i.Mode().IsRegular():
			return "", nil, fmt.Errorf("%s is a symbolic link, which Sluice does not follow: replace it with the file",
				w.name(full))
		case name != "":
			return "", nil, fmt.Errorf("%s has both %s and %s: keep one", w.name(dir), path.Base(name), candidate)
		}
		name = full
	}
	if name == "" {
		return "", nil, fmt.Errorf("%s has no kustomization.yaml: add one, or list its files one by one", w.name(dir))
	}
	if data, err = w.tree.ReadFile(name); err != nil {
		return "", nil, fmt.Errorf("%s: %w", w.name(name), err)
	}
	if err := manifest.Check(data, w.budget); err != nil {
		return "", nil, fmt.Errorf("%s: %w", w.name(name), err)
	}
	return name, data, nil
}

// name returns a file's name for messages.
func (w *Walker) name(file string) string { return path.Join(w.shown, file) }

// read reads the kustomization of a directory into d.
func (w *Walker) read(dir string, d *directory) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: the kustomization cannot be read: %v", w.name(dir), r)
		}
	}()
	name, data, err := w.find(dir)
	if err != nil {
		return err
	}
	var k types.Kustomization
	if err := k.Unmarshal(data); err != nil {
		return unreadable(place{file: w.name(name), data: data}, err)
	}
	k.FixKustomization()
	d.file, d.path, d.namespace = w.name(name), name, k.Namespace
	d.files = []string{name}
	d.bytes = len(data)
	d.component = k.Kind == types.ComponentKind
	d.managedBy = slices.Contains(k.BuildMetadata, types.ManagedByLabelOption)
	d.origins = slices.Contains(k.BuildMetadata, types.OriginAnnotations)
	d.openAPI = len(k.OpenAPI) > 0
	at := place{file: d.file, data: w.written(name, data), area: w.area, mounts: w.mounts}
	s := &scan{walker: w, dir: dir, out: d, file: at}
	s.kustomization(&k)
	s.recordTargets(&k)
	slices.Sort(d.files)
	d.files = slices.Compact(d.files)
	return s.err()
}

// unreadable explains why a kustomization does not decode.
func unreadable(at place, err error) error {
	text := strings.TrimPrefix(err.Error(), "invalid Kustomization: ")
	if _, field, ok := strings.Cut(text, `unknown field "`); ok {
		field = strings.TrimSuffix(field, `"`)
		return fmt.Errorf("%s: Kustomize has no field %q here: correct or remove it", at.whereKey(field), field)
	}
	return fmt.Errorf("%s: invalid kustomization: %w", at.file, errors.New(text))
}
