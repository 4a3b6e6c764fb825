package forgetest

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// cases are the tests of the suite by name.
func cases() map[string]func(*testing.T, World) {
	return map[string]func(*testing.T, World){
		"merge request": testMergeRequest,
	}
}

func testMergeRequest(t *testing.T, w World) {
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	w.Grant(t, repo, "ada", forge.AccessWrite)
	want := w.Open(t, repo, Scene{Title: "Raise replicas", Body: "for the sale", Author: "ada", SourceBranch: "sale", Labels: []string{"prod"}})
	got, err := w.Forge().MergeRequest(t.Context(), repo, want.Number)
	if err != nil {
		t.Fatal(err)
	}
	if got.Title != want.Title || got.Head != want.Head {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
