package fleet

import (
	"cmp"
	"fmt"
	"slices"
)

// Recipe is what a target's rendering depends on beyond the files of its sources, for people and programs to read.
// Targets whose recipes are equal, and whose files are, render alike. AppendKey is the same as bytes, with the files.
type Recipe struct {
	Resolved

	Values      []LayerFile // of its Helm sources, lowest first
	Components  []LayerFile // directories, lowest first
	References  []Reference // that stand in those files, by their text
	KubeVersion string
	APIVersions []string
}

// Reference is a ${…} of a target's files with what the target's cluster has for it.
type Reference struct {
	Text  string // as it stands, such as ${cluster.vars.domain:=example.com}
	Value any    // with its YAML type
}

// Recipe gives a target's recipe. Nothing is rendered or merged. The slices must not be changed.
func (f *Fleet) Recipe(t Target) (Recipe, error) {
	resolved, err := f.Resolve(t)
	if err != nil {
		return Recipe{}, err
	}
	r := Recipe{
		Resolved: resolved, Values: f.ValuesFiles(t), Components: f.Components(t),
		KubeVersion: t.Cluster.KubeVersion, APIVersions: t.Cluster.APIVersions,
	}
	for _, files := range [][]LayerFile{r.Values, r.Components} {
		for _, file := range files {
			if r.References, err = f.addReferences(r.References, t, file.Path); err != nil {
				return Recipe{}, err
			}
		}
	}
	return r, nil
}

// addReferences keeps the list ordered by text and without repetition.
func (f *Fleet) addReferences(list []Reference, t Target, name string) ([]Reference, error) {
	id, err := f.contentID(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	refs, err := f.references(id, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range refs {
		at, known := slices.BinarySearchFunc(list, refs[i].text, func(r Reference, text string) int { return cmp.Compare(r.Text, text) })
		if known {
			continue
		}
		if value, err := t.resolve(&refs[i]); err == nil { // one that is not set may stand in a comment; Check knows
			list = slices.Insert(list, at, Reference{refs[i].text, value})
		}
	}
	return list, nil
}
