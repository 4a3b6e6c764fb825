package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/hydrate/signers"
)

// Tree is the files of one commit.
type Tree interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
}

// Fleet is a fleet without errors. Load returns it; it does not change afterwards and is safe for concurrent use.
type Fleet struct {
	Name     string
	Spec     FleetSpec
	Clusters []*Cluster // by name
	Apps     []*App     // by name
	Detected bool       // sluice.yaml does not exist: the importer wrote one for what it found

	tree     Tree
	cache    *Cache
	clusters map[string]*Cluster
	apps     map[string]*App
	layers   []layer
	exists   sync.Map // path → bool
	ids      sync.Map // path → content id
	perApp   map[string]*appLayers
	signers  signers.List
}

// Cluster is a cluster with all that it inherits.
type Cluster struct {
	Name        string
	Environment string
	Class       string
	Labels      map[string]string // with class, environment and cluster
	Vars        map[string]any
	KubeVersion string
	APIVersions []string
	State       string
	File        string

	doc document
}

// App is an app as its file has it: references in its strings are not replaced.
type App struct {
	Name     string
	Spec     AppSpec
	File     string
	Dir      string // of the file
	base     variant
	variants map[string]*variant // by environment
	doc      document
	refs     []reference // in its strings
	imported imported    // by cluster; nil for an app of the fleet's own
}

// Target is one app on one cluster: the unit of rendering.
type Target struct {
	App     *App
	Cluster *Cluster
}

// String gives cluster/app.
func (t Target) String() string { return t.Cluster.Name + "/" + t.App.Name }

// Cache remembers decoded files by content, so that the fleet of a second commit costs what differs. Safe for
// concurrent use.
type Cache struct {
	files  sync.Map // content id + path → decodedFile
	values sync.Map // content id → *valuesFile
	refs   sync.Map // content id → []reference
}

// NewCache makes an empty cache.
func NewCache() *Cache { return &Cache{} }

type decodedFile struct {
	documents []document
	problems  Problems
	lost      bool // it has documents of which not even the kind is known
}

const fleetFile = "sluice.yaml"

// Load reads the fleet of a tree. It returns nil and the problems if there is an error among them; warnings come with
// the fleet. Without a cache it decodes every file.
func Load(ctx context.Context, tree Tree, cache *Cache) (*Fleet, Problems) {
	return Loader{Cache: cache}.Load(ctx, tree)
}

// Loader reads fleets.
type Loader struct {
	Cache    *Cache   // nil decodes every file
	Importer Importer // reads the entries of spec.import; nil makes them errors
	Detect   bool     // asks the importer for a sluice.yaml where the tree has none
}

// Load is Load with what the loader has.
func (o Loader) Load(ctx context.Context, tree Tree) (*Fleet, Problems) {
	cache := o.Cache
	if cache == nil {
		cache = NewCache()
	}
	l := loader{importer: o.Importer, detect: o.Detect, tree: tree, cache: cache, fleet: &Fleet{tree: tree, cache: cache, clusters: map[string]*Cluster{}, apps: map[string]*App{}}}
	l.load(ctx)
	if err := ctx.Err(); err != nil {
		return nil, Problems{{File: fleetFile, Severity: SeverityError, Message: "reading was cancelled: " + err.Error(), Hint: "run it again"}}
	}
	if problems := l.problems.sorted(); problems.Err() != nil {
		return nil, problems
	}
	l.fleet.prepareLayers()
	l.warnings()
	problems := l.problems.sorted()
	if problems.Err() != nil {
		return nil, problems
	}
	return l.fleet, problems
}

type loader struct {
	importer Importer
	detect   bool
	tree     Tree
	cache    *Cache
	fleet    *Fleet
	problems Problems
	file     document
	classes  map[string]*class
	lost     bool // a file may hold classes that could not be read
}

// errorf reports what is wrong at a place of a document, or nearest to it. Where something could not be decoded, that has
// been reported, and what follows from it is not.
func (l *loader) errorf(doc document, at []string, hint, format string, args ...any) {
	p := Problem{File: doc.file, Severity: SeverityError, Message: fmt.Sprintf(format, args...), Hint: hint}
	for i := len(at); i >= 0 && doc.node != nil; i-- {
		if n := child(doc.node, at[:i]...); n != nil {
			if doc.broken(n) {
				return
			}
			p.Line, p.Column = n.Line, n.Column
			break
		}
	}
	l.problems = append(l.problems, p)
}

func (l *loader) load(ctx context.Context) {
	if !l.readFleet(ctx) {
		return
	}
	files := l.fleet.Spec.Files
	// An imported repository has folders of these names for files of other tools: there, only spec.files says where ours are.
	clusterGlobs, appGlobs := []string{"clusters/*.yaml"}, []string{"apps/*/app.yaml"}
	if len(l.fleet.Spec.Import) > 0 {
		clusterGlobs, appGlobs = nil, nil
	}
	clusters := l.read(ctx, defaultGlobs(files.Clusters, clusterGlobs...), "spec.files.clusters")
	apps := l.read(ctx, defaultGlobs(files.Apps, appGlobs...), "spec.files.apps")
	l.classesFrom(clusters)
	l.clustersFrom(clusters)
	l.appsFrom(apps)
	l.importAll(ctx)
	l.checkOrder()
	l.checkSkips()
	l.checkBranches()
	l.checkTemplates()
}

func defaultGlobs(globs []string, conventional ...string) []string {
	if len(globs) == 0 {
		return conventional
	}
	return globs
}

