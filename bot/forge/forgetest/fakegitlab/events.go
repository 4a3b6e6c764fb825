package fakegitlab

import (
	"fmt"
	"strings"
	"time"
)

// The payloads have every field that https://docs.gitlab.com/user/project/integrations/webhook_events/
// documents. Fields that the fake has no value for are null or empty, as GitLab sends them.

// hookTime returns the form of times in webhooks.
func hookTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

func (s *shapes) hookUser(u *user) fields {
	return fields{"id": u.id, "name": u.login, "username": u.login, "avatar_url": nil, "email": "[REDACTED]"}
}

func (s *shapes) hookProject(p *project) fields {
	web := s.o.URL + "/" + p.path
	ssh := "git@gitlab.test:" + p.path + ".git"
	return fields{
		"id": p.id, "name": p.path[strings.LastIndexByte(p.path, '/')+1:], "description": nil, "web_url": web,
		"avatar_url": nil, "git_ssh_url": ssh,
		"git_http_url": web + ".git", "namespace": strings.SplitN(p.path, "/", 2)[0], "visibility_level": 0,
		"path_with_namespace": p.path,
		"default_branch":      "main", "ci_config_path": nil, "homepage": web, "url": ssh, "ssh_url": ssh,
		"http_url": web + ".git",
	}
}

func (s *shapes) hookRepository(p *project) fields {
	web := s.o.URL + "/" + p.path
	ssh := "git@gitlab.test:" + p.path + ".git"
	return fields{
		"name": p.path[strings.LastIndexByte(p.path, '/')+1:], "url": ssh, "description": nil, "homepage": web,
		"git_http_url": web + ".git", "git_ssh_url": ssh, "visibility_level": 0,
	}
}

func (s *shapes) hookCommit(p *project, sha string, by *user, at time.Time) fields {
	return fields{
		"id": sha, "message": "Change\n", "title": "Change", "timestamp": at.UTC().Format(time.RFC3339),
		"url":    s.o.URL + "/" + p.path + "/-/commit/" + sha,
		"author": fields{"name": by.login, "email": "[REDACTED]"}, "added": []string{}, "modified": []string{},
		"removed": []string{},
	}
}

func (s *shapes) hookLabels(p *project, m *mergeRequest) []fields {
	out := []fields{}
	for i, name := range m.labels {
		out = append(out, fields{
			"id": i + 1, "title": name, "color": "#ffffff", "project_id": p.id, "created_at": hookTime(m.created),
			"updated_at": hookTime(m.created),
			"template":   false, "description": nil, "type": "ProjectLabel", "group_id": nil,
		})
	}
	return out
}

// hookMergeRequest returns a merge request as events have it.
func (s *shapes) hookMergeRequest(p *project, m *mergeRequest) fields {
	draft := strings.HasPrefix(m.title, "Draft:")
	out := fields{
		"id": m.id, "iid": m.iid, "target_branch": m.target, "source_branch": m.sourceBranch,
		"source_project_id": m.source.id, "target_project_id": p.id,
		"author_id": m.author.id, "assignee_id": nil, "assignee_ids": []int{}, "reviewer_ids": []int{},
		"title": m.title, "description": m.description,
		"created_at": hookTime(m.created), "updated_at": hookTime(m.updated), "last_edited_at": nil,
		"last_edited_by_id": nil, "prepared_at": hookTime(m.created),
		"milestone_id": nil, "state": m.state, "state_id": map[string]int{
			"opened": 1, "closed": 2,
			"merged": 3,
		}[m.state], "blocking_discussions_resolved": true,
		"work_in_progress": draft, "draft": draft, "first_contribution": false, "merge_status": "unchecked",
		"detailed_merge_status": "unchecked", "position": 0,
		"total_time_spent": 0, "time_change": 0, "time_estimate": 0, "human_total_time_spent": nil,
		"human_time_change": nil, "human_time_estimate": nil,
		"url": fmt.Sprintf("%s/%s/-/merge_requests/%d", s.o.URL, p.path, m.iid), "source": s.hookProject(m.source),
		"target":      s.hookProject(p),
		"last_commit": s.hookCommit(p, m.head, m.author, m.updated), "labels": s.hookLabels(p, m), "assignee": nil,
		"merge_commit_sha": nil, "merge_error": nil, "merge_params": fields{}, "merge_user_id": nil,
		"merge_when_pipeline_succeeds": false, "head_pipeline_id": nil,
		"updated_by_id": nil,
	}
	if m.mergeSHA != "" {
		out["merge_commit_sha"] = m.mergeSHA
	}
	return out
}

func (s *outbox) mergeRequestEvent(p *project, m *mergeRequest, action, oldrev string, who *user) {
	attributes := s.hookMergeRequest(p, m)
	attributes["action"], attributes["system"], attributes["system_action"] = action, false, nil
	if oldrev != "" {
		attributes["oldrev"] = oldrev
	}
	s.emit("Merge Request Hook", fields{
		"object_kind": "merge_request", "event_type": "merge_request", "user": s.hookUser(who),
		"project": s.hookProject(p), "repository": s.hookRepository(p),
		"object_attributes": attributes, "labels": s.hookLabels(p, m), "assignees": []fields{}, "reviewers": []fields{},
		"changes": fields{"updated_at": fields{"previous": hookTime(m.created), "current": hookTime(m.updated)}},
	})
}

func (s *outbox) noteEvent(p *project, m *mergeRequest, n *note) {
	s.emit("Note Hook", fields{
		"object_kind": "note", "event_type": "note", "user": s.hookUser(n.author), "project_id": p.id,
		"project": s.hookProject(p), "repository": s.hookRepository(p),
		"object_attributes": fields{
			"id": n.id, "note": n.body, "noteable_type": "MergeRequest", "author_id": n.author.id,
			"created_at": hookTime(n.created), "updated_at": hookTime(n.updated),
			"project_id": p.id, "attachment": nil, "line_code": nil, "commit_id": "", "noteable_id": m.id,
			"system": n.system, "st_diff": nil, "action": "create",
			"internal": false, "discussion_id": fmt.Sprintf("%040x", n.id), "type": nil,
			"url": fmt.Sprintf("%s/%s/-/merge_requests/%d#note_%d", s.o.URL, p.path, m.iid, n.id),
		},
		"merge_request": s.hookMergeRequest(p, m),
	})
}

func (s *outbox) pushEvent(p *project, branch, before, after string, who *user) {
	s.emit("Push Hook", fields{
		"object_kind": "push", "event_name": "push", "before": before, "after": after, "ref": "refs/heads/" + branch,
		"ref_protected": false, "checkout_sha": after,
		"message": nil, "user_id": who.id, "user_name": who.login, "user_username": who.login, "user_email": "",
		"user_avatar": nil, "project_id": p.id,
		"project": s.hookProject(p), "repository": s.hookRepository(p), "push_options": fields{},
		"total_commits_count": 1,
		"commits":             []fields{s.hookCommit(p, after, who, s.now())},
	})
}
