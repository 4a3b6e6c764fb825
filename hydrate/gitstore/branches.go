package gitstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// Move asks for a branch to go from Old to New. Old is what the caller read, zero if the branch must not exist; a zero New
// deletes it.
type Move struct {
	Branch   string // without refs/heads/
	Old, New Hash
}

// State is what became of a Move.
type State string

// The states. Unknown is a connection that broke after the request was sent, whose outcome could not be found out.
const (
	Updated  State = "updated"
	Conflict State = "conflict" // the branch was not at Old
	Rejected State = "rejected" // by a hook or a rule of the server
	Unknown  State = "unknown"
)

// MoveResult is the outcome of a Move.
type MoveResult struct {
	Move
	State  State
	Reason string // one line, without credentials; "" if the branch moved
}

// Err is nil if the branch moved; otherwise a *ConflictError, a *RefusedError or an ErrOutcomeUnknown.
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

// PushOptions bound a push.
type PushOptions struct {
	PerPush int // refs in one push, 0 for all: GitLab sends no webhooks for more than 3
}

// Branches is a place where rendered branches live.
type Branches interface {
	// List gives the branches whose names begin with one of the prefixes.
	List(ctx context.Context, prefixes ...string) (map[string]Hash, error)
	// Fetch makes commits, with their trees but without their history, readable in the Store. Files may come when they are
	// read, a directory's together.
	Fetch(ctx context.Context, commits ...Hash) error
	// Push makes the Writer's objects part of the place and moves branches, in the order given. If one branch is not where
	// the caller read it, nothing is moved, as far as one push goes: with PerPush, what earlier pushes moved stays moved,
	// and later ones are not tried. It returns a result for each move that was tried or stood in the way; an error says
	// that it could not try, or not try them all, or could not learn the outcome. A Writer can be pushed again, to other
	// branches, but takes no more objects. It may be nil if all objects are there.
	Push(ctx context.Context, w *Writer, moves []Move, o PushOptions) ([]MoveResult, error)
	// String is the place's address, without credentials.
	String() string
}

const heads = "refs/heads/"

// Remote is the place at another repository; a name is looked up among this repository's remotes, and is ErrNoRemote if it is none.
func (s *Store) Remote(address string, auth Auth) (Branches, error) {
	if !strings.ContainsAny(address, `/\:`) {
		found := s.remoteURL(address)
		if found == "" {
			return nil, fmt.Errorf("%w: %q (add it with `git remote add`, or leave --push out)", ErrNoRemote, address)
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
	refs, err := r.endpoint.list(ctx)
	if err != nil {
		return nil, err
	}
	return selected(refs, prefixes), nil
}

func selected(refs map[string]Hash, prefixes []string) map[string]Hash {
	out := map[string]Hash{}
	for name, h := range refs {
		branch, ok := strings.CutPrefix(name, heads)
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
	w := want{objects: missing, depth: 1}
	r.store.mu.RLock()
	if sources := r.store.sources; len(sources) > 0 && sources[0].url == r.endpoint.url {
		w.filter = packp.FilterBlobNone() // files that are read come from the same place
	}
	r.store.mu.RUnlock()
	return r.store.fetch(ctx, r.endpoint, w)
}

// checkMoves refuses what no place should be asked for. Names become file names in a local repository.
func checkMoves(moves []Move) error {
	after := make(map[string]bool, len(moves)) // branch → whether it is to be there
	for _, m := range moves {
		if err := checkBranch(m.Branch); err != nil {
			return err
		}
		if _, twice := after[m.Branch]; twice {
			return fmt.Errorf("the branch %q is to move twice in one push", m.Branch)
		}
		after[m.Branch] = !m.New.IsZero()
		if m.Old.IsZero() && m.New.IsZero() {
			return fmt.Errorf("the branch %q is to go from nothing to nothing", m.Branch)
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
	bad := fmt.Errorf("%q cannot be the name of a branch", name)
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

// outOfDate finds the moves whose branch is not where the caller read it.
func outOfDate(refs map[string]Hash, moves []Move) []MoveResult {
	var out []MoveResult
	for _, m := range moves {
		if have := refs[heads+m.Branch]; have != m.Old {
			out = append(out, MoveResult{Move: m, State: Conflict, Reason: movedReason(have)})
		}
	}
	return out
}

func movedReason(have Hash) string {
	if have.IsZero() {
		return "somebody deleted it meanwhile"
	}
	return "somebody moved it to " + have.Short() + " meanwhile"
}

var errNoReport = errors.New("the server does not report what becomes of a push")
