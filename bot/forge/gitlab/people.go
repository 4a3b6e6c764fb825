package gitlab

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Self implements forge.People. The token of a CI job may not read its user.
func (f *Forge) Self(ctx context.Context) (forge.User, error) {
	f.mu.Lock()
	self := f.self
	f.mu.Unlock()
	switch {
	case self != nil:
		return *self, nil
	case f.job:
		return forge.User{}, wrap("read the user of the token", forge.ErrUnsupported)
	}
	u, _, err := f.client.Users.CurrentUser(with(ctx))
	if err != nil {
		return forge.User{}, wrap("read the user of the token", err)
	}
	out := forge.User{ID: int64(u.ID), Login: u.Username, Bot: u.Bot || machine(u.Username)}
	f.mu.Lock()
	f.self = &out
	f.mu.Unlock()
	return out, nil
}

// Access implements forge.People. GitLab's levels (https://docs.gitlab.com/user/permissions/) are Guest 10,
// Planner 15, Reporter 20, Developer 30, Maintainer 40, Owner 50.
func (f *Forge) Access(ctx context.Context, repo forge.Repository, login string) (forge.Access, error) {
	what := "read the access of " + login + " to " + repo.Path
	id, err := f.user(ctx, login)
	if err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	m, _, err := f.client.ProjectMembers.GetInheritedProjectMember(repo.Path, id, with(ctx))
	if err == nil {
		if m.State != "" && m.State != "active" {
			return forge.AccessNone, nil
		}
		return accessOf(m.AccessLevel), nil
	}
	if !missing(translated(err)) {
		return forge.AccessNone, wrap(what, err)
	}
	p, _, err := f.client.Projects.GetProject(repo.Path, nil, with(ctx))
	if err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	if p.Visibility == gitlab.PublicVisibility {
		return forge.AccessRead, nil
	}
	return forge.AccessNone, nil
}

func accessOf(level gitlab.AccessLevelValue) forge.Access {
	switch {
	case level >= gitlab.OwnerPermissions:
		return forge.AccessAdmin
	case level >= gitlab.MaintainerPermissions:
		return forge.AccessMaintain
	case level >= gitlab.DeveloperPermissions:
		return forge.AccessWrite
	case level >= gitlab.ReporterPermissions:
		return forge.AccessRead
	}
	return forge.AccessNone
}

// InTeam implements forge.People. A team is a group, by its full path or by its name in the namespace of the
// repository.
func (f *Forge) InTeam(ctx context.Context, repo forge.Repository, team, login string) (bool, error) {
	what := fmt.Sprintf("read whether %s is in the group %s", login, team)
	if namespace := repo.Path[:max(strings.LastIndexByte(repo.Path, '/'), 0)]; !strings.Contains(team, "/") && namespace != "" {
		member, err := f.member(ctx, namespace+"/"+team, login)
		if err == nil || !missing(translated(err)) {
			return member, wrap(what, err)
		}
	}
	member, err := f.member(ctx, team, login)
	return member, wrap(what, err)
}

// member reports whether a user is an active member of an existing group.
func (f *Forge) member(ctx context.Context, group, login string) (bool, error) {
	id, err := f.user(ctx, login)
	if err != nil {
		return false, err
	}
	m, _, err := f.client.GroupMembers.GetInheritedGroupMember(group, id, with(ctx))
	if err == nil {
		return (m.State == "" || m.State == "active") && m.AccessLevel >= gitlab.GuestPermissions, nil
	}
	if !missing(translated(err)) {
		return false, err
	}
	if _, _, err := f.client.Groups.GetGroup(group, &gitlab.GetGroupOptions{WithProjects: new(false)}, with(ctx)); err != nil {
		return false, err
	}
	return false, nil
}

// user returns the id of a user.
func (f *Forge) user(ctx context.Context, login string) (int, error) {
	key := strings.ToLower(login)
	f.mu.Lock()
	id, ok := f.users[key]
	f.mu.Unlock()
	if ok {
		return id, nil
	}
	list, _, err := f.client.Users.ListUsers(&gitlab.ListUsersOptions{Username: &login}, with(ctx))
	if err != nil {
		return 0, err
	}
	for _, u := range list {
		if strings.EqualFold(u.Username, login) {
			f.mu.Lock()
			f.users[key] = u.ID
			f.mu.Unlock()
			return u.ID, nil
		}
	}
	return 0, fmt.Errorf("%w: no user has the name %q", forge.ErrNotFound, login)
}

func basicUser(u *gitlab.BasicUser) forge.User {
	if u == nil {
		return forge.User{}
	}
	return forge.User{ID: int64(u.ID), Login: u.Username, Bot: machine(u.Username)}
}

// machine reports whether GitLab gives such a name to tokens and service accounts
// (https://docs.gitlab.com/user/project/settings/project_access_tokens/#bot-users-for-projects).
func machine(login string) bool { return machinePattern.MatchString(login) }

var machinePattern = regexp.MustCompile(`^(project|group)_\d+_bot(\d+|_[0-9a-f]+)?$|^service_account_(group_\d+_)?[0-9a-f]+$|^(alert|support|ghost|security|automation|migration)-bot\d*$`)
