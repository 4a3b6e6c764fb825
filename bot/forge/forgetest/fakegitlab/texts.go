package fakegitlab

import "fmt"

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
