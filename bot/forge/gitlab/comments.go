package gitlab

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// CommentLimit implements forge.Comments.
func (f *Forge) CommentLimit() int { return commentLimit }

// Comments implements forge.Comments. It leaves out notes that GitLab itself writes.
func (f *Forge) Comments(ctx context.Context, repo forge.Repository, number int) ([]forge.Comment, error) {
	o := &gitlab.ListMergeRequestNotesOptions{OrderBy: new("created_at"), Sort: new("asc")}
	notes, err := pages(func(p gitlab.ListOptions) ([]*gitlab.Note, *gitlab.Response, error) {
		o.ListOptions = p
		return f.client.Notes.ListMergeRequestNotes(repo.Path, number, o, with(ctx))
	})
	if err != nil {
		return nil, wrap(fmt.Sprintf("list the comments of %s!%d", repo.Path, number), err)
	}
	var out []forge.Comment
	for _, n := range notes {
		if !n.System {
			out = append(out, comment(n))
		}
	}
	return out, nil
}

// Comment implements forge.Comments.
func (f *Forge) Comment(ctx context.Context, repo forge.Repository, number int, id int64) (*forge.Comment, error) {
	n, _, err := f.client.Notes.GetMergeRequestNote(repo.Path, number, int(id), with(ctx))
	if err != nil {
		return nil, wrap(fmt.Sprintf("read comment %d of %s!%d", id, repo.Path, number), err)
	}
	if n.System {
		return nil, wrap(fmt.Sprintf("read comment %d of %s!%d", id, repo.Path, number),
			fmt.Errorf("%w: it is a note of GitLab itself", forge.ErrNotFound))
	}
	out := comment(n)
	return &out, nil
}

// CreateComment implements forge.Comments.
func (f *Forge) CreateComment(ctx context.Context, repo forge.Repository, number int, body string) (*forge.Comment,
	error,
) {
	body = forge.Inert(body)
	n, _, err := f.client.Notes.CreateMergeRequestNote(repo.Path, number,
		&gitlab.CreateMergeRequestNoteOptions{Body: &body}, with(ctx))
	if err != nil {
		return nil, wrap(fmt.Sprintf("comment on %s!%d", repo.Path, number), err)
	}
	out := comment(n)
	return &out, nil
}

// EditComment implements forge.Comments.
func (f *Forge) EditComment(ctx context.Context, repo forge.Repository, number int, id int64, body string) error {
	body = forge.Inert(body)
	_, _, err := f.client.Notes.UpdateMergeRequestNote(repo.Path, number, int(id),
		&gitlab.UpdateMergeRequestNoteOptions{Body: &body}, with(ctx))
	return wrap(fmt.Sprintf("edit comment %d of %s!%d", id, repo.Path, number), err)
}

// DeleteComment implements forge.Comments. If the comment does not exist, it returns no error.
func (f *Forge) DeleteComment(ctx context.Context, repo forge.Repository, number int, id int64) error {
	_, err := f.client.Notes.DeleteMergeRequestNote(repo.Path, number, int(id), with(ctx))
	if err != nil && missing(translated(err)) {
		return nil
	}
	return wrap(fmt.Sprintf("delete comment %d of %s!%d", id, repo.Path, number), err)
}

// missing reports whether a translated error means that the object does not exist, or that the credential may not see
// it.
func missing(err error) bool { return errors.Is(err, forge.ErrNotFound) }

func comment(n *gitlab.Note) forge.Comment {
	return forge.Comment{
		ID: int64(n.ID), Author: forge.User{
			ID: int64(n.Author.ID), Login: n.Author.Username,
			Bot: machine(n.Author.Username),
		},
		Body: n.Body, Created: when(n.CreatedAt), Updated: when(n.UpdatedAt),
	}
}

// React implements forge.Reactions.
func (f *Forge) React(ctx context.Context, repo forge.Repository, number int, id int64, r forge.Reaction) error {
	name, ok := map[forge.Reaction]string{forge.Eyes: "eyes", forge.Rocket: "rocket", forge.Confused: "confused"}[r]
	if !ok {
		return wrap("react", fmt.Errorf("%w: reaction %q", forge.ErrUnsupported, r))
	}
	_, _, err := f.client.AwardEmoji.CreateMergeRequestAwardEmojiOnNote(repo.Path, number, int(id),
		&gitlab.CreateAwardEmojiOptions{Name: name}, with(ctx))
	var e *gitlab.ErrorResponse
	if errors.As(err, &e) || errors.Is(err, gitlab.ErrNotFound) {
		// GitLab refuses an emoji that exists with this text, or with 404, in which case the library drops the text.
		if e != nil && strings.Contains(strings.ToLower(e.Message), "already been taken") {
			return nil
		}
		if there, err := reacted(ctx, f, repo, number, id, name); err == nil && there {
			return nil
		}
	}
	return wrap(fmt.Sprintf("react to comment %d of %s!%d", id, repo.Path, number), err)
}

// reacted reports whether the user of the credential has added the emoji.
func reacted(ctx context.Context, f *Forge, repo forge.Repository, number int, id int64, name string) (bool, error) {
	self, err := f.Self(ctx)
	if err != nil {
		return false, err
	}
	o := &gitlab.ListAwardEmojiOptions{}
	list, err := pages(func(p gitlab.ListOptions) ([]*gitlab.AwardEmoji, *gitlab.Response, error) {
		*o = gitlab.ListAwardEmojiOptions(p)
		return f.client.AwardEmoji.ListMergeRequestAwardEmojiOnNote(repo.Path, number, int(id), o, with(ctx))
	})
	if err != nil {
		return false, err
	}
	for _, e := range list {
		if e.Name == name && int64(e.User.ID) == self.ID {
			return true, nil
		}
	}
	return false, nil
}
