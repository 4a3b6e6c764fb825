package fleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet/internal/yamlnode"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Importer reads the declarations of other tools. Load calls it for each entry of spec.import, in order.
type Importer interface {
	// Import reads the targets of one entry from a commit's tree. Problems with severity error make the fleet invalid;
	// what is wrong with one target belongs into its Err. An error says that the commit could not be read, such as one
	// of a worker process that does not start: it says nothing about the fleet, and reading again can help.
	Import(ctx context.Context, tree Tree, request ImportRequest) ([]Imported, Problems, error)
	// Detect returns the text of a sluice.yaml for a repository that has none, or nil if it is not one of another
	// tool's. An error that is Problems is about the commit; others are as those of Import.
	Detect(ctx context.Context, tree Tree) ([]byte, error)
}

// Imported is one target that another tool describes: an app of a name on a cluster of a name. Apps of one name on
// several clusters may differ in everything.
type Imported struct {
	Cluster, App string
	File         string // of the user's object
	Line         int
	Entry        int    // index in spec.import; Load sets it
	Kind         string // of the user's object, such as HelmRelease
	Namespace    string // of objects that name none

	// Sources are concatenated.
	Sources []ImportedSource
	// Component is the kustomization.yaml of a Kustomize component that applies to the objects; nil for none.
	Component []byte

	DependsOn []string // apps
	Force     bool     // the tool deletes and creates again an object whose change the API server refuses (Flux: force)
	Keeps     bool     // the tool leaves objects alone when they disappear (Flux: prune: false)
	// KeepsDeleted says that the tool leaves the objects alone when the target is deleted (Flux: deletionPolicy; Argo
	// CD: no finalizer).
	KeepsDeleted bool
	// Parent is the app whose objects include this target's object; "" if unknown. It is on ParentCluster; "" is the
	// target's own cluster.
	Parent, ParentCluster string
	// Set is the app that stands for the ApplicationSet that generates the target's object, where that set cannot be
	// generated.
	Set       string
	Suspended bool // the tool leaves the target alone; it is not rendered and not placed
	Notes     []string
	// StandIns are files with values that stand in for a ConfigMap or Secret that is not in Git. The target is rendered
	// with them.
	StandIns []string `json:",omitempty"`
	Err      error    // why the target cannot be rendered
	// Lacks are the commits of other repositories that Err is about, which the target pins exactly and the request does
	// not have.
	Lacks   []GitCommit `json:",omitempty"`
	Brings  Brings
	Foreign bool // a server or another repository describes what the target brings: this commit lacks none of it

	// Reads are the files and directories that the tool read to build the objects, charts and their values apart. Of a
	// target that fails or is suspended, they are those that it may be built from.
	Reads []string `json:",omitempty"`
	// Refers are the apps of the same cluster whose objects the target's object refers to: a ConfigMap with values.
	Refers []string `json:",omitempty"`
	// Declared is a digest of the user's object, without the values of a chart that can be rendered; of a target that
	// fails, also of the objects that it refers to. Object is the user's object as YAML, of a target that fails.
	Declared string
	Object   string `json:",omitempty"`

	names *strings.Replacer // of the fleet
}

// Located returns File for people: components@1a2b3c4:apps/web.yaml for a file of another repository.
func (i *Imported) Located() string { return locate(i.names, i.File) }

// Brings tells on which clusters a target may create further targets. If such a target cannot be rendered, the fleet
// does not know them.
type Brings string

// Places of further targets.
const (
	BringsNone    Brings = ""
	BringsCluster Brings = "cluster" // on the target's cluster
	BringsAny     Brings = "any"     // on any cluster
)

// ImportedRoot is a Kustomize root that lists helmCharts. It is rendered as the root of an app of the fleet is, so that
// its charts are locked, verified and part of the input digest in the same way.
type ImportedRoot struct {
	Path   string
	Edited []byte `json:",omitempty"` // see PathSource
}

