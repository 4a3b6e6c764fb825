package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"code.gitea.io/sdk/gitea"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// CommentLimit implements forge.Comments.
func (f *Forge) CommentLimit() int { return commentLimit }

// Comments implements forge.Comments. Gitea sends all of them at once, oldest first.
func (f *Forge) Comments(ctx context.Context, repo forge.Repository, number int) ([]forge.Comment, error) {
	what := fmt.Sprintf("list the comments of %s#%d", repo.Path, number)
	path, err := at(repo, "/issues/%d/comments", number)
	if err != nil {
		return nil, wrap(what, err)
	}
	all, err := get[[]*gitea.Comment](ctx, f, path)
	if failed(err) { // so Gitea answers for a number that does not exist
		if _, there := f.MergeRequest(ctx, repo, number); errors.Is(there, forge.ErrNotFound) {
			err = there
		}
	}
	if err != nil {
		return nil, wrap(what, err)
	}
	var out []forge.Comment
	for _, c := range all {
		out = append(out, comment(c))
	}
	return out, nil
}

// Comment implements forge.Comments.
func (f *Forge) Comment(ctx context.Context, repo forge.Repository, number int, id int64) (*forge.Comment, error) {
	what := fmt.Sprintf("read comment %d of %s#%d", id, repo.Path, number)
	path, err := at(repo, "/issues/comments/%d", id)
	if err != nil {
		return nil, wrap(what, err)
	}
	c, err := get[gitea.Comment](ctx, f, path)
	switch {
	case err != nil:
		return nil, wrap(what, err)
	case c.ID == 0: // 204: an event of the conversation, such as a push
		return nil, wrap(what, fmt.Errorf("%w: it is no comment", forge.ErrNotFound))
	case !strings.HasSuffix(c.PRURL, fmt.Sprint("/", number)): // ids count over the whole server
		return nil, wrap(what, fmt.Errorf("%w: it belongs to another merge request", forge.ErrNotFound))
	}
	out := comment(&c)
	return &out, nil
}

// CreateComment implements forge.Comments.
func (f *Forge) CreateComment(ctx context.Context, repo forge.Repository, number int, body string) (*forge.Comment,
	error,
) {
	what := fmt.Sprintf("comment on %s#%d", repo.Path, number)
	path, err := at(repo, "/issues/%d/comments", number)
	if err != nil {
		return nil, wrap(what, err)
	}
	var c gitea.Comment
	if err := f.write(ctx, http.MethodPost, path, body, &c); err != nil {
		return nil, wrap(what, err)
	}
	out := comment(&c)
	return &out, nil
}

// EditComment implements forge.Comments.
func (f *Forge) EditComment(ctx context.Context, repo forge.Repository, number int, id int64, body string) error {
	what := fmt.Sprintf("edit comment %d of %s#%d", id, repo.Path, number)
	path, err := at(repo, "/issues/comments/%d", id)
	if err != nil {
		return wrap(what, err)
	}
	return wrap(what, f.write(ctx, http.MethodPatch, path, body, nil))
}

// write sends the text of a comment.
func (f *Forge) write(ctx context.Context, method, path, body string, out any) error {
	body = forge.Inert(body)
	if n := utf8.RuneCountInString(body); n > commentLimit {
		return fmt.Errorf("%w: %d characters, and at most %d are written", forge.ErrTooLong, n, commentLimit)
	}
	_, err := f.call(ctx, method, path, gitea.CreateIssueCommentOption{Body: body}, out)
	return err
}

// DeleteComment implements forge.Comments. If the comment does not exist, it returns no error.
func (f *Forge) DeleteComment(ctx context.Context, repo forge.Repository, number int, id int64) error {
	what := fmt.Sprintf("delete comment %d of %s#%d", id, repo.Path, number)
	path, err := at(repo, "/issues/comments/%d", id)
	if err != nil {
		return wrap(what, err)
	}
	if _, err = f.call(ctx, http.MethodDelete, path, nil, nil); err != nil && missing(err) {
		return nil
	}
	return wrap(what, err)
}

func comment(c *gitea.Comment) forge.Comment {
	return forge.Comment{
		ID: c.ID, Author: user(c.Poster), Body: c.Body, Created: c.Created.UTC(), Updated: c.Updated.UTC(),
		URL: c.HTMLURL,
	}
}

// React implements forge.Reactions. It has no effect if the server's setting REACTIONS lacks the reaction.
func (f *Forge) React(ctx context.Context, repo forge.Repository, number int, id int64, r forge.Reaction) error {
	what := fmt.Sprintf("react to comment %d of %s#%d", id, repo.Path, number)
	switch r {
	case forge.Eyes, forge.Rocket, forge.Confused:
	default:
		return wrap(what, fmt.Errorf("%w: reaction %q", forge.ErrUnsupported, r))
	}
	path, err := at(repo, "/issues/comments/%d/reactions", id)
	if err != nil {
		return wrap(what, err)
	}
	_, err = f.call(ctx, http.MethodPost, path, map[string]string{"content": string(r)}, nil)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.code == http.StatusForbidden &&
		strings.Contains(refused.said, "not an allowed reaction") {
		return nil
	}
	return wrap(what, err)
}
