// Package events tells people what needs them: a promotion that waits for an approval, failed, was rolled back, is
// halted, frozen or late; a hydration that was refused; a review that stopped.
//
// Each task of the trunk describes the conditions that hold now (package conditions). A Ledger compares them with the
// episodes in its store: a new condition begins an episode, and one that no longer holds ends its episode. The record
// of an episode has what each receiver was told, so delivery (deliver.go) brings every receiver to the state of the
// episode, after failures and restarts, and tells nothing twice that was acknowledged. A process that dies between
// sending and recording sends again, with the same id.
//
// Receivers are configured by the operator, never by a repository. Texts of events come from repositories: they are
// escaped here, and sent as plain text.
//
// The package is not API: it can change in every release.
package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Kind is what an event is about.
type Kind string

// The kinds of events.
const (
	Approval      Kind = "approval"      // a promotion waits for an approval
	Failed        Kind = "failed"        // a promotion failed
	RolledBack    Kind = "rolledBack"    // a promotion was rolled back, or is being rolled back
	Halted        Kind = "halted"        // a person halted an environment
	Frozen        Kind = "frozen"        // an environment or a cluster is frozen
	Late          Kind = "late"          // a promotion takes longer than expected
	Refused       Kind = "refused"       // a commit of the trunk is not hydrated
	ReviewStopped Kind = "reviewStopped" // a review failed too often and is not tried again
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{Approval, Failed, RolledBack, Halted, Frozen, Late, Refused, ReviewStopped}
}

// Severity says how urgent an event is.
type Severity string

// The severities, least urgent first.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Severities lists all severities, least urgent first.
func Severities() []Severity { return []Severity{Info, Warning, Error} }

// AtLeast reports whether a severity is as urgent as another one.
func (s Severity) AtLeast(o Severity) bool {
	return slices.Index(Severities(), s) >= slices.Index(Severities(), o)
}

// Event describes a condition. Its texts are one line each, without control characters.
type Event struct {
	Kind        Kind     `json:"kind"`
	Severity    Severity `json:"severity"`
	Repository  string   `json:"repository"`            // full path on the forge
	Environment string   `json:"environment,omitempty"` // empty: the whole fleet
	Workspaces  []string `json:"workspaces,omitempty"`  // empty: not about single workspaces
	// tells conditions of one kind and environment apart: a cluster, a commit, or the number of a merge request
	Subject string `json:"subject,omitempty"`
	Title   string `json:"title"`
	Text    string `json:"text,omitempty"`
	Commit  string `json:"commit,omitempty"`  // source commit
	Command string `json:"command,omitempty"` // what a person may run next
	URL     string `json:"url,omitempty"`
}

// Conditions hold now. A condition of Waits counts once its environment has waited for too long.
type Conditions struct {
	Events []Event
	Waits  []Event // one for each environment that waits
}

func (e *Event) key() string { return string(e.Kind) + "/" + e.Environment + "/" + e.Subject }

// State of an episode.
type State string

// The states of an episode, as receivers see them.
const (
	Opened  State = "opened"
	Updated State = "updated"
	Ended   State = "ended"
)

// episode is a condition with what receivers were told about it.
type episode struct {
	ID      string              `json:"id"`
	Event   Event               `json:"event"`
	Since   time.Time           `json:"since"`
	Version int                 `json:"version"` // changes with Event and Ended
	Changed time.Time           `json:"changed"` // when Version did
	Ended   bool                `json:"ended,omitempty"`
	Told    map[string]delivery `json:"told,omitempty"` // by name of the receiver
}

// delivery is what one receiver was told, and the attempt to tell it more.
type delivery struct {
	Version int       `json:"version,omitempty"` // that it acknowledged; 0: none
	Open    bool      `json:"open,omitempty"`    // it acknowledged that the condition holds
	Tries   int       `json:"tries,omitempty"`   // since then, without success
	First   time.Time `json:"first,omitzero"`    // of these tries
	Next    time.Time `json:"next,omitzero"`     // not before: after a failure, or while another process sends
}

// record has the episodes of one repository.
type record struct {
	Place    string               `json:"place"`
	Episodes map[string]*episode  `json:"episodes,omitempty"`
	Waits    map[string]time.Time `json:"waits,omitempty"` // environments that wait, since when
}

// Store keeps the records. It is shared by all replicas of the service.
type Store interface {
	Key(place string) string // of the record of a repository
	Keys(ctx context.Context) ([]string, error)
	Load(ctx context.Context, key string) (record []byte, revision uint64, err error)
	// Swap returns an error that Config.Changed recognises if the record has another revision.
	Swap(ctx context.Context, key string, record []byte, revision uint64) error
	Drop(ctx context.Context, revision uint64) error
}

