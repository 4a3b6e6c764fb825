package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-gitops/sluice/internal/retry"
)

// errChanged reports that a compare-and-swap found another revision.
var errChanged = errors.New("another process changed it meanwhile")

// requestTimeout is the time limit of one request. It is short because the answer of a leader that died never
// comes.
const requestTimeout = 2 * time.Second

// bucket is a stream with one message per key. JetStream's own KeyValue is not used, because it reads from
// followers, which may lag, and leaves a marker for each deleted key.
type bucket struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string // of subjects, with the dot
	clock  func() time.Time
	health *health
}

// Error codes of JetStream that a bucket handles.
const (
	codeWrongSequence         = 10071
	codeWrongSequenceInFlight = 10164
	codeStoreFailed           = 10077
	codeNoResources           = 10023
	codeNoStorage             = 10047
)

// get reads the newest value of a key.
func (b *bucket) get(ctx context.Context, key string) ([]byte, uint64, bool, error) {
	m, err := b.last(ctx, key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, fmt.Errorf("read %s%s: %w", b.prefix, key, err)
	}
	return m.Data, m.Sequence, true, nil
}

// last reads the newest message of a key. It retries, because the answer of a leader that died never comes.
func (b *bucket) last(ctx context.Context, key string) (*jetstream.RawStreamMsg, error) {
	return retry.Do(ctx, retry.Policy{Tries: 3, First: 50 * time.Millisecond},
		func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			m, err := b.stream.GetLastMsgForSubject(ctx, b.prefix+key)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil, err
			}
			return m, transient(err)
		})
}

// set writes a value unconditionally and returns its revision.
func (b *bucket) set(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.publish(ctx, key, value)
}

// swap writes a value if the key's revision is still the given one; 0 means that the key does not exist.
func (b *bucket) swap(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.publish(ctx, key, value, jetstream.WithExpectLastSequencePerSubject(revision))
}

func (b *bucket) publish(ctx context.Context, key string, value []byte, opts ...jetstream.PublishOpt) (uint64, error) {
	sequence, err := b.send(ctx, key, value, opts...)
	b.health.note(b.clock(), err)
	return sequence, err
}

func (b *bucket) send(ctx context.Context, key string, value []byte, opts ...jetstream.PublishOpt) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.prefix + key, Data: value}, opts...)
	if err == nil {
		return ack.Sequence, nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch api.ErrorCode {
		case codeWrongSequence, codeWrongSequenceInFlight:
			return 0, errChanged
		case codeNoResources, codeNoStorage:
			return 0, fmt.Errorf("write %s%s: %w (%s)", b.prefix, key, ErrFull, api.Description)
		case codeStoreFailed: // also the answer to a failing disk
			if strings.Contains(api.Description, "maximum") {
				return 0, fmt.Errorf("write %s%s: %w (%s)", b.prefix, key, ErrFull, api.Description)
			}
		}
	}
	return 0, fmt.Errorf("write %s%s: %w", b.prefix, key, err)
}

// drop removes exactly one revision. It is no error if the revision is gone.
func (b *bucket) drop(ctx context.Context, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	err := b.stream.DeleteMsg(ctx, revision)
	if err == nil {
		return nil
	}
	if _, getErr := b.stream.GetMsg(ctx, revision); errors.Is(getErr, jetstream.ErrMsgNotFound) {
		return nil
	}
	return fmt.Errorf("delete message %d below %s: %w", revision, b.prefix, err)
}

// keys lists the keys. It returns the last sequence that the list covers.
func (b *bucket) keys(ctx context.Context) ([]string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*requestTimeout) // the list may be long
	defer cancel()
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.prefix+">"))
	if err != nil {
		return nil, 0, fmt.Errorf("list %s: %w", b.prefix, err)
	}
	keys := make([]string, 0, len(info.State.Subjects))
	for s := range info.State.Subjects {
		keys = append(keys, s[len(b.prefix):])
	}
	return keys, info.State.LastSeq, nil
}

// state returns the numbers of the stream.
func (b *bucket) state(ctx context.Context) (jetstream.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	info, err := b.stream.Info(ctx)
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("state of %s: %w", b.prefix, err)
	}
	return info.State, nil
}
