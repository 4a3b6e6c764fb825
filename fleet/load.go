package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/internal/parallel"
	"github.com/sluice-gitops/sluice/internal/signers"
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
	// Repositories are the other repositories that the fleet takes content from, by name.
	Repositories []*Repository
	Workspaces   []*Workspace  // by name
	Catalog      []*CatalogApp // by name, then version
	Detected     bool          // sluice.yaml does not exist: the importer wrote one for what it found

	tree        *linkTree        // with the content of other repositories in MountDir
	unavailable map[string]error // why the content of a repository is not there
	pinned      []*Repository    // that nobody declares; see mountCommits
	commits     []GitCommit
	names       *strings.Replacer // writes the paths of other repositories for people; nil if there are none
	cache       *Cache
	unread      []*Imported // that fail
	excluded    []*Imported
	classes     map[string]string // the files of classes, by name
	clusters    map[string]*Cluster
	apps        map[string]*App
	repeated    map[string]*App // as declared, of apps with forEach; see App.Describes
	layers      []layer
	exists      sync.Map // path → bool
	ids         sync.Map // path → content id
	perApp      map[string]*appLayers
	signers     signers.List
	basis       *basis   // nil while the fleet is loaded; see Moved
	file        document // sluice.yaml
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
	Helm        int // 0: not said
	// UpgradeOrder has names of apps with forEach, which describe the cluster in this order.
	UpgradeOrder []string
	State        string
	// Detached means that Sluice left the cluster with what its branch has. State is then retired, because the cluster is
	// no part of its environment any more, but nothing removes its branch.
	Detached bool
	Replaces string // the cluster whose place it takes; "" for none
	File     string

	doc document
}

// App is an app as its file has it: references in its strings are not replaced.
type App struct {
	Name      string
	Spec      AppSpec
	File      string
	Dir       string // of the file
	declared  string // its name in the file, for an app of forEach; "" otherwise
	each      *Cluster
	base      variant
	variants  map[string]*variant // by environment
	doc       document
	refs      []reference       // in its strings
	workspace *Workspace        // nil for an app of the fleet itself
	catalog   *CatalogApp       // that the app is taken from; nil for none
	imported  imported          // by cluster; nil for an app of the fleet's own
	names     *strings.Replacer // of the fleet
}

// Target is one app on one cluster: the unit of rendering.
type Target struct {
	App     *App
	Cluster *Cluster
}

// String returns cluster/app.
func (t Target) String() string { return t.Cluster.Name + "/" + t.App.Name }

// File is the path of the file that makes a repository a fleet.
const File = "sluice.yaml"

// Load reads the fleet of a tree. It returns nil and the problems if there is an error among them; warnings come with
// the fleet. Without a cache it decodes every file. It does not look for what has no effect; see Loader.
func Load(ctx context.Context, tree Tree, cache *Cache) (*Fleet, Problems) {
	return Loader{Cache: cache}.Load(ctx, tree)
}

// Loader reads fleets.
type Loader struct {
	Cache    *Cache       // nil decodes every file
	Importer Importer     // reads the entries of spec.import; nil makes them errors
	Mounts   Mounts       // reads other repositories; nil makes targets that need one fail
	Detect   bool         // asks the importer for a sluice.yaml where the tree has none
	Trunk    string       // of such a repository; "" is that of every fleet which names none
	Assumed  Capabilities // of every cluster: the version instead of its own, and APIs beyond its own
	Raised   *Raise       // of clusters with an older version; nil raises none
	// Output is a place in a registry, such as oci://registry.example.com/gitops, that replaces spec.output.repository and
	// the place of artifacts; "" replaces nothing.
	Output string
	// Warn finds what has no effect in a fleet whose declarations are valid, as check.Effects does; nil finds nothing.
	// What it finds comes with the fleet, and an error makes the fleet or a workspace invalid.
	Warn func(*Fleet) Problems
}