// ImportedSource is a chart with its values, a Kustomize root with charts, or objects.
type ImportedSource struct {
	Helm      *HelmSource
	Kustomize *ImportedRoot  `json:",omitempty"`
	Values    map[string]any // of the chart, merged
	// Packing of a chart that is in a repository; nil packs it as it is.
	Packing *Packing `json:",omitempty"`
	// ValuesFiles are files of the repository that are among Values or the defaults of Packing, lowest precedence
	// first. Explain looks in them.
	ValuesFiles []string `json:",omitempty"`
	// KubeVersion and APIVersions that the chart or the charts of the root see, instead of the cluster's; empty for the
	// cluster's.
	KubeVersion string
	APIVersions []string
	// Objects is a stream of rendered YAML documents.
	Objects string
}

// imported has the targets of an imported app, by cluster.
type imported map[string]*Imported

// fleetText reads sluice.yaml, or has the importer write one for a repository of another tool.
func (l *loader) fleetText(ctx context.Context) ([]byte, error) {
	data, err := readBounded(l.tree, File)
	if !errors.Is(err, fs.ErrNotExist) || !l.detect || l.importer == nil {
		return data, err
	}
	detected, failed := l.importer.Detect(ctx, l.tree.watched())
	if failed != nil {
		if _, ok := errors.AsType[Problems](failed); !ok {
			l.tree.remember(failed)
		}
		return nil, failed
	}
	if detected == nil {
		return nil, err
	}
	l.fleet.Detected = true
	return detected, nil
}

func (l *loader) importAll(ctx context.Context) {
	for i, entry := range l.fleet.Spec.Import {
		at := []string{"spec", "import", fmt.Sprint(i)}
		if l.importer == nil {
			l.errorf(l.file, at, "use a release of Sluice that has it", "spec.import is not available here")
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(entry.clusters())) {
			l.importedCluster(name, entry.clusters()[name], append(at, entry.tool(), "clusters", name))
		}
		if err := entry.checkTool(); err != nil {
			l.errorf(l.file, append(slices.Clone(at), entry.tool(), "version"),
				"such as 2.8 of Flux, or 3.5 of Argo CD", "%v", err)
			continue
		}
		if entry.ArgoCD != nil {
			if _, err := entry.ArgoCD.Kustomize.EnableHelm(); err != nil {
				l.errorf(l.file, append(slices.Clone(at), "argocd", "kustomize", "buildOptions"),
					"leave it out: Sluice accepts --enable-helm only", "%v", err)
				continue
			}
		}
		targets, problems, err := l.importEntry(ctx, entry)
		if err != nil {
			l.tree.remember(err)
			return
		}
		for _, p := range problems {
			p.File, p.Message = l.fleet.Locate(p.File), l.fleet.Locate(p.Message)
			l.problems = append(l.problems, p)
		}
		for j := range targets {
			locateImported(l.fleet, &targets[j])
		}
		targets = l.withoutExcluded(targets, entry.Exclude, append(at, "exclude"))
		for j := range targets {
			targets[j].Entry = i
			l.importedTarget(&targets[j], at)
		}
	}
	for _, a := range l.fleet.Apps {
		// what the tool waits for may be on a cluster that is not imported, or come from elsewhere
		if a.imported != nil {
			a.Spec.DependsOn = slices.DeleteFunc(a.Spec.DependsOn,
				func(name string) bool { return l.fleet.apps[name] == nil })
		}
	}
	slices.SortFunc(l.fleet.Apps, func(a, b *App) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.fleet.Clusters, func(a, b *Cluster) int { return cmp.Compare(a.Name, b.Name) })
}

