package hydrate

import (
	"context"
	"fmt"
	"path"
	"slices"

	yaml "go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/helm"
)

// Manifest is one file of a cluster's rendering.
type Manifest struct {
	Path string // app/file
	Data []byte
}

// Show renders one cluster of a tree, or one app of it, as its branch would have it. Nothing is written. All apps of the
// cluster are rendered even for one, since another may define the kinds of its objects.
func (h *Hydrator) Show(ctx context.Context, tree gitstore.Hash, cluster, app string) ([]Manifest, []Failure, error) {
	v, err := h.open(ctx, tree)
	if err != nil {
		return nil, nil, err
	}
	c, ok := v.fleet.Cluster(cluster)
	if !ok {
		return nil, nil, fmt.Errorf("there is no cluster %q in the fleet: `sluice where` lists them", cluster)
	}
	if a, known := v.fleet.App(app); app != "" && (!known || !v.fleet.Places(a, c)) {
		return nil, nil, fmt.Errorf("the app %q does not go to cluster %s: `sluice where --cluster %s` lists what does", app, cluster, cluster)
	}
	p := &environmentPlan{
		name: c.Environment, view: v, unknown: map[string]bool{},
		state: branch.NewState(""), clusters: map[string]*clusterPlan{},
	}
	plan := &clusterPlan{cluster: c, keep: map[string]string{}}
	for _, t := range v.fleet.TargetsOf(c) {
		plan.jobs = append(plan.jobs, job{target: t})
	}
	p.clusters[c.Name] = plan
	w, err := h.store.NewWriter()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = w.Close() }()
	outcomes, err := h.renderJobs(ctx, p, plan.jobs, w)
	if err != nil {
		return nil, nil, err
	}
	scopes, err := h.scopes(ctx, p, outcomes)
	if err != nil {
		return nil, nil, err
	}
	settle(w, outcomes, scopes)
	outcomes = slices.DeleteFunc(outcomes, func(o *outcome) bool { return app != "" && o.job.target.App.Name != app })
	out, err := h.manifests(ctx, outcomes)
	return out, failures(c.Environment, outcomes), err
}

func (h *Hydrator) manifests(ctx context.Context, outcomes []*outcome) ([]Manifest, error) {
	var out []Manifest
	for _, o := range outcomes {
		if o.err != nil {
			continue
		}
		entries, err := h.store.Tree(ctx, o.result.tree)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			data, err := h.store.Blob(ctx, e.Hash)
			if err != nil {
				return nil, err
			}
			out = append(out, Manifest{Path: path.Join(o.job.target.App.Name, e.Name), Data: data})
		}
	}
	return out, nil
}

// Remote lists every remote chart that a tree's apps ask for, those of Chart.yaml dependencies too, and the lock as it is.
func (h *Hydrator) Remote(ctx context.Context, tree gitstore.Hash) ([]fetch.Ref, *fetch.Lock, error) {
	v, err := h.open(ctx, tree)
	if err != nil {
		return nil, nil, err
	}
	seen := map[fetch.Ref]bool{}
	charts := map[string]bool{}
	for _, t := range v.fleet.Targets() {
		resolved, err := v.fleet.Resolve(t)
		if err != nil {
			return nil, nil, err
		}
		for _, s := range resolved.Sources {
			if s.Helm == nil {
				continue
			}
			if s.Helm.Chart != "" {
				seen[fetch.Ref{Repo: s.Helm.Repo, Chart: s.Helm.Chart, Version: s.Helm.Version}] = true
				continue
			}
			if err := v.sources.remotes(s.Helm.Path, charts, seen); err != nil {
				return nil, nil, err
			}
		}
	}
	var out []fetch.Ref
	for ref := range seen {
		out = append(out, ref)
	}
	slices.SortFunc(out, func(a, b fetch.Ref) int { return compareTargets(a.Repo+a.Chart, a.Version, b.Repo+b.Chart, b.Version) })
	return out, v.sources.lock, nil
}

// remotes adds the remote dependencies of a chart in the repository, and of the charts it depends on.
func (s *sources) remotes(dir string, visited map[string]bool, out map[fetch.Ref]bool) error {
	if visited[dir] {
		return nil
	}
	visited[dir] = true
	dependencies, err := s.dependencies(dir)
	if err != nil {
		return err
	}
	for _, d := range dependencies {
		if d.path == "" {
			out[d.ref] = true
			continue
		}
		if err := s.remotes(d.path, visited, out); err != nil {
			return err
		}
	}
	return nil
}

// Defaults are the default values of one of a target's charts, for explanations.
func (h *Hydrator) Defaults(ctx context.Context, tree gitstore.Hash, t fleet.Target, source string) (fleet.Defaults, error) {
	v, err := h.open(ctx, tree)
	if err != nil {
		return fleet.Defaults{}, err
	}
	resolved, err := v.fleet.Resolve(t)
	if err != nil {
		return fleet.Defaults{}, err
	}
	for _, s := range resolved.Sources {
		if s.Helm == nil || s.Name != source {
			continue
		}
		if s.Helm.Chart == "" {
			file := path.Join(s.Helm.Path, "values.yaml")
			data, err := v.sources.snap.ReadFile(file)
			if err != nil && !isMissing(err) {
				return fleet.Defaults{}, err
			}
			return fleet.Defaults{File: file, Data: data}, nil
		}
		content, err := v.sources.archive(ctx, fetch.Ref{Repo: s.Helm.Repo, Chart: s.Helm.Chart, Version: s.Helm.Version})
		if err != nil {
			return fleet.Defaults{}, err
		}
		chart, err := helm.LoadArchive(content.Archive, helm.DefaultLimits())
		if err != nil {
			return fleet.Defaults{}, err
		}
		return fleet.Defaults{File: s.Helm.Chart + "/values.yaml", Data: chart.Defaults()}, nil
	}
	return fleet.Defaults{}, nil
}

// Versions describes each source of a target on one line: a chart with its version, or a path.
func (h *Hydrator) Versions(ctx context.Context, tree gitstore.Hash, t fleet.Target) ([]string, error) {
	v, err := h.open(ctx, tree)
	if err != nil {
		return nil, err
	}
	resolved, err := v.fleet.Resolve(t)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range resolved.Sources {
		switch {
		case s.Helm != nil && s.Helm.Chart != "":
			ref := fetch.Ref{Repo: s.Helm.Repo, Chart: s.Helm.Chart, Version: s.Helm.Version}
			version := s.Helm.Version
			if locked, ok := v.sources.lock.Lookup(ref); ok {
				version = locked.Version
			}
			out = append(out, path.Base(ref.Chart)+" "+version)
		case s.Helm != nil:
			version, err := v.sources.chartVersion(s.Helm.Path)
			if err != nil {
				return nil, err
			}
			out = append(out, version)
		case s.Kustomize != nil:
			out = append(out, s.Kustomize.Path)
		default:
			out = append(out, s.Manifests.Path)
		}
	}
	return out, nil
}

func (s *sources) chartVersion(dir string) (string, error) {
	data, err := s.snap.ReadFile(path.Join(dir, "Chart.yaml"))
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", dir, plainError(err))
	}
	var chart struct{ Name, Version string }
	if err := yaml.Unmarshal(data, &chart); err != nil {
		return "", fmt.Errorf("%s/Chart.yaml: %w", dir, err)
	}
	return chart.Name + " " + chart.Version, nil
}