// Load reads the fleet of a tree; see the function Load.
func (o Loader) Load(ctx context.Context, tree Tree) (*Fleet, Problems) {
	cache := o.Cache
	if cache == nil {
		cache = NewCache()
	}
	linked := &linkTree{Tree: tree, reads: &readFiles{names: map[string]bool{}}}
	l := loader{
		findings: &findings{}, importer: o.Importer, mounts: o.Mounts, detect: o.Detect, trunk: o.Trunk, assumed: o.Assumed, raised: o.Raised, output: o.Output,
		tree: linked, cache: cache,
		fleet: &Fleet{
			tree: linked, cache: cache, clusters: map[string]*Cluster{}, apps: map[string]*App{},
			classes: map[string]string{}, repeated: map[string]*App{}, unavailable: map[string]error{},
		},
	}
	l.load(ctx)
	if err := ctx.Err(); err != nil {
		return nil, unread(err)
	}
	declared := l.done()
	if declared.Err() != nil {
		return nil, declared
	}
	l.fleet.prepareLayers()
	if o.Warn != nil {
		l.problems = append(l.problems, o.Warn(l.fleet)...)
	}
	tenancy{&l}.isolate()
	if err := ctx.Err(); err != nil { // what could not be read in time counts as missing in other repositories
		return nil, unread(err)
	}
	problems := l.done()
	if problems.Err() != nil {
		return nil, problems
	}
	l.fleet.Spec.Environments = inPromotionOrder(l.fleet.Spec.Environments)
	l.fleet.basis = &basis{files: linked.end(), globs: l.globs, warn: o.Warn, problems: declared, warned: problems}
	return l.fleet, problems
}

// done returns the problems so far; if the storage could not be read, only that.
func (l *loader) done() Problems {
	for _, tree := range []*linkTree{l.tree, l.fleet.tree} {
		if f := tree.fault.Load(); f != nil {
			return unread(f.err)
		}
	}
	out := slices.Clone(l.problems.Sorted())
	for i := range out {
		out[i].File, out[i].Message = l.fleet.Locate(out[i].File), l.fleet.Locate(out[i].Message)
	}
	return out
}

// unread are the problems of a fleet that the storage did not give, or not in time.
func unread(err error) Problems {
	return Problems{{File: File, Severity: SeverityError, Message: "the files of the fleet cannot be read: " +
		err.Error(), Hint: "run it again", fault: err}}
}

// filesClusters is the field that says where the files of clusters are.
const filesClusters = "spec.files.clusters"

type loader struct {
	*findings
	importer     Importer
	mounts       Mounts
	detect       bool
	trunk        string // of a detected fleet
	assumed      Capabilities
	output       string
	raised       *Raise
	described    map[string]bool // names of the files in capabilities/; nil before they are listed
	tree         *linkTree
	cache        *Cache
	fleet        *Fleet
	file         document
	ownDocuments []document // of sluice.yaml, beside the fleet
	classes      map[string]*class
	globs        []glob // that were read
	parameters   parameterChecks
}

