package fleet

import (
	"cmp"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// Effect describes whether a change adds, removes or changes a target.
type Effect string

// The effects: the target exists before and after the change, only after it, or only before it.
const (
	EffectChanged Effect = "changed"
	EffectAdded   Effect = "added"
	EffectRemoved Effect = "removed"
)

// AffectedTarget is a target that a change can touch. It has no cluster if it is imported and its cluster is not known.
type AffectedTarget struct {
	Cluster, App string
	Effect       Effect
}

// Reach lists the files and directories that a resolved source reads: a change of any other file does not touch the
// source. Affected calls it once for each source that several targets share, and for the directory of each component as
// if it were a Kustomize root. For a source that cannot be walked it returns ".", and every change touches the source.
type Reach func(f *Fleet, s Source) []string

// Affected lists the targets that a change of the given paths can touch. Every target whose output changes is in the
// list; some whose output does not change may be, too. If base is nil, the list has all targets. The cost grows with
// the number of changed paths and of clusters, not with the number of targets. Affected renders nothing.
func Affected(base, head *Fleet, changed []string, reach Reach) []AffectedTarget {
	a := &affected{base: base, head: head, found: map[[2]string]bool{}}
	if base != nil {
		a.unplaced(newChanges(changed))
	}
	switch {
	case base == nil || a.specChanged() || a.keysChanged(changed):
		a.everything()
	default:
		a.registry()
		a.imports()
		paths := slices.DeleteFunc(slices.Clone(changed), func(p string) bool { return p == File })
		for _, f := range []*Fleet{base, head} {
			a.files(f, appsNear(f, paths), paths, reach)
		}
	}
	return a.list()
}

type affected struct {
	base, head *Fleet
	found      map[[2]string]bool
}

func (a *affected) add(c *Cluster, app *App) { a.found[[2]string{c.Name, app.Name}] = true }

func (a *affected) addCluster(f *Fleet, c *Cluster) {
	for _, t := range f.TargetsOf(c) {
		a.add(t.Cluster, t.App)
	}
}

func (a *affected) addApp(f *Fleet, app *App) {
	for _, c := range f.Clusters {
		if f.Places(app, c) {
			a.add(c, app)
		}
	}
}

// specChanged reports a change in the parts of sluice.yaml that every target depends on.
func (a *affected) specChanged() bool {
	b, h := a.base.Spec, a.head.Spec
	b.Output.OCI, h.Output.OCI = nil, nil // it says where renderings go, not what they are
	return b.Helm != h.Helm || !reflect.DeepEqual(b.Layers, h.Layers) || !reflect.DeepEqual(b.Output, h.Output) ||
		!reflect.DeepEqual(b.Kinds, h.Kinds) ||
		!reflect.DeepEqual(b.Strict, h.Strict) || !reflect.DeepEqual(b.Charts, h.Charts) || a.forcesOtherJobs()
}

// keysChanged reports a change in a file that the signatures of charts are held against.
func (a *affected) keysChanged(paths []string) bool {
	return slices.ContainsFunc(a.head.Spec.Charts.Signers, func(s ChartSigner) bool {
		return slices.Contains(paths,
			s.File())
	})
}

// forcesOtherJobs reports whether an environment starts or stops annotating the Jobs of hooks.
func (a *affected) forcesOtherJobs() bool {
	return slices.ContainsFunc(a.head.environmentNames(),
		func(name string) bool { return a.base.ForceHookJobs(name) != a.head.ForceHookJobs(name) })
}

// registry finds clusters and apps whose files changed in meaning.
func (a *affected) registry() {
	for _, c := range a.base.Clusters {
		if other, ok := a.head.clusters[c.Name]; !ok || !sameCluster(c, other) {
			a.addCluster(a.base, c)
		}
	}
	for _, c := range a.head.Clusters {
		if other, ok := a.base.clusters[c.Name]; !ok || !sameCluster(c, other) {
			a.addCluster(a.head, c)
		}
	}
	for _, app := range a.base.Apps {
		if other, ok := a.head.apps[app.Name]; !ok || !sameApp(app, other) {
			a.addApp(a.base, app)
		}
	}
	for _, app := range a.head.Apps {
		if other, ok := a.base.apps[app.Name]; !ok || !sameApp(app, other) {
			a.addApp(a.head, app)
		}
	}
}

// ChangedClusters returns the names of the clusters of head that base has in another state, or with other labels,
// variables and the like.
func ChangedClusters(base, head *Fleet) []string {
	var out []string
	for _, c := range head.Clusters {
		if other, ok := base.clusters[c.Name]; ok && !sameCluster(c, other) {
			out = append(out, c.Name)
		}
	}
	return out
}

func sameCluster(x, y *Cluster) bool {
	if x.KubeVersion != y.KubeVersion || !slices.Equal(x.APIVersions, y.APIVersions) { // also in capabilities/
		return false
	}
	if x.doc.root == y.doc.root && x.Class == "" && y.Class == "" {
		return true // decoded once for both fleets
	}
	return x.Environment == y.Environment && x.State == y.State && x.Helm == y.Helm && maps.Equal(x.Labels, y.Labels) &&
		reflect.DeepEqual(x.Vars, y.Vars)
}

func sameApp(x, y *App) bool {
	if x.imported != nil && y.imported != nil {
		return true // imports compares them cluster by cluster
	}
	if (x.each == nil) != (y.each == nil) || x.each != nil && !sameDescribed(x.each, y.each) {
		return false
	}
	return sameWorkspace(x, y) && (x.doc.root == y.doc.root && sameCatalog(x.catalog, y.catalog) ||
		x.Dir == y.Dir && x.catalog.equal(y.catalog) && reflect.DeepEqual(x.Spec.rendered(), y.Spec.rendered()))
}

// rendered returns the part of the spec that rendering depends on.
func (s AppSpec) rendered() AppSpec {
	s.DependsOn, s.Delivery, s.ForEach = nil, Delivery{}, nil
	return s
}

// appsNear returns the apps that can read one of some paths, and maybe more. An app of a workspace reads only the
// workspace's folder, the repositories that the workspace may take files from, and the layers of the fleet: a change of
// one workspace is not looked for in the apps of the others.
func appsNear(f *Fleet, paths []string) []*App {
	workspaces, repositories := map[*Workspace]bool{}, map[string]bool{}
	for _, p := range paths {
		i := slices.IndexFunc(f.Workspaces, func(w *Workspace) bool { return w.holds(p) })
		if i >= 0 {
			workspaces[f.Workspaces[i]] = true
		}
		if name := RepositoryOf(p); name != "" {
			repositories[name] = true
		} else if i < 0 {
			return f.Apps
		}
	}
	for _, w := range f.Workspaces {
		workspaces[w] = workspaces[w] || slices.ContainsFunc(w.Spec.Sources.Repositories,
			func(r string) bool { return repositories[r] })
	}
	var out []*App
	for _, app := range f.Apps {
		if app.workspace == nil || workspaces[app.workspace] || app.catalog.inAny(repositories) {
			out = append(out, app)
		}
	}
	return out
}

// files finds the targets that take or read a changed path. apps are those that can.
func (a *affected) files(f *Fleet, apps []*App, paths []string, reach Reach) {
	if len(paths) == 0 {
		return
	}
	a.look(f, apps, newChanges(slices.Concat(paths, f.linked(paths, apps))), reach)
}

func (a *affected) look(f *Fleet, apps []*App, changed *changes, reach Reach) {
	for _, p := range changed.paths {
		if changed.claimed != nil {
			clear(a.found)
		}
		if a.layerFile(f, apps, p); changed.claimed != nil && len(a.found) > 0 {
			changed.claimed[p] = true
		}
	}
	a.customLayers(f, changed)
	a.components(f, apps, changed, reach)
	a.sources(f, apps, changed, reach)
}

// layerFile parses a path of the conventional folders: [app dir/]layers/<layer>/[value/]…
func (a *affected) layerFile(f *Fleet, apps []*App, p string) {
	for _, app := range apps {
		for _, dir := range app.dirs() {
			rest, ok := strings.CutPrefix(p, dir+"/layers/")
			if !ok {
				continue
			}
			for _, c := range f.clustersOfLayer(rest) {
				if f.Places(app, c) {
					a.add(c, app)
				}
			}
		}
	}
	for _, w := range f.Workspaces {
		if rest, ok := strings.CutPrefix(p, w.Root+"/layers/"); ok {
			a.addWorkspace(f, w, f.clustersOfLayer(rest))
		}
	}
	if rest, ok := strings.CutPrefix(p, "layers/"); ok {
		for _, c := range f.clustersOfLayer(rest) {
			a.addCluster(f, c)
		}
	}
}

func (f *Fleet) clustersOfLayer(rest string) []*Cluster {
	if strings.HasPrefix(rest, LayerGlobal+"/") {
		return f.Clusters
	}
	name, value := "", ""
	for _, l := range f.layers { // a label's key may hold a slash
		if below, ok := strings.CutPrefix(rest, l.Name+"/"); ok && len(l.Name) > len(name) {
			name = l.Name
			value, _, _ = strings.Cut(below, "/")
		}
	}
	if name == "" {
		return nil
	}
	if name == labelCluster {
		if c, ok := f.clusters[value]; ok {
			return []*Cluster{c}
		}
		return nil
	}
	var out []*Cluster
	for _, c := range f.Clusters {
		if c.Labels[name] == value && value != "" {
			out = append(out, c)
		}
	}
	return out
}

// customLayers resolves path templates for every target, if a changed path could come from one.
func (a *affected) customLayers(f *Fleet, changed *changes) {
	for _, l := range f.layers {
		for _, v := range l.Values {
			a.template(f, cmp.Or(v.Repository, l.Repository), v.Path, changed.paths,
				func(p string) bool { return changed.touchFile(p) || changed.touchFile(stem(p)) })
		}
		for _, template := range l.Components {
			a.template(f, l.Repository, template, changed.paths, func(p string) bool { return changed.touch(p) })
		}
	}
}

func (a *affected) template(f *Fleet, repository, template string, changed []string, hit func(string) bool) {
	literal, _, _ := strings.Cut(template, "$")
	literal = strings.TrimPrefix(path.Dir(literal+"x"), ".")
	prefixes := []string{strings.TrimPrefix(mounted(repository, strings.TrimPrefix(literal, "/")), "/")}
	for _, w := range f.Workspaces {
		if repository == "" {
			prefixes = append(prefixes, path.Join(w.Root, literal))
		}
	}
	if !slices.ContainsFunc(changed, func(c string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c, p) })
	}) {
		return
	}
	for _, t := range f.Targets() {
		for _, in := range templateBases(t, repository, template, false) {
			if p := templatePath(t, in, repository, template); p != "" && hit(p) {
				a.add(t.Cluster, t.App)
			}
		}
	}
}

