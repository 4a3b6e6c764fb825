package bedtest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// GiteaRequest is a merge request to open.
type GiteaRequest struct {
	Title, Body string
	Author      string // login
	Source      string // branch; Open creates it with a commit if it does not exist
	Target      string // "" is main; created from main if it does not exist
	Labels      []string
	Fork        bool // the branch is in the fork of the author, which is created if it does not exist
}

func isCode(err error, code int) bool {
	e, ok := errors.AsType[*GiteaError](err)
	return ok && e.Code == code
}

// AddPrivateRepository creates a repository owner/name with a first commit on main, which only its collaborators see. If
// the owner does not exist, it becomes an organization of the administrator.
func (g *Gitea) AddPrivateRepository(ctx context.Context, path string) error {
	return g.addRepository(ctx, path, map[string]any{"auto_init": true, "private": true})
}

// AddEmptyRepository creates a public repository without a commit, as AddPrivateRepository does.
func (g *Gitea) AddEmptyRepository(ctx context.Context, path string) error {
	return g.addRepository(ctx, path, map[string]any{})
}

func (g *Gitea) addRepository(ctx context.Context, path string, fields map[string]any) error {
	owner, name, _ := strings.Cut(path, "/")
	err := g.As("").Do(ctx, http.MethodGet, "/orgs/"+owner, nil, nil)
	if isCode(err, http.StatusNotFound) {
		err = g.As("").Do(ctx, http.MethodPost, "/orgs", map[string]any{"username": owner}, nil)
	}
	if err != nil {
		return err
	}
	fields["name"], fields["default_branch"] = name, "main"
	return g.As("").Do(ctx, http.MethodPost, "/orgs/"+owner+"/repos", fields, nil)
}

// Grant makes a user a collaborator with the permission read, write or admin, an owner of the repository's organization,
// or with none nothing of it.
func (g *Gitea) Grant(ctx context.Context, repo, login, permission string) error {
	switch permission {
	case "none":
		return g.As("").Do(ctx, http.MethodDelete, "/repos/"+repo+"/collaborators/"+login, nil, nil)
	case "owner":
		org, _, _ := strings.Cut(repo, "/")
		return g.AddMember(ctx, org, "Owners", login)
	}
	return g.As("").Do(ctx, http.MethodPut, "/repos/"+repo+"/collaborators/"+login,
		map[string]any{"permission": permission}, nil)
}

// AddTeam creates a team of an organization, which may read its repositories, with these members.
func (g *Gitea) AddTeam(ctx context.Context, org, name string, members ...string) error {
	if err := g.As("").Do(ctx, http.MethodPost, "/orgs/"+org+"/teams", map[string]any{
		"name": name, "permission": "read", "units": []string{"repo.code", "repo.pulls"}, "includes_all_repositories": true,
	}, nil); err != nil {
		return err
	}
	for _, login := range members {
		if err := g.AddMember(ctx, org, name, login); err != nil {
			return err
		}
	}
	return nil
}

// AddMember adds a user to a team.
func (g *Gitea) AddMember(ctx context.Context, org, team, login string) error {
	var teams []struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
	}
	if err := g.As("").Do(ctx, http.MethodGet, "/orgs/"+org+"/teams?limit=50", nil, &teams); err != nil {
		return err
	}
	for _, t := range teams {
		if t.Name == team {
			return g.As("").Do(ctx, http.MethodPut, fmt.Sprintf("/teams/%d/members/%s", t.ID, login), nil, nil)
		}
	}
	return fmt.Errorf("the organization %s has no team %s", org, team)
}

// Protect lets only some users push and merge to the branches that a pattern matches.
func (g *Gitea) Protect(ctx context.Context, repo, pattern string, users ...string) error {
	return g.protect(ctx, repo, pattern, false, users)
}

// ProtectOutput adds the rules of docs/gitea.md: only some users may move the branches that Sluice writes.
func (g *Gitea) ProtectOutput(ctx context.Context, repo string, users ...string) error {
	for _, pattern := range []string{"env/**", "cluster/**", "sluice/state"} {
		if err := g.protect(ctx, repo, pattern, false, users); err != nil {
			return err
		}
	}
	return g.protect(ctx, repo, "sluice/promote/**", true, users)
}

