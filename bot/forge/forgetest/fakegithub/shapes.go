package fakegithub

import (
	"encoding/base64"
	"fmt"
	"time"
)

// The shapes of GitHub's answers. Fields that Sluice does not read are there because the published
// description requires them.

func node(kind string, id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprint(kind, ":", id)))
}

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format(time.RFC3339)
}

// orNull returns a text, or null for "".
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (s *shapes) user(a *account) fields {
	u := s.o.APIURL + "/users/" + a.login
	return fields{
		"login": a.login, "id": a.id, "node_id": node("User", a.id),
		"avatar_url":  s.o.URL + "/avatars/" + fmt.Sprint(a.id),
		"gravatar_id": "", "url": u, "html_url": s.o.URL + "/" + a.login, "followers_url": u + "/followers",
		"following_url": u + "/following{/other_user}", "gists_url": u + "/gists{/gist_id}",
		"starred_url":       u + "/starred{/owner}{/repo}",
		"subscriptions_url": u + "/subscriptions", "organizations_url": u + "/orgs", "repos_url": u + "/repos",
		"events_url": u + "/events{/privacy}", "received_events_url": u + "/received_events", "type": a.kind,
		"site_admin": false,
	}
}

func (s *shapes) publicUser(a *account) fields {
	u := s.user(a)
	for _, name := range []string{"name", "company", "location", "email", "hireable", "bio"} {
		u[name] = nil
	}
	u["blog"], u["user_view_type"] = "", "public"
	for _, name := range []string{"public_repos", "public_gists", "followers", "following"} {
		u[name] = 0
	}
	u["created_at"], u["updated_at"] = "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
	return u
}

func (s *shapes) repository(r *repository) fields {
	u, h := s.o.APIURL+"/repos/"+r.path(), s.o.URL+"/"+r.path()
	out := fields{
		"id": r.id, "node_id": node("Repository", r.id), "name": r.name, "full_name": r.path(), "private": true,
		"owner":    s.user(r.owner),
		"html_url": h, "description": nil, "fork": r.fork, "url": u, "git_url": "git:" + h, "ssh_url": "git@" + h,
		"clone_url": h + ".git", "svn_url": h, "homepage": nil, "language": nil, "license": nil, "mirror_url": nil,
		"default_branch": "main",
		"created_at":     stamp(r.created), "updated_at": stamp(r.created), "pushed_at": stamp(r.created),
		"visibility": "private",
		"archived":   false, "disabled": false, "topics": []string{}, "allow_forking": true, "is_template": false,
		"web_commit_signoff_required": false,
	}
	for name, tail := range map[string]string{
		"archive": "/{archive_format}{/ref}", "assignees": "/assignees{/user}", "blobs": "/git/blobs{/sha}",
		"branches":      "/branches{/branch}",
		"collaborators": "/collaborators{/collaborator}", "comments": "/comments{/number}", "commits": "/commits{/sha}",
		"compare": "/compare/{base}...{head}", "contents": "/contents/{+path}", "contributors": "/contributors",
		"deployments": "/deployments",
		"downloads":   "/downloads", "events": "/events", "forks": "/forks", "git_commits": "/git/commits{/sha}",
		"git_refs": "/git/refs{/sha}",
		"git_tags": "/git/tags{/sha}", "hooks": "/hooks", "issue_comment": "/issues/comments{/number}",
		"issue_events": "/issues/events{/number}",
		"issues":       "/issues{/number}", "keys": "/keys{/key_id}", "labels": "/labels{/name}", "languages": "/languages",
		"merges":     "/merges",
		"milestones": "/milestones{/number}", "notifications": "/notifications{?since,all,participating}",
		"pulls":    "/pulls{/number}",
		"releases": "/releases{/id}", "stargazers": "/stargazers", "statuses": "/statuses/{sha}",
		"subscribers":  "/subscribers",
		"subscription": "/subscription", "tags": "/tags", "teams": "/teams", "trees": "/git/trees{/sha}",
	} {
		out[name+"_url"] = u + tail
	}
	for _, name := range []string{
		"forks", "forks_count", "open_issues", "open_issues_count", "size",
		"stargazers_count", "watchers", "watchers_count",
	} {
		out[name] = 0
	}
	for _, name := range []string{
		"has_downloads", "has_issues", "has_projects", "has_wiki", "has_pages",
		"has_discussions",
	} {
		out[name] = false
	}
	return out
}

