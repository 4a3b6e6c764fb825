package source

import (
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer"
)

// mayRead refuses a Kustomize root that a workspace's app builds from files outside of the workspace.
func (t *Target) mayRead(content renderer.Content) error {
	for _, f := range content.Files {
		if !t.MayRead(f.Path) {
			return outside(t.Target, f.Path)
		}
	}
	return nil
}

// mayReadChart refuses a chart of a workspace's app, or one that it depends on, that is in a folder outside of the
// workspace, and dependencies that the workspace may not use. Dependencies in the chart's own folder charts/ are files
// of the workspace.
func (t *Target) mayReadChart(h *fleet.HelmSource, chart *renderer.HelmSource) error {
	if h.Chart == "" && !t.MayRead(h.Path) {
		return outside(t.Target, h.Path)
	}
	for _, d := range chart.Dependencies {
		if len(d.Chart.Archive) == 0 && !t.MayRead(d.Chart.Name) {
			return outside(t.Target, d.Chart.Name)
		}
	}
	if h.Chart != "" || t.App.Workspace() == nil || t.App.From() != nil { // the catalog's charts are the platform team's choice
		return nil
	}
	dependencies, err := t.view.contents.dependencies(h.Path)
	if err != nil {
		return err
	}
	for _, d := range dependencies {
		if d.path != "" {
			continue
		}
		if err := t.MayUse(d.ref.Repo, d.ref.Chart); err != nil {
			return fmt.Errorf("chart %s: dependency %s: %w", h.Path, d.name, err)
		}
	}
	return nil
}

func outside(t fleet.Target, name string) error {
	w := t.App.Workspace()
	return fmt.Errorf("%s is outside of the workspace %s, which may read its own folder and the repositories that spec.sources.repositories in %s lists", name, w.Name, w.File)
}