// withoutExcluded removes the apps that the fleet describes itself. One that fails and may bring other targets is an
// error: without it these would count as deleted. One that the fleet does not place on its cluster is an error for the
// same reason.
func (l *loader) withoutExcluded(targets []Imported, exclude, at []string) []Imported {
	found := map[string]bool{}
	targets = slices.DeleteFunc(targets, func(t Imported) bool {
		if !slices.Contains(exclude, t.App) {
			return false
		}
		found[t.App] = true
		l.fleet.excluded = append(l.fleet.excluded, &t)
		if t.Err != nil && t.Brings != BringsNone {
			l.problems = append(l.problems, Problem{
				File: t.Located(), Line: t.Line, Severity: SeverityError,
				Message: fmt.Sprintf("%s on %s is excluded from the import and cannot be read, so what it brings is not known: %v", t.App, t.Cluster, t.Err),
			})
		}
		l.problems = append(l.problems, notReplaced(l.fleet, &t)...)
		return true
	})
	for i, name := range exclude {
		if !found[name] {
			l.warnf(l.file, append(slices.Clone(at), fmt.Sprint(i)), "remove it", "the entry has no app %q to exclude",
				name)
		}
	}
	return targets
}

// notReplaced returns the problem of an excluded target in whose place the fleet renders nothing.
func notReplaced(f *Fleet, t *Imported) Problems {
	c, app := f.clusters[t.Cluster], f.apps[t.App]
	if c == nil || c.Retired() || t.Suspended || app != nil && (app.imported != nil || f.Places(app, c)) {
		return nil // an app that another entry imports is found there
	}
	p := Problem{File: t.Located(), Line: t.Line, Severity: SeverityError}
	if app == nil {
		p.Message = fmt.Sprintf("%s on %s is excluded from the import, and the fleet has no app of this name", t.App,
			t.Cluster)
		p.Hint = fmt.Sprintf("add its app.yaml, remove the name from spec.import[].exclude of %s, or delete the %s",
			File, t.Kind)
	} else {
		p.Message = fmt.Sprintf("%s on %s is excluded from the import, and %s does not place it there", t.App,
			t.Cluster, app.File)
		p.Hint = fmt.Sprintf("add the cluster to the placement of %s, or delete the %s", app.File, t.Kind)
	}
	return Problems{p}
}

// importedCluster adds a cluster that only spec.import names. A cluster of the registry stays as it is.
func (l *loader) importedCluster(name string, c ImportedCluster, at []string) {
	if known, ok := l.fleet.clusters[name]; ok {
		if c.Environment != "" && c.Environment != known.Environment {
			l.errorf(l.file, append(at, "environment"), "remove it here",
				"the cluster %s is in the environment %s in %s", name, known.Environment, known.File)
		}
		return
	}
	if !l.checkName(l.file, name, at...) {
		return
	}
	if _, ok := l.fleet.Environment(c.Environment); !ok {
		l.errorf(l.file, append(at, "environment"), "name one of spec.environments",
			"the cluster %s needs an environment, and %q is none", name, c.Environment)
		return
	}
	l.checkKubeVersion(l.file, c.KubeVersion)
	l.checkLabels(l.file, c.Labels, append(at, "labels")...)
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelCluster], labels[labelEnvironment], labels[labelClass] = name, c.Environment, ""
	cluster := &Cluster{
		Name: name, Environment: c.Environment, Labels: labels, KubeVersion: c.KubeVersion,
		APIVersions: c.APIVersions, State: stateActive, File: File, doc: l.file,
	}
	l.capabilities(cluster, c.KubeVersion, l.file, append(at, "kubeVersion")...)
	l.fleet.Clusters = append(l.fleet.Clusters, cluster)
	l.fleet.clusters[name] = cluster
}

