package gitlab

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// EditLabels implements forge.Labels.
func (f *Forge) EditLabels(ctx context.Context, repo forge.Repository, number int, add, remove []string) error {
	o := &gitlab.UpdateMergeRequestOptions{}
	if len(add) > 0 {
		o.AddLabels = (*gitlab.LabelOptions)(&add)
	}
	if len(remove) > 0 {
		o.RemoveLabels = (*gitlab.LabelOptions)(&remove)
	}
	if len(add)+len(remove) == 0 {
		return nil
	}
	_, _, err := f.client.MergeRequests.UpdateMergeRequest(repo.Path, number, o, with(ctx))
	return wrap(fmt.Sprintf("edit the labels of %s!%d", repo.Path, number), err)
}

// RequestReviews implements forge.ReviewRequests. GitLab has no groups among the reviewers. It replaces the whole list
// of reviewers, so RequestReviews reads it first. GitLab drops users who cannot read the project, and all but the first
// reviewer without the license for several, without an error.
func (f *Forge) RequestReviews(ctx context.Context, repo forge.Repository, number int, users,
	teams []string,
) ([]forge.RefusedReviewer, error) {
	what := fmt.Sprintf("ask for reviews of %s!%d", repo.Path, number)
	var refused []forge.RefusedReviewer
	refuse := func(name string, err error) {
		refused = append(refused, forge.RefusedReviewer{Name: name, Err: wrap(what, err)})
	}
	for _, team := range teams {
		refuse(team, fmt.Errorf("%w: a group cannot be a reviewer", forge.ErrUnsupported))
	}
	wanted := map[int]string{}
	for _, login := range users {
		id, _, err := f.user(ctx, login)
		switch {
		case err == nil:
			wanted[id] = login
		case errors.Is(translated(err), forge.ErrNotFound):
			refuse(login, err)
		default:
			return refused, wrap(what, err)
		}
	}
	if len(wanted) == 0 {
		return refused, nil
	}
	mr, _, err := f.client.MergeRequests.GetMergeRequest(repo.Path, number, nil, with(ctx))
	if err != nil {
		return refused, wrap(what, err)
	}
	ids, before := reviewers(mr), len(reviewers(mr))
	for id := range wanted {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == before {
		return refused, nil
	}
	slices.Sort(ids[before:])
	mr, _, err = f.client.MergeRequests.UpdateMergeRequest(repo.Path, number,
		&gitlab.UpdateMergeRequestOptions{ReviewerIDs: &ids}, with(ctx))
	if err != nil {
		return refused, wrap(what, err)
	}
	for _, id := range ids[before:] {
		if !slices.Contains(reviewers(mr), id) {
			refuse(wanted[id], fmt.Errorf("%w: GitLab does not add the reviewer", forge.ErrForbidden))
		}
	}
	return refused, nil
}

func reviewers(mr *gitlab.MergeRequest) []int {
	out := make([]int, len(mr.Reviewers))
	for i, r := range mr.Reviewers {
		out[i] = r.ID
	}
	return out
}
