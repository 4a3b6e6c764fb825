package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
)

// ImportRequest is one entry of spec.import, with the trunk and the clusters of the fleet.
type ImportRequest struct {
	Entry    Import
	Trunk    string          // the fleet's trunk
	Clusters []ImportCluster // all clusters of the fleet and of the entry, by name
	// Repositories are the other repositories of the fleet, by name. Only Flux entries have them.
	Repositories []ImportRepository `json:",omitempty"`
	// Pinned are commits of other repositories that objects name by their ids; see Imported.Lacks.
	Pinned []ImportRepository `json:",omitempty"`
}

// ImportRepository is another repository as an importer sees it.
type ImportRepository struct {
	Name, URL string
	Dir       string // of its content in the tree, in MountDir
	Resolved  string // see Repository
	Commit    string // the pinned commit; "" if the content is missing
	Missing   string // why the content is missing
	Declared  string // FILE:LINE of the declaration
}

// ImportCluster is a cluster as an importer sees it.
type ImportCluster struct {
	Name, Environment, KubeVersion string
	APIVersions                    []string
	Labels                         map[string]string
	Helm                           int // the major version that renders the charts of the entry for the cluster
}

func importRequest(f *Fleet, entry Import) ImportRequest {
	out := ImportRequest{Entry: entry, Trunk: f.Spec.Trunk}
	for _, c := range f.Clusters {
		out.Clusters = append(out.Clusters, ImportCluster{
			Name: c.Name, Environment: c.Environment,
			KubeVersion: c.ChartVersion(), APIVersions: c.APIVersions, Labels: c.Labels,
			Helm: cmp.Or(c.Helm, entry.helm()),
		})
	}
	slices.SortStableFunc(out.Clusters, func(a, b ImportCluster) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func importRepositories(f *Fleet, list []*Repository) []ImportRepository {
	var out []ImportRepository
	for _, r := range list {
		one := ImportRepository{
			Name: r.Name, URL: r.URL, Dir: path.Join(MountDir, r.Name), Resolved: r.Resolved, Commit: r.Commit,
			Declared: fmt.Sprintf("%s:%d", r.File, r.Line),
		}
		if r.Exact {
			one.Commit, one.Declared = r.Wanted, ""
		}
		if err := f.unavailable[r.Name]; err != nil {
			one.Missing = err.Error()
		}
		out = append(out, one)
	}
	return out
}

// locateImported rewrites the paths of other repositories in the texts of a target.
func locateImported(f *Fleet, t *Imported) {
	t.names = f.names
	if t.Err != nil {
		if text := f.Locate(t.Err.Error()); text != t.Err.Error() {
			t.Err = errors.New(text)
		}
	}
	for n := range t.Notes {
		t.Notes[n] = f.Locate(t.Notes[n])
	}
}
