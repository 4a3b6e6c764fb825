package argocd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/importer/internal/pinned"
	"github.com/sluice-gitops/sluice/importer/internal/reach"
	"github.com/sluice-gitops/sluice/importer/internal/templates"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Limits of one import.
const (
	maxUnits = 20_000 // Applications
	maxDepth = 50     // Applications that come out of Applications
)

// Tree is one commit's files. Paths are slash-separated and relative to its root, which is `.`.
type Tree interface {
	ReadFile(name string) ([]byte, error)
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
}

// Options are what an import depends on besides the commit.
type Options struct {
	Tree Tree
	// Build returns the objects of `kustomize build root`, where a kustomization may read any file of files. They are
	// not changed.
	Build func(ctx context.Context, files []kustomize.File, root string) ([]manifest.Object, error)
	// BuildWithoutCharts is Build for a root with helmCharts. It returns the objects that are not those of a chart.
	BuildWithoutCharts func(ctx context.Context, files []kustomize.File, root string) ([]manifest.Object, error)
	// EnableHelm says that kustomizations may list helmCharts.
	EnableHelm bool
	// TemplatesValues lets the values of a generator use its own parameters where those of another generator are
	// replaced in it, as Argo CD does since 3.4. Before, these are unknown then: an error, or nothing, as missingkey
	// says.
	TemplatesValues bool
	// Render renders a chart of the repository that may bring Applications. The unit has the cluster and the namespace.
	Render func(ctx context.Context, c *Chart, u *Unit) ([]manifest.Object, error)
	// Apps are patterns of the files that hold Applications, ApplicationSets and cluster Secrets; none is every file.
	Apps []string
	// Ignore reports files whose objects are not followed; nil ignores none.
	Ignore func(name string) bool
	// Repositories are URLs of the repository. Without any, it is the one that most sources with a path in the commit
	// name.
	Repositories []string
	// Pinned are commits of other repositories whose files are in the tree, all in one directory.
	Pinned []pinned.Commit
	// Trunk is a revision that means the commit, besides HEAD.
	Trunk string
	// Clusters that destinations may name, and that cluster generators list.
	Clusters []Cluster
	// Starting is called before an Application is built or an ApplicationSet is generated, with the name of the app
	// that fails if it returns an error. Nil calls nothing.
	Starting func(name string) error
}

// Cluster is a cluster as a cluster Secret describes it.
type Cluster struct {
	Name, Server        string
	Labels, Annotations map[string]string
	secret              bool // it has a Secret
	project             string
}

// Origin is where an object is written.
type Origin struct {
	File string
	Line int
}

// Unit is one Application.
type Unit struct {
	Name      string
	Cluster   string // of Options.Clusters; "" if the destination is none of them
	Namespace string // of objects that name none
	Origin    Origin // of the Application, or of the ApplicationSet that generates it
	Parent    string // the Application whose objects this one, or its ApplicationSet, is among
	Set       string // what Problem.App is if the ApplicationSet that generates it cannot be generated
	Sources   []Source
	// Followed are Applications and ApplicationSets that a build of a Root among the sources returns, and that are
	// units of their own.
	Followed []manifest.Object

	Prune  bool // Argo CD removes objects that disappear
	Orphan bool // Argo CD leaves the objects in the cluster when the Application is deleted
	Notes  []string
	Err    error // why the unit cannot be rendered
	Brings bool  // the unit fails, and its files may describe other Applications, which are missing

	// Reads are the files of the repository that its objects, or the ApplicationSet that generates it, were read from,
	// charts and their values apart. Of a unit that fails, they are the files and directories that it may be built
	// from.
	Reads []string
	// Object is the Application as Argo CD has it.
	Object manifest.Object
}

// Source is a chart, a Kustomize root or objects.
type Source struct {
	Chart   *Chart
	Root    *Root
	Objects []manifest.Object

	reads []string // files and directories of the repository that it was read from, a chart and its values apart
}

// Root is a Kustomize root that lists helmCharts.
type Root struct {
	Path        string
	Edited      []byte   // the text of its kustomization with the fields of the source; nil for none
	KubeVersion string   // instead of the cluster's
	APIVersions []string // instead of the cluster's
}

// Chart is a Helm source.
type Chart struct {
	Path                 string // the chart's directory in the repository; "" for a remote chart
	Repo, Chart, Version string // of a remote chart, as fleet.HelmSource has them
	Release              string
	Namespace            string // of the release, instead of the unit's
	Values               map[string]any
	ValuesFiles          []string // of the repository, lowest precedence first
	SkipCRDs, SkipSchema bool
	KubeVersion          string   // instead of the cluster's
	APIVersions          []string // instead of the cluster's
}

