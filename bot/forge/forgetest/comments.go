package forgetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
)

func testComments(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	said := w.Comment(t, repo, mr.Number, "ada", "looks good")
	f := w.Forge()
	made, err := f.CreateComment(t.Context(), repo, mr.Number, "first")
	if err != nil || made.Body != "first" || made.Author.Login != w.Self().Login {
		t.Fatalf("%+v, %v", made, err)
	}
	if err := f.EditComment(t.Context(), repo, mr.Number, made.ID, "second — ünïcode ✓\n\n```\nx\n```"); err != nil {
		t.Fatal(err)
	}
	list, err := f.Comments(t.Context(), repo, mr.Number)
	if err != nil || len(list) != 2 || list[0].ID != said.ID || list[0].Author.Login != "ada" ||
		!strings.HasPrefix(list[1].Body, "second — ünïcode ✓") {
		t.Errorf("%+v, %v", list, err)
	}
	got, err := f.Comment(t.Context(), repo, mr.Number, said.ID)
	if err != nil || got.Body != "looks good" || got.Created.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	for range 2 {
		if err := f.DeleteComment(t.Context(), repo, mr.Number, made.ID); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if there := w.Comments(t, repo, mr.Number); len(there) != 1 {
		t.Errorf("left: %+v", there)
	}
}

func testManyComments(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	many := 2*pageItems(w) + 30
	for i := range many {
		w.Comment(t, repo, mr.Number, "ada", fmt.Sprint("comment ", i))
	}
	list, err := w.Forge().Comments(t.Context(), repo, mr.Number)
	if err != nil || len(list) != many || list[0].Body != "comment 0" ||
		list[many-1].Body != fmt.Sprint("comment ", many-1) {
		t.Errorf("%d comments, %v", len(list), err)
	}
}

func testTooLong(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	f := w.Forge()
	if _, err := f.CreateComment(t.Context(), repo, mr.Number, strings.Repeat("x", f.CommentLimit()+1)); !errors.Is(err,
		forge.ErrTooLong) {
		t.Errorf("a comment above the limit: %v", err)
	}
	if _, err := f.CreateComment(t.Context(), repo, mr.Number, strings.Repeat("x", f.CommentLimit())); err != nil {
		t.Errorf("a comment at the limit: %.200v", err)
	}
	w.Fail(t, Fault{Kind: TooLong, On: OnWrite})
	if _, err := f.CreateComment(t.Context(), repo, mr.Number, "x"); !errors.Is(err, forge.ErrTooLong) {
		t.Errorf("the forge's own refusal of a long comment: %v", err)
	}
}

// testLost checks that a comment is not created twice when the first answer is lost.
func testLost(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	w.Fail(t, Fault{Kind: Lost, On: OnWrite})
	if _, err := w.Forge().CreateComment(t.Context(), repo, mr.Number, "once"); !errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("lost answer: %v", err)
	}
	there := w.Comments(t, repo, mr.Number)
	if len(there) != 1 {
		t.Fatalf("%d comments", len(there))
	}
	w.Fail(t, Fault{Kind: Lost, On: OnWrite})
	if err := w.Forge().EditComment(t.Context(), repo, mr.Number, there[0].ID, "again"); err != nil {
		t.Errorf("a repeated edit: %v", err)
	}
}

func testReactions(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	said := w.Comment(t, repo, mr.Number, "ada", "/sluice status")
	for _, r := range []forge.Reaction{forge.Eyes, forge.Rocket, forge.Eyes} {
		if err := w.Forge().React(t.Context(), repo, mr.Number, said.ID, r); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	got := w.Reactions(t, repo, mr.Number, said.ID)
	slices.Sort(got)
	if !slices.Equal(got, []forge.Reaction{forge.Eyes, forge.Rocket}) {
		t.Errorf("reactions %v", got)
	}
}
