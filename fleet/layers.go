package fleet

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
)

// LayerFile is a values file or component directory that a target takes from a layer.
type LayerFile struct {
	Layer     string // global, or a label key
	Value     string // of the label; "" for global
	Path      string // a values file, or a component's directory
	At        string // the key below which its content is put; "" for none
	FleetWide bool   // its values reach charts under `global:`
	Source    string // the source that a values.<name>.yaml is for; "" is every one

	root string // of the workspace whose file it is; "" for a file of the fleet
}

// layer is one of the fleet's layers, global included.
type layer struct {
	Layer
	custom bool // has path templates of its own
}

func (f *Fleet) prepareLayers() {
	f.layers = []layer{{Layer: Layer{Name: LayerGlobal}}}
	for _, l := range f.Spec.Layers {
		f.layers = append(f.layers, layer{Layer: l, custom: l.Custom()})
	}
	f.perApp = make(map[string]*appLayers, len(f.Apps))
	for _, a := range f.Apps {
		f.perApp[a.Name] = newAppLayers(len(f.layers))
	}
}

// Layers are the fleet's layers, lowest precedence first; global is the first.
func (f *Fleet) Layers() []Layer {
	out := make([]Layer, len(f.layers))
	for i := range f.layers {
		out[i] = f.layers[i].Layer
	}
	return out
}

// Custom reports whether the layer has path templates of its own, instead of the conventional folders.
func (l Layer) Custom() bool { return len(l.Values)+len(l.Components) > 0 }

// ValuesFiles are the values files that a target's Helm sources take, lowest first.
func (f *Fleet) ValuesFiles(t Target) []LayerFile {
	values, _ := f.layerFiles(t)
	return values
}

// Components are the directories of the components that apply to a target's objects, lowest first.
func (f *Fleet) Components(t Target) []LayerFile {
	_, components := f.layerFiles(t)
	return components
}

// layerFiles walks the layers of a target once. The caller does not change the lists.
func (f *Fleet) layerFiles(t Target) (values, components []LayerFile) {
	if t.App.imported != nil {
		return nil, nil
	}
	memo := f.perApp[t.App.Name]
	memo.mu.Lock()
	defer memo.mu.Unlock()
	all := &memo.all
	for i := range f.layers {
		l := &f.layers[i]
		skipped := slices.Contains(t.App.Spec.SkipLayers, l.Name)
		if skipped && t.App.workspace == nil || !l.custom && len(memo.dirsOf(f, i, t.App, skipped)) == 0 {
			continue
		}
		key, value, ok := f.layerKey(i, t)
		if !ok {
			continue
		}
		files, known := memo.found[key]
		if !known {
			files = f.find(l, value, t, skipped, memo.dirs[i])
			memo.found[key] = files
		}
		all = all.with(files)
	}
	return all.values, all.components
}

// layerKey tells apart the targets of an app that take different files of a layer, by its index.
func (f *Fleet) layerKey(index int, t Target) (key layerKey, value string, ok bool) {
	l := &f.layers[index]
	key.layer, value = index, t.Cluster.Labels[l.Name]
	switch {
	case l.custom:
		for _, template := range l.templates() {
			key.paths += "\x00" + resolvedPath(t, template)
		}
	case l.Name == LayerGlobal:
		value = ""
	case value == "":
		return key, "", false
	}
	if key.value = value; len(t.App.variants) > 0 { // sources with other names have other files
		key.environment = t.Cluster.Environment
	}
	return key, value, true
}

// layerDir is a folder that a layer's files are looked for in.
type layerDir struct {
	dir       string
	fleetWide bool   // for all apps
	root      string // of a workspace
}

// bases are the folders of an app's layers, lowest precedence first. An app of a workspace cannot skip the layers of
// the fleet and of the catalog.
func bases(a *App, skipped bool) []layerDir {
	out := []layerDir{{fleetWide: true}}
	if a.catalog != nil && (!skipped || a.workspace != nil) {
		out = append(out, layerDir{dir: a.catalog.dir})
	}
	if skipped {
		return out
	}
	if a.workspace != nil {
		out = append(out, layerDir{dir: a.workspace.Root, fleetWide: true, root: a.workspace.Root})
	}
	if a.Dir != "" { // an app at the repository's root has no folders of its own
		out = append(out, layerDir{dir: a.Dir, root: a.root()})
	}
	return out
}

// templateBases are the folders that a path template of a layer is read in. The files that a template has for each app
// are the workspace's own for its apps: an app must not take the files of another one with the same name.
func templateBases(t Target, repository, template string, skipped bool) []layerDir {
	w, perApp := t.App.workspace, strings.Contains(template, "${app")
	switch {
	case w == nil:
		return []layerDir{{}}
	case repository != "" && perApp, skipped && perApp:
		return nil
	case repository != "" || skipped:
		return []layerDir{{}}
	case perApp:
		return []layerDir{{dir: w.Root, root: w.Root}}
	}
	return []layerDir{{}, {dir: w.Root, root: w.Root}}
}

