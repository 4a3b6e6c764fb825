// Package forgetest has the contract that every adapter of bot/forge keeps, as a suite of tests: Run. It knows the neutral
// types only. An adapter's tests give it a Backend: worlds in which nothing has happened yet, each with the adapter to test
// and a driver of the forge it talks to. It must never name a forge, and never reach a network other than the backend's.
package forgetest

import (
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Backend makes worlds. Each test of the suite takes a new one.
type Backend interface {
	New(t *testing.T) World
}

// World is a forge on which nothing has happened yet, and the adapter that talks to it.
type World interface {
	Subject
	Scenes
	Doings
	Faults
	Witness
}

// Subject is what is tested.
type Subject interface {
	// Forge is the adapter, with a credential that may write every repository of the world, on the world's clock. Its waits
	// between tries end at once, and are recorded: see Waits.
	Forge() forge.Forge
	// Self is who the credential belongs to.
	Self() forge.User
	// Checks says whether the credential may write check runs; if not, SetCheck must give ErrUnsupported.
	Checks() bool
}

// Scenes prepares.
type Scenes interface {
	// Repository makes a repository with a first commit on branch main. The path has two elements: `acme/fleet`.
	Repository(t *testing.T, path string) forge.Repository
	// User makes a user without access to anything.
	User(t *testing.T, login string) forge.User
	// Grant gives a user access to a repository, in place of what the user had.
	Grant(t *testing.T, repo forge.Repository, login string, a forge.Access)
	// Team makes a team `org/team` with these active members. The pending ones are invited, and have not accepted; where the
	// forge has no such thing they are left out.
	Team(t *testing.T, team string, members, pending []string)
	// Protect keeps writers from pushing to a branch of this name, which need not exist.
	Protect(t *testing.T, repo forge.Repository, branch string)
}

// Scene is a merge request to open.
type Scene struct {
	Title, Body  string
	Author       string // login; "" is Self
	SourceBranch string
	TargetBranch string // "" is main; it is made from main if it does not exist
	Labels       []string
	Draft        bool
	Fork         bool // the source branch is in the author's fork
}

// Doings is what people do on the forge while the adapter watches.
type Doings interface {
	// Open makes the source branch with a new commit and opens a merge request.
	Open(t *testing.T, repo forge.Repository, s Scene) forge.MergeRequest
	// Push adds a commit to the merge request's source branch and gives the new head.
	Push(t *testing.T, repo forge.Repository, number int) (head string)
	// Merge merges, and gives the commit that the target branch then has.
	Merge(t *testing.T, repo forge.Repository, number int) (commit string)
	// Close closes without merging.
	Close(t *testing.T, repo forge.Repository, number int)
	// Say comments as a user.
	Say(t *testing.T, repo forge.Repository, number int, login, body string) forge.Comment
	// Report sets a status of a commit as a user.
	Report(t *testing.T, repo forge.Repository, commit, login string, s forge.Status)
}

// On says which requests a fault is for.
type On int

// The kinds of requests.
const (
	OnAny   On = iota
	OnRead     // GET
	OnWrite    // everything else
)

// FaultKind says what goes wrong.
type FaultKind int

// The kinds of faults.
const (
	// RateLimited answers 429 with Retry-After; the request has no effect.
	RateLimited FaultKind = iota
	// Broken answers 502; the request has no effect.
	Broken
	// Lost closes the connection without an answer after the request had its effect.
	Lost
	// TooLong refuses the text of the request as too long, in the forge's own words.
	TooLong
	// Denied answers that the credential may not do this.
	Denied
	// SignedOut answers that the credential is not accepted.
	SignedOut
)

// Fault is something that goes wrong with the next requests that it is for.
type Fault struct {
	Kind       FaultKind
	On         On
	Times      int           // how many requests; 0 is one
	RetryAfter time.Duration // of RateLimited, in whole seconds
}

// Faults makes things go wrong.
type Faults interface {
	Fail(t *testing.T, f Fault)
}

// Witness tells what happened, from the forge's side.
type Witness interface {
	// Requests is the number of requests for the API that arrived so far, faulty ones included.
	Requests() int
	// Waits is how long the adapter asked to wait before each further try, so far.
	Waits() []time.Duration
	// Comments is the conversation as it is on the forge.
	Comments(t *testing.T, repo forge.Repository, number int) []forge.Comment
	// Reactions is what Self put on a comment.
	Reactions(t *testing.T, repo forge.Repository, number int, comment int64) []forge.Reaction
	// Check is the newest check run of a name, with all its annotations; false if there is none.
	Check(t *testing.T, repo forge.Repository, commit, name string) (forge.Check, bool)
	// Numbers is the numbers of the repository's merge requests, in order.
	Numbers(t *testing.T, repo forge.Repository) []int
}
