package site

import (
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/site/index"
)

const catalogPath = "catalog.html"

// catalog is what the page of the catalog fills in.
type catalog struct {
	Apps []catalogEntry // by name
}

// catalogEntry is an app of the catalog with its versions.
type catalogEntry struct {
	Name     string
	Versions []catalogVersion // the newest first
}

// catalogVersion is a version with those who use it.
type catalogVersion struct {
	*fleet.CatalogApp
	Apps     []string // that the clusters run
	Clusters int
}

// newCatalog reads who uses each version from the index: what the cluster branches hold.
func newCatalog(f *Fleet) *catalog {
	out := &catalog{}
	for _, c := range f.Catalog {
		if n := len(out.Apps); n == 0 || out.Apps[n-1].Name != c.Name {
			out.Apps = append(out.Apps, catalogEntry{Name: c.Name})
		}
		one := catalogVersion{CatalogApp: c}
		clusters := map[string]bool{}
		for _, hit := range f.Index.Having(index.Chart, c.String()) {
			clusters[hit.Cluster] = true
			if !slices.Contains(one.Apps, hit.App) {
				one.Apps = append(one.Apps, hit.App)
			}
		}
		slices.Sort(one.Apps)
		one.Clusters = len(clusters)
		entry := &out.Apps[len(out.Apps)-1]
		entry.Versions = slices.Insert(entry.Versions, 0, one)
	}
	return out
}