func (l *loader) importedTarget(t *Imported, at []string) {
	if t.Err != nil {
		l.fleet.unread = append(l.fleet.unread, t)
	}
	if t.Cluster == "" {
		return // it has no place, and fails
	}
	if strings.Contains(t.App, "<no value>") {
		l.problems = append(l.problems, Problem{
			File: t.Located(), Line: t.Line, Severity: SeverityError,
			Message: fmt.Sprintf("the %s %.80q on %s has <no value> in its name", t.Kind, t.App, t.Cluster),
			Hint:    "set the value that its template uses",
		})
		return
	}
	cluster, ok := l.fleet.clusters[t.Cluster]
	if !ok {
		return // importedCluster has said why
	}
	app := l.fleet.apps[t.App]
	switch {
	case !validName(t.App): // it becomes a part of paths and branches
		l.problems = append(l.problems, Problem{
			File: t.Located(), Line: t.Line, Severity: SeverityWarning,
			Message: fmt.Sprintf("%.80q on %s cannot be the name of an app: it is not rendered", t.App, t.Cluster),
			Hint:    "lower-case letters, digits, - and ., at most 63",
		})
		return
	case app == nil:
		app = &App{
			Name: t.App, File: t.File, imported: imported{}, names: l.fleet.names,
			Spec: AppSpec{Namespace: t.Namespace},
		}
		l.fleet.apps[t.App] = app
		l.fleet.Apps = append(l.fleet.Apps, app)
	case app.imported == nil:
		l.errorf(l.file, at, "rename the app in "+app.File, "the app %s is in %s and is imported from %s:%d", t.App,
			app.File, t.Located(), t.Line)
		return
	case app.imported[cluster.Name] != nil:
		first := app.imported[cluster.Name]
		l.errorf(l.file, at, "rename one", "two objects become the app %s on the cluster %s: %s:%d and %s:%d", t.App,
			t.Cluster, first.Located(), first.Line, t.Located(), t.Line)
		return
	}
	app.imported[cluster.Name] = t
	for _, d := range t.DependsOn {
		if !slices.Contains(app.Spec.DependsOn, d) {
			app.Spec.DependsOn = append(app.Spec.DependsOn, d)
		}
	}
}

// Imported returns the importer's description of the target; nil for an app that the fleet itself declares.
func (t Target) Imported() *Imported {
	if t.App.imported == nil {
		return nil
	}
	return t.App.imported[t.Cluster.Name]
}

// ImportedTarget returns an imported target by its names, a suspended one too; nil if there is none.
func (f *Fleet) ImportedTarget(cluster, app string) *Imported {
	a := f.apps[app]
	if a == nil {
		return nil
	}
	return a.imported[cluster]
}

// Object returns the user's object that an imported target comes from; nil if its file does not contain it as it is,
// such as one that a template creates.
func (f *Fleet) Object(i *Imported) *yaml.Node {
	data, err := f.ReadFile(i.File)
	if err != nil || manifest.Check(data, yamlnode.Budget()) != nil {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		if dec.Decode(&document) != nil { // the end, or a mistake: the line of the object stays
			return nil
		}
		if len(document.Content) == 1 && document.Content[0].Line == i.Line &&
			yamlnode.Child(document.Content[0], "kind") != nil {
			return document.Content[0]
		}
	}
}

// Imported reports whether another tool describes the app.
func (a *App) Imported() bool { return a.imported != nil }

