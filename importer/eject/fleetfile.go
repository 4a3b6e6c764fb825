package eject

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/yamledit"
)

// fleetFile changes sluice.yaml: the app is no longer imported, its app.yaml is read, and the layer cluster exists if
// one of the written files is in it.
func (a *App) fleetFile(data []byte, written []string) ([]byte, error) {
	type addition struct {
		at   []string // path of a list
		text string
	}
	var edits []addition
	entries := map[int]bool{}
	for _, t := range a.targets {
		entries[t.Entry] = true
	}
	for i, entry := range a.fleet.Spec.Import {
		if entries[i] && !slices.Contains(entry.Exclude, a.targets[0].App) {
			edits = append(edits, addition{[]string{"spec", "import", strconv.Itoa(i), "exclude"}, a.targets[0].App})
		}
	}
	if file := path.Join(a.dir, "app.yaml"); !fleet.MatchesAny(a.fleet.Spec.Files.Apps, file) {
		edits = append(edits, addition{[]string{"spec", "files", "apps"}, file})
	}
	inLayer := func(name string) bool { return strings.HasPrefix(name, path.Join(a.dir, "layers/cluster")+"/") }
	isLayer := func(l fleet.Layer) bool { return l.Name == "cluster" }
	if slices.ContainsFunc(written, inLayer) && !slices.ContainsFunc(a.fleet.Spec.Layers, isLayer) {
		edits = append(edits, addition{[]string{"spec", "layers"}, "cluster"})
	}
	for _, e := range edits {
		var err error
		if data, err = yamledit.Append(data, yamledit.Document{Kind: "Fleet"}, e.at, e.text); err != nil {
			return nil, fmt.Errorf("sluice.yaml: %w", err)
		}
	}
	return data, nil
}