// sources calls reach once for every resolved source.
func (a *affected) sources(f *Fleet, apps []*App, changed *changes, reach Reach) {
	hit := map[string]bool{}
	for _, app := range apps {
		for _, c := range f.Clusters {
			if !f.Places(app, c) {
				continue
			}
			t := Target{App: app, Cluster: c}
			if f.readsAny(t, changed, reach, hit) {
				a.add(c, app)
			}
			if app.imported == nil && len(app.refs)+len(app.variants) == 0 && !f.readsAny(t, changed, reach, hit) {
				break // every cluster has the same sources
			}
		}
	}
}

func (f *Fleet) readsAny(t Target, changed *changes, reach Reach, hit map[string]bool) bool {
	for _, s := range t.App.sourcesIn(t.Cluster.Environment) {
		if s.Helm == nil || s.Helm.VersionFrom == nil || s.Helm.VersionFrom.File == "" {
			continue
		}
		if p := resolvedPath(t, s.Helm.VersionFrom.File); p == "" || changed.touch(path.Join(t.App.root(), p)) {
			return true
		}
	}
	resolved, err := f.Resolve(t)
	if i := t.Imported(); i != nil && i.Err != nil { // imports compares the errors
		return changed.touchAny(i.Reads)
	}
	if err != nil {
		return true // it fails the same way when it is planned
	}
	found := false
	for _, s := range resolved.Sources {
		key := s.key()
		known, ok := hit[key]
		if !ok {
			known = changed.touchAny(reach(f, s))
			hit[key] = known
		}
		if found = known || found; found && changed.claimed == nil {
			break
		}
	}
	return found
}

// key names a resolved source.
func (s Source) key() string {
	switch {
	case s.Helm != nil:
		return strings.Join([]string{
			"helm", s.Helm.Path, s.Helm.Repo, s.Helm.Chart, s.Helm.Version,
			strings.Join(s.Helm.Verify, " "),
		}, "\x00")
	case s.Kustomize != nil:
		return "kustomize\x00" + s.Kustomize.Key()
	case s.Manifests != nil:
		return "manifests\x00" + s.Manifests.Path
	case s.Objects != nil:
		return "objects\x00" + s.Objects.Digest
	}
	return ""
}
