package fakegitlab

import (
	"fmt"
	"slices"
	"strings"
)

// triage changes labels and reviewers as an edit of a merge request asks: labels are lists with commas. Users who may
// not read the project are not added as reviewers, without an error
// (https://docs.gitlab.com/api/merge_requests/#update-mr).
func (c *call) triage(p *project, m *mergeRequest) {
	before := fmt.Sprint(m.labels, len(m.reviewers))
	for name := range strings.SplitSeq(c.text("add_labels"), ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(m.labels, name) {
			m.labels = append(slices.Clip(m.labels), name)
		}
	}
	gone := strings.Split(c.text("remove_labels"), ",")
	m.labels = slices.DeleteFunc(slices.Clone(m.labels), func(name string) bool { return slices.Contains(gone, name) })
	if ids, ok := c.body["reviewer_ids"].([]any); ok {
		m.reviewers = nil
		for _, id := range ids {
			for _, u := range c.s.users {
				if number, ok := id.(float64); ok && u.id == int(number) && c.s.may(p, u, Guest) {
					m.reviewers = append(m.reviewers, u)
				}
			}
		}
		if c.s.oneReviewer && len(m.reviewers) > 1 {
			m.reviewers = m.reviewers[:1]
		}
	}
	if fmt.Sprint(m.labels, len(m.reviewers)) != before {
		c.s.mergeRequestEvent(p, m, "update", "", m.author)
	}
}

// Reviewers returns the logins of a merge request's reviewers.
func Reviewers(s *Server, path string, iid int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, u := range s.find(path).mr(fmt.Sprint(iid)).reviewers {
		out = append(out, u.login)
	}
	return out
}

// DismissReviewers removes all reviewers, as people do on the page of a merge request.
func DismissReviewers(s *Server, path string, iid int) {
	s.change(path, iid, "update", func(m *mergeRequest) { m.reviewers = nil })
}

// Labels returns the labels of a merge request.
func Labels(s *Server, path string, iid int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.find(path).mr(fmt.Sprint(iid)).labels)
}

// OneReviewer has merge requests keep only the first reviewer, as GitLab does without a license.
func OneReviewer(s *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oneReviewer = true
}
