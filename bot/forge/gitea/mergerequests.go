package gitea

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"code.gitea.io/sdk/gitea"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// MergeRequest implements forge.MergeRequests.
func (f *Forge) MergeRequest(ctx context.Context, repo forge.Repository, number int) (*forge.MergeRequest, error) {
	what := fmt.Sprintf("read merge request %s#%d", repo.Path, number)
	path, err := at(repo, "/pulls/%d", number)
	if err != nil {
		return nil, wrap(what, err)
	}
	pr, err := get[gitea.PullRequest](ctx, f, path)
	if err != nil {
		return nil, wrap(what, err)
	}
	return neutral(repo, &pr), nil
}

// OpenMergeRequests implements forge.MergeRequests.
func (f *Forge) OpenMergeRequests(ctx context.Context, repo forge.Repository,
	targetBranch string,
) ([]*forge.MergeRequest, error) {
	what := "list open merge requests of " + repo.Path
	path, err := at(repo, "/pulls")
	if err != nil {
		return nil, wrap(what, err)
	}
	query := url.Values{"state": {"open"}, "sort": {"oldest"}}
	if targetBranch != "" {
		query.Set("base_branch", targetBranch)
	}
	all, err := list[*gitea.PullRequest](ctx, f, path, query)
	if err != nil {
		return nil, wrap(what, err)
	}
	out := neutrals(repo, all)
	return slices.DeleteFunc(out, func(mr *forge.MergeRequest) bool { // older servers ignore base_branch
		return targetBranch != "" && mr.TargetBranch != targetBranch
	}), nil
}

// RecentMergeRequests implements forge.Recent.
func (f *Forge) RecentMergeRequests(ctx context.Context, repo forge.Repository, since time.Time) ([]*forge.MergeRequest,
	error,
) {
	var out []*forge.MergeRequest
	err := f.recent(ctx, repo, func(mr *forge.MergeRequest) bool {
		if mr.Updated.Before(since) {
			return false
		}
		out = append(out, mr)
		return true
	})
	if err != nil {
		return nil, wrap("list recent merge requests of "+repo.Path, err)
	}
	return byNumber(out), nil
}

// recent passes the merge requests of a repository to visit, the most recently updated first, until it returns false.
// It reads no more pages than that takes: for each merge request of a list Gitea runs git.
func (f *Forge) recent(ctx context.Context, repo forge.Repository, visit func(mr *forge.MergeRequest) bool) error {
	path, err := at(repo, "/pulls")
	if err != nil {
		return err
	}
	size, err := f.pageSize(ctx)
	if err != nil {
		return err
	}
	query := url.Values{"state": {"all"}, "sort": {"recentupdate"}}
	_, err = rest.Pages(func(page int) ([]struct{}, int, error) {
		var some []*gitea.PullRequest
		header, err := f.call(ctx, http.MethodGet, onPage(path, query, page, size), nil, &some)
		if err != nil {
			return nil, 0, err
		}
		for _, pr := range some {
			if !visit(neutral(repo, pr)) {
				return nil, 0, nil
			}
		}
		return nil, nextPage(header, page, len(some), size), nil
	})
	return err
}

// MergeRequestsOf implements forge.MergeRequests. Gitea finds only the merge request whose merging created a commit.
// For other commits the adapter reads the commits of the most recently updated merge requests, see history.
func (f *Forge) MergeRequestsOf(ctx context.Context, repo forge.Repository, commit string) ([]*forge.MergeRequest,
	error,
) {
	what := "list merge requests of commit " + commit
	path, err := at(repo, "/commits/%s/pull", url.PathEscape(commit))
	if err != nil {
		return nil, wrap(what, err)
	}
	pr, err := get[gitea.PullRequest](ctx, f, path)
	switch {
	case err == nil && pr.Index > 0:
		return []*forge.MergeRequest{neutral(repo, &pr)}, nil
	case err != nil && !missing(err):
		return nil, wrap(what, err)
	}
	out, err := f.history(repo).of(ctx, f, repo, commit)
	return out, wrap(what, err)
}

// MergeRequestRef implements forge.MergeRequests.
func (f *Forge) MergeRequestRef(number int) string { return fmt.Sprintf("refs/pull/%d/head", number) }

