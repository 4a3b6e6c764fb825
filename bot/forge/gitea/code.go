package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"code.gitea.io/sdk/gitea"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// codeUnit is the part of a repository that its branches and files are.
const codeUnit = "repo.code"

// codeAccess returns the access of a user to the code of a repository. general is the access that Gitea states. For
// members of a team, it has the level of the team, which need not be the level for the code: Gitea 1.26 states none unless
// the team has administrator access, and teams of older versions have the lowest level of their units.
//
// It is general in repositories of users, and if all teams of the repository have for the code the level that they have
// in general. Otherwise it depends on the teams of the user. It is an ErrForbidden if the credential may not see whether
// the user is in a team on which the answer depends.
func (f *Forge) codeAccess(
	ctx context.Context, repo forge.Repository, login string, general forge.Access,
) (forge.Access, error) {
	teams, err := f.teams(ctx, repo)
	if err != nil {
		return forge.AccessNone, err
	}
	if !slices.ContainsFunc(teams, func(t *gitea.Team) bool { return codeOf(t) != accessOf(t.Permission) }) {
		return general, nil
	}
	best, err := f.accessWithoutTeams(ctx, repo, login, general)
	if err != nil {
		return forge.AccessNone, err
	}
	var unknown []*gitea.Team
	for _, t := range teams {
		if codeOf(t) <= best || accessOf(t.Permission) > general { // members have at least the level of the team
			continue
		}
		is, err := f.isMember(ctx, t.ID, login)
		switch kind := translated(err); {
		case err == nil && is:
			best = codeOf(t)
		case err == nil:
		case errors.Is(kind, forge.ErrForbidden), errors.Is(kind, forge.ErrNotFound):
			unknown = append(unknown, t)
		default:
			return forge.AccessNone, err
		}
	}
	for _, t := range unknown {
		if codeOf(t) > best {
			return forge.AccessNone, fmt.Errorf("%w: the user of the token may not see who is in the team %q, "+
				"which has access to the repository (make it a member of the team, or an owner of the organization)",
				forge.ErrForbidden, t.Name)
		}
	}
	return best, nil
}

// teams returns the teams of a repository; none if it belongs to a user.
func (f *Forge) teams(ctx context.Context, repo forge.Repository) ([]*gitea.Team, error) {
	path, err := at(repo, "/teams")
	if err != nil {
		return nil, err
	}
	teams, err := get[[]*gitea.Team](ctx, f, path) // it has no pages
	if r, ok := errors.AsType[*refusal](err); ok && r.code == http.StatusMethodNotAllowed {
		return nil, nil
	}
	return teams, err
}

// codeOf returns the level that a team has for the code.
func codeOf(t *gitea.Team) forge.Access {
	return accessOf(gitea.AccessMode(t.UnitsMap[codeUnit]))
}

// accessWithoutTeams returns the access to the code that a user has without the teams. To collaborators, Gitea gives
// their general level for everything, and to everybody what is public.
func (f *Forge) accessWithoutTeams(
	ctx context.Context, repo forge.Repository, login string, general forge.Access,
) (forge.Access, error) {
	path, err := at(repo, "/collaborators/%s", url.PathEscape(login))
	if err != nil {
		return forge.AccessNone, err
	}
	if _, err = f.call(ctx, http.MethodGet, path, nil, nil); err == nil {
		return general, nil
	} else if !missing(err) {
		return forge.AccessNone, err
	}
	if path, err = at(repo, ""); err != nil {
		return forge.AccessNone, err
	}
	r, err := get[gitea.Repository](ctx, f, path)
	if err != nil || r.Private {
		return forge.AccessNone, err
	}
	return min(general, forge.AccessRead), nil
}
