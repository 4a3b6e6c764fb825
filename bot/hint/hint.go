// Package hint defines the message that webhooks, sweeps and commands put into the queue and that the bot processes.
//
// A hint names what may have changed. It contains no state: the bot reads the current state from the forge and from
// Git. The package is a leaf: it knows no queue and no HTTP.
//
// The package is not API: it can change in every release.
package hint

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// ErrInvalid classifies a hint that cannot be stored.
var ErrInvalid = errors.New("not valid")

// Kind is the task that a hint asks for.
type Kind string

// The kinds of hints.
const (
	Review  Kind = "review"  // review a merge request
	Trunk   Kind = "trunk"   // hydrate the trunk and evaluate promotions
	Comment Kind = "comment" // execute the commands of a comment; never coalesced
	Sweep   Kind = "sweep"   // enqueue a hint for each open merge request and for the trunk
	Group   Kind = "group"   // review a merge group of a merge queue
	// Members reports that permissions changed. It is not enqueued: the bot asks the forge for permissions again.
	Members Kind = "members"
	// Follow moves the pins of other repositories that the fleet follows.
	Follow Kind = "follow"
	// Tag reports that a tag of a repository was pushed. It is not enqueued: fleets that follow the repository get a
	// Follow.
	Tag Kind = "tag"
	// Question asks for the answers to the questions of a comment about the head of its merge request; never coalesced.
	Question Kind = "question"
)

// Place names a repository on a configured forge: `forge:owner/name`.
type Place string

// NewPlace returns the place of the repository with a full path on a forge. An empty path means all repositories of the
// forge.
func NewPlace(forgeName, path string) Place { return Place(forgeName + ":" + path) }

// Forge returns the name that the configuration gives the forge.
func (p Place) Forge() string {
	name, _, _ := strings.Cut(string(p), ":")
	return name
}

// Repo returns the repository. Its path is empty if the place means all repositories of the forge.
func (p Place) Repo() forge.Repository {
	_, path, _ := strings.Cut(string(p), ":")
	return forge.Repository{Path: path}
}

// Fold returns a place that is equal for all spellings of a repository: forges ignore the case of paths.
func (p Place) Fold() Place { return NewPlace(p.Forge(), strings.ToLower(p.Repo().Path)) }

// Owner returns the owner of the repository, in lower case. One owner has the same name on every forge of the
// configuration.
func (p Place) Owner() string {
	name, _, _ := strings.Cut(p.Repo().Path, "/")
	return strings.ToLower(name)
}

// String returns `forge:owner/name`.
func (p Place) String() string { return string(p) }

// Hint asks for one task.
type Hint struct {
	Place   Place  `json:"place"`
	Kind    Kind   `json:"kind"`
	Number  int    `json:"number,omitempty"`  // of the merge request
	Comment int64  `json:"comment,omitempty"` // ID of the comment, for Comment and Question
	Text    string `json:"text,omitempty"`    // digest of the comment when it was created; "" if unknown
	Urgent  bool   `json:"-"`                 // the comment may contain a command that must not wait for what runs
	// branch that was pushed, for Trunk ("" is the trunk); branch of the group, for Group
	Ref    string `json:"ref,omitempty"`
	Unless bool   `json:"-"` // store nothing if a hint of the same key waits or is worked on
	// do the task even if nothing changed; a newer hint without Force does not remove it
	Force bool      `json:"force,omitempty"`
	ID    string    `json:"id,omitempty"` // of the webhook delivery, for the log
	At    time.Time `json:"at"`
}

// Key identifies hints that coalesce: place, kind and number, and for kinds of a comment also the comment and the
// delivery.
func (h Hint) Key() string {
	key := string(h.Place) + "\n" + string(h.Kind) + "\n" + strconv.Itoa(h.Number)
	if h.Kind.OfComment() {
		key += "\n" + strconv.FormatInt(h.Comment, 10) + "\n" + h.ID
	}
	return key
}

// Reviews reports whether the task processes content of a merge request.
func (k Kind) Reviews() bool { return k == Review || k == Group || k == Question }

// OfComment reports whether the hint is about one comment.
func (k Kind) OfComment() bool { return k == Comment || k == Question }

// Partition returns the name of the queue that the hint waits in. A place has a partition for reviews, of which a few
// run at a time, one for the task that looks at followed repositories, and one for its other tasks, which run one by
// one. So commands and the trunk never wait for a review or for another repository. A command that stops a rollout
// interrupts a hydration, see Bot.Urgency.
func (h Hint) Partition() string {
	switch {
	case h.Kind.Reviews():
		return string(h.Place) + "\nreviews"
	case h.Kind == Follow:
		return string(h.Place) + "\nfollow"
	}
	return string(h.Place)
}

var kindPattern = regexp.MustCompile(`^[a-z][a-z_-]{0,31}$`)

// Check returns an error that wraps ErrInvalid if the hint cannot be stored.
func (h Hint) Check() error {
	switch {
	case h.Place == "" || len(h.Place) > 512:
		return fmt.Errorf("the place of a hint has %d bytes, not 1 to 512: %w", len(h.Place), ErrInvalid)
	case strings.ContainsAny(string(h.Place), "\n\r\x00"):
		return fmt.Errorf("the place %q of a hint contains a control character: %w", h.Place, ErrInvalid)
	case !kindPattern.MatchString(string(h.Kind)):
		return fmt.Errorf("the kind %.40q of a hint is not a lower-case word of at most 32 letters: %w", h.Kind,
			ErrInvalid)
	case h.Number < 0 || h.Comment < 0:
		return fmt.Errorf("the number %d or the comment %d of a hint is negative: %w", h.Number, h.Comment, ErrInvalid)
	case len(h.Ref) > 1024 || len(h.ID) > 256 || len(h.Text) > 256:
		return fmt.Errorf("the ref of a hint has %d bytes (at most 1024), its delivery ID %d and its text digest %d (at most 256): %w", len(h.Ref), len(h.ID), len(h.Text), ErrInvalid)
	}
	return nil
}