// Config of a Ledger.
type Config struct {
	Store     Store
	Changed   error // of Store.Swap
	Receivers []Receiver
	Late      time.Duration // how long an environment may wait for what is not planned
	Client    *http.Client  // follows no redirects: messages are signed, and addresses are secret
	PlainHTTP []string      // hosts that may be reached over unencrypted HTTP; see plainhttp.Check
	UserAgent string
	Clock     func() time.Time
	Log       *slog.Logger
	Observe   func(kind, result string) // of each attempt
}

// Ledger keeps episodes and delivers them. It is safe for concurrent use, also by several processes with one store.
type Ledger struct {
	Config
	wake chan struct{}
}

// New returns a Ledger.
func New(c Config) *Ledger { return &Ledger{Config: c, wake: make(chan struct{}, 1)} }

const (
	maxEpisodes = 200 // of one repository
	maxSwaps    = 10  // attempts to write a record that others write too
)

// Observe records the conditions that hold in a repository. covers selects the episodes that end if their condition is
// not among them; all others stay as they are.
func (l *Ledger) Observe(ctx context.Context, place string, conditions Conditions, covers func(*Event) bool) error {
	changed, err := l.change(ctx, l.Store.Key(place), func(r *record) {
		r.Place = place
		l.apply(r, conditions, covers)
	})
	if err != nil {
		return fmt.Errorf("record events of %s: %w", place, err)
	}
	if changed {
		select {
		case l.wake <- struct{}{}:
		default: // it will look anyway
		}
	}
	return nil
}

// change reads a record, changes it, and writes it if it differs. do runs again if another process wrote the record
// meanwhile.
func (l *Ledger) change(ctx context.Context, key string, do func(*record)) (changed bool, err error) {
	for range maxSwaps {
		before, revision, err := l.Store.Load(ctx, key)
		if err != nil {
			return false, err
		}
		r := &record{}
		if len(before) > 0 {
			if err := json.Unmarshal(before, r); err != nil {
				return false, fmt.Errorf("the record is damaged: %w", err)
			}
		}
		do(r)
		if len(r.Episodes)+len(r.Waits) == 0 {
			if revision == 0 {
				return false, nil
			}
			return true, l.Store.Drop(ctx, revision)
		}
		after, err := json.Marshal(r)
		if err != nil || string(after) == string(before) {
			return false, err
		}
		if err := l.Store.Swap(ctx, key, after, revision); !errors.Is(err, l.Changed) {
			return err == nil, err
		}
	}
	return false, l.Changed
}

func (l *Ledger) apply(r *record, conditions Conditions, covers func(*Event) bool) {
	now := l.Clock().UTC()
	list := slices.Clone(conditions.Events)
	for name, since := range r.Waits {
		if covers(&Event{Kind: Late, Environment: name}) && !slices.ContainsFunc(conditions.Waits,
			func(w Event) bool { return w.Environment == name }) {
			delete(r.Waits, name)
		} else if since.After(now) { // the clock was set back
			r.Waits[name] = now
		}
	}
	for _, w := range conditions.Waits {
		if r.Waits == nil {
			r.Waits = map[string]time.Time{}
		}
		if _, known := r.Waits[w.Environment]; !known {
			r.Waits[w.Environment] = now
		}
		if now.Sub(r.Waits[w.Environment]) >= l.Late {
			list = append(list, w)
		}
	}
	holds := map[string]bool{}
	for _, e := range list {
		key := e.key()
		if holds[key] {
			continue
		}
		holds[key] = true
		if r.Episodes == nil {
			r.Episodes = map[string]*episode{}
		}
		ep := r.Episodes[key]
		switch {
		case ep == nil && len(r.Episodes) >= maxEpisodes:
			l.Log.Warn("too many events of one repository: one is not reported", "repository", r.Place, "event", e.Title)
		case ep == nil:
			r.Episodes[key] = &episode{ID: newID(r.Place, key, now), Event: e, Since: now, Version: 1, Changed: now}
		case ep.Ended || !reflect.DeepEqual(ep.Event, e):
			ep.Event, ep.Ended, ep.Changed = e, false, now
			ep.Version++
		}
	}
	for key, ep := range r.Episodes {
		if !holds[key] && !ep.Ended && covers(&ep.Event) {
			ep.Ended, ep.Changed = true, now
			ep.Version++
		}
	}
	l.prune(r)
}

// prune removes ended episodes of which nobody must be told any more.
func (l *Ledger) prune(r *record) {
	for key, ep := range r.Episodes {
		if ep.Ended && !slices.ContainsFunc(l.Receivers, func(one Receiver) bool { return one.pending(ep) != "" }) {
			delete(r.Episodes, key)
		}
	}
}

// newID returns the id of an episode. Two replicas that see a condition for the first time give it different ids, and
// only one of them is recorded.
func newID(place string, key string, at time.Time) string {
	sum := sha256.Sum256([]byte(place + "\x00" + key + "\x00" + strconv.FormatInt(at.UnixNano(), 10)))
	return hex.EncodeToString(sum[:12])
}
