// Package forge defines the types that GitHub and GitLab share: repositories, merge requests, comments, statuses,
// users. Its interfaces are roles: each adapter implements all of them, and each consumer declares the ones that it
// needs. The package uses no network.
//
// Methods of roles are idempotent, except those that create something. They are safe for concurrent use, read all
// pages of a list, retry temporary errors, and return errors that errors.Is distinguishes.
//
// The package is not API: it can change in every release.
package forge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors of adapters. Their texts contain the forge's message.
var (
	ErrNotFound     = errors.New("not found on the forge, or hidden from the credential")
	ErrUnauthorized = errors.New("the forge does not accept the credential")
	ErrForbidden    = errors.New("the credential does not have the permission")
	ErrTooLong      = errors.New("the text is longer than the forge accepts")
	ErrConflict     = errors.New("the state on the forge has changed")
	ErrUnsupported  = errors.New("not supported by the forge or by this kind of credential")
	ErrUnavailable  = errors.New("the forge is not available")
)

// RateLimitError reports that the forge accepts no requests until a time. It is an ErrUnavailable.
type RateLimitError struct {
	Until time.Time
}

// Error implements error.
func (e *RateLimitError) Error() string {
	return fmt.Sprintf("the forge's rate limit is reached until %s", e.Until.UTC().Format(time.RFC3339))
}

// Unwrap returns ErrUnavailable.
func (e *RateLimitError) Unwrap() error { return ErrUnavailable }

// Repository identifies a repository by its full path: `owner/name` or `group/subgroup/project`.
type Repository struct {
	Path string `json:"path"`
}

// User is a person or a bot.
type User struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Bot   bool   `json:"bot,omitempty"`
}

// State of a merge request.
type State string

// The states.
const (
	Open   State = "open"
	Closed State = "closed"
	Merged State = "merged"
)

// MergeRequest is a merge request (GitLab) or pull request (GitHub).
type MergeRequest struct {
	Number       int       `json:"number"`
	Title        string    `json:"title"`
	Body         string    `json:"body"`
	State        State     `json:"state"`
	Draft        bool      `json:"draft"`
	Labels       []string  `json:"labels"`
	Author       User      `json:"author"`
	SourceBranch string    `json:"sourceBranch"`
	SourceRepo   string    `json:"sourceRepo"` // full path; "" if it was deleted
	Fork         bool      `json:"fork"`       // the source is another repository
	Head         string    `json:"head"`       // commit
	TargetBranch string    `json:"targetBranch"`
	Base         string    `json:"base"` // tip of the target branch according to the forge, or ""
	MergeCommit  string    `json:"mergeCommit,omitempty"`
	URL          string    `json:"url"`
	Updated      time.Time `json:"updated"`
}