func (s *shapes) side(r *repository, ref, sha string) fields {
	return fields{
		"label": r.owner.login + ":" + ref, "ref": ref, "sha": sha, "user": s.user(r.owner),
		"repo": s.repository(r),
	}
}

func (s *shapes) labels(r *repository, names []string) []fields {
	out := []fields{}
	for i, name := range names {
		out = append(out, fields{
			"id": i + 1, "node_id": node("Label", int64(i+1)), "url": s.o.APIURL + "/repos/" + r.path() + "/labels/" +
				fmt.Sprint(i+1), "name": name,
			"description": "", "color": "ededed", "default": false,
		})
	}
	return out
}

// simplePull returns a pull request as lists have it.
func (s *shapes) simplePull(r *repository, p *pull) fields {
	s.refresh(r, p)
	number := fmt.Sprint(p.number)
	base := s.o.APIURL + "/repos/" + r.path()
	u, html, issue := base+"/pulls/"+number, s.o.URL+"/"+r.path()+"/pull/"+number, base+"/issues/"+number
	state := "open"
	if p.closed {
		state = "closed"
	}
	link := func(to string) fields { return fields{"href": to} }
	return fields{
		"url": u, "id": p.id, "node_id": node("PullRequest", p.id), "html_url": html, "diff_url": html + ".diff",
		"patch_url": html + ".patch",
		"issue_url": issue, "commits_url": u + "/commits", "review_comments_url": u + "/comments",
		"review_comment_url": base + "/pulls/comments{/number}",
		"comments_url":       issue + "/comments", "statuses_url": base + "/statuses/" + p.headSHA, "number": p.number,
		"state": state, "locked": false,
		"title": p.title, "user": s.user(p.author), "body": orNull(p.body), "labels": s.labels(r, p.labels),
		"milestone": nil, "assignee": nil,
		"assignees": []fields{}, "requested_reviewers": s.users(p.reviewers), "requested_teams": s.teamsOf(p.reviewTeams),
		"draft":      p.draft,
		"created_at": stamp(p.created), "updated_at": stamp(p.updated), "closed_at": stamp(p.closedAt),
		"merged_at":        stamp(p.merged),
		"merge_commit_sha": orNull(p.trial()), "head": s.side(p.head, p.headRef, p.headSHA),
		"base":               s.side(r, p.baseRef, p.baseSHA),
		"author_association": "NONE", "auto_merge": nil,
		"_links": fields{
			"self": link(u), "html": link(html), "issue": link(issue), "comments": link(issue + "/comments"),
			"review_comments": link(u + "/comments"),
			"review_comment":  link(base + "/pulls/comments{/number}"), "commits": link(u + "/commits"),
			"statuses": link(base + "/statuses/" + p.headSHA),
		},
	}
}

// trial returns the merge commit, or the one with which GitHub tries whether an open pull request merges.
func (p *pull) trial() string {
	if p.mergeSHA == "" && !p.closed {
		return "feedfacefeedfacefeedfacefeedfacefeedface"
	}
	return p.mergeSHA
}

func (s *shapes) fullPull(r *repository, p *pull) fields {
	out := s.simplePull(r, p)
	out["merged"], out["mergeable"], out["mergeable_state"], out["rebaseable"] = p.mergeSHA != "", nil, "unknown", nil
	out["merged_by"] = nil
	if p.mergedBy != nil {
		out["merged_by"] = s.user(p.mergedBy)
	}
	for _, name := range []string{"review_comments", "additions", "deletions"} {
		out[name] = 0
	}
	out["comments"], out["commits"], out["changed_files"], out["maintainer_can_modify"] = len(p.comments), 1, 1, false
	return out
}

func (s *shapes) comment(r *repository, p *pull, c *comment) fields {
	u := fmt.Sprintf("%s/repos/%s/issues/comments/%d", s.o.APIURL, r.path(), c.id)
	return fields{
		"url": u, "html_url": fmt.Sprintf("%s/%s/pull/%d#issuecomment-%d", s.o.URL, r.path(), p.number, c.id),
		"issue_url": fmt.Sprintf("%s/repos/%s/issues/%d", s.o.APIURL, r.path(), p.number), "id": c.id,
		"node_id": node("IssueComment", c.id),
		"user":    s.user(c.author), "created_at": stamp(c.created), "updated_at": stamp(c.updated),
		"author_association": "NONE", "body": c.body,
		"performed_via_github_app": nil, "reactions": rollup(u, c.reactions),
	}
}