func (g *Gitea) protect(ctx context.Context, repo, pattern string, force bool, users []string) error {
	return g.As("").Do(ctx, http.MethodPost, "/repos/"+repo+"/branch_protections", map[string]any{
		"rule_name": pattern, "enable_push": true, "enable_push_whitelist": true, "push_whitelist_usernames": users,
		"enable_force_push": force, "enable_force_push_allowlist": force, "force_push_allowlist_usernames": users,
		"enable_merge_whitelist": true, "merge_whitelist_usernames": users,
	}, nil)
}

// AddHook makes a repository send its events to an address.
func (g *Gitea) AddHook(ctx context.Context, repo, address, secret string, events ...string) error {
	return g.As("").Do(ctx, http.MethodPost, "/repos/"+repo+"/hooks", map[string]any{
		"type": "gitea", "active": true, "events": events,
		"config": map[string]string{"url": address, "content_type": "json", "secret": secret},
	}, nil)
}

// Branch returns the commit of a branch.
func (g *Gitea) Branch(ctx context.Context, repo, branch string) (string, error) {
	var b struct {
		Commit struct {
			ID string `json:"id"`
		} `json:"commit"`
	}
	err := g.As("").Do(ctx, http.MethodGet, "/repos/"+repo+"/branches/"+url.PathEscape(branch), nil, &b)
	return b.Commit.ID, err
}

var files atomic.Int64

// Write adds a commit with a new file to a branch, which is created from main if it does not exist, and returns the
// commit.
func (g *Gitea) Write(ctx context.Context, repo, login, branch string) (string, error) {
	in := map[string]any{
		"message": "Change " + branch, "content": base64.StdEncoding.EncodeToString([]byte(branch + "\n")),
	}
	_, err := g.Branch(ctx, repo, branch)
	switch {
	case err == nil:
		in["branch"] = branch
	case isCode(err, http.StatusNotFound):
		in["branch"], in["new_branch"] = "main", branch
	default:
		return "", err
	}
	var made struct {
		Commit struct {
			SHA string `json:"sha"`
		} `json:"commit"`
	}
	err = g.As(login).Do(ctx, http.MethodPost, fmt.Sprintf("/repos/%s/contents/file-%d", repo, files.Add(1)), in, &made)
	return made.Commit.SHA, err
}

// GiteaPull is a merge request.
type GiteaPull struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	State  string `json:"state"`
	Merged bool   `json:"merged"`
	Head   struct {
		SHA   string `json:"sha"`
		Label string `json:"label"`
		Repo  struct {
			Path string `json:"full_name"`
		} `json:"repo"`
	} `json:"head"`
	Base struct {
		Ref string `json:"ref"`
	} `json:"base"`
	User struct {
		Login string `json:"login"`
	} `json:"user"`
}

// Open opens a merge request and returns its number and its head.
func (g *Gitea) Open(ctx context.Context, repo string, r GiteaRequest) (*GiteaPull, error) {
	as, from, head := g.As(r.Author), repo, r.Source
	if r.Fork {
		_, name, _ := strings.Cut(repo, "/")
		from, head = r.Author+"/"+name, r.Author+":"+r.Source
		if err := as.Do(ctx, http.MethodPost, "/repos/"+repo+"/forks", map[string]any{}, nil); err != nil &&
			!isCode(err, http.StatusConflict) {
			return nil, err
		}
	}
	if r.Target == "" {
		r.Target = "main"
	}
	if _, err := g.Branch(ctx, repo, r.Target); isCode(err, http.StatusNotFound) {
		if err := g.As("").Do(ctx, http.MethodPost, "/repos/"+repo+"/branches",
			map[string]any{"new_branch_name": r.Target, "old_branch_name": "main"}, nil); err != nil {
			return nil, err
		}
	}
	if _, err := g.Branch(ctx, from, r.Source); isCode(err, http.StatusNotFound) {
		if _, err := g.Write(ctx, from, r.Author, r.Source); err != nil {
			return nil, err
		}
	}
	var labels []int64
	for _, name := range r.Labels {
		var l struct {
			ID int64 `json:"id"`
		}
		if err := g.As("").Do(ctx, http.MethodPost, "/repos/"+repo+"/labels",
			map[string]any{"name": name, "color": "#00aabb"}, &l); err != nil {
			return nil, err
		}
		labels = append(labels, l.ID)
	}
	var pr GiteaPull
	return &pr, as.Do(ctx, http.MethodPost, "/repos/"+repo+"/pulls", map[string]any{
		"title": r.Title, "body": r.Body, "head": head, "base": r.Target, "labels": labels,
	}, &pr)
}