func (l *loader) readFleet(ctx context.Context) bool {
	data, err := l.fleetText(ctx)
	if err != nil {
		hint := "run `sluice init`, or choose another commit or folder"
		l.problems = append(l.problems, Problem{File: fleetFile, Severity: SeverityError, Message: readError(err), Hint: hint, absent: errors.Is(err, fs.ErrNotExist)})
		return false
	}
	decoded := decodeFile(fleetFile, data)
	l.problems = append(l.problems, decoded.problems...)
	for _, doc := range decoded.documents {
		file, ok := doc.value.(*FleetFile)
		switch {
		case !ok:
			l.errorf(doc, []string{"kind"}, "put it under clusters/ or apps/", "only kind Fleet belongs in %s", fleetFile)
		case l.file.value != nil:
			l.errorf(doc, []string{"kind"}, "keep one", "%s has two fleets", fleetFile)
		default:
			l.file = doc
			l.fleet.Name, l.fleet.Spec = file.Metadata.Name, file.Spec
		}
	}
	if l.file.value == nil {
		if len(decoded.problems) == 0 {
			l.problems = append(l.problems, Problem{File: fleetFile, Severity: SeverityError, Message: "the file has no document of kind Fleet"})
		}
		return false
	}
	l.checkFleet()
	return true
}

// fleetText reads sluice.yaml, or has the importer write one for a repository of another tool.
func (l *loader) fleetText(ctx context.Context) ([]byte, error) {
	data, err := readBounded(l.tree, fleetFile)
	if !errors.Is(err, fs.ErrNotExist) || !l.detect || l.importer == nil {
		return data, err
	}
	detected, failed := l.importer.Detect(ctx, l.tree)
	if failed != nil || detected == nil {
		return nil, cmp.Or(failed, err)
	}
	l.fleet.Detected = true
	return detected, nil
}

// readBounded reads a file of this package's kinds or values. One that its folder knows to be too large is not read at all.
func readBounded(tree Tree, name string) ([]byte, error) {
	info, err := tree.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, errors.New("this is a symbolic link, which is not followed: put the file itself here, or a layer path that names it")
	}
	data := []byte(nil)
	if info.Size() <= maxFile {
		if data, err = tree.ReadFile(name); err != nil {
			return nil, err
		}
	}
	if size := max(info.Size(), int64(len(data))); size > maxFile && !info.IsDir() {
		return nil, fmt.Errorf("the file has %d bytes, more than the limit of %d: split it", size, maxFile)
	}
	return data, nil
}

func readError(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "the file does not exist"
	}
	return err.Error()
}

// read decodes all files of the globs, in parallel, in order of their names.
func (l *loader) read(ctx context.Context, globs []string, field string) []document {
	if len(globs) > maxGlobs {
		l.errorf(l.file, strings.Split(field, "."), "write fewer, wider ones", "%s has %d patterns, more than %d", field, len(globs), maxGlobs)
		return nil
	}
	parsed := make([]glob, 0, len(globs))
	for i, text := range globs {
		g, err := parseGlob(text)
		if err != nil {
			l.errorf(l.file, append(strings.Split(field, "."), strconv.Itoa(i)), "as in clusters/**/*.yaml, with at most two **", "%s: bad pattern %.60q: %v", field, text, err)
			l.lost = true
			continue
		}
		parsed = append(parsed, g)
	}
	ordered, err := walkGlobs(ctx, l.tree, parsed)
	if err != nil && ctx.Err() == nil { // a folder that cannot be listed must not pass for an empty one: its clusters would count as gone
		name := fleetFile
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			name = at.Path
		}
		l.unreadable(name, err)
	}
	if len(ordered) == 0 && len(globs) > 0 && l.problems.Err() == nil {
		l.problems = append(l.problems, Problem{
			File: fleetFile, Severity: SeverityWarning, Message: fmt.Sprintf("no file matches %s", strings.Join(globs, ", ")),
			Hint: "add one, or set " + field,
		})
	}
	decoded := make([]decodedFile, len(ordered))
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() error {
			for i := w; i < len(ordered) && ctx.Err() == nil; i += workers {
				decoded[i] = l.cache.decode(l.tree, ordered[i])
			}
			return ctx.Err()
		})
	}
	if group.Wait() != nil {
		return nil // Load looks at the context
	}
	var out []document
	for _, f := range decoded {
		out = append(out, f.documents...)
		l.problems = append(l.problems, f.problems...)
		l.lost = l.lost || f.lost
	}
	return out
}

func (l *loader) unreadable(name string, err error) {
	hint := "check the repository with `git fsck`"
	l.problems = append(l.problems, Problem{File: name, Severity: SeverityError, Message: err.Error(), Hint: hint})
	l.lost = true
}

// has says whether a file or directory is there. One that is there and cannot be looked at counts: whoever reads it
// gets the error, where taking it for missing would render something else.
func (f *Fleet) has(name string) bool {
	if known, ok := f.exists.Load(name); ok {
		return known.(bool) //nolint:forcetypeassert // only this function stores here
	}
	_, err := f.tree.Stat(name)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, syscall.ENOTDIR)
	f.exists.Store(name, !missing)
	return !missing
}

// Cluster gives a cluster by name.
func (f *Fleet) Cluster(name string) (*Cluster, bool) {
	c, ok := f.clusters[name]
	return c, ok
}

// App gives an app by name.
func (f *Fleet) App(name string) (*App, bool) {
	a, ok := f.apps[name]
	return a, ok
}

// Environment gives an environment by name.
func (f *Fleet) Environment(name string) (*Environment, bool) {
	for i := range f.Spec.Environments {
		if f.Spec.Environments[i].Name == name {
			return &f.Spec.Environments[i], true
		}
	}
	return nil, false
}

// dirOf is the folder of a file, "" for the root.
func dirOf(file string) string {
	if dir := path.Dir(file); dir != "." {
		return dir
	}
	return ""
}
