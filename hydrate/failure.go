package hydrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// Failure is a target that could not be rendered.
type Failure struct {
	Environment string `json:"environment"`
	Cluster     string `json:"cluster"`
	App         string `json:"app"`
	// File is the file of the repository to change: a template, a layer, a Kustomize root, or the app's file. Line
	// and Column count from 1; 0 is unknown.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"` // begins with file and line if they are known
}

// Error names the target first.
func (f Failure) Error() string {
	return fmt.Sprintf("%s/%s: %s", f.Cluster, f.App, strings.TrimSpace(f.Message))
}

// NewFailure describes why a target could not be rendered.
func NewFailure(environment string, t fleet.Target, err error) Failure {
	at := source.PlaceOf(err)
	return Failure{
		Environment: environment, Cluster: t.Cluster.Name, App: t.App.Name,
		File: t.Locate(at.File), Line: at.Line, Column: at.Column, Message: t.Locate(err.Error()),
	}
}

// failures returns the targets that could not be rendered. A target without a result always counts as failed, since
// Render already returned any error of the context.
func failures(environment string, outcomes []*render.Outcome) []Failure {
	var out []Failure
	for _, o := range outcomes {
		if o.Err != nil {
			out = append(out, NewFailure(environment, o.Target.Target, o.Err))
		}
	}
	return out
}

func sortFailures(list []Failure) {
	slices.SortStableFunc(list, func(a, b Failure) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.App, b.App))
	})
}

// Note is a remark about a rendering that succeeded, such as equal copies of an object that were merged. Only a run
// that renders a target has its notes; reused output has none.
type Note struct {
	App      string   `json:"app,omitempty"`      // "" for a note about the environment
	Clusters []string `json:"clusters,omitempty"` // sorted
	Message  string   `json:"message"`
}

// String names the app and the number of clusters first: "shop on 3 clusters: …".
func (n Note) String() string {
	switch {
	case n.App == "":
		return n.Message
	case len(n.Clusters) == 1:
		return fmt.Sprintf("%s on %s: %s", n.App, n.Clusters[0], n.Message)
	}
	return fmt.Sprintf("%s on %s: %s", n.App, Count(len(n.Clusters), "cluster"), n.Message)
}

// notes collects notes by app and message, and the clusters of each.
type notes map[[2]string]map[string]bool

// add adds a note about a target; cluster and app are "" for one about the environment.
func (n notes) add(cluster, app, message string) {
	key := [2]string{app, message}
	if n[key] == nil {
		n[key] = map[string]bool{}
	}
	if cluster != "" {
		n[key][cluster] = true
	}
}

// MergeNotes merges the notes of several environments: equal notes become one, with the clusters of all.
func MergeNotes(list []Note) []Note {
	merged := notes{}
	for _, n := range list {
		merged.add("", n.App, n.Message)
		for _, c := range n.Clusters {
			merged.add(c, n.App, n.Message)
		}
	}
	return merged.list()
}

// list returns the notes, sorted by app and message.
func (n notes) list() []Note {
	var out []Note
	for _, key := range slices.SortedStableFunc(maps.Keys(n), func(a, b [2]string) int {
		return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	}) {
		out = append(out, Note{App: key[0], Message: key[1], Clusters: slices.Sorted(maps.Keys(n[key]))})
	}
	return out
}