func (l *loader) load(ctx context.Context) {
	if !l.readFleet(ctx) {
		return
	}
	files := l.fleet.Spec.Files
	// An imported repository may use folders of these names for files of other tools, so only spec.files applies there.
	clusterGlobs, appGlobs := []string{"clusters/*.yaml"}, []string{"apps/*/app.yaml"}
	catalogGlobs := []string{catalogDir + "/*/*/" + catalogFile}
	if len(l.fleet.Spec.Import) > 0 {
		notRead(ctx, l, files.Clusters, filesClusters, clusterGlobs[0])
		notRead(ctx, l, files.Apps, "spec.files.apps", appGlobs[0])
		clusterGlobs, appGlobs, catalogGlobs = nil, nil, nil
	}
	l.repositoriesFrom(append(l.ownDocuments, l.read(ctx, []string{"repositories/*.yaml"}, "")...))
	l.mount(ctx)
	fleetChecks{l.findings, l.fleet, l.file}.layerRepositories()
	l.sharedGates()
	l.catalogFrom(l.read(ctx, catalogGlobs, ""))
	l.misplacedCatalog(ctx)
	tenancy{l}.workspacesFrom(append(l.ownDocuments, l.read(ctx, []string{"workspaces/*.yaml"}, "")...))
	clusters := l.read(ctx, defaultGlobs(files.Clusters, clusterGlobs...), filesClusters)
	apps := l.read(ctx, defaultGlobs(files.Apps, appGlobs...), "spec.files.apps")
	l.classesFrom(clusters)
	l.clustersFrom(clusters)
	registered := !l.lost && l.problems.Err() == nil
	l.appsFrom(apps)
	tenancy{l}.workspaceApps(ctx)
	tenancy{l}.scopeNames()
	l.importAll(ctx)
	l.unusedCapabilities()
	l.checkOrder()
	l.checkSkips()
	if registered { // else an error in the file of a cluster may be why it lacks a label
		labelChecks{l, map[string]map[string]bool{}}.all()
	}
	checks := fleetChecks{l.findings, l.fleet, l.file}
	checks.branches()
	checks.artifacts()
	templateChecks{l.findings, l.fleet, l.file}.all()
	tenancy{l}.isolate()
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
		hint := absentHint(l.tree)
		l.problems = append(l.problems, Problem{
			File: File, Severity: SeverityError, Message: readError(err),
			Hint: hint, absent: errors.Is(err, fs.ErrNotExist),
		})
		return false
	}
	decoded := decodeFile(File, data)
	l.problems = append(l.problems, decoded.problems...)
	for _, doc := range decoded.documents {
		file, ok := doc.value.(*FleetFile)
		_, repository := doc.value.(*RepositoryFile)
		_, workspace := doc.value.(*WorkspaceFile)
		switch {
		case repository, workspace:
			l.ownDocuments = append(l.ownDocuments, doc)
		case !ok:
			l.errorf(doc, []string{"kind"}, "put it under clusters/ or apps/",
				"only the kinds Fleet, Repository and Workspace belong in %s", File)
		case l.file.value != nil:
			l.errorf(doc, []string{"kind"}, "keep one", "%s has two fleets", File)
		default:
			l.file = doc
			l.fleet.file, l.fleet.Name, l.fleet.Spec = doc, file.Metadata.Name, file.Spec
		}
	}
	l.fleet.Spec.Output = l.fleet.Spec.Output.at(l.output)
	if l.fleet.Detected {
		l.fleet.Spec.Trunk = l.trunk
	}
	if l.file.value == nil {
		if len(decoded.problems) == 0 {
			l.problems = append(l.problems, Problem{
				File: File, Severity: SeverityError,
				Message: "the file has no document of kind Fleet",
			})
		}
		return false
	}
	fleetChecks{l.findings, l.fleet, l.file}.all()
	return true
}

// ReadFile reads a file of the commit, also through links. A file of more than 4 MiB is an error.
func (f *Fleet) ReadFile(name string) ([]byte, error) { return readBounded(f.tree, name) }

// ReadDir lists a folder of the commit, also through links.
func (f *Fleet) ReadDir(name string) ([]fs.DirEntry, error) { return f.tree.ReadDir(name) }

// IsDir reports whether an entry of a folder is a folder or a link to one.
func (f *Fleet) IsDir(folder string, e fs.DirEntry) bool { return f.tree.isDir(folder, e) }

// Lstat describes a file of the commit without following links.
func (f *Fleet) Lstat(name string) (fs.FileInfo, error) { return f.tree.Tree.Stat(name) }

// RealPath returns a path without links, or the path itself if it cannot be followed.
func (f *Fleet) RealPath(name string) string { return f.tree.real(name) }

// readBounded reads a file of this package's kinds or values. One that its folder knows to be too large is not read at
// all.
func readBounded(tree Tree, name string) ([]byte, error) {
	info, err := tree.Stat(name)
	if err != nil {
		return nil, err
	}
	data := []byte(nil)
	if info.Size() <= yamlnode.MaxFile {
		if data, err = tree.ReadFile(name); err != nil {
			return nil, err
		}
	}
	if size := max(info.Size(), int64(len(data))); size > yamlnode.MaxFile && !info.IsDir() {
		return nil, fmt.Errorf("the file has %d bytes, more than the limit of %d: split it", size, yamlnode.MaxFile)
	}
	return data, nil
}

