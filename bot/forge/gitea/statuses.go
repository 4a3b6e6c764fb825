package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

const maxDescription = 255 // characters; Gitea has no limit and shows them in one line

// SetStatus implements forge.Statuses. A status cannot be edited or deleted: it posts a new one, and the newest of a
// context counts.
func (f *Forge) SetStatus(ctx context.Context, repo forge.Repository, commit string, s forge.Status) error {
	what := fmt.Sprintf("set the status %.100q of commit %.64s of %.200s", s.Context, commit, repo.Path)
	state, ok := map[forge.StatusState]gitea.StatusState{
		forge.Pending: gitea.StatusPending, forge.Running: gitea.StatusPending, forge.Success: gitea.StatusSuccess,
		forge.Failure: gitea.StatusFailure,
	}[s.State]
	if !ok {
		return wrap(what, errors.New("unknown state "+string(s.State)))
	}
	path, err := at(repo, "/statuses/%s", url.PathEscape(commit))
	if err != nil {
		return wrap(what, err)
	}
	// The newest status of a context counts, so that the request may be repeated. It is not: Gitea answers 500 for a
	// commit that it does not have.
	_, err = f.call(ctx, http.MethodPost, path, gitea.CreateStatusOption{
		State: state, Context: s.Context, Description: safetext.Shorten(s.Description, maxDescription), TargetURL: s.URL,
	}, nil)
	if failed(err) {
		if there := f.commit(ctx, repo, commit); missing(there) {
			err = there
		}
	}
	return wrap(what, err)
}

// commit returns an error unless the repository has a commit.
func (f *Forge) commit(ctx context.Context, repo forge.Repository, commit string) error {
	path, err := at(repo, "/git/commits/%s?stat=false&verification=false&files=false", url.PathEscape(commit))
	if err != nil {
		return err
	}
	_, err = f.call(ctx, http.MethodGet, path, nil, nil)
	return err
}

// CommitStatuses implements forge.Statuses. Gitea has no check runs.
func (f *Forge) CommitStatuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	return f.Statuses(ctx, repo, commit)
}

// Statuses implements forge.Statuses. The combined status of a commit has the newest status of each context.
func (f *Forge) Statuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	what := fmt.Sprintf("read the statuses of commit %.64s of %.200s", commit, repo.Path)
	path, err := at(repo, "/commits/%s/status", url.PathEscape(commit))
	if err != nil {
		return nil, wrap(what, err)
	}
	all, err := pages(ctx, f, path, nil, func(c gitea.CombinedStatus) []*gitea.Status { return c.Statuses })
	if err != nil {
		return nil, wrap(what, err)
	}
	newest := map[string]*gitea.Status{} // a status that is posted between two pages can move another to the second
	for _, s := range all {
		if old := newest[s.Context]; old == nil || old.ID < s.ID { // Gitea counts the statuses of a commit
			newest[s.Context] = s
		}
	}
	out := make([]forge.Status, 0, len(newest))
	for _, s := range newest {
		out = append(out, forge.Status{
			Context: s.Context, State: stateOf(s.State), Description: s.Description, URL: s.TargetURL,
			Updated: s.Updated.UTC(), Author: user(s.Creator),
		})
	}
	slices.SortFunc(out, func(a, b forge.Status) int { return strings.Compare(a.Context, b.Context) })
	return out, nil
}

// stateOf translates a state. As in the combined status of a commit, a warning is a failure, and a skipped job is none.
func stateOf(s gitea.StatusState) forge.StatusState {
	switch s {
	case gitea.StatusSuccess, "skipped":
		return forge.Success
	case gitea.StatusPending:
		return forge.Pending
	}
	return forge.Failure // failure, error, warning, and unknown states
}

// SetCheck implements forge.Checks. Gitea has no check runs.
func (f *Forge) SetCheck(context.Context, forge.Repository, forge.Check) error {
	return wrap("write a check run", forge.ErrUnsupported)
}

// CheckRuns implements forge.Checks.
func (f *Forge) CheckRuns(context.Context, forge.Repository, string) ([]forge.Status, error) {
	return nil, wrap("read check runs", forge.ErrUnsupported)
}
