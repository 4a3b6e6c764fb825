package gitea

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// actionsUser is the id of the user to which the tokens of jobs of Gitea Actions belong.
const actionsUser = -2

// Self implements forge.People.
func (f *Forge) Self(ctx context.Context) (forge.User, error) {
	f.mu.Lock()
	self := f.self
	f.mu.Unlock()
	if self != nil {
		return *self, nil
	}
	u, err := get[gitea.User](ctx, f, "user")
	if err != nil {
		return forge.User{}, wrap("read the user of the token", err)
	}
	out := user(&u)
	f.mu.Lock()
	f.self = &out
	f.mu.Unlock()
	return out, nil
}

// Access implements forge.People. Gitea shows permissions only to administrators of the repository. Its levels are
// read, write, admin, which a collaborator can have, and owner: the owner of the repository, the members of teams with
// administrator access, and site administrators. What counts is the access to the code, see codeAccess.
func (f *Forge) Access(ctx context.Context, repo forge.Repository, login string) (forge.Access, error) {
	what := "read the access of " + login + " to " + repo.Path
	path, err := at(repo, "/collaborators/%s/permission", url.PathEscape(login))
	if err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	p, err := get[gitea.CollaboratorPermissionResult](ctx, f, path)
	if err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	general := accessOf(p.Permission)
	if general >= forge.AccessMaintain {
		return general, nil
	}
	code, err := f.codeAccess(ctx, repo, login, general)
	return code, wrap(what, err)
}

func accessOf(mode gitea.AccessMode) forge.Access {
	switch mode {
	case gitea.AccessModeOwner:
		return forge.AccessAdmin
	case gitea.AccessModeAdmin:
		return forge.AccessMaintain
	case gitea.AccessModeWrite:
		return forge.AccessWrite
	case gitea.AccessModeRead:
		return forge.AccessRead
	}
	return forge.AccessNone
}

// InTeam implements forge.People. Gitea shows the members of a team to its members, to the owners of the organization
// and to site administrators; for others the error is ErrForbidden.
func (f *Forge) InTeam(ctx context.Context, repo forge.Repository, team, login string) (bool, error) {
	org, name, ok := strings.Cut(team, "/")
	if !ok {
		org, _, _ = strings.Cut(repo.Path, "/")
		name = team
	}
	what := fmt.Sprintf("read whether %s is in the team %s/%s", login, org, name)
	teams, err := list[*gitea.Team](ctx, f, "orgs/"+url.PathEscape(org)+"/teams", nil)
	if err != nil {
		return false, wrap(what, err)
	}
	i := slices.IndexFunc(teams, func(t *gitea.Team) bool { return strings.EqualFold(t.Name, name) })
	if i < 0 {
		return false, wrap(what, fmt.Errorf("%w: the organization shows no such team", forge.ErrNotFound))
	}
	is, err := f.isMember(ctx, teams[i].ID, login)
	return is, wrap(what, err)
}

// isMember reports whether a user is a member of a team.
func (f *Forge) isMember(ctx context.Context, team int64, login string) (bool, error) {
	m, err := get[gitea.User](ctx, f, fmt.Sprintf("teams/%d/members/%s", team, url.PathEscape(login)))
	if err == nil {
		return strings.EqualFold(m.UserName, login), nil // the name of a renamed user leads to the new one
	}
	if !missing(err) {
		return false, err
	}
	// The answer is 404 too if the credential may not see the members.
	_, err = get[[]*gitea.User](ctx, f, fmt.Sprintf("teams/%d/members?limit=1", team))
	return false, err
}

// user translates a user; nil is one without a name.
func user(u *gitea.User) forge.User {
	if u == nil {
		return forge.User{}
	}
	return forge.User{ID: u.ID, Login: u.UserName, Bot: u.ID == actionsUser}
}

// Repositories implements forge.Repositories.
func (f *Forge) Repositories(ctx context.Context) ([]forge.Repository, error) {
	all, err := list[*gitea.Repository](ctx, f, "user/repos", nil)
	if err != nil {
		return nil, wrap("list repositories", err)
	}
	out := []forge.Repository{}
	for _, r := range all {
		if r.Permissions != nil && r.Permissions.Push && !r.Archived && !r.Mirror {
			out = append(out, forge.Repository{Path: r.FullName})
		}
	}
	slices.SortFunc(out, func(a, b forge.Repository) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(out), nil
}
