package gitstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// Move requests that a branch moves from Old to New. Old is the value that the caller read, or zero if the branch
// must not exist. A zero New deletes the branch.
type Move struct {
	Branch   string // without refs/heads/
	Old, New Hash
}

// State is the result of a Move.
type State string

// The states. Unknown means that the connection broke after the push was sent, and that the server could not be asked
// afterwards.
const (
	Updated  State = "updated"
	Conflict State = "conflict" // the branch was not at Old
	Rejected State = "rejected" // by a hook or a rule of the server
	Unknown  State = "unknown"
)

// MoveResult is the result of a Move, with the reason if the branch did not move.
type MoveResult struct {
	Move
	State  State
	Reason string // one line, without credentials; "" if the branch moved
}

// Err returns nil if the branch moved; otherwise a *ConflictError, a *RefusedError or an ErrOutcomeUnknown.
func (m MoveResult) Err() error {
	switch m.State {
	case Updated:
		return nil
	case Conflict:
		return &ConflictError{Branch: m.Branch, Message: m.Reason}
	case Rejected:
		return &RefusedError{Branch: m.Branch, Message: m.Reason}
	}
	return fmt.Errorf("%s: %w: %s", m.Branch, ErrOutcomeUnknown, m.Reason)
}

// PushOptions limit a push.
type PushOptions struct {
	PerPush int // refs in one push, 0 for all. GitLab sends no webhooks for a push of more than 3
	// Unmoved are branches that the push does not move, where the caller read them; zero means that the branch does not
	// exist. If one is elsewhere now, nothing is pushed, and its result is a Conflict. A remote does not check them
	// together with the moves: a branch that moves at the same time is not noticed.
	Unmoved map[string]Hash
}

// Branches is a repository that holds rendered branches.
type Branches interface {
	// List returns the branches whose names begin with one of the prefixes. The prefix HEAD returns the tip of a
	// remote's default branch, under that name. A local repository returns none, because its HEAD is whatever a
	// person has checked out.
	List(ctx context.Context, prefixes ...string) (map[string]Hash, error)
	// Fetch makes commits and their trees readable in the Store, without their history. Files may be fetched later,
	// when they are read, a directory at a time.
	Fetch(ctx context.Context, commits ...Hash) error
	// Push stores the Writer's objects in the repository and moves branches in the given order. If one branch is not at
	// Old, the push moves none. With PerPush, moves of earlier pushes stay, and later pushes are not sent. It returns a
	// result for each move that was sent or that prevented the push. An error means that some moves were not sent or
	// that their outcome is unknown. A Writer can be pushed several times but takes no more objects after the first. It
	// may be nil if the repository has all objects.
	Push(ctx context.Context, w *Writer, moves []Move, o PushOptions) ([]MoveResult, error)
	// String returns the repository's address without credentials.
	String() string
}

const heads = "refs/heads/"

// Remote returns the branches of another repository, given by its address or by the name of one of this repository's
// remotes. It returns ErrNoRemote for an unknown name.
func (s *Store) Remote(address string, auth Auth) (Branches, error) {
	if !strings.ContainsAny(address, `/\:`) {
		found := s.remoteURL(address)
		if found == "" {
			return nil, kindf(ErrNoRemote, "the repository has no remote %q (%s)", address, remoteAdvice(s))
		}
		address = found
	}
	e, err := newEndpoint(address, auth)
	if err != nil {
		return nil, err
	}
	return &remoteBranches{store: s, endpoint: e}, nil
}

type remoteBranches struct {
	store    *Store
	endpoint endpoint
}

func (r *remoteBranches) String() string { return r.endpoint.url }

func (r *remoteBranches) List(ctx context.Context, prefixes ...string) (map[string]Hash, error) {
	refs, err := listRefs(ctx, r.store, r.endpoint)
	if err != nil {
		return nil, err
	}
	return selected(refs, prefixes), nil
}

func selected(refs map[string]Hash, prefixes []string) map[string]Hash {
	out := make(map[string]Hash, len(refs))
	for name, h := range refs {
		branch, ok := strings.CutPrefix(name, heads)
		switch {
		case name == "HEAD" && slices.Contains(prefixes, name):
			out[name] = h
		case branch == "HEAD": // Git refuses this name, and it would be confused with the default branch
			continue
		}
		if ok && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(branch, p) }) {
			out[branch] = h
		}
	}
	return out
}

func (r *remoteBranches) Fetch(ctx context.Context, commits ...Hash) error {
	missing := r.store.missing(commits)
	if len(missing) == 0 {
		return nil
	}
	w := fetchRequest{objects: missing, depth: 1}
	r.store.mu.RLock()
	if sources := r.store.sources; len(sources) > 0 && sources[0].url == r.endpoint.url {
		w.filter = packp.FilterBlobNone() // files can be fetched from the same remote when they are read
	}
	r.store.mu.RUnlock()
	return r.store.fetch(ctx, r.endpoint, w)
}

// CheckMoves refuses moves that contradict each other, and names that are not branch names, because in a local
// repository names become file names.
func CheckMoves(moves []Move) error {
	after := make(map[string]bool, len(moves)) // branch → whether it exists after the push
	for _, m := range moves {
		if err := checkBranch(m.Branch); err != nil {
			return err
		}
		if _, twice := after[m.Branch]; twice {
			return fmt.Errorf("the branch %q moves twice in one push", m.Branch)
		}
		after[m.Branch] = !m.New.IsZero()
		if m.Old.IsZero() && m.New.IsZero() {
			return fmt.Errorf("the move of branch %q has neither an old nor a new commit", m.Branch)
		}
	}
	for name, there := range after {
		for up := path.Dir(name); there && up != "."; up = path.Dir(up) {
			if after[up] {
				return fmt.Errorf("the branches %q and %q exclude each other: rename one in spec.output", up, name)
			}
		}
	}
	return nil
}

// checkBranch follows git check-ref-format.
func checkBranch(name string) error {
	bad := fmt.Errorf("%q is not a valid branch name", name)
	const longest = 1000
	if name == "" || len(name) > longest || name == "@" || name[0] == '-' || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.ContainsAny(name, " ~^:?*[\\\x7f") {
		return bad
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return bad
		}
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return bad
	}
	return nil
}

// Conflicts returns the moves whose branch is not where the caller read it, for an implementation of Branches that has
// these branches now. The branches of unmoved are compared as well.
func Conflicts(branches map[string]Hash, moves []Move, unmoved map[string]Hash) []MoveResult {
	return conflicts(func(name string) Hash { return branches[name] }, moves, unmoved)
}

func outOfDate(refs map[string]Hash, moves []Move, unmoved map[string]Hash) []MoveResult {
	return conflicts(func(name string) Hash { return refs[heads+name] }, moves, unmoved)
}

func conflicts(at func(branch string) Hash, moves []Move, unmoved map[string]Hash) []MoveResult {
	var out []MoveResult
	for _, name := range slices.Sorted(maps.Keys(unmoved)) {
		moves = append(slices.Clip(moves), Move{Branch: name, Old: unmoved[name]})
	}
	for _, m := range moves {
		if have := at(m.Branch); have != m.Old {
			out = append(out, MoveResult{Move: m, State: Conflict, Reason: movedReason(have)})
		}
	}
	return out
}

func movedReason(have Hash) string {
	if have.IsZero() {
		return "it was deleted meanwhile"
	}
	return "it moved to " + have.Short() + " meanwhile"
}

var errNoReport = errors.New("the server does not report the outcome of a push")
