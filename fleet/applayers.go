package fleet

import (
	"path"
	"slices"
	"sync"
)

// appLayers caches what targets of an app have in common: thousands of clusters take the same files of most layers.
type appLayers struct {
	mu       sync.Mutex
	dirs     [][]layerDir // by layer: folders that have something of it; nil before they are looked for
	found    map[layerKey]*layerFiles
	all      combined              // of no layers
	resolved map[*variant]resolved // see Fleet.resolveOnce
}

func newAppLayers(layers int) *appLayers {
	return &appLayers{
		dirs: make([][]layerDir, layers), found: map[layerKey]*layerFiles{},
		resolved: map[*variant]resolved{},
	}
}

// layerKey identifies the files of a layer.
type layerKey struct {
	layer       int // its index
	value       string
	paths       string // of its own path templates
	environment string // of an app that has others there
}

type layerFiles struct {
	values, components []LayerFile
}

// combined are the files of several layers, in order. Targets that take the same files of each layer share it.
type combined struct {
	layerFiles
	more map[*layerFiles]*combined // by the files of one more layer
}

// with returns the files with those of one more layer.
func (c *combined) with(files *layerFiles) *combined {
	if len(files.values)+len(files.components) == 0 {
		return c
	}
	out, ok := c.more[files]
	if !ok {
		out = &combined{layerFiles: layerFiles{
			slices.Clip(slices.Concat(c.values, files.values)),
			slices.Clip(slices.Concat(c.components, files.components)),
		}}
		if c.more == nil {
			c.more = map[*layerFiles]*combined{}
		}
		c.more[files] = out
	}
	return out
}

// dirsOf returns the folders that have something of a layer without path templates, for any value. Most layers of most
// apps have none, and every cluster asks.
func (m *appLayers) dirsOf(f *Fleet, index int, a *App, skipped bool) []layerDir {
	if m.dirs[index] != nil {
		return m.dirs[index]
	}
	out := []layerDir{}
	for _, in := range bases(a, skipped) {
		if f.Has(path.Join(in.dir, "layers", f.layers[index].Name)) {
			out = append(out, in)
		}
	}
	m.dirs[index] = out
	return out
}
