// Package forge has the words that GitHub and GitLab share: repositories, merge requests, comments, statuses, people. Its
// interfaces are roles; each adapter plays all of them, each consumer asks for those it needs. Nothing here talks to a network.
//
// Every method of a role may be called twice with the same effect as once, except those that create. Methods are safe for
// concurrent use, page through all results, retry what is worth retrying, and give errors that errors.Is can tell apart.
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

// Errors of adapters. Their text names the forge's own message.
var (
	ErrNotFound     = errors.New("there is no such thing on the forge, or the credential may not see it")
	ErrUnauthorized = errors.New("the forge does not accept the credential")
	ErrForbidden    = errors.New("the credential may not do this")
	ErrTooLong      = errors.New("the text is longer than the forge takes")
	ErrConflict     = errors.New("the forge has another state by now")
	ErrUnsupported  = errors.New("the forge, or this kind of credential, does not have this")
	ErrUnavailable  = errors.New("the forge does not answer as it should")
)

// RateLimitError says that the forge wants no more requests until a time. It is an ErrUnavailable.
type RateLimitError struct {
	Until time.Time
}

// Error says until when.
func (e *RateLimitError) Error() string {
	return fmt.Sprintf("the forge's rate limit is reached until %s", e.Until.UTC().Format(time.RFC3339))
}

// Unwrap makes it an ErrUnavailable.
func (e *RateLimitError) Unwrap() error { return ErrUnavailable }

// Repository is a repository by its full path: `owner/name`, `group/subgroup/project`.
type Repository struct {
	Path string `json:"path"`
}

// User is a person or a machine.
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
	Base         string    `json:"base"` // tip of the target branch as the forge knows it, or ""
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

// TextDigest names a comment's text: a webhook tells what it was when it was created, and what is read later is compared. Forges
// keep line breaks and blanks around a text as they like.
func TextDigest(body string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))))
	return hex.EncodeToString(sum[:])
}

// StatusState is the state of a commit status.
type StatusState string

// The states.
const (
	Pending StatusState = "pending"
	Running StatusState = "running" // pending, where the forge does not tell them apart
	Success StatusState = "success"
	Failure StatusState = "failure"
)

