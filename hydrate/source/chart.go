package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// dependency is a chart that Chart.yaml lists and charts/ does not have.
type dependency struct {
	name string
	path string    // of a file:// dependency
	ref  fetch.Ref // of a remote one
}

// chartID returns the identity of a chart in the repository, including its dependencies. parents are the charts that
// depend on it.
func (c *contents) chartID(h *fleet.HelmSource, dir string, parents []string) description {
	if slices.Contains(parents, dir) {
		return description{err: fmt.Errorf("chart %s depends on itself: %s", dir,
			strings.Join(append(parents, dir), " → "))}
	}
	out := c.dirID(dir)
	if out.err != nil {
		return out
	}
	if len(parents) == 0 {
		packed, err := h.Packing.ID()
		if err != nil {
			return description{err: err}
		}
		out.id += packed
	}
	dependencies, err := c.dependencies(dir)
	if err != nil {
		return description{err: err}
	}
	for _, d := range dependencies {
		var inner description
		if d.path != "" {
			inner = c.chartID(h, d.path, append(parents, dir))
		} else {
			inner = c.remoteID(d.ref, h)
		}
		if inner.err != nil {
			return description{err: fmt.Errorf("chart %s: dependency %s: %w", dir, d.name, inner.err)}
		}
		out.id += " + " + d.name + " " + inner.id
		out.reach = append(out.reach, inner.reach...)
	}
	return out
}

// dependencies returns the dependencies of a chart. It reads them once for each view, and does not keep errors.
func (c *contents) dependencies(dir string) ([]dependency, error) {
	if known, ok := c.dependsOn.Load(dir); ok {
		return known.([]dependency), nil //nolint:forcetypeassert // only this function stores here
	}
	out, err := readDependencies(c.files.now(), dir)
	if err == nil {
		c.dependsOn.Store(dir, out)
	}
	return out, err
}

// readDependencies reads Chart.yaml alone, so that computing a digest does not load the chart.
func readDependencies(snap *gitstore.Snapshot, dir string) ([]dependency, error) {
	name := path.Join(dir, "Chart.yaml")
	data, err := snap.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, plainError(err))
	}
	if err := manifest.Check(data, manifest.DefaultBudget()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var file struct {
		Dependencies []struct{ Name, Version, Repository string } `yaml:"dependencies"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	isVendored, err := vendored(snap, dir)
	if err != nil {
		return nil, err
	}
	var out []dependency
	seen := map[string]bool{}
	for _, d := range file.Dependencies {
		if d.Repository == "" || seen[d.Name] || isVendored(d.Name) {
			continue
		}
		seen[d.Name] = true
		local, ok := strings.CutPrefix(d.Repository, "file://")
		if !ok {
			out = append(out, dependency{name: d.Name, ref: fetch.Ref{
				Repo: d.Repository, Chart: d.Name,
				Version: d.Version,
			}})
			continue
		}
		target := path.Join(dir, local)
		if path.IsAbs(local) || target == ".." || strings.HasPrefix(target, "../") ||
			fleet.RepositoryOf(target) != fleet.RepositoryOf(dir) {
			return nil, fmt.Errorf("%s: the dependency %s at %q is outside the repository", name, d.Name, d.Repository)
		}
		out = append(out, dependency{name: d.Name, path: target})
	}
	return out, nil
}

// vendored returns a function that reports whether a chart's folder charts/ has a dependency, as a folder or an
// archive.
func vendored(snap *gitstore.Snapshot, dir string) (func(name string) bool, error) {
	entries, err := snap.Entries(path.Join(dir, "charts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return func(name string) bool {
		return slices.ContainsFunc(entries, func(e gitstore.Entry) bool {
			if e.Mode == gitstore.ModeTree || e.Mode == gitstore.ModeSymlink {
				return e.Name == name
			}
			rest, ok := strings.CutPrefix(e.Name, name+"-")
			return ok && strings.HasSuffix(e.Name, ".tgz") && rest != "" &&
				(rest[0] >= '0' && rest[0] <= '9' || rest[0] == 'v')
		})
	}, nil
}

// Defaults returns the default values of the chart of one of a target's sources. They are empty if the source is no
// chart.
func (v *View) Defaults(ctx context.Context, t fleet.Target, name string) (explain.Defaults, error) {
	resolved, err := v.Fleet.Resolve(t)
	if err != nil {
		return explain.Defaults{}, err
	}
	for _, s := range resolved.Sources {
		if s.Helm == nil || s.Name != name {
			continue
		}
		if s.Helm.Chart == "" {
			return v.contents.defaults(s.Helm)
		}
		content, err := v.contents.archive(ctx, chartRef(s.Helm))
		if err != nil {
			return explain.Defaults{}, err
		}
		chart, err := helm.LoadArchive(helm.Version(v.Fleet.Helm(t)), content.Archive, helm.DefaultLimits())
		if err != nil {
			return explain.Defaults{}, err
		}
		return explain.Defaults{File: s.Helm.Chart + "/values.yaml", Data: chart.Defaults()}, nil
	}
	return explain.Defaults{}, nil
}

// defaults are the own values of a chart in a repository. An importer's replacement counts among the values that it
// gives the chart.
func (c *contents) defaults(h *fleet.HelmSource) (explain.Defaults, error) {
	if h.Packing != nil && h.Packing.Replaces {
		return explain.Defaults{}, nil
	}
	file := path.Join(h.Path, "values.yaml")
	data, err := c.files.now().ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain.Defaults{}, err
	}
	return explain.Defaults{File: file, Data: data}, nil
}

// Versions describes each source of a target: a chart with its version, or a path. For an app from the catalog, its name and
// version there come first: "catalog/postgres 3".
func (v *View) Versions(t fleet.Target) ([]string, error) {
	resolved, err := v.Fleet.Resolve(t)
	if err != nil {
		return nil, err
	}
	var out []string
	if c := t.App.From(); c != nil {
		out = append(out, c.String())
	}
	for _, s := range resolved.Sources {
		switch {
		case s.Helm != nil && s.Helm.Chart != "":
			ref := chartRef(s.Helm)
			version := s.Helm.Version
			if locked, ok := v.contents.lock.Lookup(ref); ok {
				version = locked.Version
			}
			out = append(out, path.Base(ref.Chart)+" "+version)
		case s.Helm != nil:
			version, err := v.contents.chartVersion(s.Helm.Path)
			if err != nil {
				return nil, err
			}
			if name := s.Helm.Repository; name != "" {
				version += " of " + strings.TrimSuffix(t.Locate(s.Helm.Path), ":")
			}
			out = append(out, version)
		case s.Objects != nil:
			out = append(out, t.Locate(s.Objects.Name))
		case s.Kustomize != nil:
			out = append(out, t.Locate(s.Kustomize.Path)+helmCharts(v.contents, v.contents.root(s.Kustomize)))
		default:
			out = append(out, t.Locate(s.Manifests.Path))
		}
	}
	return out, nil
}

func (c *contents) chartVersion(dir string) (string, error) {
	data, err := c.files.now().ReadFile(path.Join(dir, "Chart.yaml"))
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", dir, plainError(err))
	}
	var chart struct{ Name, Version string }
	if err := yaml.Unmarshal(data, &chart); err != nil {
		return "", fmt.Errorf("%s/Chart.yaml: %w", dir, err)
	}
	return chart.Name + " " + chart.Version, nil
}
