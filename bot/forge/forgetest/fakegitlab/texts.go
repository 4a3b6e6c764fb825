package fakegitlab

import (
	"fmt"
	"slices"
	"strings"
)

// Descriptions returns the descriptions of a commit's newest statuses, by name.
func (s *MergeRequests) Descriptions(path, sha string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for _, t := range s.find(path).statuses {
		if t.sha == sha {
			out[t.name] = t.description
		}
	}
	return out
}

// Text returns the title and the description of a merge request, and whether it is open.
func (s *MergeRequests) Text(path string, iid int) (text string, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(path).mr(fmt.Sprint(iid))
	if m == nil {
		return "", false
	}
	return m.title + "\n" + m.description, m.state == "opened"
}

// act runs the quick actions of a text, of which only /close has an effect here, and returns the rest.
func (s *MergeRequests) act(m *mergeRequest, text string) string {
	rest, run := actions(text)
	if slices.Contains(run, "close") && m.state == "opened" {
		m.state, m.closed_ = "closed", s.now()
	}
	return rest
}

// actions returns the quick actions of a text, and the text without them, without carriage returns, and without
// whitespace at its end. GitLab runs them with the rights of the account that writes the text, when a note or a
// description is created or changed. Lines of a fenced block of code are none. Source:
// lib/gitlab/quick_actions/extractor.rb (perform_regex) and app/services/notes/update_service.rb of GitLab.
func actions(text string) (rest string, run []string) {
	var lines []string
	fence := ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\r", "")) {
		bare := strings.TrimRight(line, "\n")
		switch mark := bare[:min(len(bare), 3)]; {
		case fence == "" && (mark == "```" || mark == "~~~"):
			fence = mark
		case mark == fence:
			fence = ""
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(bare, "/"), " ")
		if fence == "" && strings.HasPrefix(bare, "/") && slices.Contains([]string{
			"approve", "close", "merge",
			"unapprove",
		}, name) {
			run = append(run, name)
			continue
		}
		lines = append(lines, line)
	}
	return strings.TrimRight(strings.Join(lines, ""), " \t\n\v\f\x00"), run
}
