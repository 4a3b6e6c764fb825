package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// github decodes https://docs.github.com/webhooks/webhook-events-and-payloads.
type github struct{}

func (github) identify(h http.Header) (id, event string) {
	return h.Get("X-GitHub-Delivery"), h.Get("X-GitHub-Event")
}

// verify checks X-Hub-Signature-256 (https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries). All secrets are
// tried, whichever fits, so that the time tells nothing.
func (github) verify(e *Endpoint, h http.Header, body []byte, _ time.Time, _ time.Duration) error {
	text, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
	given, err := hex.DecodeString(text)
	if !ok || err != nil || len(given) != sha256.Size {
		return errUnsigned
	}
	fits := false
	for _, secret := range e.Secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		fits = hmac.Equal(mac.Sum(nil), given) || fits
	}
	if !fits {
		return errUnsigned
	}
	return nil
}

// githubEvent is what is read of a payload.
type githubEvent struct {
	Action     string `json:"action"`
	Ref        string `json:"ref"`
	After      string `json:"after"`
	Repository *struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	PullRequest *struct {
		Number int `json:"number"`
	} `json:"pull_request"`
	Issue *struct {
		Number      int             `json:"number"`
		PullRequest json.RawMessage `json:"pull_request"`
	} `json:"issue"`
	Comment *struct {
		ID      int64  `json:"id"`
		Body    string `json:"body"`
		Created string `json:"created_at"`
		Updated string `json:"updated_at"`
	} `json:"comment"`
	MergeGroup *struct {
		HeadRef string `json:"head_ref"`
	} `json:"merge_group"`
	CheckRun   *githubCheck `json:"check_run"`
	CheckSuite *githubCheck `json:"check_suite"`
}

type githubCheck struct {
	PullRequests []struct {
		Number int `json:"number"`
	} `json:"pull_requests"`
	HeadBranch string `json:"head_branch"`
	CheckSuite *struct {
		HeadBranch string `json:"head_branch"`
	} `json:"check_suite"`
}

func (github) decode(event string, body []byte) ([]Hint, error) {
	if !slices.Contains(Events("github"), event) { // ping, and all others
		return nil, nil
	}
	var p githubEvent
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("payload of %s: %w", event, err)
	}
	if strings.HasPrefix(event, "installation") {
		return []Hint{{Kind: Sweep}}, nil
	}
	if p.Repository == nil {
		return nil, nil // an organisation's hook may tell of things without a repository
	}
	repo := p.Repository.FullName
	if !repository(repo) {
		return nil, fmt.Errorf("payload of %s: no repository", event)
	}
	return p.hints(event, repo), nil
}

func (p *githubEvent) hints(event, repo string) []Hint {
	switch {
	case event == "push":
		if name := branch(p.Ref, p.After); name != "" {
			return []Hint{{Repository: repo, Kind: Trunk, Ref: name}}
		}
	case event == "merge_group" && p.Action == "checks_requested" && p.MergeGroup != nil:
		if number, name := group(p.MergeGroup.HeadRef); name != "" {
			return []Hint{{Repository: repo, Kind: Group, Number: number, Ref: name}}
		}
	case event == "pull_request" && p.PullRequest != nil && p.PullRequest.Number > 0:
		return []Hint{{Repository: repo, Kind: Review, Number: p.PullRequest.Number}}
	case event == "issue_comment" && p.Action == "created" && p.Issue != nil && p.Issue.PullRequest != nil && p.Comment != nil && p.Issue.Number > 0:
		return []Hint{{Repository: repo, Kind: Comment, Number: p.Issue.Number, Comment: p.Comment.ID, Text: created(p.Comment.Body, p.Comment.Created, p.Comment.Updated), Urgent: urgent(p.Comment.Body)}}
	case event == "check_run" && p.Action == "rerequested":
		return p.CheckRun.again(repo)
	case event == "check_suite" && p.Action == "rerequested":
		return p.CheckSuite.again(repo)
	}
	return nil
}

// again is the button "re-run".
func (c *githubCheck) again(repo string) []Hint {
	if c == nil {
		return nil
	}
	var out []Hint
	for _, p := range c.PullRequests {
		if p.Number > 0 && len(out) < 100 {
			out = append(out, Hint{Repository: repo, Kind: Review, Number: p.Number, Force: true})
		}
	}
	if len(out) == 0 { // of a fork, or of a branch
		return []Hint{{Repository: repo, Kind: Sweep, Force: true}}
	}
	return out
}

// group is the branch of a merge queue's group, refs/heads/gh-readonly-queue/main/pr-7-<commit>, and the number of its last pull request:
// when that one is put together anew, the group before is of no interest.
func group(ref string) (number int, name string) {
	m := regexp.MustCompile(`^refs/heads/(gh-readonly-queue/[^\x00-\x20]{1,400}/pr-([0-9]{1,9})-[0-9a-f]{7,64})$`).FindStringSubmatch(ref)
	if m == nil {
		return 0, ""
	}
	number, _ = strconv.Atoi(m[2])
	return number, m[1]
}
