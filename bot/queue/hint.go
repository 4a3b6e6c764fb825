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
)

// Hint is the message that the queue stores.
type Hint = hint.Hint

// subject is where the hint is stored, below the prefix of hints. Forced hints have their own, so that a newer one without
// force does not replace them; both are worked on as one.
func subject(h Hint) string {
	s := digest(h.Lane()) + "." + string(h.Kind) + "." + strconv.Itoa(h.Number)
	if h.Kind == hint.Comment {
		return s + "." + digest(h.Key())
	}
	if h.Force {
		return s + ".force"
	}
	return s
}

// Put stores a hint. It returns nil only when the hint is on disk, on a cluster on a majority of its copies. It tries again
// while ctx lasts, at most ten seconds. A put that failed may have happened; putting again does no harm.
func (q *Queue) Put(ctx context.Context, h Hint) error {
	if err := h.Check(); err != nil {
		return err
	}
	if h.At.IsZero() {
		h.At = q.cfg.Clock()
	}
	if h.Kind == hint.Comment && h.ID == "" && h.Comment == 0 {
		h.ID = nuid.Next() // nothing tells it apart from another command
	}
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode a hint: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := q.hints.set(ctx, subject(h), data)
		if err == nil {
			return nil
		}
		if !passing(err) || pause(ctx, wait) != nil {
			return fmt.Errorf("put a hint of %s: %w", h.Place, err)
		}
	}
}

// decodeHint reads a stored message. It refuses what Put would not have written.
func decodeHint(data []byte) (Hint, error) {
	var h Hint
	if err := json.Unmarshal(data, &h); err != nil {
		return Hint{}, fmt.Errorf("decode a hint: %w", err)
	}
	return h, h.Check()
}

// passing says whether an error of the server may be gone a moment later.
func passing(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.Code == 503
	}
	for _, final := range []error{ErrFull, ErrInvalid, context.Canceled, nats.ErrConnectionClosed, nats.ErrMaxPayload, nats.ErrAuthorization} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// pause waits, or says why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// digest makes any text a token for a subject.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
