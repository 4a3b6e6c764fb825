package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// labelColor is the color of labels that the adapter creates. Gitea requires one.
const labelColor = "#6a737d"

// EditLabels implements forge.Labels. Gitea leaves out names of labels that it does not know, so the adapter creates
// those that are missing in the answer, and adds them again.
func (f *Forge) EditLabels(ctx context.Context, repo forge.Repository, number int, add, remove []string) error {
	what := fmt.Sprintf("edit the labels of %s#%d", repo.Path, number)
	path, err := at(repo, "/issues/%d/labels", number)
	if err != nil {
		return wrap(what, err)
	}
	if len(add) > 0 {
		if err := f.addLabels(ctx, repo, path, add); err != nil {
			return wrap(what, err)
		}
	}
	if len(remove) == 0 {
		return nil
	}
	have, err := get[[]*gitea.Label](ctx, f, path)
	if err != nil {
		return wrap(what, err)
	}
	for _, l := range have {
		if !slices.Contains(remove, l.Name) {
			continue
		}
		if _, err := f.call(ctx, http.MethodDelete, fmt.Sprintf("%s/%d", path, l.ID), nil, nil); err != nil &&
			!missing(err) {
			return wrap(what, err)
		}
	}
	return nil
}

func (f *Forge) addLabels(ctx context.Context, repo forge.Repository, path string, names []string) error {
	var have []*gitea.Label
	if _, err := f.call(ctx, http.MethodPost, path, map[string]any{"labels": names}, &have); err != nil {
		return err
	}
	unknown := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(have, func(l *gitea.Label) bool { return l.Name == name })
	})
	if len(unknown) == 0 {
		return nil
	}
	labels, err := at(repo, "/labels")
	if err != nil {
		return err
	}
	for _, name := range unknown {
		if _, err := f.call(ctx, http.MethodPost, labels, map[string]any{"name": name, "color": labelColor},
			nil); err != nil {
			return err
		}
	}
	_, err = f.call(ctx, http.MethodPost, path, map[string]any{"labels": unknown}, nil)
	return err
}

// RequestReviews implements forge.ReviewRequests. Gitea refuses a request for several people if it does not accept one
// of them, so the adapter asks for one at a time. Only teams of the organization that owns the repository can review.
func (f *Forge) RequestReviews(ctx context.Context, repo forge.Repository, number int, users,
	teams []string,
) ([]forge.RefusedReviewer, error) {
	what := fmt.Sprintf("ask for reviews of %s#%d", repo.Path, number)
	path, err := at(repo, "/pulls/%d/requested_reviewers", number)
	if err != nil {
		return nil, wrap(what, err)
	}
	var refused []forge.RefusedReviewer
	// ask returns an error if the credential may ask nobody. Another error of one must not make the others be asked again.
	ask := func(name string, body map[string][]string) error {
		_, err := f.call(ctx, http.MethodPost, path, body, nil)
		if err = wrap(what, err); errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrUnauthorized) {
			return err
		}
		if err != nil {
			refused = append(refused, forge.RefusedReviewer{Name: name, Err: err})
		}
		return nil
	}
	for _, login := range users {
		if err := ask(login, map[string][]string{"reviewers": {login}}); err != nil {
			return refused, err
		}
	}
	owner, _, _ := strings.Cut(repo.Path, "/")
	for _, team := range teams {
		org, name, ok := strings.Cut(team, "/")
		if !ok {
			org, name = owner, team
		}
		if !strings.EqualFold(org, owner) {
			refused = append(refused, forge.RefusedReviewer{
				Name: team,
				Err:  wrap(what, fmt.Errorf("%w: only teams of %s can review", forge.ErrUnsupported, owner)),
			})
			continue
		}
		if err := ask(team, map[string][]string{"team_reviewers": {name}}); err != nil {
			return refused, err
		}
	}
	return refused, nil
}
