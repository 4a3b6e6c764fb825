package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// Self implements forge.People. A GitHub App is the user `<slug>[bot]`.
func (f *Forge) Self(ctx context.Context) (forge.User, error) {
	f.self.Lock()
	defer f.self.Unlock()
	if f.selfUser != nil {
		return *f.selfUser, nil
	}
	find := f.tokenSelf
	if f.app != nil {
		find = f.appSelf
	}
	u, err := find(ctx)
	if err != nil {
		return forge.User{}, wrap("read the user of the credential", err)
	}
	f.selfUser = &u
	return u, nil
}

func (f *Forge) tokenSelf(ctx context.Context) (forge.User, error) {
	ctx = rest.With(ctx, f.token)
	u, _, err := f.client.Users.Get(ctx, "")
	if err == nil {
		return user(u), nil
	}
	if status(err) != http.StatusForbidden {
		return forge.User{}, err
	}
	// The token of a workflow may not use this address; GraphQL returns its user.
	var answer struct {
		Data struct {
			Viewer struct {
				Login      string `json:"login"`
				DatabaseID int64  `json:"databaseId"`
			} `json:"viewer"`
		} `json:"data"`
	}
	req, errNew := f.client.NewRequest(http.MethodPost, f.graph,
		map[string]string{"query": "query{viewer{login databaseId}}"})
	if errNew != nil {
		return forge.User{}, errNew
	}
	if _, errDo := f.client.Do(rest.Repeatable(ctx), req, &answer); errDo != nil {
		return forge.User{}, errors.Join(translated(err), translated(errDo))
	}
	v := answer.Data.Viewer
	if v.Login == "" {
		return forge.User{}, err
	}
	return forge.User{ID: v.DatabaseID, Login: v.Login, Bot: true}, nil
}

// appItself reads the App.
func (f *Forge) appItself(ctx context.Context) (*github.App, error) {
	f.app.mu.Lock()
	have := f.app.itself
	f.app.mu.Unlock()
	if have != nil {
		return have, nil
	}
	a, _, err := f.client.Apps.Get(rest.With(ctx, f.app.jwt), "")
	if err != nil {
		return nil, err
	}
	f.app.mu.Lock()
	defer f.app.mu.Unlock()
	f.app.itself = a
	return a, nil
}

func (f *Forge) appSelf(ctx context.Context) (forge.User, error) {
	a, err := f.appItself(ctx)
	if err != nil {
		return forge.User{}, err
	}
	login := botLogin(a.GetSlug())
	if err := checkLogin(login); err != nil {
		return forge.User{}, err
	}
	// The token of the App itself may not read users; that of an installation may.
	id := f.app.fixed
	if id == 0 {
		some, _, err := f.client.Apps.ListInstallations(rest.With(ctx, f.app.jwt), &github.ListOptions{PerPage: 1})
		if err != nil {
			return forge.User{}, err
		}
		if len(some) == 0 {
			return forge.User{}, fmt.Errorf("%w: the App is not installed anywhere", forge.ErrNotFound)
		}
		id = some[0].GetID()
	}
	u, _, err := f.client.Users.Get(rest.With(ctx, f.app.held(id, place{})), login)
	if err != nil {
		return forge.User{}, err
	}
	return forge.User{ID: u.GetID(), Login: u.GetLogin(), Bot: true}, nil
}

// Access implements forge.People.
func (f *Forge) Access(ctx context.Context, repo forge.Repository, login string) (forge.Access, error) {
	what := fmt.Sprintf("read the permission of %.100s in %.200s", login, repo.Path)
	if err := checkLogin(login); err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	// The type of the library lacks the role, which distinguishes maintain from write.
	var got struct {
		Permission string `json:"permission"`
		RoleName   string `json:"role_name"`
	}
	req, err := f.client.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/collaborators/%s/permission", p.owner,
		p.name, login), nil)
	if err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	if _, err := f.client.Do(ctx, req, &got); err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	switch got.Permission {
	case "admin":
		return forge.AccessAdmin, nil
	case "write":
		if got.RoleName == "maintain" {
			return forge.AccessMaintain, nil
		}
		return forge.AccessWrite, nil
	case "read":
		return forge.AccessRead, nil
	}
	return forge.AccessNone, nil
}

// InTeam implements forge.People. A team that does not exist has no members.
func (f *Forge) InTeam(ctx context.Context, repo forge.Repository, team, login string) (bool, error) {
	what := fmt.Sprintf("read whether %.100s is in team %.200s", login, team)
	if err := checkLogin(login); err != nil {
		return false, wrap(what, err)
	}
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return false, wrap(what, err)
	}
	org, slug, err := teamOf(p, team)
	if err != nil {
		return false, wrap(what, err)
	}
	m, _, err := f.client.Teams.GetTeamMembershipBySlug(ctx, org, slug, login)
	if status(err) == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, wrap(what, err)
	}
	return m.GetState() == "active", nil
}
