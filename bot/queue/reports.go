package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Reports share the pages of reviewed heads, and lists of these heads, between all replicas on the same streams. Both
// are caches: a full stream forgets the oldest ones, and they expire after 30 days. Names have lower-case letters,
// digits and hyphens.
type Reports struct{ q *Queue }

// NewReports returns the reports in the streams of a queue.
func NewReports(q *Queue) Reports { return Reports{q} }

const reportPiece = 512 << 10 // bytes of a message, which the server limits to 1 MiB by default

// reportNote is the last message of a page, which is complete if its pieces have this digest.
type reportNote struct {
	Pieces int    `json:"pieces"`
	Sum    string `json:"sha256"`
}

// Most returns the size of the largest page that Put takes.
func (r Reports) Most() int64 { return reportBytes(r.q.cfg.MaxBytes) / 8 }

// reportBytes returns the size of the stream of pages; that of the lists has a third of it.
func reportBytes(all int64) int64 { return all / 128 * 3 }

// Put stores a page in place of an earlier one of the same name.
func (r Reports) Put(ctx context.Context, name string, data []byte) error {
	if err := r.check(name, data); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	note := reportNote{Sum: hex.EncodeToString(sum[:])}
	for ; len(data) > 0; note.Pieces++ {
		piece := data[:min(len(data), reportPiece)]
		if _, err := r.q.reports.set(ctx, name+"."+strconv.Itoa(note.Pieces), piece); err != nil {
			return err
		}
		data = data[len(piece):]
	}
	text, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("report %s: %w", name, err)
	}
	_, err = r.q.reports.set(ctx, name, text)
	return err
}

func (r Reports) check(name string, data []byte) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%q is not the name of a report: %w", name, ErrInvalid)
	}
	if int64(len(data)) > r.Most() {
		return fmt.Errorf("report %s has %d bytes, more than %d: %w", name, len(data), r.Most(), ErrInvalid)
	}
	return nil
}

// Get returns a page; nil if there is none, or the stream has forgotten a part of it.
func (r Reports) Get(ctx context.Context, name string) ([]byte, error) {
	const tries = 2 // another replica may replace the page at the same time
	for range tries {
		data, err := r.get(ctx, name)
		if err != nil || data != nil {
			return data, err
		}
	}
	return nil, nil
}

func (r Reports) get(ctx context.Context, name string) ([]byte, error) {
	if err := r.check(name, nil); err != nil {
		return nil, err
	}
	text, _, ok, err := r.q.reports.get(ctx, name)
	if err != nil || !ok {
		return nil, err
	}
	var note reportNote
	if err := json.Unmarshal(text, &note); err != nil || note.Pieces > int(r.Most()/reportPiece)+1 {
		return nil, nil //nolint:nilerr // another version wrote it
	}
	var data []byte
	for i := range note.Pieces {
		piece, _, ok, err := r.q.reports.get(ctx, name+"."+strconv.Itoa(i))
		if err != nil || !ok {
			return nil, err
		}
		data = append(data, piece...)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != note.Sum {
		return nil, nil
	}
	return data, nil
}

// PutList stores a list in place of an earlier one of the same name.
func (r Reports) PutList(ctx context.Context, name string, data []byte) error {
	if err := r.check(name, nil); err != nil {
		return err
	}
	_, err := r.q.lists.set(ctx, name, data)
	return err
}

// Follow calls do with the name and the data of each list that is stored, and then of each that any replica stores, in
// the same order on all replicas. It returns when ctx ends. do is not called at the same time.
func (r Reports) Follow(ctx context.Context, do func(name string, data []byte)) error {
	consumer, err := persist(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return r.q.lists.stream.OrderedConsumer(ctx,
			jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	})
	if err != nil {
		return fmt.Errorf("follow the lists of merge requests: %w", err)
	}
	consume, err := consumer.Consume(func(m jetstream.Msg) {
		do(strings.TrimPrefix(m.Subject(), r.q.lists.prefix),
			m.Data())
	},
		jetstream.PullExpiry(followPull), jetstream.PullHeartbeat(followSilent),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			r.q.log.Debug("queue: the connection to the stream of lists was interrupted", "err", err)
		}))
	if err != nil {
		return fmt.Errorf("follow the lists of merge requests: %w", err)
	}
	<-ctx.Done()
	consume.Stop()
	<-consume.Closed()
	return nil
}