// Status is a commit status. There is one for each context of a commit; the newest counts.
type Status struct {
	Context     string      `json:"context"`
	State       StatusState `json:"state"`
	Description string      `json:"description"` // cut to what the forge takes
	URL         string      `json:"url"`
	Updated     time.Time   `json:"updated"`
	Author      User        `json:"author"`
	Check       bool        `json:"check,omitempty"` // it is a check run, which no status can take the place of
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

// Check is a check run: a status with a text and annotations. There is one for each name of a commit.
type Check struct {
	Name        string
	Commit      string
	State       StatusState
	Title       string // one line
	Summary     string // Markdown
	URL         string
	Annotations []Annotation // any number: adapters send them in parts
}

// Reaction to a comment.
type Reaction string

// The reactions.
const (
	Eyes     Reaction = "eyes"
	Rocket   Reaction = "rocket"
	Confused Reaction = "confused"
)

// Access is what a user may do in a repository.
type Access int

// The levels, each with all of those before it.
const (
	AccessNone Access = iota
	AccessRead
	AccessWrite
	AccessMaintain
	AccessAdmin
)

// String is the level's name as sluice.yaml has it.
func (a Access) String() string {
	return [...]string{"none", "read", "write", "maintain", "admin"}[min(max(a, 0), AccessAdmin)]
}

// NewRequest asks for a merge request.
type NewRequest struct {
	Title, Body                string
	SourceBranch, TargetBranch string
	Draft                      bool
}

// Delivery is a webhook that the forge could not deliver.
type Delivery struct {
	ID   int64
	GUID string
	Sent time.Time
}

// MergeRequests reads merge requests.
type MergeRequests interface {
	MergeRequest(ctx context.Context, repo Repository, number int) (*MergeRequest, error)
	// OpenMergeRequests lists those that are open, by number; targetBranch "" means all.
	OpenMergeRequests(ctx context.Context, repo Repository, targetBranch string) ([]*MergeRequest, error)
	// MergeRequestsOf lists those that a commit came with, merged ones first.
	MergeRequestsOf(ctx context.Context, repo Repository, commit string) ([]*MergeRequest, error)
	// MergeRequestRef is the ref of a merge request's head in the target repository: refs/pull/7/head.
	MergeRequestRef(number int) string
}

// Recent finds the merge requests that something happened to, whatever their state.
type Recent interface {
	// RecentMergeRequests lists those that were updated at a time or later: opened, pushed to, commented on, closed, merged.
	RecentMergeRequests(ctx context.Context, repo Repository, since time.Time) ([]*MergeRequest, error)
}

// Requests opens merge requests and keeps them current.
type Requests interface {
	CreateMergeRequest(ctx context.Context, repo Repository, r NewRequest) (*MergeRequest, error)
	// EditMergeRequest changes title and body; closes it if close is set.
	EditMergeRequest(ctx context.Context, repo Repository, number int, title, body string, close bool) error
}

// Comments reads and writes the conversation of a merge request.
type Comments interface {
	Comments(ctx context.Context, repo Repository, number int) ([]Comment, error) // oldest first
	Comment(ctx context.Context, repo Repository, number int, id int64) (*Comment, error)
	CreateComment(ctx context.Context, repo Repository, number int, body string) (*Comment, error)
	EditComment(ctx context.Context, repo Repository, number int, id int64, body string) error
	DeleteComment(ctx context.Context, repo Repository, number int, id int64) error
	// CommentLimit is the most characters that a comment may have.
	CommentLimit() int
}

// Reactions marks comments. A reaction that is there already stays.
type Reactions interface {
	React(ctx context.Context, repo Repository, number int, comment int64, r Reaction) error
}

// Statuses writes and reads commit statuses.
type Statuses interface {
	SetStatus(ctx context.Context, repo Repository, commit string, s Status) error
	// Statuses gives the newest status of each context, by context; check runs of others are among them.
	Statuses(ctx context.Context, repo Repository, commit string) ([]Status, error)
}

// Checks writes check runs. ErrUnsupported where there are none, or for credentials that may not write them.
type Checks interface {
	SetCheck(ctx context.Context, repo Repository, c Check) error
}

// People tells who may do what.
type People interface {
	// Self is who the credential belongs to.
	Self(ctx context.Context) (User, error)
	Access(ctx context.Context, repo Repository, login string) (Access, error)
	// InTeam says whether the user is an active member of a team (`org/team`, or `team` of the repository's owner) or group.
	InTeam(ctx context.Context, repo Repository, team, login string) (bool, error)
}

// Deliveries finds webhooks that did not arrive. ErrUnsupported where the forge keeps no record.
type Deliveries interface {
	FailedDeliveries(ctx context.Context, since time.Time) ([]Delivery, error)
	Redeliver(ctx context.Context, id int64) error
}

// Repositories tells what the credential may write to.
type Repositories interface {
	// Repositories lists them by path; archived ones, and those that are only read, are left out.
	Repositories(ctx context.Context) ([]Repository, error)
}

// Protection reports which branches the forge protects. Adapters implement it where the forge's API tells.
type Protection interface {
	// Protected reports whether the forge keeps a person who only has write access from moving a branch without somebody else. It
	// considers rules that match the name, so that the branch need not exist. The error is ErrForbidden if the credential may not read
	// the rules, and ErrNotFound if the branch does not exist and the forge only tells for branches that do.
	Protected(ctx context.Context, repo Repository, branch string) (bool, error)
}

// Quota is how many requests a credential may still send in a period.
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

// Budget tells what is left of the forge's quota. Adapters implement it.
type Budget interface {
	// Quota returns the quota, of all credentials, of which the smallest part remains, as the latest answers have it. It returns false
	// if the forge has not told yet.
	Quota() (Quota, bool)
}

// Forge is a forge with all its roles: what an adapter is and a service is wired with.
type Forge interface { //nolint:interfacebloat // all roles; nobody asks for it but the wiring
	MergeRequests
	Recent
	Requests
	Comments
	Reactions
	Statuses
	Checks
	People
	Repositories
}
