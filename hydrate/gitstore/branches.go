package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
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

// MoveResult says what became of a Move.
type MoveResult struct {
	Move
	State  State
	Reason string
}

// PushOptions bound a push.
type PushOptions struct {
	PerPush int // refs in one push, 0 for all: GitLab sends no webhooks for more than 3
}

// Branches is a place where rendered branches live.
type Branches interface {
	// List gives the branches whose names begin with one of the prefixes.
	List(ctx context.Context, prefixes ...string) (map[string]Hash, error)
	// Fetch makes commits, with their trees but without their history, readable in the Store.
	Fetch(ctx context.Context, commits ...Hash) error
	// Push makes the Writer's objects part of the place and moves branches, in the order given. It returns a result for
	// each move that was tried; an error says that it could not try, or not try them all.
	Push(ctx context.Context, w *Writer, moves []Move, o PushOptions) ([]MoveResult, error)
	// String is the place's address, without credentials.
	String() string
}

const heads = "refs/heads/"

// Remote is the place at another repository; a name is looked up among this repository's remotes.
func (s *Store) Remote(address string, auth Auth) (Branches, error) {
	if s.repo != nil && !strings.ContainsAny(address, "/:") {
		remote, err := s.repo.Remote(address)
		if err != nil || len(remote.Config().URLs) == 0 {
			return nil, fmt.Errorf("the repository has no remote %q: add it with `git remote add`, or leave --push out", address)
		}
		if address == "origin" && s.remote != "" {
			address = s.remote // made absolute
		} else {
			address = remote.Config().URLs[0]
		}
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
	missing := slices.DeleteFunc(slices.Clone(commits), r.store.Has)
	if len(missing) == 0 {
		return nil
	}
	return r.store.fetch(ctx, r.endpoint, missing)
}

func (r *remoteBranches) Push(ctx context.Context, w *Writer, moves []Move, o PushOptions) ([]MoveResult, error) {
	if err := w.storePack(); err != nil {
		return nil, err
	}
	size := len(moves)
	if o.PerPush > 0 {
		size = o.PerPush
	}
	var out []MoveResult
	pack := w.reader()
	for chunk := range slices.Chunk(moves, max(size, 1)) {
		results, err := r.push(ctx, pack, chunk, len(chunk) == len(moves))
		out = append(out, results...)
		if err != nil {
			return out, err
		}
		if slices.ContainsFunc(results, func(m MoveResult) bool { return m.State != Updated }) {
			return out, nil // what comes later may build on what failed
		}
		pack = emptyPack()
	}
	return out, nil
}

// emptyPack is a packfile of no objects: the server has them from the first push.
func emptyPack() io.Reader {
	return strings.NewReader("PACK\x00\x00\x00\x02\x00\x00\x00\x00" +
		"\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e")
}

func (r *remoteBranches) push(ctx context.Context, pack io.Reader, moves []Move, all bool) ([]MoveResult, error) {
	t, err := client.NewClient(r.endpoint.ep)
	if err != nil {
		return nil, r.endpoint.explain(err)
	}
	session, err := t.NewReceivePackSession(r.endpoint.ep, r.endpoint.method)
	if err != nil {
		return nil, r.endpoint.explain(err)
	}
	defer func() { _ = session.Close() }()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if errors.Is(err, transport.ErrEmptyRemoteRepository) && advertised == nil {
		advertised = packp.NewAdvRefs()
	} else if err != nil && !errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return nil, r.endpoint.explain(err)
	}
	if conflicts := stale(refsOf(advertised), moves); len(conflicts) > 0 {
		return conflicts, nil
	}
	req := packp.NewReferenceUpdateRequestFromCapabilities(advertised.Capabilities)
	if !advertised.Capabilities.Supports(capability.ReportStatus) {
		return nil, r.endpoint.explain(errors.New("the server does not report what becomes of a push"))
	}
	if all && advertised.Capabilities.Supports(capability.Atomic) {
		if err := req.Capabilities.Set(capability.Atomic); err != nil {
			return nil, err
		}
	}
	onlyDeletes := true
	for _, m := range moves {
		req.Commands = append(req.Commands, &packp.Command{
			Name: plumbing.ReferenceName(heads + m.Branch), Old: plumbing.Hash(m.Old), New: plumbing.Hash(m.New),
		})
		onlyDeletes = onlyDeletes && m.New.IsZero()
	}
	if !onlyDeletes {
		req.Packfile = io.NopCloser(pack)
	}
	report, err := session.ReceivePack(ctx, req)
	if report == nil {
		return r.afterwards(ctx, moves, err)
	}
	return statuses(report, moves), nil
}

// stale finds the moves whose branch is not where the caller read it. Nothing is sent then.
func stale(refs map[string]Hash, moves []Move) []MoveResult {
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

func statuses(report *packp.ReportStatus, moves []Move) []MoveResult {
	byRef := make(map[string]string, len(report.CommandStatuses))
	for _, c := range report.CommandStatuses {
		byRef[string(c.ReferenceName)] = c.Status
	}
	out := make([]MoveResult, len(moves))
	for i, m := range moves {
		out[i] = MoveResult{Move: m, State: Updated}
		status, ok := byRef[heads+m.Branch]
		switch {
		case report.UnpackStatus != "ok":
			out[i].State, out[i].Reason = Rejected, "the server could not unpack: "+report.UnpackStatus
		case !ok:
			out[i].State, out[i].Reason = Unknown, "the server did not say"
		case status == "ok":
		case strings.Contains(status, "fetch first"), strings.Contains(status, "lock"), strings.Contains(status, "stale"), strings.Contains(status, "already exists"),
			strings.Contains(status, "incorrect old value"), strings.Contains(status, "failed to update ref"), strings.Contains(status, "reference does not exist"):
			out[i].State, out[i].Reason = Conflict, status
		default:
			out[i].State, out[i].Reason = Rejected, status
		}
	}
	return out
}

// afterwards looks at the refs when a push gave no report: the server may have done all of it.
func (r *remoteBranches) afterwards(ctx context.Context, moves []Move, cause error) ([]MoveResult, error) {
	if cause == nil {
		cause = errors.New("the server gave no report")
	}
	refs, err := r.endpoint.list(context.WithoutCancel(ctx))
	out := make([]MoveResult, len(moves))
	done := true
	for i, m := range moves {
		out[i] = MoveResult{Move: m, State: Unknown, Reason: "the connection broke"}
		if err != nil {
			done = false
			continue
		}
		if refs[heads+m.Branch] == m.New {
			out[i].State, out[i].Reason = Updated, ""
		} else {
			done = false
		}
	}
	if done {
		return out, nil
	}
	return out, r.endpoint.explain(fmt.Errorf("push: %w", cause))
}
