package fleet

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// LayerFile is a file or directory of a layer that a target takes. In order, lowest precedence first.
type LayerFile struct {
	Layer     string // global, or a label key
	Value     string // of the label; "" for global
	Path      string // a values file, or a component's directory
	FleetWide bool   // its values reach charts under `global:`
	Source    string // the source that a values.<name>.yaml is for; "" is every one
}

// layer is one of the fleet's layers, global included.
type layer struct {
	Layer
	custom bool // has path templates of its own
}

// appLayers are an app's files by layer and value, found once.
type appLayers struct {
	mu    sync.Mutex
	found map[string]*layerFiles
}

type layerFiles struct {
	values, components []LayerFile
}

func (f *Fleet) prepareLayers() {
	f.layers = []layer{{Layer: Layer{Name: layerGlobal}}}
	for _, l := range f.Spec.Layers {
		f.layers = append(f.layers, layer{Layer: l, custom: len(l.Values)+len(l.Components) > 0})
	}
	f.perApp = make(map[string]*appLayers, len(f.Apps))
	for _, a := range f.Apps {
		f.perApp[a.Name] = &appLayers{found: map[string]*layerFiles{}}
	}
}

// ValuesFiles are the values files that a target's Helm sources take, lowest first.
func (f *Fleet) ValuesFiles(t Target) []LayerFile {
	var out []LayerFile
	f.eachLayer(t, func(files *layerFiles) { out = append(out, files.values...) })
	return out
}

// Components are the directories of the components that go on top of a target's objects, lowest first.
func (f *Fleet) Components(t Target) []LayerFile {
	var out []LayerFile
	f.eachLayer(t, func(files *layerFiles) { out = append(out, files.components...) })
	return out
}

func (f *Fleet) eachLayer(t Target, visit func(*layerFiles)) {
	memo := f.perApp[t.App.Name]
	for i := range f.layers {
		l := &f.layers[i]
		key, value, ok := f.layerKey(l, t)
		if !ok {
			continue
		}
		memo.mu.Lock()
		files, known := memo.found[key]
		if !known {
			files = f.find(l, value, t)
			memo.found[key] = files
		}
		memo.mu.Unlock()
		visit(files)
	}
}

// layerKey tells apart the clusters that take other files of a layer.
func (f *Fleet) layerKey(l *layer, t Target) (key, value string, ok bool) {
	if l.custom {
		resolved := make([]string, 0, len(l.Values)+len(l.Components))
		for _, template := range slices.Concat(l.Values, l.Components) {
			p, _ := t.text(template) // a reference that is not set: no such file
			resolved = append(resolved, p)
		}
		value = t.Cluster.Labels[l.Name]
		return l.Name + "\x00" + value + "\x00" + strings.Join(resolved, "\x00"), value, true
	}
	if l.Name == layerGlobal {
		return layerGlobal, "", true
	}
	value, ok = t.Cluster.Labels[l.Name]
	return l.Name + "\x00" + value, value, ok && value != ""
}

func (f *Fleet) find(l *layer, value string, t Target) *layerFiles {
	out := &layerFiles{}
	if l.custom {
		for _, template := range l.Values {
			f.addValues(out, LayerFile{Layer: l.Name, Value: value, Path: resolvedPath(t, template)}, t.App)
		}
		for _, template := range l.Components {
			f.addComponent(out, LayerFile{Layer: l.Name, Value: value, Path: resolvedPath(t, template)})
		}
		return out
	}
	bases := []string{"", t.App.Dir}
	if t.App.Dir == "" { // an app at the repository's root has no folders of its own
		bases = bases[:1]
	}
	for i, base := range bases {
		dir, fleetWide := path.Join(base, "layers", l.Name, value), i == 0
		f.addValues(out, LayerFile{Layer: l.Name, Value: value, Path: path.Join(dir, "values.yaml"), FleetWide: fleetWide}, t.App)
		f.addComponent(out, LayerFile{Layer: l.Name, Value: value, Path: dir, FleetWide: fleetWide})
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

func (f *Fleet) addValues(out *layerFiles, file LayerFile, a *App) {
	if file.Path == "" {
		return
	}
	if f.has(file.Path) {
		out.values = append(out.values, file)
	}
	for _, s := range a.Sources {
		if s.Name == "" || s.Helm == nil {
			continue
		}
		named := file
		named.Source = s.Name
		named.Path = strings.TrimSuffix(file.Path, path.Ext(file.Path)) + "." + s.Name + path.Ext(file.Path)
		if f.has(named.Path) {
			out.values = append(out.values, named)
		}
	}
}

func (f *Fleet) addComponent(out *layerFiles, file LayerFile) {
	if file.Path != "" && f.isComponent(file.Path) {
		out.components = append(out.components, file)
	}
}

func (f *Fleet) isComponent(dir string) bool {
	if !f.has(dir) {
		return false
	}
	return slices.ContainsFunc([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, func(name string) bool {
		return f.has(path.Join(dir, name))
	})
}
