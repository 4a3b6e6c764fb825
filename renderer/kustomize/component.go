package kustomize

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Component is a directory with a kustomization of kind Component.
type Component struct {
	Name  string // path of the directory, for messages
	Files []File // at least those of Walker.Closure
	Root  string // the directory inside Files; empty for their root
	// Inflate renders the charts of its helmCharts; nil refuses them.
	Inflate Inflate
}

const (
	baseFile  = "objects.yaml"
	slotShape = "component-%05d"
)

// ApplyComponents applies components to objects in the given order, like a kustomization with the objects under
// `resources` and the components under `components`. Without components it returns the objects unchanged.
//
// It keeps the order of objects. Kustomize changes objects that it reads: it drops objects annotated
// `config.kubernetes.io/local-config` and removes empty annotations. It refuses two objects of one kind and name if
// one is in the namespace `default` and the other in none. A component reads only its own files.
//
// A patch whose target selects no object is an *UnmatchedError, unless allowUnmatched is set.
func (b *Builder) ApplyComponents(ctx context.Context, objects []manifest.Object, components []Component,
	allowUnmatched bool,
) ([]manifest.Object, error) {
	if len(components) == 0 {
		return objects, ctx.Err()
	}
	j := job{root: ".", keepOrder: true}
	var targets []target
	var added []manifest.Object
	var files []File
	var list bytes.Buffer // the kustomization
	list.WriteString("kind: Kustomization\n")
	if len(objects) > 0 {
		text, err := stream(objects)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: baseFile, Data: text})
		list.WriteString("resources: [" + baseFile + "]\n")
	}
	list.WriteString("components:\n")
	names := []string{"'" + baseFile + "'", "the rendered objects"} // pairs: in messages of the library, and for people
	for i := range components {
		c, err := b.checkComponent(ctx, &components[i])
		if err != nil {
			return nil, fmt.Errorf("component %s: %w", components[i].Name, err)
		}
		targets = append(targets, c.targets...)
		added = append(added, b.addedObjects(c.tree, c.reach)...)
		j.ownDescription = j.ownDescription || c.reach.openAPI
		slot := fmt.Sprintf(slotShape, i)
		for name := range c.reach.files {
			files = append(files, File{Path: path.Join(slot, name), Data: c.tree.files[name]})
		}
		fmt.Fprintf(&list, "- %q\n", path.Join(slot, components[i].Root))
		if shown := components[i].shown(); shown != "" {
			names = append(names, slot, shown)
		} else {
			names = append(names, slot+"/", "")
		}
	}
	files = append(files, File{Path: "kustomization.yaml", Data: list.Bytes()})
	var err error
	if j.tree, err = newMemory(files); err != nil {
		return nil, err
	}
	j.names = strings.NewReplacer(names...)
	patched, err := b.run(ctx, j)
	if err != nil {
		return nil, fmt.Errorf("applying components: %w", err)
	}
	if !allowUnmatched {
		if err := unmatched(targets, slices.Concat(objects, added, patched)); err != nil {
			return nil, err
		}
	}
	return patched, nil
}

// checkedComponent is a component that reads only its own files.
type checkedComponent struct {
	tree    *memory // with the objects of its charts
	reach   *reach
	targets []target // of its patches
}

// checkComponent checks a component alone, so that it cannot refer to files of another one or to the objects, and
// renders its charts.
func (b *Builder) checkComponent(ctx context.Context, c *Component) (*checkedComponent, error) {
	tree, err := newMemory(c.Files)
	if err != nil {
		return nil, err
	}
	walker := NewWalker(tree, b.budget)
	walker.charts = c.Inflate != nil
	if walker.shown = c.shown(); walker.shown != "" {
		walker.area = "the component's directory"
	}
	r, err := walker.reach(c.Root)
	if err != nil {
		return nil, err
	}
	if d := walker.directory(path.Clean(c.Root)); !d.component {
		return nil, fmt.Errorf("%s is not a component: set `apiVersion: kustomize.config.k8s.io/v1alpha1` and `kind: Component`", d.file)
	}
	out := &checkedComponent{reach: r}
	for dir := range r.dirs {
		if d := walker.directory(dir); d.component { // a base patches its own resources
			out.targets = append(out.targets, d.targets...)
		}
	}
	out.tree, err = walker.inflateCharts(ctx, tree, r, path.Clean(c.Root), c.Inflate)
	return out, err
}

// shown returns the prefix of the names of Files in messages.
func (c *Component) shown() string {
	if path.Clean(c.Root) != "." {
		return ""
	}
	return c.Name
}

// stream returns objects as YAML documents.
func stream(objects []manifest.Object) ([]byte, error) {
	var out []byte
	for _, o := range objects {
		text, err := manifest.Encode(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Identity(), err)
		}
		out = append(out, "---\n"...)
		out = append(out, text...)
	}
	return out, nil
}
