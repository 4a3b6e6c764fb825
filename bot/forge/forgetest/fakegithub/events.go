package fakegithub

import (
	"encoding/json"
	"fmt"
)

// emit stores a webhook until the server is unlocked.
func (s *outbox) emit(name string, r *repository, who *account, payload fields) {
	if s.o.OnEvent == nil {
		return
	}
	payload["repository"], payload["sender"] = s.repository(r), s.user(who)
	for _, a := range s.apps {
		for _, in := range a.installs {
			if in.owner == r.owner {
				payload["installation"] = fields{"id": in.id, "node_id": node("Installation", in.id)}
			}
		}
	}
	data, err := json.Marshal(payload)
	if err != nil {
		data = []byte("{}") // maps of texts and numbers always marshal
	}
	s.events = append(s.events, event{name: name, payload: data})
}

func (s *outbox) pullEvent(r *repository, p *pull, action string, who *account, before string) {
	payload := fields{"action": action, "number": p.number, "pull_request": s.fullPull(r, p)}
	if action == "synchronize" {
		payload["before"], payload["after"] = before, p.headSHA
	}
	s.emit("pull_request", r, who, payload)
}

func (s *outbox) commentEvent(r *repository, p *pull, c *comment) {
	pr := s.simplePull(r, p)
	issue := fields{}
	for _, name := range []string{
		"id", "node_id", "number", "title", "user", "labels", "state", "locked", "milestone", "assignee", "assignees",
		"created_at", "updated_at",
		"closed_at", "author_association", "html_url", "comments_url", "body", "draft",
	} {
		issue[name] = pr[name]
	}
	u, _ := pr["issue_url"].(string)
	issue["url"], issue["repository_url"] = u, s.o.APIURL+"/repos/"+r.path()
	issue["labels_url"], issue["events_url"], issue["timeline_url"] = u+"/labels{/name}", u+"/events", u+"/timeline"
	issue["comments"], issue["active_lock_reason"], issue["performed_via_github_app"] = len(p.comments), nil, nil
	issue["reactions"] = rollup(u, nil)
	issue["pull_request"] = fields{
		"url": pr["url"], "html_url": pr["html_url"], "diff_url": pr["diff_url"], "patch_url": pr["patch_url"],
		"merged_at": pr["merged_at"],
	}
	s.emit("issue_comment", r, c.author, fields{"action": "created", "issue": issue, "comment": s.comment(r, p, c)})
}

func (s *outbox) pushEvent(r *repository, branch, before, after string, who *account) {
	s.emit("push", r, who, fields{
		"ref": "refs/heads/" + branch, "before": before, "after": after, "created": false, "deleted": false,
		"forced": false, "base_ref": nil,
		"compare": fmt.Sprintf("%s/%s/compare/%s...%s", s.o.URL, r.path(), before, after), "commits": []fields{},
		"head_commit": nil,
		"pusher":      fields{"name": who.login, "email": who.login + "@users.noreply.github.test"},
	})
}

// Pushed sends the webhook for a push to a branch. Without Git the branch gets a commit first.
func (s *PullRequests) Pushed(path, branch, before, login string) error {
	return s.do(func() error {
		r := s.repo(path)
		if r == nil {
			return fmt.Errorf("%w: repository %s", errNothing, path)
		}
		if r.git == nil {
			before = r.tip(branch)
			s.grow(r, branch)
		}
		s.pushEvent(r, branch, before, r.tip(branch), s.ensure(login, "User"))
		return nil
	})
}
