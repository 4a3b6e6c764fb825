package fakegithub

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

func countStatuses(r *repository, sha, context string) int {
	n := 0
	for _, x := range r.statuses {
		if x.sha == sha && strings.EqualFold(x.context, context) {
			n++
		}
	}
	return n
}

func createStatus(c *call) answer {
	var in struct {
		State, Context, Description string
		Target                      string `json:"target_url"`
	}
	sha := c.r.PathValue("sha")
	if !c.read(&in) {
		return unreadable()
	}
	if !c.repo.has(sha) {
		return noCommit(sha)
	}
	if !slices.Contains([]string{"error", "failure", "pending", "success"}, in.State) {
		return invalid("Status", "state", "invalid", "")
	}
	if utf8.RuneCountInString(in.Description) > 140 {
		return invalid("Status", "description", "custom", "description is too long (maximum is 140 characters)")
	}
	if in.Context == "" {
		in.Context = "default"
	}
	if countStatuses(c.repo, sha, in.Context) >= mostStatuses {
		return invalid("Status", "", "custom", "This SHA and context has reached the maximum number of statuses.")
	}
	x := c.s.setStatus(c.repo, Status{
		SHA: sha, State: in.State, Context: in.Context, Description: in.Description,
		URL: in.Target,
	}, c.who.user)
	return answer{code: 201, value: c.s.status(c.repo, x)}
}

func listStatuses(c *call) answer {
	var all []fields
	for _, x := range slices.Backward(c.repo.statuses) {
		if x.sha == c.r.PathValue("sha") {
			all = append(all, c.s.status(c.repo, x))
		}
	}
	return c.paged(all)
}

// ends returns when an installation token ends.
func ends(now time.Time) time.Time { return now.Add(time.Hour) }