// Pull returns a merge request.
func (g *Gitea) Pull(ctx context.Context, repo string, number int) (*GiteaPull, error) {
	var pr GiteaPull
	return &pr, g.As("").Do(ctx, http.MethodGet, fmt.Sprintf("/repos/%s/pulls/%d", repo, number), nil, &pr)
}

// Pulls returns all merge requests, the oldest first.
func (g *Gitea) Pulls(ctx context.Context, repo string) ([]GiteaPull, error) {
	var out []GiteaPull
	for page := 1; ; page++ {
		var some []GiteaPull
		if err := g.As("").Do(ctx, http.MethodGet,
			fmt.Sprintf("/repos/%s/pulls?state=all&sort=oldest&limit=50&page=%d", repo, page), nil, &some); err != nil {
			return nil, err
		}
		if out = append(out, some...); len(some) == 0 {
			return out, nil
		}
	}
}

// Merge merges as a user, and returns the new commit of the target branch. Gitea refuses while it computes whether the
// branches conflict; Merge tries again.
func (g *Gitea) Merge(ctx context.Context, repo string, number int, login string) (string, error) {
	pr, err := g.Pull(ctx, repo, number)
	if err != nil {
		return "", err
	}
	for range 100 {
		err = g.As(login).Do(ctx, http.MethodPost, fmt.Sprintf("/repos/%s/pulls/%d/merge", repo, number),
			map[string]any{"Do": "merge"}, nil)
		if !isCode(err, http.StatusMethodNotAllowed) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return "", err
	}
	return g.Branch(ctx, repo, pr.Base.Ref)
}

// CloseRequest closes a merge request without merging it.
func (g *Gitea) CloseRequest(ctx context.Context, repo string, number int) error {
	return g.As("").Do(ctx, http.MethodPatch, fmt.Sprintf("/repos/%s/pulls/%d", repo, number),
		map[string]any{"state": "closed"}, nil)
}

// GiteaComment is a comment of a conversation.
type GiteaComment struct {
	ID   int64  `json:"id"`
	Body string `json:"body"`
	User struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
	} `json:"user"`
}

// Comment comments as a user.
func (g *Gitea) Comment(ctx context.Context, repo string, number int, login, text string) (*GiteaComment, error) {
	var c GiteaComment
	return &c, g.As(login).Do(ctx, http.MethodPost, fmt.Sprintf("/repos/%s/issues/%d/comments", repo, number),
		map[string]any{"body": text}, &c)
}

// EditComment replaces the text of a comment, as a user.
func (g *Gitea) EditComment(ctx context.Context, repo string, id int64, login, text string) error {
	return g.As(login).Do(ctx, http.MethodPatch, fmt.Sprintf("/repos/%s/issues/comments/%d", repo, id),
		map[string]any{"body": text}, nil)
}

// Comments returns the conversation, oldest first.
func (g *Gitea) Comments(ctx context.Context, repo string, number int) ([]GiteaComment, error) {
	var out []GiteaComment
	err := g.As("").Do(ctx, http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d/comments", repo, number), nil, &out)
	return out, err
}

// GiteaStatus is a commit status.
type GiteaStatus struct {
	State       string `json:"status"`
	Context     string `json:"context"`
	Description string `json:"description"`
}

// SetStatus sets a status of a commit, as a user.
func (g *Gitea) SetStatus(ctx context.Context, repo, commit, login string, s GiteaStatus) error {
	return g.As(login).Do(ctx, http.MethodPost, "/repos/"+repo+"/statuses/"+commit,
		map[string]any{"state": s.State, "context": s.Context, "description": s.Description}, nil)
}

// Statuses returns the newest status of each context of a commit.
func (g *Gitea) Statuses(ctx context.Context, repo, commit string) ([]GiteaStatus, error) {
	var out struct {
		Statuses []GiteaStatus `json:"statuses"`
	}
	err := g.As("").Do(ctx, http.MethodGet, "/repos/"+repo+"/commits/"+commit+"/status?limit=50", nil, &out)
	return out.Statuses, err
}
