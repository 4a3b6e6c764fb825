package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Messages are frames: one byte for the kind, four bytes that pair a question with its answer, four bytes for the
// length, and the payload. Numbers are big-endian.
type kind byte

const (
	kindConfigure kind = 1 + iota // parent: the restrictions, as JSON; the first message
	kindCall                      // parent: name and input
	kindAnswer                    // parent: to the question with that number
	kindRefusal                   // parent: the error that answers a question
)

const (
	kindReady   kind = 65 + iota // child: the Report, as JSON
	kindAsk                      // child: a question, name and input
	kindResult                   // child: the job's answer
	kindFailure                  // child: the job's error, a code and a text
)

// Codes of kindFailure.
const (
	failJob    = 1 // the job returned an error
	failOutput = 2 // the answer is larger than the call allows
	failName   = 3 // no job has that name
)

const (
	headerSize = 9
	maxName    = 255
	maxFailure = 1 << 20 // bytes of an error's text
	maxConfig  = 1 << 20
)

type frame struct {
	kind    kind
	id      uint32
	payload []byte
}

var errTooLarge = errors.New("the message is too large")

// frameReader reads frames; one goroutine at a time.
type frameReader struct{ r *bufio.Reader }

func newFrameReader(r io.Reader) *frameReader { return &frameReader{bufio.NewReaderSize(r, 64<<10)} }

// next reads one frame whose payload has at most limit bytes. It reserves memory as the payload arrives, not by the
// length that the sender claims.
func (f *frameReader) next(limit func(kind) int) (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(f.r, header[:]); err != nil {
		return frame{}, err
	}
	out := frame{kind: kind(header[0]), id: binary.BigEndian.Uint32(header[1:])}
	size := int64(binary.BigEndian.Uint32(header[5:]))
	if most := limit(out.kind); size > int64(most) {
		return out, fmt.Errorf("%w: %d bytes, at most %d", errTooLarge, size, most)
	}
	const atOnce = 1 << 20
	out.payload = make([]byte, min(size, atOnce))
	for have := 0; ; {
		n, err := io.ReadFull(f.r, out.payload[have:])
		if err != nil {
			return out, unexpected(err)
		}
		have += n
		if int64(have) == size {
			return out, nil
		}
		grown := make([]byte, min(size, int64(2*have)))
		copy(grown, out.payload)
		out.payload = grown
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameWriter writes frames; safe for concurrent use.
type frameWriter struct {
	mu      sync.Mutex
	w       io.Writer
	pending []byte // small parts of the message that is being written; kept for the next one
}

// smallPart is the number of bytes up to which a part is copied rather than written by itself: a copy costs less than
// the system call and the wake-up of the reader.
const smallPart = 64 << 10

// send writes one frame whose payload is the concatenation of parts.
func (f *frameWriter) send(k kind, id uint32, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > 1<<31 {
		return errTooLarge
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	pending := append(f.pending[:0], byte(k))
	pending = binary.BigEndian.AppendUint32(pending, id)
	pending = binary.BigEndian.AppendUint32(pending, uint32(size))
	for _, p := range parts {
		if len(pending)+len(p) <= smallPart {
			pending = append(pending, p...)
			continue
		}
		if _, err := f.w.Write(pending); err != nil {
			return err
		}
		if _, err := f.w.Write(p); err != nil {
			return err
		}
		pending = pending[:0]
	}
	f.pending = pending
	if len(pending) == 0 {
		return nil
	}
	_, err := f.w.Write(pending)
	return err
}

// named puts a name before a payload: one byte of length and the name.
func named(name string) ([]byte, error) {
	if name == "" || len(name) > maxName {
		return nil, fmt.Errorf("the name %q must have 1 to %d bytes", name, maxName)
	}
	return append([]byte{byte(len(name))}, name...), nil //nolint:gosec // at most maxName
}

// splitNamed is the inverse of named.
func splitNamed(payload []byte) (string, []byte, error) {
	if len(payload) == 0 || payload[0] == 0 || len(payload) < 1+int(payload[0]) {
		return "", nil, errors.New("the message has no name")
	}
	end := 1 + int(payload[0])
	return string(payload[1:end]), payload[end:], nil
}