func readError(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "the file does not exist"
	}
	return err.Error()
}

// read decodes all files of the globs, in parallel, in order of their names. Files of workspaces are not the fleet's
// own.
func (l *loader) read(ctx context.Context, globs []string, field string) []document {
	if len(globs) > maxGlobs {
		l.errorf(l.file, strings.Split(field, "."), "write fewer, wider ones", "%s has %d patterns, more than %d",
			field, len(globs), maxGlobs)
		return nil
	}
	parsed := make([]glob, 0, len(globs))
	for i, text := range globs {
		g, err := parseGlob(text)
		if err != nil {
			l.errorf(l.file, append(strings.Split(field, "."), strconv.Itoa(i)),
				"as in clusters/**/*.yaml, with at most two **", "%s: bad pattern %.60q: %v", field, text, err)
			l.lost = true
			continue
		}
		parsed = append(parsed, g)
	}
	l.globs = append(l.globs, parsed...)
	ordered, err := findGlobs(ctx, l.tree, parsed)
	// a folder that cannot be listed must not pass for an empty one: its clusters would count as gone
	if err != nil && ctx.Err() == nil {
		unlisted(l.findings, err)
	}
	if field != "" {
		ordered = tenancy{l}.outsideWorkspaces(ordered)
	}
	if len(ordered) == 0 && len(globs) > 0 && field != "" && l.problems.Err() == nil {
		p := Problem{
			File: File, Severity: SeverityWarning, Message: "no file matches " + strings.Join(globs, ", "),
			Hint: cmp.Or(l.similarPath(ctx, globs[0]), "add one, or set "+field),
		}
		if field == filesClusters && len(l.fleet.Spec.Import) == 0 {
			p.Severity, l.lost = SeverityError, true // whatever names a label of a cluster is right
		}
		l.problems = append(l.problems, p)
	}
	decoded := make([]decodedFile, len(ordered))
	// its error is that of the context, at which Load looks when it has read everything
	_ = inParallel(ctx, len(ordered), func(i int) { decoded[i] = l.cache.decode(l.tree, ordered[i].name) })
	return take(l.findings, appFiles{decoded: decoded})
}

// inParallel calls do for each number below n, until ctx ends.
func inParallel(ctx context.Context, n int, do func(i int)) error {
	return parallel.Each(ctx, n, func(_ context.Context, i int) error {
		do(i)
		return nil
	})
}

// unlisted reports a folder that cannot be listed.
func unlisted(f *findings, err error) {
	name := File
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		name = at.Path
	}
	f.unreadable(name, err)
}

// take returns the documents of files, and keeps their problems.
func take(to *findings, files appFiles) []document {
	if files.err != nil {
		unlisted(to, files.err)
	}
	out := make([]document, 0, len(files.decoded))
	for _, f := range files.decoded {
		out = append(out, f.documents...)
		to.problems = append(to.problems, f.problems...)
		to.lost = to.lost || f.lost
	}
	return out
}

// Has reports whether a file or directory exists. It also returns true if it cannot tell: the caller then reads the
// file and gets the error, whereas a file that counts as missing would silently change the rendering.
func (f *Fleet) Has(name string) bool {
	if known, ok := f.exists.Load(name); ok {
		return known.(bool) //nolint:forcetypeassert // only this function stores here
	}
	_, err := f.tree.Stat(name)
	missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, syscall.ENOTDIR)
	f.exists.Store(name, !missing)
	return !missing
}

// Cluster returns a cluster by name.
func (f *Fleet) Cluster(name string) (*Cluster, bool) {
	c, ok := f.clusters[name]
	return c, ok
}

// App returns an app by name.
func (f *Fleet) App(name string) (*App, bool) {
	a, ok := f.apps[name]
	return a, ok
}

// Environment returns an environment by name.
func (f *Fleet) Environment(name string) (*Environment, bool) {
	for i := range f.Spec.Environments {
		if f.Spec.Environments[i].Name == name {
			return &f.Spec.Environments[i], true
		}
	}
	return nil, false
}
