package forgetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Reviewed is a World that tells who is asked for a review of a merge request: logins, and `org/team` of teams. A World
// whose adapter implements forge.ReviewRequests implements it.
type Reviewed interface {
	Reviewers(t *testing.T, repo forge.Repository, number int) []string
}

func testLabels(t *testing.T, w World) {
	f, ok := w.Forge().(forge.Labels)
	if !ok {
		t.Skip("the adapter does not set labels")
	}
	repo := scene(t, w)
	mr := w.Open(t, repo, Scene{Title: "a", Author: "ada", SourceBranch: "a", Labels: []string{"bug", "sluice/dev"}})
	labels := func() []string {
		t.Helper()
		got, err := w.Forge().MergeRequest(t.Context(), repo, mr.Number)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got.Labels)
		return got.Labels
	}
	edit := func(add, remove []string, want ...string) {
		t.Helper()
		if err := f.EditLabels(t.Context(), repo, mr.Number, add, remove); err != nil {
			t.Fatalf("add %q, remove %q: %v", add, remove, err)
		}
		if got := labels(); !slices.Equal(got, want) {
			t.Errorf("labels after adding %q and removing %q: got %q, want %q", add, remove, got, want)
		}
	}
	for range 2 { // the second time has no effect
		edit([]string{"sluice/prod", "risk/high"}, []string{"sluice/dev"}, "bug", "risk/high", "sluice/prod")
	}
	edit(nil, []string{"risk/high", "sluice/prod"}, "bug")
	edit([]string{"sluice/prod eu"}, nil, "bug", "sluice/prod eu")
	before := w.Requests() // for a label that the repository has: only some forges create others at once
	edit([]string{"risk/high"}, nil, "bug", "risk/high", "sluice/prod eu")
	if n := w.Requests() - before; n > 2 { // one of them reads the labels
		t.Errorf("requests for one more label: got %d, want 2", n)
	}
	if err := f.EditLabels(t.Context(), repo, 999, []string{"risk/low"}, nil); !errors.Is(err, forge.ErrNotFound) {
		t.Errorf("labels of a merge request that does not exist: got %v, want %v", err, forge.ErrNotFound)
	}
	w.Fail(t, Fault{Kind: Denied, On: OnWrite, Times: 9})
	if err := f.EditLabels(t.Context(), repo, mr.Number, []string{"risk/none"}, nil); !errors.Is(err,
		forge.ErrForbidden) {
		t.Errorf("labels without the permission: got %v, want %v", err, forge.ErrForbidden)
	}
}

func testReviewRequests(t *testing.T, w World) {
	f, ok := w.Forge().(forge.ReviewRequests)
	state, told := w.(Reviewed)
	if !ok || !told {
		t.Skip("the adapter does not ask for reviews")
	}
	repo := scene(t, w)
	for _, login := range []string{"bob", "cy"} {
		w.User(t, login)
		w.Grant(t, repo, login, forge.AccessWrite)
	}
	w.User(t, "eve") // has no access
	mr := open(t, w, repo, "a")
	ask := func(users, teams []string, want ...string) []forge.RefusedReviewer {
		t.Helper()
		refused, err := f.RequestReviews(t.Context(), repo, mr.Number, users, teams)
		if err != nil {
			t.Fatalf("ask %q and %q: %v", users, teams, err)
		}
		got := state.Reviewers(t, repo, mr.Number)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("reviewers after asking %q and %q: got %q, want %q", users, teams, got, want)
		}
		for _, r := range refused {
			if r.Err == nil {
				t.Errorf("no reason why %s is refused", r.Name)
			}
		}
		return refused
	}
	if refused := ask([]string{"bob"}, nil, "bob"); len(refused) > 0 {
		t.Errorf("refused: got %v, want nobody", refused)
	}
	refused := ask([]string{"eve", "cy", "nobody-at-all"}, nil, "bob", "cy")
	names := []string{}
	for _, r := range refused {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"eve", "nobody-at-all"}) {
		t.Errorf("refused: got %q, want eve and nobody-at-all", names)
	}
	ask([]string{"bob", "cy"}, nil, "bob", "cy") // again
	w.Team(t, "acme/sre", []string{"bob"}, nil)
	if refused, err := f.RequestReviews(t.Context(), repo, mr.Number, nil, []string{"acme/sre"}); err != nil ||
		(len(refused) == 0) != slices.Contains(state.Reviewers(t, repo, mr.Number), "acme/sre") {
		t.Errorf("a team is either asked or refused: refused %v, %v, reviewers %q", refused, err,
			state.Reviewers(t, repo, mr.Number))
	}
	w.Fail(t, Fault{Kind: Denied, On: OnWrite, Times: 9})
	third := open(t, w, repo, "b")
	if _, err := f.RequestReviews(t.Context(), repo, third.Number, []string{"bob"}, nil); !errors.Is(err,
		forge.ErrForbidden) {
		t.Errorf("asking without the permission: got %v, want %v", err, forge.ErrForbidden)
	}
}
