package cli

import (
	"testing"
)

func TestWithHelm(t *testing.T) {
	const repository = "kind: Repository\nmetadata: {name: other}\nspec: {url: \"https://git.example.com/other\"}\n"
	for name, c := range map[string]struct{ text, want string }{
		"after a repository": {
			repository + "---\nkind: Fleet\nspec: {trunk: main}\n",
			repository + "---\nkind: Fleet\nspec: {trunk: main, helm: 4}\n",
		},
		"before a repository": {
			"kind: Fleet\nspec: {helm: 3, import: [{flux: {}}]}\n---\n" + repository,
			"kind: Fleet\nspec: {helm: 4, import: [{flux: {}, helm: 4}]}\n---\n" + repository,
		},
		"after an empty document": {
			"---\n# fleet\n---\nkind: Fleet\nspec: {trunk: main}\n",
			"kind: Fleet\nspec: {trunk: main, helm: 4}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := withHelm([]byte(c.text), 4)
			if err != nil {
				t.Fatalf("sluice.yaml with Helm 4: %v", err)
			}
			if string(got) != c.want {
				t.Errorf("sluice.yaml with Helm 4: got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
