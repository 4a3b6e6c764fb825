package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// EditLabels implements forge.Labels. It sends one request for all new labels, and one for each that it removes.
func (f *Forge) EditLabels(ctx context.Context, repo forge.Repository, number int, add, remove []string) error {
	what := fmt.Sprintf("edit the labels of pull request %d of %.200s", number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return wrap(what, err)
	}
	ctx = rest.Repeatable(ctx)
	if len(add) > 0 {
		// The library's method sends a list, which GitHub's description does not have.
		req, err := f.client.NewRequest(http.MethodPost, fmt.Sprintf("repos/%s/%s/issues/%d/labels", p.owner, p.name,
			number), map[string][]string{"labels": add})
		if err != nil {
			return wrap(what, err)
		}
		if _, err := f.client.Do(ctx, req, nil); err != nil {
			return wrap(what, err)
		}
	}
	for _, name := range remove {
		// The library's method does not escape the name, and ours have a slash.
		req, err := f.client.NewRequest(http.MethodDelete, fmt.Sprintf("repos/%s/%s/issues/%d/labels/%s", p.owner, p.name,
			number, url.PathEscape(name)), nil)
		if err != nil {
			return wrap(what, err)
		}
		if _, err := f.client.Do(ctx, req, nil); err != nil && status(err) != http.StatusNotFound {
			return wrap(what, err)
		}
	}
	return nil
}

// RequestReviews implements forge.ReviewRequests. GitHub refuses a whole request for one wrong name, so RequestReviews
// then sends one for each name.
func (f *Forge) RequestReviews(ctx context.Context, repo forge.Repository, number int, users,
	teams []string,
) ([]forge.RefusedReviewer, error) {
	what := fmt.Sprintf("ask for reviews of pull request %d of %.200s", number, repo.Path)
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return nil, wrap(what, err)
	}
	ctx = rest.Repeatable(ctx)
	var refused []forge.RefusedReviewer
	var names []string // as the caller wrote them
	var each []github.ReviewersRequest
	var all github.ReviewersRequest
	for _, login := range users {
		if err := checkLogin(login); err != nil {
			refused = append(refused, forge.RefusedReviewer{Name: login, Err: err})
			continue
		}
		names, each = append(names, login), append(each, github.ReviewersRequest{Reviewers: []string{login}})
		all.Reviewers = append(all.Reviewers, login)
	}
	for _, team := range teams {
		_, slug, err := teamOf(p, team)
		if err != nil {
			refused = append(refused, forge.RefusedReviewer{Name: team, Err: err})
			continue
		}
		names, each = append(names, team), append(each, github.ReviewersRequest{TeamReviewers: []string{slug}})
		all.TeamReviewers = append(all.TeamReviewers, slug)
	}
	ask := func(r github.ReviewersRequest) error {
		_, _, err := f.client.PullRequests.RequestReviewers(ctx, p.owner, p.name, number, r)
		return err
	}
	if len(each) == 0 {
		return refused, nil
	}
	err = ask(all)
	if status(err) != http.StatusUnprocessableEntity {
		return refused, wrap(what, err)
	}
	for i, r := range each { // an error of one must not make the others be asked again
		if err := ask(r); err != nil {
			refused = append(refused, forge.RefusedReviewer{Name: names[i], Err: wrap("ask for a review", err)})
		}
	}
	return refused, nil
}
