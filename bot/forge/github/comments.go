package github

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

const commentLimit = 65536

// CommentLimit implements forge.Comments.
func (f *Forge) CommentLimit() int { return commentLimit }

// Comments implements forge.Comments.
func (f *Forge) Comments(ctx context.Context, repo forge.Repository, number int) ([]forge.Comment, error) {
	what := fmt.Sprintf("read the comments of pull request %d of %.200s", number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	all, err := pages(func(o github.ListOptions) ([]*github.IssueComment, *github.Response, error) {
		return f.client.Issues.ListComments(ctx, p.owner, p.name, number,
			&github.IssueListCommentsOptions{ListOptions: o})
	})
	if err != nil {
		return nil, wrap(what, err)
	}
	out := make([]forge.Comment, 0, len(all))
	for _, c := range all {
		out = append(out, comment(c))
	}
	slices.SortStableFunc(out, func(a, b forge.Comment) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(out, func(a, b forge.Comment) bool { return a.ID == b.ID }), nil
}

func comment(c *github.IssueComment) forge.Comment {
	return forge.Comment{
		ID: c.GetID(), Author: user(c.GetUser()), Body: c.GetBody(), Created: c.GetCreatedAt().Time,
		Updated: c.GetUpdatedAt().Time, URL: c.GetHTMLURL(),
	}
}

// Comment implements forge.Comments. GitHub finds comments by id in the whole repository, so Comment checks the pull
// request.
func (f *Forge) Comment(ctx context.Context, repo forge.Repository, number int, id int64) (*forge.Comment, error) {
	what := fmt.Sprintf("read comment %d of pull request %d of %.200s", id, number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	got, _, err := f.client.Issues.GetComment(ctx, p.owner, p.name, id)
	if err != nil {
		return nil, wrap(what, err)
	}
	if !strings.HasSuffix(got.GetIssueURL(), fmt.Sprintf("/issues/%d", number)) {
		return nil, wrap(what, fmt.Errorf("%w: it belongs to another pull request", forge.ErrNotFound))
	}
	c := comment(got)
	return &c, nil
}

// CreateComment implements forge.Comments.
func (f *Forge) CreateComment(ctx context.Context, repo forge.Repository, number int, body string) (*forge.Comment,
	error,
) {
	what := fmt.Sprintf("comment on pull request %d of %.200s", number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	body = forge.Inert(body)
	got, _, err := f.client.Issues.CreateComment(ctx, p.owner, p.name, number, &github.IssueComment{Body: &body})
	if err != nil {
		return nil, wrap(what, err)
	}
	c := comment(got)
	return &c, nil
}

// EditComment implements forge.Comments.
func (f *Forge) EditComment(ctx context.Context, repo forge.Repository, number int, id int64, body string) error {
	what := fmt.Sprintf("edit comment %d of pull request %d of %.200s", id, number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return wrap(what, err)
	}
	body = forge.Inert(body)
	_, _, err = f.client.Issues.EditComment(ctx, p.owner, p.name, id, &github.IssueComment{Body: &body})
	return wrap(what, err)
}

// DeleteComment implements forge.Comments. If the comment does not exist and the pull request is visible, it returns
// no error.
func (f *Forge) DeleteComment(ctx context.Context, repo forge.Repository, number int, id int64) error {
	what := fmt.Sprintf("delete comment %d of pull request %d of %.200s", id, number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return wrap(what, err)
	}
	_, err = f.client.Issues.DeleteComment(ctx, p.owner, p.name, id)
	if status(err) == 404 {
		_, _, err = f.client.PullRequests.Get(ctx, p.owner, p.name, number)
	}
	return wrap(what, err)
}

// React implements forge.Reactions.
func (f *Forge) React(ctx context.Context, repo forge.Repository, number int, comment int64, r forge.Reaction) error {
	what := fmt.Sprintf("react to comment %d of pull request %d of %.200s", comment, number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return wrap(what, err)
	}
	// GitHub keeps one reaction of a kind for each user, so the request may be repeated.
	_, _, err = f.client.Reactions.CreateIssueCommentReaction(rest.Repeatable(ctx), p.owner, p.name, comment, string(r))
	return wrap(what, err)
}