// importer is the state of one import.
type importer struct {
	Options
	files    []string
	origins  map[string]Origin // of Applications and ApplicationSets, by kind and name
	own      map[string]bool   // addresses of the repository
	units    map[string]*Unit
	order    []string
	problems []Problem
	rounds   *templates.Rounds // that are left to all ApplicationSets

	dir    string               // of the files in Options.Tree as Import got it; "" for the commit's own
	commit *importer            // of the commit's own files; nil for that one itself
	others map[string]*importer // by their dir; see contentOf
}

// Problem is what is wrong with a file, or with an ApplicationSet: the Applications that it describes are not known.
type Problem struct {
	App     string // a name that no Application has
	Kind    string // ApplicationSet, or "" for a file
	Cluster string // of all its Applications; "" if they may be on any
	Origin  Origin
	Message string
	Err     error // whose text the message has; nil for none
	Foreign bool  // a server or another repository describes the Applications, not the commit

	Reads  []string        // files and directories that the Applications may be generated or built from
	Object manifest.Object // the ApplicationSet; nil for a file
}

// pending is an Application that is not expanded yet.
type pending struct {
	object manifest.Object
	origin Origin
	parent string
	set    string
	depth  int
	reads  []string // files that the set was generated from
}

// Import reads the Applications of a commit. Units come in the order in which they are found. A Problem is about an
// ApplicationSet that cannot be generated.
func Import(ctx context.Context, o Options) ([]Unit, []Problem, error) {
	i := &importer{
		Options: o, origins: map[string]Origin{}, own: map[string]bool{}, units: map[string]*Unit{},
		rounds: templates.NewRounds(functions()), others: map[string]*importer{},
	}
	i.Clusters = slices.Clone(o.Clusters)
	for n := range i.Clusters {
		registered(&i.Clusters[n])
	}
	found, err := i.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	i.repositories(found)
	queue := i.applications(ctx, found, "", 0)
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if len(i.units) >= maxUnits {
			return nil, nil, fmt.Errorf("the repository has more than %d Applications", maxUnits)
		}
		queue = append(queue, i.expand(ctx, p)...)
	}
	out := make([]Unit, 0, len(i.order))
	for _, name := range i.order {
		out = append(out, *i.units[name])
	}
	return out, i.problems, nil
}

// applications are the Applications among objects, and those that ApplicationSets among them generate.
func (i *importer) applications(ctx context.Context, found []located, parent string, depth int) []pending {
	var out []pending
	for _, f := range found {
		switch f.object.Kind() {
		case kindApplication:
			out = append(out, pending{object: f.object, origin: f.origin, parent: parent, depth: depth})
		case kindApplicationSet:
			err := error(nil)
			if i.Starting != nil { // a template can run until the process ends
				err = i.Starting(setApp(f.object))
			}
			var generated []manifest.Object
			var read []string
			if err == nil {
				generated, read, err = i.generate(ctx, f.object)
			}
			if err != nil {
				i.problems = append(i.problems, Problem{
					Err: err,
					App: setApp(f.object), Kind: kindApplicationSet, Cluster: i.onlyCluster(f.object),
					Origin:  f.origin,
					Message: fmt.Sprintf("ApplicationSet %s: %v", f.object.Name(), err),
					Foreign: foreign(f.object, err),
					Reads:   i.setReads(f.object), Object: f.object,
				})
				continue
			}
			for n, o := range generated {
				p := pending{object: o, origin: f.origin, parent: parent, set: setApp(f.object), depth: depth}
				if n == 0 { // one of them stands for the files of all
					p.reads = read
				}
				out = append(out, p)
			}
		}
	}
	return out
}

// expand reads one Application. An Application that another one brings takes the place of the file that it was read
// from.
func (i *importer) expand(ctx context.Context, p pending) []pending {
	var app application
	u := &Unit{Name: p.object.Name(), Origin: p.origin, Parent: p.parent, Set: p.set, Object: p.object, Reads: p.reads}
	err := decode(p.object, &app)
	if err == nil {
		u.Namespace = cmp.Or(app.Spec.Destination.Namespace, "default")
		u.Cluster, err = i.cluster(app.Spec.Destination)
	}
	key := u.Cluster + "/" + u.Name
	if known, ok := i.units[key]; ok && (p.parent == "" || known.Parent != "") {
		if known.Parent == "" || known.Parent != p.parent {
			known.Notes = append(known.Notes,
				fmt.Sprintf("the Application %s is written in %s:%d too: the first one counts", u.Name, p.origin.File,
					p.origin.Line))
		}
		return nil
	} else if !ok {
		i.order = append(i.order, key)
	}
	i.units[key] = u
	u.Orphan = !slices.ContainsFunc(app.Metadata.Finalizers, func(f string) bool {
		return strings.HasPrefix(f,
			finalizer)
	})
	if a := app.Spec.SyncPolicy.Automated; a != nil {
		u.Prune = a.Prune
	}
	if err == nil && p.depth > maxDepth {
		//nolint:staticcheck // a kind's name begins the message
		err = fmt.Errorf("Applications are nested more than %d levels deep", maxDepth)
	}
	if err == nil && i.Starting != nil {
		err = i.Starting(u.Name)
	}
	var children []located
	if err == nil {
		children, err = i.sources(ctx, u, &app)
	}
	if u.Err = err; err != nil {
		u.Sources, u.Reads = nil, i.mayRead(&app)
		u.Brings = !errors.Is(err, errUnknownCluster) && i.mayBring(&app)
	}
	return i.applications(ctx, children, u.Name, p.depth+1)
}

