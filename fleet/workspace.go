package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// WorkspacesDir is the conventional folder of workspaces and of their declarations, and the folder of a cluster's
// branch that holds their apps.
const WorkspacesDir = "workspaces"

// AppDir is the folder of an app in the tree of a cluster: workspaces/team-a/shop for the app team-a/shop.
func AppDir(app string) string {
	if strings.Contains(app, "/") {
		return WorkspacesDir + "/" + app
	}
	return app
}

// Workspace is a tenant: a folder with apps and layers of its own, confined to some clusters, namespaces and kinds. Its
// declaration is on the trunk of the fleet; its apps are called NAME/APP.
type Workspace struct {
	Name string
	Spec WorkspaceSpec
	File string // of the declaration
	Line int
	// Root is its folder in the fleet's tree.
	Root string
	// Err says why its apps are not known: its files have errors, or its repository is missing. The fleet then has none
	// of its apps.
	Err error

	clusters selector
	doc      document
}

// Reaches reports whether the workspace may have apps on a cluster.
func (w *Workspace) Reaches(c *Cluster) bool {
	return w.clusters.matches(c.Labels) && (len(w.Spec.Environments) == 0 ||
		slices.Contains(w.Spec.Environments, c.Environment))
}

// owns reports whether a namespace is one of the workspace.
func (w *Workspace) owns(namespace string) bool {
	return slices.ContainsFunc(w.Spec.Namespaces, func(pattern string) bool {
		ok, err := path.Match(pattern, namespace)
		return err == nil && ok
	})
}

// holds reports whether a path is in the workspace's folder.
func (w *Workspace) holds(name string) bool { return within(w.Root, name) }

// rendered gives the part of the declaration that decides what is rendered and what is allowed.
func (w *Workspace) rendered() WorkspaceSpec {
	out := w.Spec
	out.Administrators, out.Approvers, out.Policy = Administrators{}, WorkspaceApprovers{}, WorkspacePolicy{}
	return out
}

// PolicyDir is the folder of the workspace's own policy in the fleet's tree; "" if it has none.
func (w *Workspace) PolicyDir() string {
	if w.Spec.Policy.Path == "" {
		return ""
	}
	return path.Join(w.Root, w.Spec.Policy.Path)
}

func within(root, name string) bool {
	return name == root || strings.HasPrefix(name, root+"/")
}

// Workspace gives a workspace by name.
func (f *Fleet) Workspace(name string) (*Workspace, bool) {
	i := slices.IndexFunc(f.Workspaces, func(w *Workspace) bool { return w.Name == name })
	if i < 0 {
		return nil, false
	}
	return f.Workspaces[i], true
}

// WorkspaceOf is the name of the workspace in the name of an app; "" for an app of the fleet itself.
func WorkspaceOf(app string) string {
	name, _, ok := strings.Cut(app, "/")
	if !ok {
		return ""
	}
	return name
}

// Unknown is an error if an app can exist although the fleet does not have it: the files of its workspace cannot be
// read. It must then not count as removed.
func Unknown(f *Fleet, app string) error {
	if w, ok := f.Workspace(WorkspaceOf(app)); ok && w.Err != nil {
		return fmt.Errorf("workspace %s: %w", w.Name, w.Err)
	}
	return nil
}

// Workspace is the workspace of the app; nil for an app of the fleet itself.
func (a *App) Workspace() *Workspace { return a.workspace }

// localName returns the app's name inside its workspace.
func (a *App) localName() string {
	if a.workspace == nil {
		return a.Name
	}
	return strings.TrimPrefix(a.Name, a.workspace.Name+"/")
}

// root is the folder that the paths in the app's file begin at.
func (a *App) root() string {
	if a.workspace == nil {
		return ""
	}
	return a.workspace.Root
}

// tenancy reads the workspaces of a fleet.
type tenancy struct{ *loader }

