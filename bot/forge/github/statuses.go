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
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const maxDescription = 140

// SetStatus implements forge.Statuses.
func (f *Forge) SetStatus(ctx context.Context, repo forge.Repository, commit string, s forge.Status) error {
	what := fmt.Sprintf("set status %.100q of commit %.64s of %.200s", s.Context, commit, repo.Path)
	if err := checkCommit(commit); err != nil {
		return wrap(what, err)
	}
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return wrap(what, err)
	}
	state := string(s.State)
	if s.State == forge.Running {
		state = string(forge.Pending)
	}
	body := &github.RepoStatus{
		State: &state, Context: &s.Context,
		Description: new(safetext.Shorten(s.Description, maxDescription)),
	}
	if s.URL != "" {
		body.TargetURL = &s.URL
	}
	// The newest status of a context counts, so that the request may be repeated.
	_, _, err = f.client.Repositories.CreateStatus(rest.Repeatable(ctx), p.owner, p.name, commit, body)
	return wrap(what, err)
}

// Statuses implements forge.Statuses. It includes check runs of all Apps.
func (f *Forge) Statuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	statuses, err := f.CommitStatuses(ctx, repo, commit)
	if err != nil {
		return nil, err
	}
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(readStatuses(repo, commit), err)
	}
	runs, err := checkRuns{f.client}.statuses(ctx, p, commit)
	if err != nil {
		return nil, wrap(readStatuses(repo, commit), err)
	}
	return newest(append(statuses, runs...)), nil
}

func readStatuses(repo forge.Repository, commit string) string {
	return fmt.Sprintf("read the statuses of commit %.64s of %.200s", commit, repo.Path)
}

// CommitStatuses implements forge.Statuses.
func (f *Forge) CommitStatuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	what := readStatuses(repo, commit)
	if err := checkCommit(commit); err != nil {
		return nil, wrap(what, err)
	}
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	// The combined status needs fewer pages, but does not have the creators.
	set, err := pages(func(o github.ListOptions) ([]*github.RepoStatus, *github.Response, error) {
		return f.client.Repositories.ListStatuses(ctx, p.owner, p.name, commit, &o)
	})
	if err != nil {
		return nil, wrap(what, err)
	}
	all := make([]forge.Status, 0, len(set))
	for _, s := range set {
		all = append(all, forge.Status{
			Context: s.GetContext(), State: stateOf(s.GetState()), Description: s.GetDescription(),
			URL:     s.GetTargetURL(),
			Updated: s.GetUpdatedAt().Time, Author: user(s.GetCreator()),
		})
	}
	return newest(all), nil
}

// newest keeps the newest status of each context. Of two with the same time the first counts, because GitHub
// lists the newest first.
func newest(all []forge.Status) []forge.Status {
	fold := func(s forge.Status) string { return strings.ToLower(s.Context) } // GitHub ignores case
	slices.SortStableFunc(all, func(a, b forge.Status) int {
		return cmp.Or(strings.Compare(fold(a), fold(b)), b.Updated.Compare(a.Updated))
	})
	return slices.CompactFunc(all, func(a, b forge.Status) bool { return fold(a) == fold(b) })
}

func stateOf(s string) forge.StatusState {
	switch s {
	case "success":
		return forge.Success
	case "pending":
		return forge.Pending
	}
	return forge.Failure // failure, error, and unknown states
}

func statusOfRun(r *github.CheckRun) forge.Status {
	s := forge.Status{
		Context: r.GetName(), Description: r.GetOutput().GetTitle(), URL: r.GetDetailsURL(),
		Updated: r.GetCompletedAt().Time,
		Author:  forge.User{Login: botLogin(r.GetApp().GetSlug()), Bot: true}, Check: true,
	}
	if s.Updated.IsZero() {
		s.Updated = r.GetStartedAt().Time
	}
	s.State = runState(r.GetStatus(), r.GetConclusion())
	return s
}

func runState(status, conclusion string) forge.StatusState {
	switch {
	case status == "completed" && slices.Contains([]string{"success", "neutral", "skipped"}, conclusion):
		return forge.Success
	case status == "completed":
		return forge.Failure
	case status == "in_progress":
		return forge.Running
	}
	return forge.Pending
}

func botLogin(slug string) string { return slug + "[bot]" }
