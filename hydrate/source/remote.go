package source

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Unresolved is an app whose charts are not known, or that may not use them.
type Unresolved struct {
	App string
	Err error
}

// UnresolvedError lists the apps whose charts Remote leaves out, by name.
type UnresolvedError struct{ Apps []Unresolved }

// Error names every app with its reason.
func (e *UnresolvedError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the reasons.
func (e *UnresolvedError) Unwrap() []error {
	out := make([]error, len(e.Apps))
	for i, a := range e.Apps {
		out[i] = a.Err
	}
	return out
}

// Remote returns the remote charts that the apps need, including dependencies of charts in the repository, and the
// lock. The error is nil or an *UnresolvedError; the references are then those of the other apps. An app of a workspace
// gets only charts that the workspace may use.
func (v *View) Remote() ([]fetch.Ref, *fetch.Lock, error) {
	seen, failed, charts := map[fetch.Ref]bool{}, map[string]error{}, localCharts{}
	for _, t := range v.Fleet.Targets() {
		if i := t.Imported(); i != nil && i.Err != nil || failed[t.App.Name] != nil {
			continue // an import that failed names no chart; validate and render report it
		}
		refs, err := v.remotesOf(t, charts)
		if err != nil {
			failed[t.App.Name] = err
			continue
		}
		for _, ref := range refs {
			seen[ref] = true
		}
	}
	var out []fetch.Ref
	for ref := range seen {
		out = append(out, ref)
	}
	slices.SortStableFunc(out, func(a, b fetch.Ref) int {
		return strings.Compare(a.Repo+a.Chart+"\x00"+a.Version, b.Repo+b.Chart+"\x00"+b.Version)
	})
	if len(failed) == 0 {
		return out, v.contents.lock, nil
	}
	unresolved := &UnresolvedError{}
	for app, err := range failed {
		unresolved.Apps = append(unresolved.Apps, Unresolved{app, err})
	}
	slices.SortStableFunc(unresolved.Apps, func(a, b Unresolved) int { return cmp.Compare(a.App, b.App) })
	return out, v.contents.lock, unresolved
}

// localCharts are the remote dependencies of charts in the repository, and the remote charts of components, by
// workspace and folder.
type localCharts map[[2]string][]fetch.Ref

// remotesOf returns the remote charts of a target.
func (v *View) remotesOf(t fleet.Target, charts localCharts) ([]fetch.Ref, error) {
	resolved, err := v.Fleet.Resolve(t)
	if err != nil {
		return nil, err
	}
	var out []fetch.Ref
	for i, s := range resolved.Sources {
		switch {
		case s.Kustomize != nil:
			refs, err := kustomizeRefs(v.contents, t, v.contents.root(s.Kustomize))
			if err != nil {
				return nil, t.SourceError(i, err)
			}
			out = append(out, refs...)
		case s.Helm == nil:
		case s.Helm.Chart != "":
			out = append(out, chartRef(s.Helm))
		default:
			key := [2]string{fleet.WorkspaceOf(t.App.Name), s.Helm.Path}
			if _, known := charts[key]; !known {
				refs, err := v.contents.remotes(t, s.Helm.Path, map[string]bool{})
				if err != nil {
					return nil, t.SourceError(i, err)
				}
				charts[key] = refs
			}
			out = append(out, charts[key]...)
		}
	}
	for _, layer := range v.Fleet.Components(t) {
		owner := ownerOf(t, layer)
		key := [2]string{fleet.WorkspaceOf(owner.App.Name), "component " + layer.Path}
		if _, known := charts[key]; !known {
			refs, err := kustomizeRefs(v.contents, owner, componentRoot(v.contents, layer.Path))
			if err != nil {
				return nil, fmt.Errorf("component %s: %w", layer.Path, err)
			}
			charts[key] = refs
		}
		out = append(out, charts[key]...)
	}
	return out, nil
}

// remotes returns the remote dependencies of a chart in the repository, and those of its dependencies, that a target
// may use.
func (c *contents) remotes(t fleet.Target, dir string, visited map[string]bool) ([]fetch.Ref, error) {
	if visited[dir] {
		return nil, nil
	}
	visited[dir] = true
	if !t.MayRead(dir) {
		return nil, outside(t, dir)
	}
	dependencies, err := c.dependencies(dir)
	if err != nil {
		return nil, err
	}
	var out []fetch.Ref
	for _, d := range dependencies {
		if d.path != "" {
			inner, err := c.remotes(t, d.path, visited)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
			continue
		}
		if t.App.From() == nil {
			if err := t.MayUse(d.ref.Repo, d.ref.Chart); err != nil {
				return nil, fmt.Errorf("chart %s: dependency %s: %w", dir, d.name, err)
			}
		}
		out = append(out, d.ref)
	}
	return out, nil
}
