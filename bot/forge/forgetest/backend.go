// Package forgetest contains the contract of the adapters of package forge as a test suite: Run. It uses only the
// neutral types. The tests of an adapter provide a Backend, which creates worlds: the adapter and a driver for the
// forge that it talks to. The package names no forge and uses only the backend's network.
//
// The package is not API: it can change in every release.
package forgetest

import (
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Backend creates worlds. Each test of the suite uses a new one.
type Backend interface {
	New(t *testing.T) World
}

// World is an empty forge and the adapter that talks to it.
type World interface {
	Subject
	Scenes
	Actions
	Faults
	State
}

// Subject is the adapter under test.
type Subject interface {
	// Forge returns the adapter. Its credential may write every repository of the world. Its waits between attempts
	// end at once and are recorded, see Waits.
	Forge() forge.Forge
	// Self returns the user of the credential.
	Self() forge.User
	// Checks reports whether the credential may write check runs. If not, SetCheck must return ErrUnsupported.
	Checks() bool
}

// Scenes prepares a world.
type Scenes interface {
	// Repository creates a repository with a first commit on branch main. The path has two elements:
	// `acme/fleet`.
	Repository(t *testing.T, path string) forge.Repository
	// User creates a user without any permission.
	User(t *testing.T, login string) forge.User
	// Grant sets the permission of a user in a repository.
	Grant(t *testing.T, repo forge.Repository, login string, a forge.Access)
	// Team creates a team `org/team` with these active members. The pending ones are invited and have not accepted;
	// forges without invitations ignore them.
	Team(t *testing.T, team string, members, pending []string)
	// Protect prevents writers from pushing to a branch of this name, which need not exist.
	Protect(t *testing.T, repo forge.Repository, branch string)
}

// Scene is a merge request to open.
type Scene struct {
	Title, Body  string
	Author       string // login; "" is Self
	SourceBranch string
	TargetBranch string // "" is main; created from main if it does not exist
	Labels       []string
	Draft        bool
	Fork         bool // the source branch is in the author's fork
}

// Actions are what people do on the forge.
type Actions interface {
	Branching
	// Comment adds a comment of a user.
	Comment(t *testing.T, repo forge.Repository, number int, login, body string) forge.Comment
	// Report sets a status of a commit as a user.
	Report(t *testing.T, repo forge.Repository, commit, login string, s forge.Status)
}

// Branching are the actions that move branches and merge requests.
type Branching interface {
	// Open creates the source branch with a new commit and opens a merge request.
	Open(t *testing.T, repo forge.Repository, s Scene) forge.MergeRequest
	// Push adds a commit to the source branch and returns the new head.
	Push(t *testing.T, repo forge.Repository, number int) (head string)
	// Merge merges and returns the new commit of the target branch.
	Merge(t *testing.T, repo forge.Repository, number int) (commit string)
	// Close closes without merging.
	Close(t *testing.T, repo forge.Repository, number int)
}

// On selects requests.
type On int

// The kinds of requests.
const (
	OnAny   On = iota
	OnRead     // GET
	OnWrite    // everything else
)

// FaultKind is a kind of fault.
type FaultKind int

// The kinds of faults.
const (
	// RateLimited answers 429 with Retry-After; the request has no effect.
	RateLimited FaultKind = iota
	// Broken answers 502; the request has no effect.
	Broken
	// Lost closes the connection without an answer after the request was processed.
	Lost
	// TooLong refuses the text of the request as too long, with the forge's own message.
	TooLong
	// Denied answers that the credential lacks the permission.
	Denied
	// SignedOut answers that the credential is not valid.
	SignedOut
)

// Fault is a fault of the next requests that On selects.
type Fault struct {
	Kind       FaultKind
	On         On
	Times      int           // how many requests; 0 is one
	RetryAfter time.Duration // of RateLimited, in whole seconds
}

// Faults adds faults.
type Faults interface {
	Fail(t *testing.T, f Fault)
}

// State reads the state of the forge.
type State interface {
	Traffic
	// Comments returns the conversation as it is on the forge.
	Comments(t *testing.T, repo forge.Repository, number int) []forge.Comment
	// Reactions returns the reactions of Self to a comment.
	Reactions(t *testing.T, repo forge.Repository, number int, comment int64) []forge.Reaction
	// Check returns the newest check run of a name, with all its annotations; false if there is none.
	Check(t *testing.T, repo forge.Repository, commit, name string) (forge.Check, bool)
	// Numbers returns the numbers of the repository's merge requests, in order.
	Numbers(t *testing.T, repo forge.Repository) []int
}

// Traffic counts the requests of the adapter.
type Traffic interface {
	// Requests returns the number of API requests so far, including those with faults.
	Requests() int
	// Waits returns the delays that the adapter asked for before each retry so far.
	Waits() []time.Duration
}

// Paged is a World whose forge has shorter pages than the forges that the adapters are for, so that fewer items make more
// than one page. A World need not implement it.
type Paged interface {
	// PageItems returns how many items a page has at most.
	PageItems() int
}

// pageItems returns how many items a page has at most.
func pageItems(w World) int {
	if p, ok := w.(Paged); ok {
		return p.PageItems()
	}
	return 100 // GitHub and GitLab
}
