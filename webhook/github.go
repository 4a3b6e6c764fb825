package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// github verifies and decodes https://docs.github.com/webhooks/webhook-events-and-payloads.
type github struct{}

func (github) identify(h http.Header) (id, event string) {
	return h.Get("X-GitHub-Delivery"), h.Get("X-GitHub-Event")
}

// verify checks X-Hub-Signature-256
// (https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries).
func (github) verify(e *Endpoint, h http.Header, body []byte, _ time.Time, _ time.Duration) error {
	text, ok := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
	given, err := hex.DecodeString(text)
	if !ok || err != nil || !signed(e.Secrets, body, given) {
		return errUnsigned
	}
	return nil
}

// signed reports whether a signature is the HMAC-SHA256 of a body with one of the secrets. It computes the signature
// with every secret even after a match, so that the time does not reveal which secret matched.
func signed(secrets []string, body, signature []byte) bool {
	matches := false
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		matches = hmac.Equal(mac.Sum(nil), signature) || matches
	}
	return matches
}

// githubSource is the member that all events of a repository have.
type githubSource struct {
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
}

func (s *githubSource) repository() string { return s.Repository.FullName }

func (github) decode(event string, body []byte) ([]hint.Hint, error) {
	switch event {
	case "installation", "installation_repositories": // the repositories that the App may write to have changed
		return []hint.Hint{{Kind: hint.Sweep}}, nil
	case "member", "membership", "organization", "team":
		return []hint.Hint{{Kind: hint.Members}}, nil
	case "push":
		return decode(event, body, githubPush)
	case "pull_request":
		return decode(event, body, githubPullRequest)
	case "issue_comment":
		return decode(event, body, githubComment)
	case "merge_group":
		return decode(event, body, githubMergeGroup)
	case "check_run", "check_suite":
		return decode(event, body, githubRerun)
	}
	return nil, nil
}

type githubPushEvent struct {
	githubSource
	Ref   string `json:"ref"`
	After string `json:"after"`
}

func githubPush(p *githubPushEvent) ([]hint.Hint, error) {
	return pushed(p.Ref, p.After)
}

type githubPullRequestEvent struct {
	githubSource
	PullRequest struct {
		Number int `json:"number"`
	} `json:"pull_request"`
}

func githubPullRequest(p *githubPullRequestEvent) ([]hint.Hint, error) {
	if p.PullRequest.Number <= 0 {
		return nil, errors.New("it has no pull_request.number")
	}
	return []hint.Hint{{Kind: hint.Review, Number: p.PullRequest.Number}}, nil
}

type githubCommentEvent struct {
	githubSource
	Action string `json:"action"`
	Issue  struct {
		Number      int             `json:"number"`
		PullRequest json.RawMessage `json:"pull_request"` // absent or null for an issue
	} `json:"issue"`
	Comment struct {
		ID      int64  `json:"id"`
		Body    string `json:"body"`
		Created string `json:"created_at"`
		Updated string `json:"updated_at"`
	} `json:"comment"`
}

func githubComment(p *githubCommentEvent) ([]hint.Hint, error) {
	if p.Action != "created" || !mayCommand(p.Comment.Body) || len(p.Issue.PullRequest) == 0 ||
		bytes.Equal(p.Issue.PullRequest, []byte("null")) {
		return nil, nil
	}
	if p.Issue.Number <= 0 || p.Comment.ID <= 0 {
		return nil, errors.New("it has no issue.number or no comment.id")
	}
	c := p.Comment
	return []hint.Hint{{
		Kind: hint.Comment, Number: p.Issue.Number, Comment: c.ID,
		Text: createdDigest(c.Body, c.Created, c.Updated), Urgent: urgent(c.Body),
	}}, nil
}

type githubMergeGroupEvent struct {
	githubSource
	Action     string `json:"action"`
	MergeGroup struct {
		HeadRef string `json:"head_ref"`
	} `json:"merge_group"`
}

func githubMergeGroup(p *githubMergeGroupEvent) ([]hint.Hint, error) {
	if p.Action != "checks_requested" {
		return nil, nil
	}
	if number, name := mergeGroup(p.MergeGroup.HeadRef); name != "" {
		return []hint.Hint{{Kind: hint.Group, Number: number, Ref: name}}, nil
	}
	return nil, errors.New("merge_group.head_ref is not the branch of a merge queue")
}

// mergeGroupPattern has no bound for the name of the branch: expanding it would cost every start of Sluice 400 kB.
var mergeGroupPattern = regexp.MustCompile(`^refs/heads/(gh-readonly-queue/[^\x00-\x20]+/pr-([0-9]{1,9})-[0-9a-f]{7,64})$`)

const longestGroup = 512 // bytes of the ref

// mergeGroup parses the ref of a merge queue's group, refs/heads/gh-readonly-queue/main/pr-7-<commit>. The
// number is that of the group's last pull request: a new group with the same number replaces the previous
// one.
func mergeGroup(ref string) (number int, name string) {
	m := mergeGroupPattern.FindStringSubmatch(ref)
	if m == nil || len(ref) > longestGroup {
		return 0, ""
	}
	number, err := strconv.Atoi(m[2])
	if err != nil {
		return 0, ""
	}
	return number, m[1]
}

type githubRerunEvent struct {
	githubSource
	Action     string      `json:"action"`
	CheckRun   githubCheck `json:"check_run"`
	CheckSuite githubCheck `json:"check_suite"`
}

type githubCheck struct {
	PullRequests []struct {
		Number int `json:"number"`
	} `json:"pull_requests"`
}

// maxRerun limits the hints of one event. Further pull requests are not reviewed again.
const maxRerun = 100

// githubRerun decodes a click on "Re-run". For a check of a fork or of a branch, GitHub lists no pull requests: the
// repository is swept.
func githubRerun(p *githubRerunEvent) ([]hint.Hint, error) {
	if p.Action != "rerequested" {
		return nil, nil
	}
	var out []hint.Hint
	for _, pr := range append(p.CheckRun.PullRequests, p.CheckSuite.PullRequests...) {
		if pr.Number > 0 && len(out) < maxRerun {
			out = append(out, hint.Hint{Kind: hint.Review, Number: pr.Number, Force: true})
		}
	}
	if len(out) == 0 {
		return []hint.Hint{{Kind: hint.Sweep, Force: true}}, nil
	}
	return out, nil
}
