package fakegitlab

import "fmt"

// The shapes are those of https://docs.gitlab.com/api/: users, members, projects, merge_requests, notes,
// emoji_reactions, commits.

func (s *shapes) userFields(u *user, self bool) fields {
	out := fields{
		"id": u.id, "username": u.login, "name": u.login, "state": "active", "avatar_url": nil,
		"web_url": s.o.URL + "/" + u.login,
	}
	if self {
		out["bot"] = u.bot
	}
	return out
}

func (s *shapes) mrFields(p *project, m *mergeRequest, whole bool) fields {
	out := fields{
		"id": m.id, "iid": m.iid, "project_id": p.id, "title": m.title, "description": m.description, "state": m.state,
		"created_at": stamp(m.created), "updated_at": stamp(m.updated), "closed_at": stamp(m.closed_), "merged_at": nil,
		"target_branch": m.target, "source_branch": m.sourceBranch, "author": s.userFields(m.author, false),
		"labels": m.labels,
		"draft":  len(m.title) > 6 && m.title[:6] == "Draft:", "work_in_progress": false,
		"source_project_id": m.source.id, "target_project_id": p.id,
		"sha": m.head, "merge_commit_sha": nil, "squash_commit_sha": nil,
		"web_url": fmt.Sprintf("%s/%s/-/merge_requests/%d", s.o.URL, p.path, m.iid),
		"references": fields{
			"short": fmt.Sprintf("!%d", m.iid), "relative": fmt.Sprintf("!%d", m.iid),
			"full": fmt.Sprintf("%s!%d", p.path, m.iid),
		},
	}
	if m.labels == nil {
		out["labels"] = []string{}
	}
	reviewers := []fields{}
	for _, u := range m.reviewers {
		reviewers = append(reviewers, s.userFields(u, false))
	}
	out["reviewers"] = reviewers
	if m.mergeSHA != "" {
		out["merge_commit_sha"], out["merged_at"] = m.mergeSHA, stamp(m.updated)
	}
	if whole {
		out["diff_refs"] = fields{"base_sha": m.base, "head_sha": m.head, "start_sha": m.base}
	}
	return out
}

func (s *shapes) noteFields(p *project, m *mergeRequest, n *note) fields {
	return fields{
		"id": n.id, "body": n.body, "author": s.userFields(n.author, false), "created_at": stamp(n.created),
		"updated_at": stamp(n.updated),
		"system":     n.system, "noteable_id": m.id, "noteable_type": "MergeRequest", "noteable_iid": m.iid,
		"project_id": p.id, "resolvable": false, "confidential": false, "internal": false,
	}
}

func (s *shapes) emojiFields(n *note, e *emoji) fields {
	return fields{
		"id": e.id, "name": e.name, "user": s.userFields(e.user, false), "created_at": stamp(e.created),
		"updated_at":   stamp(e.created),
		"awardable_id": n.id, "awardable_type": "Note",
	}
}

func (s *shapes) statusFields(t *status) fields {
	return fields{
		"id": t.id, "sha": t.sha, "ref": "main", "status": t.state, "name": t.name, "target_url": t.target,
		"description": t.description, "allow_failure": false,
		"created_at": stamp(t.created), "started_at": stamp(t.started), "finished_at": stamp(t.finished),
		"author": s.userFields(t.author, false), "coverage": nil, "pipeline_id": t.pipeline,
	}
}
