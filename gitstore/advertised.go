package gitstore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// piped is a session of go-git over the pipes of a process or over SSH. go-git reads each line of an advertisement with
// two reads of the pipe, each in a goroutine of its own: 7 ms for 5,000 branches, which a hydration lists twice.
type piped interface {
	StdinContext(ctx context.Context) io.WriteCloser
	StdoutContext(ctx context.Context) io.Reader
}

// advertised is what a server says of its refs at the beginning of a session.
type advertised struct {
	capabilities *capability.List
	refs         map[string]Hash // by full name; HEAD is the default branch
}

const (
	lineHead   = 4     // hexadecimal digits of a line's length, which counts them
	longLine   = 65520 // bytes of the longest line
	hexHash    = 2 * len(Hash{})
	advertRead = 16 << 10 // bytes that are read at once: go-git copies this many for each read
	noRefs     = "0000000000000000000000000000000000000000 capabilities^{}"
)

var errAdvertised = errors.New("the advertisement of refs is malformed")

// readAdvertised reads an advertisement up to its last line. If wanted is not nil, it keeps only the refs for which
// wanted returns true. It returns an error for everything that is not usual, and go-git then reads the refs in a new
// session.
func readAdvertised(from io.Reader, wanted func(name []byte) bool) (*advertised, error) {
	in := bufio.NewReaderSize(readsOf{from, advertRead}, longLine+lineHead)
	out := &advertised{capabilities: capability.NewList(), refs: map[string]Hash{}}
	for first := true; ; first = false {
		line, err := nextLine(in)
		if err != nil {
			return nil, err
		}
		if line == nil {
			return out, nil
		}
		if first {
			ref, capabilities, ok := bytes.Cut(line, []byte{0})
			if !ok {
				return nil, errAdvertised
			}
			if err := out.capabilities.Decode(capabilities); err != nil {
				return nil, err
			}
			transport.FilterUnsupportedCapabilities(out.capabilities)
			if line = ref; string(line) == noRefs {
				continue // there are no refs
			}
		}
		name, h, err := advertisedRef(line)
		if err != nil {
			return nil, err
		}
		// the commit of an annotated tag is no ref
		if commit := bytes.HasSuffix(name, []byte("^{}")) && !first; !commit && (wanted == nil || wanted(name)) {
			out.refs[string(name)] = h
		}
	}
}

// advertisedRef parses the line of a ref. Lines of another kind are errors, such as those of a shallow repository.
func advertisedRef(line []byte) (name []byte, h Hash, err error) {
	if len(line) < hexHash+2 || line[hexHash] != ' ' || bytes.IndexByte(line[hexHash+1:], ' ') >= 0 {
		return nil, h, errAdvertised
	}
	if _, err := hex.Decode(h[:], line[:hexHash]); err != nil || h.IsZero() {
		return nil, h, errAdvertised
	}
	return line[hexHash+1:], h, nil
}

// nextLine returns a line without its end, until the next call; nil for the last one, which is empty.
func nextLine(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(lineHead)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(string(head), 16, 16)
	if err != nil || n != 0 && n <= lineHead || n > longLine {
		return nil, errAdvertised
	}
	if n == 0 {
		_, err := in.Discard(lineHead)
		return nil, err
	}
	line, err := in.Peek(int(n))
	if err != nil {
		return nil, err
	}
	if line = bytes.TrimSuffix(line[lineHead:], []byte{'\n'}); bytes.HasPrefix(line, []byte("ERR ")) {
		return nil, fmt.Errorf("%w: %s", errAdvertised, line)
	}
	_, err = in.Discard(int(n)) // the bytes stay until the next read
	return line, err
}

// readsOf reads at most a number of bytes at once.
type readsOf struct {
	io.Reader
	most int
}

func (r readsOf) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), r.most)]) }

// abandon closes a session although its server may still write. Close alone waits until a local server has ended, and
// that one waits until somebody reads what it writes. go-git kills the process when a read fails.
func abandon(ctx context.Context, session transport.Session) {
	if p, ok := session.(piped); ok {
		over, cancel := context.WithCancel(ctx)
		cancel()
		_, _ = io.Copy(io.Discard, p.StdoutContext(over)) // the error is that of the context
	}
	_ = session.Close() // the caller has an error already
}

// list reads the remote's refs.
func (e endpoint) list(ctx context.Context) (map[string]Hash, error) {
	session, err := e.openUpload(ctx)
	if err != nil {
		return nil, err
	}
	if p, ok := session.(piped); ok {
		a, err := readAdvertised(p.StdoutContext(ctx), nil)
		if err == nil {
			_ = session.Close() // every answer that counts has been read
			return a.refs, nil
		}
		abandon(ctx, session)
		if ctx.Err() != nil {
			return nil, e.explain(ctx.Err())
		}
		if session, err = e.openUpload(ctx); err != nil { // go-git says what is wrong
			return nil, err
		}
	}
	refs, err := advertisedBy(ctx, e, session)
	if err != nil {
		return nil, err
	}
	_ = session.Close() // every answer that counts has been read
	return refsOf(refs), nil
}

// receiver pushes once.
type receiver interface {
	ReceivePack(ctx context.Context, req *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error)
	Close() error
}

// receive begins a push. Of the refs, it returns those for which wanted returns true.
func (e endpoint) receive(ctx context.Context, wanted func(name []byte) bool) (receiver, *advertised, error) {
	session, err := e.openReceive(ctx)
	if err != nil {
		return nil, nil, err
	}
	if p, ok := session.(piped); ok {
		a, err := readAdvertised(p.StdoutContext(ctx), wanted)
		if err == nil {
			return pipedReceiver{session, p}, a, nil
		}
		abandon(ctx, session)
		if ctx.Err() != nil {
			return nil, nil, e.explain(ctx.Err())
		}
		if session, err = e.openReceive(ctx); err != nil { // go-git says what is wrong
			return nil, nil, err
		}
	}
	refs, err := advertisedBy(ctx, e, session)
	if err != nil {
		return nil, nil, err
	}
	return session, &advertised{capabilities: refs.Capabilities, refs: refsOf(refs)}, nil
}

// pipedReceiver pushes in a session whose advertisement go-git has not read.
type pipedReceiver struct {
	transport.Session
	pipes piped
}

// ReceivePack does what go-git's method does.
func (r pipedReceiver) ReceivePack(ctx context.Context, req *packp.ReferenceUpdateRequest) (*packp.ReportStatus,
	error,
) {
	in := r.pipes.StdinContext(ctx)
	if err := errors.Join(req.Encode(in), in.Close()); err != nil {
		return nil, err
	}
	answer := r.pipes.StdoutContext(ctx)
	if req.Capabilities.Supports(capability.Sideband64k) {
		demux := sideband.NewDemuxer(sideband.Sideband64k, answer)
		demux.Progress = req.Progress
		answer = demux
	}
	report := packp.NewReportStatus()
	if err := report.Decode(answer); err != nil {
		return nil, err
	}
	return report, report.Error()
}
