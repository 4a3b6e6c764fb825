package fleet

import (
	"path"
	"slices"
)

// components finds the targets whose layers hold a component that reads a changed path beyond its own directory.
func (a *affected) components(f *Fleet, apps []*App, changed *changes, reach Reach) {
	asked := map[string]bool{}
	reads := func(dir string) bool {
		known, ok := asked[dir]
		if !ok {
			known = f.IsComponent(dir) && changed.touchAny(reach(f,
				Source{Kustomize: &PathSource{Path: f.tree.real(dir)}}))
			asked[dir] = known
		}
		return known
	}
	a.sharedComponents(f, reads)
	for _, app := range apps {
		if app.Dir == "" {
			continue
		}
		for dir, rest := range f.layerFolders(app.Dir) {
			if !reads(dir) {
				continue
			}
			for _, c := range f.clustersOfLayer(rest) {
				if f.Places(app, c) {
					a.add(c, app)
				}
			}
		}
	}
	a.customComponents(f, reads)
}

// sharedComponents finds the targets of components that all apps take, of the fleet or of a workspace.
func (a *affected) sharedComponents(f *Fleet, reads func(string) bool) {
	for dir, rest := range f.layerFolders("") {
		if reads(dir) {
			for _, c := range f.clustersOfLayer(rest) {
				a.addCluster(f, c)
			}
		}
	}
	for _, w := range f.Workspaces {
		for dir, rest := range f.layerFolders(w.Root) {
			if reads(dir) {
				a.addWorkspace(f, w, f.clustersOfLayer(rest))
			}
		}
	}
}

func (a *affected) customComponents(f *Fleet, reads func(string) bool) {
	if !slices.ContainsFunc(f.layers, func(l layer) bool { return len(l.Components) > 0 }) {
		return
	}
	for _, t := range f.Targets() {
		for _, l := range f.layers {
			for _, p := range componentPaths(t, l.Layer) {
				if reads(p) {
					a.add(t.Cluster, t.App)
				}
			}
		}
	}
}

// componentPaths are the paths that a layer's templates have for the target, whether or not something is there.
func componentPaths(t Target, l Layer) []string {
	var out []string
	for _, template := range l.Components {
		for _, in := range templateBases(t, l.Repository, template, false) {
			if p := templatePath(t, in, l.Repository, template); p != "" {
				out = append(out, p)
			}
		}
	}
	return out
}

// addWorkspace adds the targets of a workspace on some clusters.
func (a *affected) addWorkspace(f *Fleet, w *Workspace, clusters []*Cluster) {
	for _, c := range clusters {
		for _, t := range f.TargetsOf(c) {
			if t.App.workspace == w {
				a.add(c, t.App)
			}
		}
	}
}

// layerFolders lists the existing conventional folders of layers, with their path below `layers`. A folder that cannot
// be listed counts as empty: rendering the targets that need it reports the error.
func (f *Fleet) layerFolders(base string) map[string]string {
	out := map[string]string{}
	if !f.Has(path.Join(base, "layers")) { // as in most of many apps and workspaces
		return out
	}
	for _, l := range f.layers {
		dir := path.Join(base, "layers", l.Name)
		if l.custom || !f.Has(dir) {
			continue
		}
		if l.Name == LayerGlobal {
			out[dir] = l.Name + "/"
			continue
		}
		entries, err := f.tree.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if f.tree.isDir(dir, e) {
				out[path.Join(dir, e.Name())] = l.Name + "/" + e.Name() + "/"
			}
		}
	}
	return out
}
