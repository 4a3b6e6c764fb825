package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/sluice-gitops/sluice/internal/plainhttp"
)

// Times of the delivery.
const (
	interval   = 10 * time.Second // of looking for what is due
	sending    = time.Minute      // for which a process has the right to one attempt
	firstPause = 5 * time.Second  // after the first failure; it grows fourfold
	maxPause   = time.Hour
	giveUp     = 72 * time.Hour // after the first failure
	sendTime   = 30 * time.Second
	answerSize = 64 << 10 // bytes of an answer that are read
)

// Run delivers until ctx ends.
func (l *Ledger) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := l.Deliver(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("events could not be delivered; they are tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.wake:
		}
	}
}

// Deliver tells each receiver what it was not told, as far as it is due. The error is one of the store: failures of
// receivers are logged, and tried again later.
func (l *Ledger) Deliver(ctx context.Context) error {
	keys, err := l.Store.Keys(ctx)
	if err != nil {
		return err
	}
	var failed []error
	down := map[string]bool{} // receivers that failed now: others do not wait for their other messages
	for _, key := range keys {
		for { // one message after the other
			m, r, err := l.take(ctx, key, down)
			if err != nil {
				failed = append(failed, err)
			}
			if err != nil || m == nil || ctx.Err() != nil {
				break
			}
			sent := l.send(ctx, r, m)
			down[r.Name] = sent != nil
			if err := l.told(ctx, key, r, m, sent); err != nil {
				failed = append(failed, err)
				break
			}
		}
	}
	return errors.Join(failed...)
}

// message is what one receiver is told about an episode.
type message struct {
	Event
	Episode string    // id of the episode
	Since   time.Time // when it began
	State   State
	Time    time.Time // of the state; the same for all attempts
	version int
	key     string
}

// id is the same for all attempts.
func (m *message) id() string { return fmt.Sprintf("%s.%d", m.Episode, m.version) }

// pending returns the state that the receiver must be told; "" if it knows it.
func (r *Receiver) pending(e *episode) State {
	told := e.Told[r.Name]
	switch {
	case told.Version >= e.Version:
		return ""
	case e.Ended && !told.Open: // it was never told that the condition holds
		return ""
	case e.Ended:
		return Ended
	case told.Open && r.Kind.updates():
		return Updated
	case told.Open || !r.wants(&e.Event):
		return ""
	}
	return Opened
}

// take returns a message that is due and takes the right to send it for a while; nil if none is due. It leaves out
// receivers that are down.
func (l *Ledger) take(ctx context.Context, key string, down map[string]bool) (m *message, to *Receiver, err error) {
	_, err = l.change(ctx, key, func(rec *record) {
		m, to = nil, nil // of an earlier attempt to write the record
		now := l.Clock().UTC()
		for name, e := range rec.Episodes {
			for i := range l.Receivers {
				r := &l.Receivers[i]
				state, d := r.pending(e), e.Told[r.Name]
				if m != nil || state == "" || down[r.Name] || now.Before(d.Next) {
					continue
				}
				if d.First.IsZero() {
					d.First = now
				}
				d.Next = now.Add(sending)
				e.tell(r.Name, d)
				to, m = r, &message{
					Event: e.Event, Episode: e.ID, Since: e.Since, State: state, Time: e.Changed, version: e.Version, key: name,
				}
			}
		}
		if m == nil {
			l.prune(rec)
		}
	})
	return m, to, err
}

func (e *episode) tell(receiver string, d delivery) {
	if e.Told == nil {
		e.Told = map[string]delivery{}
	}
	e.Told[receiver] = d
}

// told records the result of an attempt.
func (l *Ledger) told(ctx context.Context, key string, r *Receiver, m *message, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime) // what was sent is recorded
	defer cancel()
	_, err := l.change(ctx, key, func(rec *record) {
		e := rec.Episodes[m.key]
		if e == nil || e.ID != m.Episode {
			return
		}
		d, now := e.Told[r.Name], l.Clock().UTC()
		if failed == nil || now.Sub(d.First) > giveUp {
			if failed != nil {
				l.Log.Error("a receiver of events was not told in three days and misses an event", "receiver", r.Name,
					"repository", rec.Place, "event", m.Title)
			}
			e.tell(r.Name, delivery{Version: m.version, Open: m.State != Ended})
			l.prune(rec)
			return
		}
		d.Tries++
		d.Next = now.Add(pause(d.Tries))
		e.tell(r.Name, d)
	})
	return err
}

// pause is the time between two attempts.
func pause(tries int) time.Duration {
	out := firstPause
	for range tries - 1 {
		if out *= 4; out >= maxPause {
			return maxPause
		}
	}
	return out
}

// send sends a message once.
func (l *Ledger) send(ctx context.Context, r *Receiver, m *message) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	var err error
	if r.Kind == Email {
		err = r.mail(ctx, m)
	} else {
		err = l.post(ctx, r, m)
	}
	result := "ok"
	if err != nil {
		result = "error"
		l.Log.Warn("a receiver of events was not told; it is tried again", "receiver", r.Name, "kind", r.Kind,
			"repository", m.Repository, "error", err)
	}
	l.Config.Observe(string(r.Kind), result)
	return err
}

// post sends a message over HTTP. Errors do not have the address, which can be a credential.
func (l *Ledger) post(ctx context.Context, r *Receiver, m *message) error {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" {
		return errors.New("the address is not a URL")
	}
	if err := plainhttp.Check(u, l.PlainHTTP); err != nil {
		return err
	}
	body, header, err := r.request(m, l.Clock())
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address is not a URL")
	}
	request.Header = header
	request.Header.Set("User-Agent", l.UserAgent)
	response, err := l.Client.Do(request)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address
		}
		return fmt.Errorf("%s: %w", u.Host, err)
	}
	// drain the body, so that the connection is reused
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, answerSize))
	_ = response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%s answers %d", u.Host, response.StatusCode)
	}
	return nil
}
