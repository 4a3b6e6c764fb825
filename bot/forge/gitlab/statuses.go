package gitlab

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const maxDescription = 255 // characters

// SetStatus implements forge.Statuses.
func (f *Forge) SetStatus(ctx context.Context, repo forge.Repository, commit string, s forge.Status) error {
	state, ok := map[forge.StatusState]gitlab.BuildStateValue{
		forge.Pending: gitlab.Pending, forge.Running: gitlab.Running, forge.Success: gitlab.Success,
		forge.Failure: gitlab.Failed,
	}[s.State]
	if !ok {
		return wrap("set a status", errors.New("unknown state "+string(s.State)))
	}
	description := safetext.Shorten(s.Description, maxDescription)
	o := &gitlab.SetCommitStatusOptions{State: state, Name: &s.Context, Description: &description}
	if s.URL != "" {
		o.TargetURL = &s.URL
	}
	_, _, err := f.client.Commits.SetCommitStatus(repo.Path, commit, o, with(ctx))
	var e *gitlab.ErrorResponse
	if errors.As(err, &e) && strings.Contains(e.Message, "Cannot transition status") {
		return nil // the commit has the state already
	}
	return wrap("set the status "+s.Context+" of "+commit, err)
}

// CommitStatuses implements forge.Statuses. GitLab has no check runs.
func (f *Forge) CommitStatuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	return f.Statuses(ctx, repo, commit)
}

// Statuses implements forge.Statuses.
func (f *Forge) Statuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	o := &gitlab.GetCommitStatusesOptions{}
	list, err := pages(func(p gitlab.ListOptions) ([]*gitlab.CommitStatus, *gitlab.Response, error) {
		o.ListOptions = p
		return f.client.Commits.GetCommitStatuses(repo.Path, commit, o, with(ctx))
	})
	if err != nil {
		return nil, wrap("read the statuses of "+commit, err)
	}
	newest := map[string]*gitlab.CommitStatus{}
	for _, s := range list {
		if old := newest[s.Name]; old == nil || old.ID < s.ID {
			newest[s.Name] = s
		}
	}
	out := make([]forge.Status, 0, len(newest))
	for name, s := range newest {
		out = append(out, forge.Status{
			Context: name, State: stateOf(s.Status), Description: s.Description, URL: s.TargetURL,
			Updated: cmp.Or(when(s.FinishedAt), when(s.StartedAt), when(s.CreatedAt)),
			Author:  forge.User{ID: int64(s.Author.ID), Login: s.Author.Username, Bot: machine(s.Author.Username)},
		})
	}
	slices.SortStableFunc(out, func(a, b forge.Status) int { return strings.Compare(a.Context, b.Context) })
	return out, nil
}

func stateOf(s string) forge.StatusState {
	switch s {
	case "success", "skipped":
		return forge.Success
	case "failed", "canceled":
		return forge.Failure
	case "running":
		return forge.Running
	}
	return forge.Pending // created, waiting_for_resource, preparing, pending, manual, scheduled
}

// SetCheck implements forge.Checks. GitLab has no check runs.
func (f *Forge) SetCheck(context.Context, forge.Repository, forge.Check) error {
	return wrap("write a check run", forge.ErrUnsupported)
}

// CheckRuns implements forge.Checks.
func (f *Forge) CheckRuns(context.Context, forge.Repository, string) ([]forge.Status, error) {
	return nil, wrap("read check runs", forge.ErrUnsupported)
}
