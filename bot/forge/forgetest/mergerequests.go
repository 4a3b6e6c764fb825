package forgetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// cases returns the tests of the suite by name.
func cases() map[string]func(*testing.T, World) {
	return map[string]func(*testing.T, World){
		"merge request":                  testMergeRequest,
		"merge request of a fork":        testFork,
		"merge request that moves":       testMoves,
		"open merge requests":            testOpen,
		"recent merge requests":          testRecent,
		"merge requests of a commit":     testOf,
		"request":                        testRequest,
		"quick actions":                  testQuickActions,
		"what is not there":              testMissing,
		"comments":                       testComments,
		"many comments":                  testManyComments,
		"comment that is too long":       testTooLong,
		"comment whose answer is lost":   testLost,
		"reactions":                      testReactions,
		"labels":                         testLabels,
		"review requests":                testReviewRequests,
		"deployments":                    testDeployments,
		"statuses":                       testStatuses,
		"checks":                         testChecks,
		"repositories":                   testRepositories,
		"people":                         testPeople,
		"teams":                          testTeams,
		"protected branches":             testProtected,
		"rate limit":                     testRateLimit,
		"rate limit that lasts":          testLongRateLimit,
		"server that fails for a moment": testBroken,
		"refused credential":             testRefused,
	}
}

// scene returns a repository with a person who has write access.
func scene(t *testing.T, w World) forge.Repository {
	t.Helper()
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	w.Grant(t, repo, "ada", forge.AccessWrite)
	return repo
}

func open(t *testing.T, w World, repo forge.Repository, branch string) forge.MergeRequest {
	t.Helper()
	return w.Open(t, repo, Scene{Title: "Change " + branch, Body: "because", Author: "ada", SourceBranch: branch})
}

func testMergeRequest(t *testing.T, w World) {
	repo := scene(t, w)
	want := w.Open(t, repo, Scene{
		Title: "Raise replicas", Body: "for the sale", Author: "ada", SourceBranch: "sale",
		Labels: []string{"prod"},
	})
	got, err := w.Forge().MergeRequest(t.Context(), repo, want.Number)
	if err != nil {
		t.Fatal(err)
	}
	if got.Title != "Raise replicas" || got.Body != "for the sale" || got.Head != want.Head || len(got.Head) != 40 ||
		got.State != forge.Open || got.Draft || got.Fork ||
		got.Author.Login != "ada" || got.SourceBranch != "sale" || got.TargetBranch != "main" ||
		got.SourceRepo != repo.Path || !slices.Equal(got.Labels, []string{"prod"}) || got.URL == "" {
		t.Errorf("got %+v", got)
	}
	draft := w.Open(t, repo, Scene{Title: "Later", Author: "ada", SourceBranch: "later", Draft: true})
	if got, err = w.Forge().MergeRequest(t.Context(), repo, draft.Number); err != nil || !got.Draft ||
		got.Labels == nil {
		t.Errorf("draft: %+v, %v", got, err)
	}
}

func testFork(t *testing.T, w World) {
	repo := scene(t, w)
	w.User(t, "eve")
	want := w.Open(t, repo, Scene{Title: "From outside", Author: "eve", SourceBranch: "patch", Fork: true})
	got, err := w.Forge().MergeRequest(t.Context(), repo, want.Number)
	if err != nil || !got.Fork || got.SourceRepo == repo.Path || got.SourceRepo == "" || got.Head != want.Head {
		t.Errorf("got %+v, %v", got, err)
	}
	if ref := w.Forge().MergeRequestRef(7); ref != "refs/pull/7/head" && ref != "refs/merge-requests/7/head" {
		t.Errorf("ref %q", ref)
	}
}

func testMoves(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	head := w.Push(t, repo, mr.Number)
	got, err := w.Forge().MergeRequest(t.Context(), repo, mr.Number)
	if err != nil || got.Head != head || head == mr.Head {
		t.Errorf("after a push: %+v, %v; head %s", got, err, head)
	}
	commit := w.Merge(t, repo, mr.Number)
	if got, err = w.Forge().MergeRequest(t.Context(), repo, mr.Number); err != nil || got.State != forge.Merged ||
		got.MergeCommit != commit {
		t.Errorf("merged: %+v, %v; commit %s", got, err, commit)
	}
	other := open(t, w, repo, "b")
	w.Close(t, repo, other.Number)
	if got, err = w.Forge().MergeRequest(t.Context(), repo, other.Number); err != nil || got.State != forge.Closed {
		t.Errorf("closed: %+v, %v", got, err)
	}
}

func testOpen(t *testing.T, w World) {
	repo := scene(t, w)
	many := pageItems(w) + 5
	for i := range many {
		open(t, w, repo, fmt.Sprintf("b%d", i))
	}
	w.Open(t, repo, Scene{Title: "Backport", Author: "ada", SourceBranch: "backport", TargetBranch: "release"})
	w.Close(t, repo, 3)
	got, err := w.Forge().OpenMergeRequests(t.Context(), repo, "")
	if err != nil || len(got) != many || !slices.IsSortedFunc(got,
		func(a, b *forge.MergeRequest) int { return a.Number - b.Number }) {
		t.Errorf("%d open, %v", len(got), err)
	}
	if got, err = w.Forge().OpenMergeRequests(t.Context(), repo, "release"); err != nil || len(got) != 1 ||
		got[0].TargetBranch != "release" {
		t.Errorf("into release: %+v, %v", got, err)
	}
}