func rollup(u string, all []*reaction) fields {
	out := fields{"url": u + "/reactions", "total_count": len(all)}
	for _, name := range []string{"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"} {
		n := 0
		for _, x := range all {
			if x.content == name {
				n++
			}
		}
		out[name] = n
	}
	return out
}

func (s *shapes) reaction(x *reaction) fields {
	return fields{
		"id": x.id, "node_id": node("Reaction", x.id), "user": s.user(x.user), "content": x.content,
		"created_at": stamp(x.created),
	}
}

func (s *shapes) status(r *repository, x *status) fields {
	return fields{
		"url": s.o.APIURL + "/repos/" + r.path() + "/statuses/" + x.sha, "avatar_url": nil, "id": x.id,
		"node_id": node("Status", x.id),
		"state":   x.state, "description": orNull(x.description), "target_url": orNull(x.target), "context": x.context,
		"created_at": stamp(x.created), "updated_at": stamp(x.created), "creator": s.user(x.creator),
	}
}

func (s *shapes) check(r *repository, x *check) fields {
	u := fmt.Sprintf("%s/repos/%s/check-runs/%d", s.o.APIURL, r.path(), x.id)
	return fields{
		"id": x.id, "node_id": node("CheckRun", x.id), "head_sha": x.sha, "external_id": "", "url": u,
		"html_url": fmt.Sprintf("%s/%s/runs/%d", s.o.URL, r.path(), x.id), "details_url": orNull(x.details),
		"status":     x.status,
		"conclusion": orNull(x.conclusion), "started_at": stamp(x.started), "completed_at": stamp(x.completed),
		"name":        x.name,
		"check_suite": fields{"id": x.app.ID}, "app": s.app(x.app), "pull_requests": []fields{},
		"output": fields{
			"title": orNull(x.title), "summary": orNull(x.summary), "text": orNull(x.text),
			"annotations_count": len(x.annotations),
			"annotations_url":   u + "/annotations",
		},
	}
}

func (s *shapes) app(a *app) fields {
	out := fields{
		"id": a.ID, "slug": a.Slug, "node_id": node("App", a.ID), "owner": s.user(a.account), "name": a.Slug,
		"description":  nil,
		"external_url": s.o.URL + "/apps/" + a.Slug, "html_url": s.o.URL + "/apps/" + a.Slug,
		"created_at": stamp(a.created),
		"updated_at": stamp(a.created), "permissions": permissions(a),
		"events": []string{"pull_request", "issue_comment", "push"},
	}
	if a.ClientID != "" {
		out["client_id"] = a.ClientID
	}
	return out
}

func permissions(a *app) fields {
	checks := "write"
	if a.ReadChecks {
		checks = "read"
	}
	return fields{
		"metadata": "read", "contents": "write", "pull_requests": "write", "statuses": "write",
		"checks": checks, "members": "read",
	}
}

func (s *shapes) installation(a *app, in *install) fields {
	account := s.user(in.owner) // the description of the list wants an enterprise's attributes too
	account["name"], account["slug"], account["created_at"], account["updated_at"] = in.owner.login, in.owner.login,
		stamp(in.created), stamp(in.created)
	return fields{
		"id": in.id, "account": account, "repository_selection": "all",
		"access_tokens_url": fmt.Sprintf("%s/app/installations/%d/access_tokens", s.o.APIURL, in.id),
		"repositories_url":  s.o.APIURL + "/installation/repositories",
		"html_url":          fmt.Sprintf("%s/settings/installations/%d", s.o.URL, in.id),
		"app_id":            a.ID, "app_slug": a.Slug, "target_id": in.owner.id, "target_type": in.owner.kind,
		"permissions": permissions(a),
		"events":      []string{"pull_request"}, "created_at": stamp(in.created), "updated_at": stamp(in.created),
		"single_file_name": nil,
		"suspended_by":     nil, "suspended_at": nil,
	}
}