// draftPrefix makes a merge request a draft on a server with the default WORK_IN_PROGRESS_PREFIXES.
const draftPrefix = "WIP: "

// CreateMergeRequest implements forge.Requests.
func (f *Forge) CreateMergeRequest(ctx context.Context, repo forge.Repository, r forge.NewRequest) (*forge.MergeRequest,
	error,
) {
	what := "open a merge request in " + repo.Path
	path, err := at(repo, "/pulls")
	if err != nil {
		return nil, wrap(what, err)
	}
	o := gitea.CreatePullRequestOption{
		Title: r.Title, Body: forge.Inert(r.Body), Head: r.SourceBranch, Base: r.TargetBranch,
	}
	if r.Draft {
		o.Title = draftPrefix + o.Title
	}
	var pr gitea.PullRequest
	if _, err := f.call(ctx, http.MethodPost, path, o, &pr); err != nil {
		return nil, wrap(what, err)
	}
	return neutral(repo, &pr), nil
}

// EditMergeRequest implements forge.Requests.
func (f *Forge) EditMergeRequest(ctx context.Context, repo forge.Repository, number int, title, body string,
	shut bool,
) error {
	what := fmt.Sprintf("edit merge request %s#%d", repo.Path, number)
	path, err := at(repo, "/pulls/%d", number)
	if err != nil {
		return wrap(what, err)
	}
	body = forge.Inert(body)
	o := gitea.EditPullRequestOption{Title: title, Body: &body}
	if shut {
		mr, err := f.MergeRequest(ctx, repo, number)
		if err != nil {
			return err
		}
		if mr.State == forge.Open { // Gitea refuses to close it twice
			o.State = new(gitea.StateClosed)
		}
	}
	_, err = f.call(ctx, http.MethodPatch, path, o, nil)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.code == http.StatusPreconditionFailed { // merged since
		err = fmt.Errorf("%w: %s", forge.ErrConflict, refused.said)
	}
	return wrap(what, err)
}

func neutrals(repo forge.Repository, all []*gitea.PullRequest) []*forge.MergeRequest {
	out := make([]*forge.MergeRequest, len(all))
	for i, pr := range all {
		out[i] = neutral(repo, pr)
	}
	return byNumber(out)
}

// byNumber sorts merge requests. A merge request can be on two pages if one is updated in between.
func byNumber(all []*forge.MergeRequest) []*forge.MergeRequest {
	slices.SortStableFunc(all, func(a, b *forge.MergeRequest) int { return cmp.Compare(a.Number, b.Number) })
	return slices.CompactFunc(all, func(a, b *forge.MergeRequest) bool { return a.Number == b.Number })
}

// neutral translates a merge request. If the fork was deleted, Gitea sends no source repository and the id -1.
func neutral(repo forge.Repository, pr *gitea.PullRequest) *forge.MergeRequest {
	out := &forge.MergeRequest{
		Number: int(pr.Index), Title: pr.Title, Body: pr.Body, Draft: pr.Draft, State: forge.Closed, Labels: []string{},
		Author: user(pr.Poster), URL: pr.HTMLURL, Updated: when(pr.Updated),
	}
	for _, l := range pr.Labels {
		out.Labels = append(out.Labels, l.Name)
	}
	switch {
	case pr.HasMerged:
		out.State = forge.Merged
		if pr.MergedCommitID != nil {
			out.MergeCommit = *pr.MergedCommitID
		}
	case pr.State == gitea.StateOpen:
		out.State = forge.Open
	}
	if pr.Base != nil {
		out.TargetBranch, out.Base = pr.Base.Ref, pr.Base.Sha
	}
	if pr.Head == nil {
		return out
	}
	out.SourceBranch, out.Head = pr.Head.Name, pr.Head.Sha // Ref is that of the merge request once the branch is gone
	switch {
	case pr.Head.Name == "": // made by a push to refs/for/: the right to read suffices for that
		out.Fork = true
	case pr.Base != nil && pr.Head.RepoID == pr.Base.RepoID:
		out.SourceRepo = repo.Path
	case pr.Head.Repository != nil:
		out.Fork, out.SourceRepo = true, pr.Head.Repository.FullName
	default:
		out.Fork = true
	}
	return out
}
