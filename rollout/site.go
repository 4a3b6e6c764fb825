package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// GateReceipt says whether what is known of an isolated environment may be believed.
const GateReceipt = "receipt"

// Site is what is known of an isolated environment: its cluster branches move on a site that no network reaches, and
// the newest receipt of the site says what they have. Times are those of the receipt, on the clock of this side as far
// as possible: none is later than the import.
type Site struct {
	// Made is when the newest receipt was made; zero without a receipt.
	Made     time.Time
	Sequence int64
	MaxAge   time.Duration
	// ClockAhead is by how much the site's clock is ahead at least: its receipt says that it was made after its import.
	ClockAhead time.Duration
	// Unknown is why there is no receipt, or why it cannot be read.
	Unknown string
	// Contradicts is what the receipt says and cannot be: a tree or a commit that this side never made.
	Contradicts string
	// Healthy is when the site's rollout of what it runs was first seen healthy; zero if it is not complete there.
	Healthy time.Time
	// Halt stops the environment on the site; nil if nothing does.
	Halt *Halt
	// Freezes hold the site's clusters, with the reason that somebody gave there.
	Freezes []Freeze
}

// Stale reports whether the newest receipt is older than it may be.
func (s *Site) Stale(now time.Time) bool { return now.Sub(s.Made) > s.MaxAge }

// AsOf says in words what the receipt is: "as of receipt 7 of 2026-11-30 09:00 UTC, 3h0m old".
func (s *Site) AsOf(now time.Time) string {
	if s.Unknown != "" {
		return s.Unknown
	}
	return fmt.Sprintf("as of receipt %d of %s, %s old", s.Sequence, Stamp(s.Made), age(now.Sub(s.Made)))
}

// age rounds a time span to what a person reads: minutes, and seconds below a minute.
func age(d time.Duration) string {
	d = max(d, 0)
	if d < time.Minute {
		return d.Truncate(time.Second).String()
	}
	text := d.Truncate(time.Minute).String() // 3h5m0s
	return text[:len(text)-len("0s")]
}

// Gate says whether the receipt may be believed: red if it contradicts what this side made, unknown without a receipt
// or with an old one.
func (s *Site) Gate(now time.Time) Gate {
	g := Gate{Name: GateReceipt, State: Green, Since: s.Made}
	switch {
	case s.Unknown != "":
		g.State, g.Reason = Unknown, s.Unknown
	case s.Contradicts != "":
		g.State, g.Reason = Red, safetext.Shorten(fmt.Sprintf("receipt %d of %s: %s", s.Sequence, Stamp(s.Made), s.Contradicts), 2*maxWhy)
	case s.Stale(now):
		g.State = Unknown
		g.Reason = fmt.Sprintf("the newest receipt, %d, is from %s, %s ago, and at most %s are allowed: import a newer one", s.Sequence,
			Stamp(s.Made), age(now.Sub(s.Made)), age(s.MaxAge))
	}
	return g
}

// movesGate says why the branches of clusters that are behind do not move here.
func (s *Site) movesGate(now time.Time) Gate {
	if g := s.Gate(now); g.State != Green {
		return g
	}
	g := Gate{Name: GateReceipt, State: Waiting, Since: s.Made}
	switch i := slices.IndexFunc(s.Freezes, func(f Freeze) bool { return f.Target == "" }); {
	case s.Halt != nil:
		g.Reason = fmt.Sprintf("the site was %s, %s", s.Halt, s.AsOf(now))
	case i >= 0:
		g.Reason = fmt.Sprintf("the site is %s, %s", s.Freezes[i], s.AsOf(now))
	default:
		g.Reason = fmt.Sprintf("the site moves its clusters, and had not %s", s.AsOf(now))
	}
	return g
}

// health judges what the site's record says; green leaves the judgement to the statuses.
func (s *Site) health(now time.Time) judged {
	if g := s.Gate(now); g.State != Green {
		return judged{g.State, g.Reason}
	}
	if h := s.Halt; h != nil && h.By == "" {
		return judged{Red, fmt.Sprintf("its site was %s, %s", h, s.AsOf(now))}
	}
	return judged{state: Green}
}

// seen returns when an observation was made: of an isolated environment, when its receipt was made.
func (s *Site) seen(now time.Time) time.Time {
	if s == nil || s.Made.IsZero() {
		return now
	}
	return s.Made
}

// asOf returns until when an upstream environment was observed. A bake there lasts until then.
func (x *facts) asOf(environment string) time.Time {
	for _, b := range x.s.Before {
		if b.Name == environment {
			return b.Site.seen(x.s.Now)
		}
	}
	return x.s.Now
}

// asOf says in a parenthesis what is known of an isolated environment; "" of others.
func (b Upstream) asOf(now time.Time) string {
	if b.Site == nil {
		return ""
	}
	return " (" + b.Site.AsOf(now) + ")"
}

// held says what holds up the rollout on the site of an isolated environment.
func (b Upstream) held(now time.Time) string {
	if b.Site == nil {
		return ""
	}
	if b.Site.Halt == nil && len(b.Site.Freezes) == 0 {
		return b.asOf(now)
	}
	return ": " + b.Site.movesGate(now).Reason
}

// receiptGate is the gate of an upstream environment whose receipt cannot be believed; it is green for others.
func (b Upstream) receiptGate(now time.Time) Gate {
	g := Gate{Name: GateBefore + b.Name, State: Green}
	if b.Site == nil {
		return g
	}
	if of := b.Site.Gate(now); of.State != Green {
		g.State, g.Reason, g.Since = of.State, b.Name+": "+of.Reason, of.Since
	}
	return g
}
