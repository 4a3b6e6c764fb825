package source

import (
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/renderer"
)

// mayRead refuses a Kustomize root that a workspace's app builds from files outside of the workspace.
func (t *Target) mayRead(content renderer.Content) error {
	for _, f := range content.Files {
		if !t.MayRead(f.Path) {
			return t.outside(f.Path)
		}
	}
	return nil
}

// mayReadChart refuses a chart of a workspace's app, or one that it depends on, that is in a folder outside of the workspace.
func (t *Target) mayReadChart(h *fleet.HelmSource, chart *renderer.HelmSource) error {
	if h.Chart == "" && !t.MayRead(h.Path) {
		return t.outside(h.Path)
	}
	for _, d := range chart.Dependencies {
		if len(d.Chart.Archive) == 0 && !t.MayRead(d.Chart.Name) {
			return t.outside(d.Chart.Name)
		}
	}
	return nil
}

func (t *Target) outside(name string) error {
	w := t.App.Workspace()
	return fmt.Errorf("%s is outside of the workspace %s, which may read its own folder and the repositories that spec.sources.repositories in %s lists", name, w.Name, w.File)
}
