package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/retry"
)

// Hint is the message that the queue stores.
type Hint = hint.Hint

// subject returns the subject of a hint, below the prefix of hints. Hints with Force have their own, so that
// a newer one without Force does not replace them; a worker handles both as one.
func subject(h Hint) string {
	s := digest(h.Partition()) + "." + string(h.Kind) + "." + strconv.Itoa(h.Number)
	if h.Kind.OfComment() {
		return s + "." + digest(h.Key())
	}
	if h.Force {
		return s + ".force"
	}
	return s
}

// Put stores a hint. It returns nil only if the hint is on disk, in a cluster on a majority of its copies. It
// retries until ctx ends, at most for ten seconds. After an error the hint may still be stored; putting it
// again does no harm.
//
// With Unless, Put stores nothing if a hint of the same merge request waits or is worked on, on any replica: a newer
// one begins a running review again.
func (q *Queue) Put(ctx context.Context, h Hint) error {
	if err := h.Check(); err != nil {
		return err
	}
	if h.At.IsZero() {
		h.At = q.cfg.Clock()
	}
	if h.Kind.OfComment() && h.ID == "" && h.Comment == 0 {
		h.ID = nuid.Next() // it has nothing that distinguishes it from another command
	}
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode a hint: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = retry.Do(ctx, retry.Policy{Tries: retry.Forever, First: 20 * time.Millisecond, Max: time.Second},
		func(ctx context.Context) (uint64, error) {
			if h.Unless {
				err := q.hints.putUnless(ctx, h, data)
				return 0, transient(err)
			}
			revision, err := q.hints.set(ctx, subject(h), data)
			return revision, transient(err)
		})
	if err != nil {
		return fmt.Errorf("put a hint of %s: %w", h.Place, err)
	}
	return nil
}

// putUnless stores a hint unless one of the same key is there, with Force or without.
func (b *bucket) putUnless(ctx context.Context, h Hint, data []byte) error {
	other := h
	other.Force = !h.Force
	if _, _, found, err := b.get(ctx, subject(other)); err != nil || found {
		return err
	}
	if _, err := b.swap(ctx, subject(h), data, 0); !errors.Is(err, errChanged) {
		return err
	}
	return nil
}

// transient marks errors of the server that may pass, so that retry.Do tries again.
func transient(err error) error {
	if err == nil || !passing(err) {
		return err
	}
	return retry.Again(err)
}

// decodeHint decodes a stored message. It refuses anything that Put would not write.
func decodeHint(data []byte) (Hint, error) {
	var h Hint
	if err := json.Unmarshal(data, &h); err != nil {
		return Hint{}, fmt.Errorf("decode a hint: %w", err)
	}
	return h, h.Check()
}

// noPeers is NATS' code of a stream or consumer that needs more servers than the leader has heard from.
const noPeers jetstream.ErrorCode = 10005

// passing reports whether an error of the server may be temporary. A leader that just started hears from the other
// servers within seconds.
func passing(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.Code == 503 || api.ErrorCode == noPeers
	}
	for _, final := range []error{
		ErrFull, ErrInvalid, context.Canceled, nats.ErrConnectionClosed, nats.ErrMaxPayload,
		nats.ErrAuthorization,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// digest makes a token for a subject from any text.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