// Comment is a comment of a merge request's conversation.
type Comment struct {
	ID      int64     `json:"id"`
	Author  User      `json:"author"`
	Body    string    `json:"body"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	URL     string    `json:"url"`
}

// TextDigest returns a digest of a comment's text, to detect an edit between the webhook and the time when the
// comment is read. It ignores line break styles and surrounding blanks, which forges change.
func TextDigest(body string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))))
	return hex.EncodeToString(sum[:])
}

// StatusState is the state of a commit status.
type StatusState string

// The states.
const (
	Pending StatusState = "pending"
	Running StatusState = "running" // pending, on forges that do not distinguish them
	Success StatusState = "success"
	Failure StatusState = "failure"
)

// Status is a commit status. A commit has one for each context: the newest.
type Status struct {
	Context     string      `json:"context"`
	State       StatusState `json:"state"`
	Description string      `json:"description"` // adapters shorten it to the forge's limit
	URL         string      `json:"url"`
	Updated     time.Time   `json:"updated"`
	Author      User        `json:"author"`
	Check       bool        `json:"check,omitempty"` // it is a check run; a commit status does not replace it
}

// Level of an annotation.
type Level string

// The levels.
const (
	Notice  Level = "notice"
	Warning Level = "warning"
	Error   Level = "error"
)

// Annotation marks a line of a file in a check.
type Annotation struct {
	Path    string `json:"path"`
	Line    int    `json:"line"` // from 1
	Level   Level  `json:"level"`
	Title   string `json:"title"`
	Message string `json:"message"`
}

// Check is a check run: a status with a text and annotations. A commit has one for each name.
type Check struct {
	Name        string
	Commit      string
	State       StatusState
	Title       string // one line
	Summary     string // Markdown
	URL         string
	Annotations []Annotation // of any number; adapters send them in parts
}

// Reaction to a comment.
type Reaction string

// The reactions.
const (
	Eyes     Reaction = "eyes"
	Rocket   Reaction = "rocket"
	Confused Reaction = "confused"
)

// Access is the permission of a user in a repository.
type Access int

// The levels. Each includes those before it.
const (
	AccessNone Access = iota
	AccessRead
	AccessWrite
	AccessMaintain
	AccessAdmin
)

// String returns the name of the level in sluice.yaml.
func (a Access) String() string {
	return [...]string{"none", "read", "write", "maintain", "admin"}[min(max(a, 0), AccessAdmin)]
}

// NewRequest describes a merge request to open.
type NewRequest struct {
	Title, Body                string
	SourceBranch, TargetBranch string
	Draft                      bool
}

// Delivery is a webhook that the forge failed to deliver.
type Delivery struct {
	ID   int64
	GUID string
	Sent time.Time
}

// MergeRequests reads merge requests.
type MergeRequests interface {
	MergeRequest(ctx context.Context, repo Repository, number int) (*MergeRequest, error)
	// OpenMergeRequests lists the open ones by number. An empty targetBranch means all.
	OpenMergeRequests(ctx context.Context, repo Repository, targetBranch string) ([]*MergeRequest, error)
	// MergeRequestsOf lists those that contain a commit, merged ones first.
	MergeRequestsOf(ctx context.Context, repo Repository, commit string) ([]*MergeRequest, error)
	// MergeRequestRef returns the ref of a merge request's head in the target repository, such as
	// refs/pull/7/head.
	MergeRequestRef(number int) string
}

// Recent lists recently updated merge requests in any state.
type Recent interface {
	// RecentMergeRequests lists those that were updated at a time or later: opened, pushed to, commented on,
	// closed or merged.
	RecentMergeRequests(ctx context.Context, repo Repository, since time.Time) ([]*MergeRequest, error)
}

// Requests opens and edits merge requests.
type Requests interface {
	CreateMergeRequest(ctx context.Context, repo Repository, r NewRequest) (*MergeRequest, error)
	// EditMergeRequest changes the title and the body, and closes the merge request if close is set.
	EditMergeRequest(ctx context.Context, repo Repository, number int, title, body string, close bool) error
}

// Comments reads and writes the conversation of a merge request.
type Comments interface {
	CommentReader
	CreateComment(ctx context.Context, repo Repository, number int, body string) (*Comment, error)
	EditComment(ctx context.Context, repo Repository, number int, id int64, body string) error
	DeleteComment(ctx context.Context, repo Repository, number int, id int64) error
	// CommentLimit returns the greatest number of characters of a comment.
	CommentLimit() int
}

// CommentReader reads the conversation of a merge request.
type CommentReader interface {
	Comments(ctx context.Context, repo Repository, number int) ([]Comment, error) // oldest first
	Comment(ctx context.Context, repo Repository, number int, id int64) (*Comment, error)
}

// Labels sets labels of merge requests. Adapters implement it if the forge's API provides it.
type Labels interface {
	// EditLabels adds and removes labels, and leaves the other labels of the merge request as they are. It creates
	// labels that the repository does not have. Adding a label that is there, and removing one that is not, has no
	// effect.
	EditLabels(ctx context.Context, repo Repository, number int, add, remove []string) error
}

// ReviewRequests asks people to review merge requests. Adapters implement it if the forge's API provides it.
type ReviewRequests interface {
	// RequestReviews asks users and teams (as People.InTeam names them) for a review, beside those who are asked
	// already. Asking somebody again has no effect. It returns whom the forge does not accept as a reviewer; the others
	// are asked.
	RequestReviews(ctx context.Context, repo Repository, number int, users, teams []string) ([]RefusedReviewer, error)
}

// RefusedReviewer is a user or a team that a forge does not accept as a reviewer.
type RefusedReviewer struct {
	Name string
	Err  error // why
}

// Reactions adds reactions to comments. Adding an existing reaction has no effect.
type Reactions interface {
	React(ctx context.Context, repo Repository, number int, comment int64, r Reaction) error
}

// Statuses writes and reads commit statuses.
type Statuses interface {
	SetStatus(ctx context.Context, repo Repository, commit string, s Status) error
	// Statuses returns the newest status of each context, by context, including check runs of others.
	Statuses(ctx context.Context, repo Repository, commit string) ([]Status, error)
	// CommitStatuses returns what Statuses returns, without check runs: GitHub lists those by a request of their own.
	CommitStatuses(ctx context.Context, repo Repository, commit string) ([]Status, error)
}

// BulkStatuses reads the statuses of many commits. Adapters implement it if the forge's API has a request for that.
type BulkStatuses interface {
	// BulkSize returns the greatest number of commits of one request; 0 if the credential cannot send such requests.
	BulkSize() int
	// StatusesOf returns by commit what Statuses returns, but only the fields Context, State, Updated and Check. It
	// sends one request, for at most BulkSize commits. Commits that the forge does not know, or whose statuses do not
	// fit into the answer, are missing in the result: Statuses reads them. The error is ErrUnsupported if the
	// credential, or the forge's version, cannot read any of them in this way.
	StatusesOf(ctx context.Context, repo Repository, commits []string) (map[string][]Status, error)
	// BulkQuota returns the quota of these requests, as Budget does.
	BulkQuota() (Quota, bool)
}

// Checks reads and writes check runs. The error is ErrUnsupported if the forge has none, or the credential cannot write
// them.
type Checks interface {
	SetCheck(ctx context.Context, repo Repository, c Check) error
	// CheckRuns returns the newest check run of each name, of all Apps. The error is ErrForbidden if the credential can
	// read them, but not write them.
	CheckRuns(ctx context.Context, repo Repository, commit string) ([]Status, error)
}

// People reads users and their permissions.
type People interface {
	// Self returns the user of the credential.
	Self(ctx context.Context) (User, error)
	Access(ctx context.Context, repo Repository, login string) (Access, error)
	// InTeam reports whether the user is an active member of a team (`org/team`, or `team` of the repository's owner)
	// or group.
	InTeam(ctx context.Context, repo Repository, team, login string) (bool, error)
}

// Deliveries lists webhooks that the forge failed to deliver. The error is ErrUnsupported if the forge keeps no
// record of them.
type Deliveries interface {
	FailedDeliveries(ctx context.Context, since time.Time) ([]Delivery, error)
	Redeliver(ctx context.Context, id int64) error
}

// Repositories lists the repositories that the credential may write to.
type Repositories interface {
	// Repositories lists them by path, without archived and read-only ones.
	Repositories(ctx context.Context) ([]Repository, error)
}

// Links returns addresses of pages on the forge. It sends no request.
type Links interface {
	// CompareURL returns the page that compares two commits of a repository. mr is a merge request of source. Its
	// address shows where people reach the forge, which may differ from the address of the API. The result is "" if
	// the address of mr does not belong to source.
	CompareURL(mr *MergeRequest, source, repo Repository, base, head string) string
}

// Protection reports which branches the forge protects. Adapters implement it if the forge's API provides it.
type Protection interface {
	// Protected reports whether the forge prevents a person with only write access from moving a branch without
	// another person. It considers rules that match the name, so the branch need not exist. The error is ErrForbidden
	// if the credential may not read the rules, and ErrNotFound if the branch does not exist and the forge reports
	// rules only for existing branches.
	Protected(ctx context.Context, repo Repository, branch string) (bool, error)
}

// Deployment is a commit of the source in an environment.
type Deployment struct {
	Environment string
	Commit      string
	State       StatusState // Running, Success or Failure
	Description string      // adapters shorten it to the forge's limit, or leave it out
	URL         string      // of a page about the environment; "" is that of the branch
	Rendered    Repository  // of the environment's branch
	Branch      string      // of the environment; "" if it is not on the forge
	Trunk       string      // the branch that has the commit
	Production  bool        // the environment serves users
}

// Deployments shows which commits environments run. Adapters implement it if the forge's API provides it.
type Deployments interface {
	// SetDeployment sets the state of the deployment of a commit to an environment. There is one for each commit and
	// environment: SetDeployment finds that of earlier calls, of whichever process, and creates one only with the states
	// Running and Success. If the deployment has the state, SetDeployment changes nothing. After a success, the earlier
	// deployments to the environment are not active.
	SetDeployment(ctx context.Context, repo Repository, d Deployment) error
}

// Quota is the number of requests that a credential may still send in a period.
type Quota struct {
	Limit, Remaining int
	Reset            time.Time // end of the period
}

// Share returns the part of the quota that remains, from 0 to 1; 1 if the limit is unknown.
func (q Quota) Share() float64 {
	if q.Limit <= 0 {
		return 1
	}
	return min(max(float64(q.Remaining)/float64(q.Limit), 0), 1)
}

// Stretch returns the factor by which work that can wait is less frequent, so that the rest of the quota is left for
// reviews and commands.
func (q Quota) Stretch() int {
	switch share := q.Share(); {
	case share < 0.1:
		return 16
	case share < 0.25:
		return 4
	case share < 0.5:
		return 2
	}
	return 1
}

// Budget reports the remaining quota of the forge. Adapters implement it.
type Budget interface {
	// Quota returns the quota in the latest answers; with several credentials, the one with the smallest remaining
	// share. It returns false if the forge has not reported a quota yet.
	Quota() (Quota, bool)
}

// Forge has all roles. Adapters implement it, and the wiring passes it on.
type Forge interface { //nolint:interfacebloat // all roles, for the wiring only
	MergeRequests
	Recent
	Requests
	Comments
	Reactions
	Statuses
	Checks
	People
	Repositories
	Links
}