func testRecent(t *testing.T, w World) {
	repo := scene(t, w)
	recent := func(since time.Time) (numbers []int) {
		got, err := w.Forge().RecentMergeRequests(t.Context(), repo, since)
		if err != nil {
			t.Fatal(err)
		}
		for _, mr := range got {
			numbers = append(numbers, mr.Number)
		}
		return numbers
	}
	many := pageItems(w) + 3
	var list []forge.MergeRequest
	for i := range many {
		list = append(list, open(t, w, repo, fmt.Sprintf("b%d", i)))
	}
	updated := func(number int) time.Time {
		mr, err := w.Forge().MergeRequest(t.Context(), repo, number)
		if err != nil || mr.Updated.IsZero() {
			t.Fatalf("%+v, %v", mr, err)
		}
		return mr.Updated
	}
	w.Close(t, repo, list[1].Number)
	merged := list[2].Number
	w.Merge(t, repo, merged)
	if got := recent(updated(list[0].Number)); len(got) != many || !slices.IsSorted(got) {
		t.Errorf("all of them, whatever their state: %v", got)
	}
	w.Comment(t, repo, merged, "ada", "late")
	at := updated(merged)
	if got := recent(at); !slices.Contains(got, merged) {
		t.Errorf("after a comment on the merged one: %v", got)
	}
	if got := recent(at.Add(time.Second)); len(got) != 0 {
		t.Errorf("after all: %v", got)
	}
}

func testOf(t *testing.T, w World) {
	repo := scene(t, w)
	one := open(t, w, repo, "a")
	commit := w.Merge(t, repo, one.Number)
	for _, sha := range []string{commit, one.Head} {
		got, err := w.Forge().MergeRequestsOf(t.Context(), repo, sha)
		if err != nil || len(got) != 1 || got[0].Number != one.Number || got[0].State != forge.Merged {
			t.Errorf("of %s: %+v, %v", sha, got, err)
		}
	}
}

func testRequest(t *testing.T, w World) {
	repo := scene(t, w)
	existing := open(t, w, repo, "promote")
	w.Close(t, repo, existing.Number)
	made, err := w.Forge().CreateMergeRequest(t.Context(), repo,
		forge.NewRequest{Title: "Promote", Body: "to prod", SourceBranch: "promote", TargetBranch: "main"})
	if err != nil || made.Title != "Promote" || made.State != forge.Open || made.Number == existing.Number {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := w.Forge().CreateMergeRequest(t.Context(), repo,
		forge.NewRequest{Title: "Promote", SourceBranch: "promote", TargetBranch: "main"}); !errors.Is(err,
		forge.ErrConflict) {
		t.Errorf("a second one: %v", err)
	}
	if err := w.Forge().EditMergeRequest(t.Context(), repo, made.Number, "Promote more", "now", false); err != nil {
		t.Fatal(err)
	}
	got, err := w.Forge().MergeRequest(t.Context(), repo, made.Number)
	if err != nil || got.Title != "Promote more" || got.Body != "now" || got.State != forge.Open {
		t.Errorf("edited: %+v, %v", got, err)
	}
	for range 2 {
		if err := w.Forge().EditMergeRequest(t.Context(), repo, made.Number, "Promote more", "done", true); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = w.Forge().MergeRequest(t.Context(), repo, made.Number); err != nil || got.State != forge.Closed ||
		got.Body != "done" {
		t.Errorf("closed: %+v, %v", got, err)
	}
}

// No text that Sluice writes is a quick action, because the forge would run it with Sluice's rights.
func testQuickActions(t *testing.T, w World) {
	repo := scene(t, w)
	existing := open(t, w, repo, "follow")
	w.Close(t, repo, existing.Number)
	const text = "Sluice's part\n\n/close\n  /merge now\nsee /close and 1/2\n"
	made, err := w.Forge().CreateMergeRequest(t.Context(), repo,
		forge.NewRequest{Title: "Follow", Body: text, SourceBranch: "follow", TargetBranch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	said, err := w.Forge().CreateComment(t.Context(), repo, made.Number, text)
	if err != nil {
		t.Fatal(err)
	}
	kept := func(what, body string) {
		t.Helper()
		got, err := w.Forge().MergeRequest(t.Context(), repo, made.Number)
		if err != nil || got.State != forge.Open {
			t.Errorf("%s: the merge request is %s, %v", what, got.State, err)
		}
		if strings.TrimSpace(body) != strings.TrimSpace("Sluice's part\n\n\\/close\n  /merge now\nsee /close and 1/2") {
			t.Errorf("%s: %q", what, body)
		}
	}
	kept("created", made.Body)
	kept("comment", said.Body)
	if err := w.Forge().EditComment(t.Context(), repo, made.Number, said.ID, text); err != nil {
		t.Fatal(err)
	}
	if said, err = w.Forge().Comment(t.Context(), repo, made.Number, said.ID); err != nil {
		t.Fatal(err)
	}
	kept("edited comment", said.Body)
	for range 2 { // the second time with what the forge has
		if err := w.Forge().EditMergeRequest(t.Context(), repo, made.Number, "Follow", made.Body, false); err != nil {
			t.Fatal(err)
		}
		if made, err = w.Forge().MergeRequest(t.Context(), repo, made.Number); err != nil {
			t.Fatal(err)
		}
		kept("edited", made.Body)
		made.Body = text
	}
}

func testMissing(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	f := w.Forge()
	calls := map[string]func() error{
		"merge request": func() error { _, err := f.MergeRequest(t.Context(), repo, 999); return err },
		"repository": func() error {
			_, err := f.MergeRequest(t.Context(), forge.Repository{Path: "acme/none"}, 1)
			return err
		},
		"comment":  func() error { _, err := f.Comment(t.Context(), repo, mr.Number, 424242); return err },
		"edit":     func() error { return f.EditComment(t.Context(), repo, mr.Number, 424242, "x") },
		"comments": func() error { _, err := f.Comments(t.Context(), repo, 999); return err },
		"user":     func() error { _, err := f.Access(t.Context(), repo, "nobody-at-all"); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, forge.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