// workspacesFrom reads the workspaces of sluice.yaml and of the folder workspaces/.
func (l tenancy) workspacesFrom(documents []document) {
	for _, doc := range documents {
		file, ok := doc.value.(*WorkspaceFile)
		if !ok {
			if doc.file != File {
				l.errorf(doc, []string{"kind"}, "move it", "only Workspace belongs here")
			}
			continue
		}
		name := file.Metadata.Name
		if !l.checkName(doc, name, "metadata", "name") {
			continue
		}
		if strings.Contains(name, ".") { // the app c of a.b and the app b.c of a would have one name in a cluster
			l.errorf(doc, []string{"metadata", "name"}, "write - instead",
				"the name of the workspace %s cannot have a dot", name)
			continue
		}
		if first, ok := l.fleet.Workspace(name); ok {
			l.errorf(doc, []string{"metadata", "name"}, "rename one", "the workspace %s is also in %s", name,
				place(first.doc))
			continue
		}
		w := &Workspace{Name: name, Spec: file.Spec, File: doc.file, Line: doc.line, doc: doc}
		l.fleet.Workspaces = append(l.fleet.Workspaces, w)
		w.clusters = l.selector(doc, w.Spec.Clusters, "spec", "clusters")
		l.checkWorkspacePlace(w)
		l.checkBounds(w)
	}
	slices.SortFunc(l.fleet.Workspaces, func(a, b *Workspace) int { return cmp.Compare(a.Name, b.Name) })
	for i, a := range l.fleet.Workspaces {
		for _, b := range l.fleet.Workspaces[:i] {
			if within(a.Root, b.Root) || within(b.Root, a.Root) {
				l.errorf(a.doc, []string{"spec", "path"}, "give each a folder of its own",
					"the workspaces %s and %s would have common files, in %s and %s",
					a.Name, b.Name, l.fleet.Locate(a.Root), l.fleet.Locate(b.Root))
			}
		}
	}
}

// workspaceApps reads the apps of all workspaces. Whatever is wrong in the files of a workspace concerns that workspace
// alone.
func (l tenancy) workspaceApps(ctx context.Context) {
	lost := l.lost
	files := l.readWorkspaces(ctx)
	for _, w := range l.fleet.Workspaces {
		if w.Err != nil {
			continue
		}
		if files[w].alone {
			for _, dir := range files[w].bare {
				l.fleet.exists.Store(dir, false)
			}
		}
		for _, doc := range take(l.findings, files[w]) {
			file, ok := doc.value.(*AppFile)
			switch {
			case !ok:
				l.errorf(doc, []string{"kind"},
					"a workspace has apps and layers; everything else is on the trunk of the fleet",
					"only App belongs into a workspace")
			case !files[w].alone && !w.holds(l.fleet.tree.real(doc.file)):
				l.errorf(doc, []string{"kind"}, "put the file itself there",
					"the file is a link that leaves the workspace %s", w.Name)
			default:
				l.app(doc, file, w)
			}
		}
	}
	l.lost = lost
	slices.SortFunc(l.fleet.Apps, func(a, b *App) int { return cmp.Compare(a.Name, b.Name) })
	l.checkNamespaceOverlap()
	if len(l.fleet.Workspaces) == 0 {
		return
	}
	for _, a := range l.fleet.Apps {
		if other, ok := l.fleet.apps[strings.Replace(a.Name, "/", ".", 1)]; ok && a.workspace != nil {
			l.errorf(a.doc, []string{"metadata", "name"}, "rename one",
				"the apps %s and %s would have one name in a cluster", other.Name, a.Name)
		}
	}
	if a, ok := l.fleet.apps[WorkspacesDir]; ok {
		l.errorf(a.doc, []string{"metadata", "name"}, "rename it",
			"the folder %s of a cluster holds the apps of workspaces, and no app can have that name", WorkspacesDir)
	}
}

// outsideWorkspaces drops the files of workspaces: they are never the fleet's own, whatever spec.files matches.
func (l tenancy) outsideWorkspaces(files []*foundFile) []*foundFile {
	return slices.DeleteFunc(files, func(f *foundFile) bool {
		return slices.ContainsFunc(l.fleet.Workspaces, func(w *Workspace) bool { return w.holds(f.name) })
	})
}

// scopeNames gives the names in dependsOn the name of the workspace, for apps of the same workspace.
func (l tenancy) scopeNames() {
	for _, a := range l.fleet.Apps {
		if a.workspace == nil || len(a.Spec.DependsOn) == 0 {
			continue
		}
		a.Spec.DependsOn = slices.Clone(a.Spec.DependsOn)
		for i, name := range a.Spec.DependsOn {
			if scoped := a.workspace.Name + "/" + name; l.fleet.apps[scoped] != nil {
				a.Spec.DependsOn[i] = scoped
			}
		}
	}
}

