package source

import (
	"encoding/json"
	"path"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer"
)

const valuesFile = "values.yaml"

// packed changes the files of the chart in a directory as a tool does that packs it.
func packed(chart renderer.Content, dir string, p *fleet.Packing) (renderer.Content, error) {
	chart, err := without(chart, dir, p)
	if err != nil || p == nil || !p.Replaces {
		return chart, err
	}
	text, err := json.Marshal(p.Defaults) // JSON is YAML
	if err != nil {
		return chart, err
	}
	chart.Files = slices.DeleteFunc(slices.Clone(chart.Files),
		func(f renderer.File) bool { return f.Path == valuesFile })
	chart.Files = append(chart.Files, renderer.File{Path: valuesFile, Data: text})
	return chart, nil
}

// without leaves out files. It changes the digest for everything that p changes.
func without(chart renderer.Content, dir string, p *fleet.Packing) (renderer.Content, error) {
	id, err := p.ID()
	if err != nil || id == "" {
		return chart, err
	}
	chart.Digest += id
	chart.Files = slices.DeleteFunc(slices.Clone(chart.Files), func(f renderer.File) bool {
		// a link to a folder brings what is below it
		for at := path.Join(dir, f.Path); at != dir && at != "."; at = path.Dir(at) {
			if _, found := slices.BinarySearch(p.Without, at); found {
				return true
			}
		}
		return false
	})
	return chart, nil
}
