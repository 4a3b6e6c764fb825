package source

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// defaultSigners is the source of a chart in helmCharts: an entry names no signers, so the fleet's default counts.
var defaultSigners = &fleet.HelmSource{} //nolint:gochecknoglobals // never changed

// kustomizeRef returns the reference of a chart in helmCharts as Kustomize passes it to `helm pull`.
func kustomizeRef(c *kustomize.Chart) fetch.Ref {
	version := c.Version
	switch {
	case version == "" && c.Devel:
		version = ">0.0.0-0"
	case version == "":
		version = "*"
	}
	return fetch.Ref{Repo: c.Repo, Chart: c.Name, Version: version}
}

// kustomizeChartID identifies the chart of an entry of helmCharts. A chart that somebody adds to the folder where
// Kustomize looks first replaces the one of the repository, so that folder is in the reach of both.
func (c *contents) kustomizeChartID(chart *kustomize.Chart) description {
	if err := withoutReferences(chart); err != nil {
		return description{err: err}
	}
	dir, exists, err := c.walker.Locate(chart)
	if err != nil {
		return description{err: err}
	}
	var out description
	if exists {
		out = c.chartID(defaultSigners, dir, nil)
	} else {
		out = c.remoteID(kustomizeRef(chart), defaultSigners)
	}
	out.reach = append(out.reach, dir)
	return out
}

// withoutReferences refuses references to the cluster in what names a chart. Charts are locked for all clusters.
func withoutReferences(c *kustomize.Chart) error {
	for _, text := range []string{c.Name, c.Repo, c.Version} {
		if strings.Contains(text, "${") {
			return fmt.Errorf("%q has a reference, which is not replaced in the name, repo and version of a chart: write it out, in one component for each value", text)
		}
	}
	return nil
}

// root reads the files and charts of a Kustomize root that the target may read.
func (t *Target) root(ctx context.Context, of root) (*renderer.KustomizeSource, error) {
	c := t.view.contents
	files, err := c.kustomizeFiles(of)
	if err != nil {
		return nil, err
	}
	if err := t.mayRead(files); err != nil {
		return nil, err
	}
	out := &renderer.KustomizeSource{Files: files, Root: of.Path}
	out.Charts, err = c.kustomizeCharts(ctx, t.Target, of)
	return out, err
}

// kustomizeCharts reads the charts of a Kustomize root or component, which a target may use.
func (c *contents) kustomizeCharts(ctx context.Context, t fleet.Target, of root) ([]renderer.KustomizeChart, error) {
	charts, err := of.walker.ChartsOf(of.Path)
	if err != nil {
		return nil, err
	}
	var out []renderer.KustomizeChart
	for i := range charts {
		one, err := c.kustomizeChart(ctx, t, &charts[i])
		if err != nil {
			return nil, charts[i].Error(err)
		}
		out = append(out, one)
	}
	return out, nil
}

// ownerOf returns the target whose rights count for the charts of a layer's component: those of a component of the
// fleet are not the choice of a workspace, even where they apply to its apps.
func ownerOf(t fleet.Target, layer fleet.LayerFile) fleet.Target {
	if layer.OfWorkspace() {
		return t
	}
	return fleet.Target{App: &fleet.App{}, Cluster: t.Cluster}
}

// kustomizeChart reads the chart of an entry of helmCharts.
func (c *contents) kustomizeChart(ctx context.Context, t fleet.Target, chart *kustomize.Chart) (renderer.KustomizeChart,
	error,
) {
	out := renderer.KustomizeChart{Dir: chart.Dir, Index: chart.Index}
	if _, err := kustomizeChartRefs(c, t, chart); err != nil { // the target may use them
		return out, err
	}
	dir, exists, err := c.walker.Locate(chart)
	switch {
	case err != nil:
		return out, err
	case !exists:
		out.Chart, err = c.signedArchive(ctx, kustomizeRef(chart), defaultSigners)
		return out, err
	}
	if out.Chart, err = c.chart(dir); err != nil {
		return out, err
	}
	out.Dependencies, err = c.chartDependencies(ctx, dir, defaultSigners)
	return out, err
}

// kustomizeRefs returns the remote charts of a Kustomize root.
func kustomizeRefs(c *contents, t fleet.Target, of root) ([]fetch.Ref, error) {
	charts, err := of.walker.ChartsOf(of.Path)
	if err != nil {
		return nil, err
	}
	var out []fetch.Ref
	for i := range charts {
		refs, err := kustomizeChartRefs(c, t, &charts[i])
		if err != nil {
			return nil, charts[i].Error(err)
		}
		out = append(out, refs...)
	}
	return out, nil
}

// kustomizeChartRefs returns the remote charts of an entry of helmCharts. A chart that the target may not use is an
// error.
func kustomizeChartRefs(c *contents, t fleet.Target, chart *kustomize.Chart) ([]fetch.Ref, error) {
	if err := withoutReferences(chart); err != nil {
		return nil, err
	}
	dir, exists, err := c.walker.Locate(chart)
	switch {
	case err != nil:
		return nil, err
	case exists:
		return c.remotes(t, dir, map[string]bool{})
	}
	ref := kustomizeRef(chart)
	return []fetch.Ref{ref}, t.MayUse(ref.Repo, ref.Chart)
}

// helmCharts returns the charts of a Kustomize root with their versions, for messages. It is empty if the root lists
// none or has errors.
func helmCharts(c *contents, of root) string {
	charts, err := of.walker.ChartsOf(of.Path)
	if err != nil {
		return "" // rendering reports it
	}
	var names []string
	for i := range charts {
		name := charts[i].Name
		if dir, exists, err := c.walker.Locate(&charts[i]); err == nil && exists {
			name = "chart " + dir
		} else if locked, ok := c.lock.Lookup(kustomizeRef(&charts[i])); ok {
			name += " " + locked.Version
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return " with " + strings.Join(names, ", ")
}