// Imports returns every imported target, by cluster and app: suspended ones and those that fail too. One whose cluster
// is not known has none.
func (f *Fleet) Imports() []*Imported {
	out := slices.DeleteFunc(slices.Clone(f.unread), func(t *Imported) bool { return t.Cluster != "" })
	for _, a := range f.Apps {
		for _, t := range a.imported {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(x, y *Imported) int {
		return cmp.Or(cmp.Compare(x.Cluster, y.Cluster),
			cmp.Compare(x.App, y.App))
	})
	return out
}

// Excluded returns the targets that spec.import[].exclude leaves out, because the fleet describes them itself.
func (f *Fleet) Excluded() []*Imported { return f.excluded }

func (i imported) places(c *Cluster) bool {
	t := i[c.Name]
	return t != nil && !t.Suspended
}

// resolve is Resolve for an imported target.
func (i *Imported) resolve() (Resolved, error) {
	out := Resolved{Namespace: i.Namespace, Unstable: "keep"}
	if i.Err != nil {
		return out, &FileError{Problem: Problem{
			File: i.File, Line: i.Line, Severity: SeverityError,
			Message: i.Err.Error(),
		}, Cluster: i.Cluster}
	}
	for n := range i.Sources {
		src, err := i.Sources[n].resolve(i)
		if err != nil {
			return out, &FileError{Problem: Problem{
				File: i.File, Line: i.Line, Severity: SeverityError,
				Message: err.Error(),
			}, Cluster: i.Cluster}
		}
		if len(i.Sources) > 1 {
			src.Name = strconv.Itoa(n)
		}
		out.Sources = append(out.Sources, src)
	}
	return out, nil
}

func (s *ImportedSource) resolve(i *Imported) (Source, error) {
	if s.Helm != nil {
		h := *s.Helm
		if leavesRepository(h.Path) {
			return Source{}, fmt.Errorf("the path %q leaves the repository", h.Path)
		}
		h.Path, h.Packing = mounted(h.Repository, h.Path), s.Packing
		return Source{Helm: &h}, nil
	}
	if k := s.Kustomize; k != nil {
		if leavesRepository(k.Path) {
			return Source{}, fmt.Errorf("the path %q leaves the repository", k.Path)
		}
		return Source{Kustomize: &PathSource{Path: k.Path, Edited: k.Edited}}, nil
	}
	sum := sha256.Sum256([]byte(s.Objects))
	return Source{Objects: &ObjectsSource{
		Name: i.Kind + " of " + i.File, Digest: hex.EncodeToString(sum[:]),
		Data: []byte(s.Objects),
	}}, nil
}

// same reports whether two imports of a target give the same input.
func (i *Imported) same(o *Imported) bool {
	if o == nil || (i.Err == nil) != (o.Err == nil) || i.Suspended != o.Suspended ||
		i.Err != nil && i.Err.Error() != o.Err.Error() {
		return false
	}
	if i.Err != nil {
		return i.Declared == o.Declared
	}
	// most are, and keys cost more
	if i.Namespace == o.Namespace && bytes.Equal(i.Component, o.Component) && reflect.DeepEqual(i.Sources, o.Sources) {
		return true
	}
	key := func(x *Imported) string {
		parts := []any{x.Namespace}
		for n := range x.Sources {
			parts = append(parts, x.Sources[n].Helm)
		}
		head, err := json.Marshal(parts)
		if err != nil {
			return ""
		}
		data, err := x.appendKey(binary.AppendUvarint(nil, uint64(len(head))))
		if err != nil {
			return ""
		}
		return string(append(data, head...))
	}
	a, b := key(i), key(o)
	return a != "" && a == b
}

// imports finds imported targets whose input differs. Both sides were read in full, so nothing has to be guessed from
// paths.
func (a *affected) imports() {
	for _, side := range []struct{ f, other *Fleet }{{a.base, a.head}, {a.head, a.base}} {
		for _, app := range side.f.Apps {
			for name, t := range app.imported {
				var before *Imported
				if other, ok := side.other.apps[app.Name]; ok && other.imported != nil {
					before = other.imported[name]
				}
				if !t.same(before) ||
					side.f.Spec.Import[t.Entry].helm() != side.other.Spec.Import[before.Entry].helm() {
					a.found[[2]string{name, app.Name}] = true
				}
			}
		}
	}
}

// unplaced finds the imported targets whose cluster is not known and whose declaration or files change. One that the
// other commit has on a cluster is found there.
func (a *affected) unplaced(changed *changes) {
	for _, side := range []struct{ f, other *Fleet }{{a.base, a.head}, {a.head, a.base}} {
		for _, t := range side.f.unread {
			if t.Cluster == "" && side.other.apps[t.App] == nil &&
				(!t.same(side.other.Unplaced(t.App)) || slices.ContainsFunc(t.Reads, changed.touch)) {
				a.found[[2]string{"", t.App}] = true
			}
		}
	}
}

// Unplaced returns an imported target whose cluster is not known; nil if there is none of the name.
func (f *Fleet) Unplaced(app string) *Imported {
	i := slices.IndexFunc(f.unread, func(t *Imported) bool { return t.Cluster == "" && t.App == app })
	if i < 0 {
		return nil
	}
	return f.unread[i]
}
