package gitlab

import (
	"context"
	"errors"
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
	m, err := memberOf(ctx, f, login, func(id int) (*gitlab.ProjectMember, string, error) {
		m, _, err := f.client.ProjectMembers.GetInheritedProjectMember(repo.Path, id, with(ctx))
		if err != nil {
			return nil, "", err
		}
		return m, m.Username, nil
	})
	if errors.Is(err, errNoUser) {
		return forge.AccessNone, wrap(what, err)
	}
	if err == nil {
		if m.State != "" && m.State != "active" {
			return forge.AccessNone, nil
		}
		if access := accessOf(m.AccessLevel); access > forge.AccessNone {
			return access, nil
		}
	} else if !missing(translated(err)) {
		return forge.AccessNone, wrap(what, err)
	}
	p, _, err := f.client.Projects.GetProject(repo.Path, nil, with(ctx))
	if err != nil {
		return forge.AccessNone, wrap(what, err)
	}
	if everybodyReads(p) {
		return forge.AccessRead, nil
	}
	return forge.AccessNone, nil
}

// everybodyReads reports whether people who are no members may read the code of a project. A public project can keep
// its repository to its members. GitLab names these levels: disabled, private, enabled, public.
func everybodyReads(p *gitlab.Project) bool {
	level := p.RepositoryAccessLevel
	return p.Visibility == gitlab.PublicVisibility && (level == "" || level == gitlab.EnabledAccessControl ||
		level == gitlab.PublicAccessControl)
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

// InTeam implements forge.People. A team is a group: by its full path, by its name in the namespace of the repository,
// or by the name of the repository's own top-level group. A slash before the name of another top-level group makes it a
// full path. Without it, anybody who creates a group of that name on a public GitLab would have the rights of a group
// that was renamed.
func (f *Forge) InTeam(ctx context.Context, repo forge.Repository, team, login string) (bool, error) {
	group, isPath := strings.CutPrefix(team, "/")
	isPath = isPath || strings.Contains(group, "/")
	if namespace := repo.Path[:max(strings.LastIndexByte(repo.Path, '/'), 0)]; !isPath && namespace != "" {
		group = namespace + "/" + team
	}
	what := fmt.Sprintf("read whether %s is in the group %s", login, group)
	member, err := f.member(ctx, group, login)
	if own, _, _ := strings.Cut(repo.Path, "/"); err != nil && missing(translated(err)) && team == own {
		member, err = f.member(ctx, own, login)
	}
	return member, wrap(what, err)
}

// member reports whether a user is an active member of an existing group.
func (f *Forge) member(ctx context.Context, group, login string) (bool, error) {
	m, err := memberOf(ctx, f, login, func(id int) (*gitlab.GroupMember, string, error) {
		m, _, err := f.client.GroupMembers.GetInheritedGroupMember(group, id, with(ctx))
		if err != nil {
			return nil, "", err
		}
		return m, m.Username, nil
	})
	if errors.Is(err, errNoUser) {
		return false, err
	}
	if err == nil {
		return (m.State == "" || m.State == "active") && m.AccessLevel >= gitlab.GuestPermissions, nil
	}
	if !missing(translated(err)) {
		return false, err
	}
	if _, _, err := f.client.Groups.GetGroup(group, &gitlab.GetGroupOptions{WithProjects: new(false)},
		with(ctx)); err != nil {
		return false, err
	}
	return false, nil
}

// errNoUser marks an error of the request for the user, so that its "not found" is not taken for "no member".
var errNoUser = errors.New("look up the user")

// memberOf reads a membership by the name of a user. read returns the membership of an id and the name of its user. The
// id of the name is cached, but GitLab can give the name to another user: if the membership has another name, or there
// is none, memberOf looks the id up again, so that nobody gets the rights of the user who had the name before.
func memberOf[M any](ctx context.Context, f *Forge, login string, read func(id int) (M, string, error)) (M, error) {
	id, cached, err := f.user(ctx, login)
	if err != nil {
		var none M
		return none, fmt.Errorf("%w: %w", errNoUser, err)
	}
	m, name, err := read(id)
	if err == nil && strings.EqualFold(name, login) || err != nil && (!cached || !missing(translated(err))) {
		return m, err
	}
	f.users.Remove(strings.ToLower(login))
	again, _, failed := f.user(ctx, login)
	if failed != nil {
		var none M
		return none, fmt.Errorf("%w: %w", errNoUser, failed)
	}
	if err != nil && again == id {
		return m, err
	}
	m, name, err = read(again)
	if err == nil && !strings.EqualFold(name, login) {
		var none M
		return none, fmt.Errorf("%w: %w: the name %q changes hands", errNoUser, forge.ErrUnavailable, login)
	}
	return m, err
}

// user returns the id of a user, and whether it comes from the cache.
func (f *Forge) user(ctx context.Context, login string) (id int, cached bool, err error) {
	key := strings.ToLower(login)
	if id, cached = f.users.Get(key); cached {
		return id, true, nil
	}
	list, _, err := f.client.Users.ListUsers(&gitlab.ListUsersOptions{Username: &login}, with(ctx))
	if err != nil {
		return 0, false, err
	}
	for _, u := range list {
		if strings.EqualFold(u.Username, login) {
			f.users.Add(key, u.ID)
			return u.ID, false, nil
		}
	}
	return 0, false, fmt.Errorf("%w: no user has the name %q", forge.ErrNotFound, login)
}

func basicUser(u *gitlab.BasicUser) forge.User {
	if u == nil {
		return forge.User{}
	}
	return forge.User{ID: int64(u.ID), Login: u.Username, Bot: machine(u.Username)}
}

// machine reports whether a login is one that GitLab gives to a bot: the user of a token, a service account, or a bot
// of GitLab itself (https://docs.gitlab.com/user/project/settings/project_access_tokens/#bot-users-for-projects).
func machine(login string) bool { return machinePattern.MatchString(login) }

var machinePattern = regexp.MustCompile(`^(project|group)_\d+_bot(\d+|_[0-9a-f]+)?$|^service_account_(group_\d+_)?[0-9a-f]+$|^(alert|support|ghost|security|automation|migration)-bot\d*$`)
