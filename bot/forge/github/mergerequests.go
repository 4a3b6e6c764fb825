package github

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

const perPage = 100

// pages reads all pages of a list.
func pages[T any](list func(o github.ListOptions) ([]T, *github.Response, error)) ([]T, error) {
	return rest.Pages(func(page int) ([]T, int, error) {
		some, resp, err := list(github.ListOptions{PerPage: perPage, Page: page})
		if err != nil {
			return nil, 0, err
		}
		return some, resp.NextPage, nil
	})
}

// MergeRequest implements forge.MergeRequests.
func (f *Forge) MergeRequest(ctx context.Context, repo forge.Repository, number int) (*forge.MergeRequest, error) {
	what := fmt.Sprintf("read pull request %d of %.200s", number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	pr, _, err := f.client.PullRequests.Get(ctx, p.owner, p.name, number)
	if err != nil {
		return nil, wrap(what, err)
	}
	return mergeRequest(pr), nil
}

// OpenMergeRequests implements forge.MergeRequests.
func (f *Forge) OpenMergeRequests(ctx context.Context, repo forge.Repository,
	targetBranch string,
) ([]*forge.MergeRequest, error) {
	what := fmt.Sprintf("list the open pull requests of %.200s", repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	all, err := pages(func(o github.ListOptions) ([]*github.PullRequest, *github.Response, error) {
		return f.client.PullRequests.List(ctx, p.owner, p.name, &github.PullRequestListOptions{
			State: "open", Base: targetBranch, Sort: "created", Direction: "asc", ListOptions: o,
		})
	})
	return mergeRequests(all, func(a, b *forge.MergeRequest) int { return cmp.Compare(a.Number, b.Number) }),
		wrap(what, err)
}

// RecentMergeRequests implements forge.Recent. It reads the list by time of update until entries are older.
func (f *Forge) RecentMergeRequests(ctx context.Context, repo forge.Repository, since time.Time) ([]*forge.MergeRequest,
	error,
) {
	what := fmt.Sprintf("list the recent pull requests of %.200s", repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	since = since.Truncate(time.Second) // GitHub's times have no fractions
	old := func(pr *github.PullRequest) bool { return pr.GetUpdatedAt().Before(since) }
	all, err := pages(func(o github.ListOptions) ([]*github.PullRequest, *github.Response, error) {
		list, resp, err := f.client.PullRequests.List(ctx, p.owner, p.name,
			&github.PullRequestListOptions{State: "all", Sort: "updated", Direction: "desc", ListOptions: o})
		if resp != nil && slices.ContainsFunc(list, old) {
			resp.NextPage = 0
		}
		return list, resp, err
	})
	return mergeRequests(slices.DeleteFunc(all, old), func(a, b *forge.MergeRequest) int {
		return cmp.Compare(a.Number,
			b.Number)
	}), wrap(what, err)
}

// MergeRequestsOf implements forge.MergeRequests.
func (f *Forge) MergeRequestsOf(ctx context.Context, repo forge.Repository, commit string) ([]*forge.MergeRequest,
	error,
) {
	what := fmt.Sprintf("list the pull requests of commit %.64s of %.200s", commit, repo.Path)
	if err := checkCommit(commit); err != nil {
		return nil, wrap(what, err)
	}
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	all, err := pages(func(o github.ListOptions) ([]*github.PullRequest, *github.Response, error) {
		return f.client.PullRequests.ListPullRequestsWithCommit(ctx, p.owner, p.name, commit, &o)
	})
	rank := map[forge.State]int{forge.Merged: 0, forge.Open: 1, forge.Closed: 2}
	return mergeRequests(all, func(a, b *forge.MergeRequest) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), cmp.Compare(a.Number, b.Number))
	}), wrap(what, err)
}

// MergeRequestRef implements forge.MergeRequests.
func (f *Forge) MergeRequestRef(number int) string { return fmt.Sprintf("refs/pull/%d/head", number) }

// mergeRequests sorts, and removes duplicates, which occur if the list changes between two pages.
func mergeRequests(all []*github.PullRequest, order func(a, b *forge.MergeRequest) int) []*forge.MergeRequest {
	out := make([]*forge.MergeRequest, 0, len(all))
	for _, pr := range all {
		out = append(out, mergeRequest(pr))
	}
	slices.SortStableFunc(out, order)
	return slices.CompactFunc(out, func(a, b *forge.MergeRequest) bool { return a.Number == b.Number })
}

// mergeRequest translates a pull request. It uses members that both lists and single answers have: `merged`
// is in single answers only, and merge_commit_sha of an open pull request is a test merge.
func mergeRequest(pr *github.PullRequest) *forge.MergeRequest {
	m := &forge.MergeRequest{
		Number: pr.GetNumber(), Title: pr.GetTitle(), Body: pr.GetBody(), State: forge.Open, Draft: pr.GetDraft(),
		Labels: []string{}, Author: user(pr.GetUser()), SourceBranch: pr.GetHead().GetRef(),
		SourceRepo: pr.GetHead().GetRepo().GetFullName(), Head: pr.GetHead().GetSHA(),
		TargetBranch: pr.GetBase().GetRef(),
		Base:         pr.GetBase().GetSHA(), URL: pr.GetHTMLURL(), Updated: pr.GetUpdatedAt().Time,
	}
	m.Fork = pr.GetHead().GetRepo().GetID() != pr.GetBase().GetRepo().GetID()
	for _, l := range pr.Labels {
		m.Labels = append(m.Labels, l.GetName())
	}
	switch {
	case pr.MergedAt != nil || pr.GetMerged():
		m.State, m.MergeCommit = forge.Merged, pr.GetMergeCommitSHA()
	case pr.GetState() == "closed":
		m.State = forge.Closed
	}
	return m
}

func user(u *github.User) forge.User {
	return forge.User{ID: u.GetID(), Login: u.GetLogin(), Bot: u.GetType() == "Bot"}
}

// CreateMergeRequest implements forge.Requests.
func (f *Forge) CreateMergeRequest(ctx context.Context, repo forge.Repository, r forge.NewRequest) (*forge.MergeRequest,
	error,
) {
	what := fmt.Sprintf("open a pull request of %.200s from %.200s to %.200s", repo.Path, r.SourceBranch,
		r.TargetBranch)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	body := forge.Inert(r.Body)
	pr, _, err := f.client.PullRequests.Create(ctx, p.owner, p.name, &github.NewPullRequest{
		Title: &r.Title, Body: &body, Head: &r.SourceBranch, Base: &r.TargetBranch, Draft: &r.Draft,
	})
	if err != nil {
		return nil, wrap(what, err)
	}
	return mergeRequest(pr), nil
}

// EditMergeRequest implements forge.Requests.
func (f *Forge) EditMergeRequest(ctx context.Context, repo forge.Repository, number int, title, body string,
	close bool,
) error {
	what := fmt.Sprintf("edit pull request %d of %.200s", number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return wrap(what, err)
	}
	body = forge.Inert(body)
	change := &github.PullRequest{Title: &title, Body: &body}
	if close {
		change.State = new("closed")
	}
	_, _, err = f.client.PullRequests.Edit(ctx, p.owner, p.name, number, change)
	return wrap(what, err)
}