var (
	errDestination    = errors.New("spec.destination names no cluster")
	errUnknownCluster = errors.New("is not known (add it to spec.import argocd clusters, with its name or its server)")
)

// setApp is the name of what stands for an ApplicationSet that cannot be generated.
func setApp(o manifest.Object) string { return o.Name() + ".appset" }

// onlyCluster is the cluster that all Applications of a set go to; "" if a template decides.
func (i *importer) onlyCluster(o manifest.Object) string {
	var set struct {
		Spec struct {
			Generators    []map[string]map[string]any `json:"generators"`
			Template      application                 `json:"template"`
			TemplatePatch string                      `json:"templatePatch"`
		} `json:"spec"`
	}
	d := &set.Spec.Template.Spec.Destination
	if decode(o, &set) != nil || set.Spec.TemplatePatch != "" || strings.Contains(d.Name+d.Server, "{{") {
		return ""
	}
	for _, g := range set.Spec.Generators {
		for _, spec := range g {
			if spec["template"] != nil {
				return ""
			}
		}
	}
	name, err := i.cluster(*d)
	if err != nil {
		return "" // each Application would have the error
	}
	return name
}

// foreign reports whether the only generator of an ApplicationSet asks a server or another repository, or whether it selects
// what only Argo CD knows.
func foreign(o manifest.Object, err error) bool {
	if errors.Is(err, errUnregistered) {
		return true
	}
	spec, _ := o["spec"].(map[string]any)
	generators, _ := spec["generators"].([]any)
	return len(generators) == 1 && (errors.Is(err, errServer) || errors.Is(err, errElsewhere))
}

// mayBring reports whether the sources of an Application that fails may describe other Applications, which find does
// not find.
func (i *importer) mayBring(app *application) bool {
	list := app.Spec.Sources
	if len(list) == 0 && app.Spec.Source != nil {
		list = []source{*app.Spec.Source}
	}
	for n := range list {
		s := &list[n]
		if s.Path == "" || i.thisCommit(s.RepoURL, s.TargetRevision) != nil {
			continue
		}
		dir, err := inside(".", s.Path)
		if err != nil {
			continue
		}
		kind, err := i.kind(s, dir)
		plain := err == nil && kind == "directory"
		if reach.Any(i.sortedFiles(), i.Tree.ReadFile, dir, func(name string, data []byte) bool {
			return (!plain || !i.wanted(name)) && describes(data)
		}) {
			return true
		}
	}
	return false
}

// cluster finds the cluster of a destination by its name or server.
func (i *importer) cluster(d destination) (string, error) {
	if d.Name == "" && d.Server == "" {
		return "", errDestination
	}
	for _, c := range i.Clusters {
		if d.Name != "" && d.Name == c.Name || d.Server != "" && sameServer(d.Server, c.Server) {
			return c.Name, nil
		}
	}
	if d.Name == inClusterName {
		return i.cluster(destination{Server: inClusterServer})
	}
	return "", UnknownCluster(cmp.Or(d.Name, d.Server))
}

// UnknownCluster returns the error of an Application for a cluster that the fleet does not have.
func UnknownCluster(name string) error {
	return fmt.Errorf("spec.destination: the cluster %q %w", name, errUnknownCluster)
}

// Servers returns, sorted, the destinations of all Applications that name no known cluster, for a repository that
// nobody has described yet.
func Servers(ctx context.Context, o Options) ([]Cluster, error) {
	i := &importer{
		Options: o, origins: map[string]Origin{}, own: map[string]bool{}, units: map[string]*Unit{},
		rounds: templates.NewRounds(functions()),
	}
	found, err := i.find(ctx)
	if err != nil {
		return nil, err
	}
	i.repositories(found)
	out := map[string]Cluster{}
	for _, c := range i.Clusters {
		out[c.Name] = c
	}
	for _, p := range i.applications(ctx, found, "", 0) {
		var app application
		if decode(p.object, &app) != nil {
			continue // Import reports it
		}
		d := app.Spec.Destination
		switch {
		case d.Name == inClusterName, sameServer(d.Server, inClusterServer):
			out[inClusterName] = Local()
		case d.Name != "":
			if _, ok := out[d.Name]; !ok {
				out[d.Name] = Cluster{Name: d.Name}
			}
		case d.Server != "":
			if _, err := i.cluster(d); err != nil {
				name := serverName(d.Server)
				out[name] = Cluster{Name: name, Server: d.Server}
			}
		}
	}
	return slices.SortedStableFunc(maps.Values(out), func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) }), nil
}
