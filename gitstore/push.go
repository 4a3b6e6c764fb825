package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

func (r *remoteBranches) Push(ctx context.Context, w *Writer, moves []Move, o PushOptions) ([]MoveResult, error) {
	if err := CheckMoves(moves); err != nil {
		return nil, err
	}
	if w != nil { // store the objects in the cache too, so that the next run need not fetch them
		side, err := r.store.sideFolder()
		if err != nil {
			return nil, err
		}
		if err := w.pack.StoreIn(side); err != nil {
			return nil, err
		}
	}
	size := max(len(moves), 1)
	if o.PerPush > 0 {
		size = o.PerPush
	}
	out := make([]MoveResult, 0, len(moves))
	for chunk := range slices.Chunk(moves, size) {
		results, err := r.push(ctx, w, chunk, len(chunk) == len(moves), o.Unmoved)
		out = append(out, results...)
		if err != nil {
			return out, err
		}
		if slices.ContainsFunc(results, func(m MoveResult) bool { return m.State != Updated }) {
			return out, nil // later moves may depend on the failed ones
		}
		if slices.ContainsFunc(chunk, func(m Move) bool { return !m.New.IsZero() }) {
			w = nil // the server now has the objects
		}
	}
	return out, nil
}

// emptyPack is a packfile without objects, for a server that has them all.
func emptyPack() io.Reader {
	return strings.NewReader("PACK\x00\x00\x00\x02\x00\x00\x00\x00" +
		"\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e")
}

func (r *remoteBranches) push(ctx context.Context, w *Writer, moves []Move, all bool,
	unmoved map[string]Hash,
) ([]MoveResult, error) {
	defer r.store.listed.forget()
	compared := make(map[string]bool, len(moves)+len(unmoved))
	for _, m := range moves {
		compared[heads+m.Branch] = true
	}
	for name := range unmoved {
		compared[heads+name] = true
	}
	session, advertised, err := r.endpoint.receive(ctx, func(name []byte) bool { return compared[string(name)] })
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }() // every answer that counts has been read
	if conflicts := outOfDate(advertised.refs, moves, unmoved); len(conflicts) > 0 {
		return conflicts, nil
	}
	req, said, err := updateRequest(advertised.capabilities, w, moves, all)
	if err != nil {
		return nil, r.endpoint.explain(err)
	}
	report, err := session.ReceivePack(ctx, req)
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return nil, r.endpoint.explain(err)
	case report == nil:
		return r.afterwards(ctx, moves, err)
	}
	out := statuses(report, moves)
	if slices.ContainsFunc(out, func(m MoveResult) bool { return m.State != Updated }) {
		r.whyNot(ctx, out, said.String())
	}
	return out, nil
}

// updateRequest builds the request for all moves, each with the expected old value of the branch. It cannot force.
func updateRequest(server *capability.List, w *Writer, moves []Move, all bool) (*packp.ReferenceUpdateRequest, *excerpt,
	error,
) {
	req := packp.NewReferenceUpdateRequestFromCapabilities(server)
	said := &excerpt{}
	if !server.Supports(capability.ReportStatus) {
		return nil, nil, errNoReport
	}
	want := []capability.Capability{capability.ReportStatus}
	if all && server.Supports(capability.Atomic) {
		want = append(want, capability.Atomic)
	}
	if server.Supports(capability.Sideband64k) {
		want, req.Progress = append(want, capability.Sideband64k), said
	}
	for _, c := range want {
		if err := req.Capabilities.Set(c); err != nil {
			return nil, nil, err
		}
	}
	onlyDeletes := true
	for _, m := range moves {
		req.Commands = append(req.Commands, &packp.Command{
			Name: plumbing.ReferenceName(heads + m.Branch), Old: plumbing.Hash(m.Old), New: plumbing.Hash(m.New),
		})
		if m.New.IsZero() && !server.Supports(capability.DeleteRefs) {
			return nil, nil, fmt.Errorf("the server does not allow to delete the branch %q", m.Branch)
		}
		onlyDeletes = onlyDeletes && m.New.IsZero()
	}
	switch {
	case onlyDeletes:
	case w == nil || w.Len() == 0:
		req.Packfile = io.NopCloser(emptyPack())
	default:
		req.Packfile = io.NopCloser(w.pack.Reader())
	}
	return req, said, nil
}

// statuses reads the server's report on each branch.
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
			out[i].State, out[i].Reason = Rejected, "the server could not unpack the objects: "+report.UnpackStatus
		case !ok:
			out[i].State, out[i].Reason = Unknown, "the server did not report it"
		case status != "ok":
			out[i].State, out[i].Reason = Rejected, status
		}
	}
	return out
}

// whyNot distinguishes conflicts from refusals. It reads the branches again, because servers word the two
// differently. It appends the output of hooks to the reason.
func (r *remoteBranches) whyNot(ctx context.Context, results []MoveResult, said string) {
	refs, err := r.endpoint.list(ctx)
	for i, m := range results {
		if m.State == Updated {
			continue
		}
		have := refs[heads+m.Branch]
		switch {
		case err == nil && m.State == Unknown && have == m.New:
			results[i].State, results[i].Reason = Updated, ""
		case err == nil && have != m.Old:
			results[i].State, results[i].Reason = Conflict, movedReason(have)
		case said != "":
			results[i].Reason = r.endpoint.redact(m.Reason + ": " + said)
		}
	}
}

// afterwards reads the branches after a push without a report, because the server may have moved them.
func (r *remoteBranches) afterwards(ctx context.Context, moves []Move, cause error) ([]MoveResult, error) {
	if cause == nil {
		cause = errors.New("the server gave no report")
	}
	const patience = 15 * time.Second
	// the result matters even if the caller's context has ended
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	refs, err := r.endpoint.list(ctx)
	out := make([]MoveResult, len(moves))
	done := err == nil
	for i, m := range moves {
		have := refs[heads+m.Branch]
		out[i] = MoveResult{Move: m, State: Unknown, Reason: "the connection broke, and the server does not answer"}
		switch {
		case err != nil:
		case have == m.New:
			out[i].State, out[i].Reason = Updated, ""
		case have == m.Old:
			out[i].Reason = "the connection broke, and the branch has not moved yet"
		default:
			out[i].Reason = "the connection broke, and " + movedReason(have)
		}
		done = done && out[i].State == Updated
	}
	if done {
		return out, nil
	}
	return out, r.endpoint.explain(fmt.Errorf("push: %w", cause))
}

// excerpt keeps the beginning of the server's progress messages, which contain the output of hooks.
type excerpt struct{ text []byte }

const excerptSize = 2 << 10

// Write implements io.Writer. It never fails.
func (e *excerpt) Write(p []byte) (int, error) {
	if room := excerptSize - len(e.text); room > 0 {
		e.text = append(e.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// String returns one line without control characters.
func (e *excerpt) String() string {
	return strings.Join(strings.Fields(oneLine(strings.ToValidUTF8(string(e.text), "\ufffd"))), " ")
}