// templatePath is the path that a template has in a folder, or in another repository, as a path of the fleet's tree; ""
// for none.
func templatePath(t Target, in layerDir, repository, template string) string {
	p := mountedPath(t, repository, template)
	if p == "" || in.dir == "" {
		return p
	}
	return path.Join(in.dir, p)
}

// find looks for the files of a layer; in dirs, if it has no path templates of its own.
func (f *Fleet) find(l *layer, value string, t Target, skipped bool, dirs []layerDir) *layerFiles {
	out := &layerFiles{}
	if l.custom {
		for _, v := range l.Values {
			repository := cmp.Or(v.Repository, l.Repository)
			for _, in := range templateBases(t, repository, v.Path, skipped) {
				f.addValues(out, LayerFile{
					Layer: l.Name, Value: value, Path: templatePath(t, in, repository, v.Path),
					At: v.At, root: in.root,
				}, t)
			}
		}
		for _, template := range l.Components {
			for _, in := range templateBases(t, l.Repository, template, skipped) {
				f.addComponent(out, LayerFile{
					Layer: l.Name, Value: value,
					Path: templatePath(t, in, l.Repository, template), root: in.root,
				})
			}
		}
		return out
	}
	for _, in := range dirs {
		dir := path.Join(in.dir, "layers", l.Name, value)
		if !f.Has(dir) {
			continue
		}
		f.addValues(out, LayerFile{
			Layer: l.Name, Value: value, Path: path.Join(dir, "values.yaml"),
			FleetWide: in.fleetWide, root: in.root,
		}, t)
		f.addComponent(out, LayerFile{Layer: l.Name, Value: value, Path: dir, FleetWide: in.fleetWide, root: in.root})
	}
	return out
}

// resolvedPath is a template's path, or "" if it refers to something unset or leaves the repository.
func resolvedPath(t Target, template string) string {
	p, err := t.text(template)
	if err != nil || leavesRepository(p) {
		return ""
	}
	return path.Clean(p)
}

// mountedPath is resolvedPath of another repository, as a path of the fleet's tree.
func mountedPath(t Target, repository, template string) string {
	p := resolvedPath(t, template)
	if p == "" {
		return ""
	}
	return mounted(repository, p)
}

func (f *Fleet) addValues(out *layerFiles, file LayerFile, t Target) {
	if file.Path == "" {
		return
	}
	if f.Has(file.Path) {
		out.values = append(out.values, file)
	}
	for _, s := range t.App.sourcesIn(t.Cluster.Environment) {
		if s.Name == "" || s.Helm == nil {
			continue
		}
		named := file
		named.Source = s.Name
		named.Path = strings.TrimSuffix(file.Path, path.Ext(file.Path)) + "." + s.Name + path.Ext(file.Path)
		if f.Has(named.Path) {
			out.values = append(out.values, named)
		}
	}
}

func (f *Fleet) addComponent(out *layerFiles, file LayerFile) {
	if file.Path != "" && f.IsComponent(file.Path) {
		file.Path = f.tree.real(file.Path) // Kustomize roots are read without following links
		out.components = append(out.components, file)
	}
}

// IsComponent reports whether a folder has a kustomization.
func (f *Fleet) IsComponent(dir string) bool {
	if !f.Has(dir) {
		return false
	}
	return slices.ContainsFunc([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"},
		func(name string) bool {
			return f.Has(path.Join(dir, name))
		})
}

// Paths returns the paths that a path template of the layer has for a target.
func (l Layer) Paths(t Target, template string) []string {
	skipped := slices.Contains(t.App.Spec.SkipLayers, l.Name)
	var out []string
	for _, in := range templateBases(t, "", template, skipped) {
		if p := templatePath(t, in, "", template); p != "" && (t.App.workspace != nil || !skipped) {
			out = append(out, p)
		}
	}
	return out
}

// TemplateFiles lists the files whose paths a path template can have, whatever its references stand for. It lists none
// for a template without a reference, and for one that is nothing but references.
func (f *Fleet) TemplateFiles(ctx context.Context, template string) ([]string, error) {
	pattern, ok := globOf(template)
	if !ok {
		return nil, nil
	}
	g, err := parseGlob(pattern)
	if err != nil {
		return nil, nil //nolint:nilerr // such a path is matched literally, and a pattern cannot say it
	}
	return walkGlobs(ctx, f.tree, []glob{g})
}

// globOf returns a pattern that matches every result of a template. It returns false for a template without a
// reference, and for one that is nothing else.
func globOf(template string) (string, bool) {
	segments, err := parseReferences(template)
	if err != nil {
		return "", false
	}
	var out strings.Builder
	found := false
	for _, s := range segments {
		if s.ref == nil {
			out.WriteString(strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{",
				`\{`).Replace(s.literal))
			continue
		}
		if found = true; !strings.HasSuffix(out.String(), "*") {
			out.WriteString("*")
		}
	}
	// a variable that holds the whole path says nothing of other files
	return out.String(), found && out.String() != "*"
}
