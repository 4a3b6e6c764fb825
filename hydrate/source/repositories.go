package source

import (
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
)

// Repositories returns the names of the other repositories whose files the apps of a workspace read in an environment,
// sorted: its own, and those of sources, bases and layers, also of the fleet's layers. It reads object ids and
// kustomizations, not the files.
func (v *View) Repositories(workspace, environment string) ([]string, error) {
	names := map[string]bool{}
	if w, ok := v.Fleet.Workspace(workspace); ok {
		if w.Err != nil {
			return nil, w.Err
		}
		if w.Spec.Repository != "" {
			names[w.Spec.Repository] = true
		}
	}
	add := func(paths ...string) {
		for _, p := range paths {
			if name := fleet.RepositoryOf(p); name != "" {
				names[name] = true
			}
		}
	}
	for _, c := range v.Fleet.ClustersOf(environment) {
		for _, t := range v.Fleet.TargetsOf(c) {
			if fleet.WorkspaceOf(t.App.Name) != workspace {
				continue
			}
			paths, err := v.paths(t)
			if err != nil {
				return nil, err
			}
			add(paths...)
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// paths returns the files and directories that a target reads.
func (v *View) paths(t fleet.Target) ([]string, error) {
	selection, err := v.Fleet.Select(t)
	if err != nil {
		return nil, err
	}
	out := []string{t.App.File}
	for _, layer := range selection.Values {
		out = append(out, layer.Path)
	}
	for i, src := range selection.Sources {
		d := v.contents.describe(src)
		if d.err != nil {
			return nil, t.SourceError(i, d.err)
		}
		out = append(out, d.reach...)
	}
	for _, layer := range selection.Components {
		d := v.contents.kustomizeID(componentRoot(v.contents, layer.Path))
		if d.err != nil {
			return nil, d.err
		}
		out = append(out, d.reach...)
	}
	return out, nil
}