// isolate makes the errors in the files of a workspace errors of that workspace: its apps go, and the rest of the fleet
// is read.
func (l tenancy) isolate() {
	for _, w := range l.fleet.Workspaces {
		for i := range l.problems {
			if p := &l.problems[i]; p.Severity == SeverityError && w.holds(p.File) {
				p.workspace = w.Name
				if w.Err == nil {
					w.Err = errors.New(l.fleet.Locate(p.place() + ": " + p.text()))
				}
			}
		}
		if w.Err == nil {
			continue
		}
		l.fleet.Apps = slices.DeleteFunc(l.fleet.Apps, func(a *App) bool { return a.workspace == w })
		for name, a := range l.fleet.apps {
			if a.workspace == w {
				delete(l.fleet.apps, name)
			}
		}
	}
}

// sameWorkspace reports whether two apps are confined alike.
func sameWorkspace(x, y *App) bool {
	if x.workspace == nil || y.workspace == nil {
		return x.workspace == y.workspace
	}
	if x.workspace.Root == y.workspace.Root && x.workspace.doc.root == y.workspace.doc.root {
		return true // decoded once for both fleets
	}
	return x.workspace.Root == y.workspace.Root && reflect.DeepEqual(x.workspace.rendered(), y.workspace.rendered())
}

// confine refuses a source of a workspace's app that is outside of what the workspace may take.
func (t Target) confine(s *Source) error {
	w := t.App.workspace
	if w == nil || s.shared {
		return nil
	}
	if name := s.repository(); name != "" && !slices.Contains(w.Spec.Sources.Repositories, name) {
		return fmt.Errorf("workspace %s may not take files from the repository %s: spec.sources.repositories in %s lists those that it may", w.Name, name, w.File)
	}
	if s.Helm == nil || s.Helm.Chart == "" {
		return nil
	}
	return t.MayUse(s.Helm.Repo, s.Helm.Chart)
}

// mayDeployTo refuses an invalid namespace, and one that is outside of the workspace of the app.
func mayDeployTo(t Target, namespace string) error {
	if !validNamespace(namespace) {
		return fmt.Errorf("%q cannot be a namespace on cluster %s", namespace, t.Cluster.Name)
	}
	if w := t.App.workspace; w != nil && !w.owns(namespace) {
		return fmt.Errorf("the namespace %s on cluster %s is outside of workspace %s: spec.namespaces in %s lists those that it may use", namespace, t.Cluster.Name, w.Name, w.File)
	}
	return nil
}

// MayUse refuses a chart that an app of a workspace uses, itself or as a dependency, and spec.sources.charts of the
// workspace does not list. repo is "" for a chart that is written as a whole reference.
func (t Target) MayUse(repo, chart string) error {
	w := t.App.workspace
	if w == nil || len(w.Spec.Sources.Charts) == 0 {
		return nil
	}
	if repo != "" {
		chart = strings.TrimSuffix(repo, "/") + "/" + chart
	}
	// A server can read an escaped text, a query or a user in another way than a pattern does.
	ambiguous := strings.ContainsAny(chart, `%?#@\`) || slices.ContainsFunc(strings.Split(chart, "/"),
		func(segment string) bool { return segment == "." || segment == ".." })
	if ambiguous || !slices.ContainsFunc(w.Spec.Sources.Charts,
		func(pattern string) bool { return doublestar.MatchUnvalidated(pattern, chart) }) {
		return fmt.Errorf("workspace %s may not use the chart %s: spec.sources.charts in %s lists those that it may",
			w.Name, chart, w.File)
	}
	return nil
}

// MayRead reports whether a target may be rendered from a file of the fleet's tree. An app of a workspace reads only
// the workspace's folder, the repositories that the workspace may name, what the catalog's version of the app is made of,
// and, for a component of the fleet's own layers, what that reads.
func (t Target) MayRead(name string) bool {
	w := t.App.workspace
	if w == nil || w.holds(name) || t.App.catalog.holds(name) {
		return true
	}
	return slices.ContainsFunc(w.Spec.Sources.Repositories, func(r string) bool {
		return within(path.Join(MountDir, r),
			name)
	})
}

// OfWorkspace reports whether a layer's file is the workspace's own.
func (f LayerFile) OfWorkspace() bool { return f.root != "" }

// confined refuses files of a workspace's layers that links bring from elsewhere.
func confined(f *Fleet, t Target, lists ...[]LayerFile) error {
	w := t.App.workspace
	if w == nil {
		return nil
	}
	for _, list := range lists {
		for _, file := range list {
			if file.root != "" && !w.holds(f.tree.real(file.Path)) {
				return t.appError(fmt.Errorf("%s leads out of the workspace %s: put the file itself there", file.Path,
					w.Name), "")
			}
		}
	}
	return nil
}
