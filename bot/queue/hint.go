package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// The kinds that the queue treats in their own way. Any other lower-case word is a kind too.
const (
	KindReview  = "review"  // a newer one cancels the running one of the same number
	KindComment = "comment" // a command: never coalesced
)

// Hint says what may have changed. The worker reads what is true now from the forge and from Git.
type Hint struct {
	Place   string    `json:"place"` // forge:owner/name
	Kind    string    `json:"kind"`
	Number  int       `json:"number,omitempty"` // of the merge request
	Comment int64     `json:"comment,omitempty"`
	Text    string    `json:"text,omitempty"` // digest of the comment when it was created
	Ref     string    `json:"ref,omitempty"`
	Force   bool      `json:"force,omitempty"` // do it even if it was done; not lost when a newer hint without it comes
	ID      string    `json:"id,omitempty"`    // of the delivery
	At      time.Time `json:"at"`
}

// Key is what coalesces: place, kind and number, and for a command the comment and delivery too.
func (h Hint) Key() string {
	key := h.Place + "\n" + h.Kind + "\n" + strconv.Itoa(h.Number)
	if h.Kind == KindComment {
		key += "\n" + strconv.FormatInt(h.Comment, 10) + "\n" + h.ID
	}
	return key
}

// Check says whether the hint can be put.
func (h Hint) Check() error {
	switch {
	case h.Place == "" || len(h.Place) > 512:
		return fmt.Errorf("a hint's place has %d bytes, not 1 to 512: %w", len(h.Place), ErrInvalid)
	case strings.ContainsAny(h.Place, "\n\r\x00"):
		return fmt.Errorf("a hint's place %q has a control character: %w", h.Place, ErrInvalid)
	case !kindPattern().MatchString(h.Kind):
		return fmt.Errorf("a hint's kind %.40q is not a lower-case word of at most 32 letters: %w", h.Kind, ErrInvalid)
	case h.Number < 0 || h.Comment < 0:
		return fmt.Errorf("a hint's number %d or comment %d is negative: %w", h.Number, h.Comment, ErrInvalid)
	case len(h.Ref) > 1024 || len(h.ID) > 256 || len(h.Text) > 256:
		return fmt.Errorf("a hint's ref has %d bytes (at most 1024), its id %d and its text's digest %d (at most 256): %w", len(h.Ref), len(h.ID), len(h.Text), ErrInvalid)
	}
	return nil
}

func kindPattern() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z_-]{0,31}$`) }

// subject is where the hint is stored, below the prefix of hints. Forced hints have their own, so that a newer one without
// force does not replace them; both are worked on as one.
func (h Hint) subject() string {
	s := digest(h.Place) + "." + h.Kind + "." + strconv.Itoa(h.Number)
	if h.Kind == KindComment {
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
	if h.Kind == KindComment && h.ID == "" && h.Comment == 0 {
		h.ID = nuid.Next() // nothing tells it apart from another command
	}
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode a hint: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := q.hints.set(ctx, h.subject(), data)
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
