package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

// Freeze is a span of time without promotions.
type Freeze struct {
	Target string    `yaml:"target,omitempty"` // a cluster; "" is the whole environment
	From   time.Time `yaml:"from"`
	Until  time.Time `yaml:"until,omitempty"` // zero: until it is lifted
	Reason string    `yaml:"reason"`
	By     string    `yaml:"by,omitempty"`
	// Said is the forge's time of the comment. It is set only if the forge's clock is ahead, and From is Sluice's time
	// then.
	Said time.Time `yaml:"said,omitempty"`
}

// Asked returns when the person wrote it, by the forge's clock if there was a comment. Compare it with times of
// comments.
func (f Freeze) Asked() time.Time { return later(f.From, f.Said) }

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// said returns when a command was written, by the forge's clock, if that is ahead of the time at which it took effect;
// zero otherwise.
func (e Event) said() time.Time {
	if said := e.Said.UTC().Truncate(time.Second); said.After(e.At) {
		return said
	}
	return time.Time{}
}

// Holds reports whether the freeze is in force at a time.
func (f Freeze) Holds(at time.Time) bool {
	return !at.Before(f.From) && (f.Until.IsZero() || at.Before(f.Until))
}

// String names the end, the author and the reason of the freeze.
func (f Freeze) String() string {
	out := "frozen"
	if !f.Until.IsZero() {
		out += " until " + Stamp(f.Until)
	}
	if f.By != "" {
		out += " by " + f.By
	}
	if f.Reason != "" {
		out += ": " + f.Reason
	}
	return out
}

// Planned returns the freezes of sluice.yaml.
func Planned(p fleet.Promotion) ([]Freeze, error) {
	out := make([]Freeze, 0, len(p.Freezes))
	for _, f := range p.Freezes {
		from, err := time.Parse(time.RFC3339, f.From)
		if err != nil {
			return nil, fmt.Errorf("freeze: from: %w", err)
		}
		to, err := time.Parse(time.RFC3339, f.To)
		if err != nil {
			return nil, fmt.Errorf("freeze: to: %w", err)
		}
		out = append(out, Freeze{From: from, Until: to, Reason: f.Reason})
	}
	return out, nil
}

// Open reports whether promotions may land at a time, the reason if not, and when that changes next (zero: not within
// the searched time). A freeze or a window that denies wins over every window that allows; without a window that
// allows, all times are open.
func Open(windows []fleet.Window, freezes []Freeze, at time.Time) (open bool, reason string, next time.Time) {
	spans, err := compileWindows(windows)
	if err != nil {
		return false, err.Error(), time.Time{}
	}
	open, reason = openAt(spans, freezes, at)
	for _, t := range boundaries(spans, freezes, at) {
		if now, _ := openAt(spans, freezes, t); now != open {
			return open, reason, t
		}
	}
	return open, reason, time.Time{}
}

type window struct {
	spec     fleet.Window
	zone     *time.Location
	from, to int // minutes of the day; to is later than from, and may lie in the next day
	dates    map[string]bool
}

func compileWindows(windows []fleet.Window) ([]window, error) {
	out := make([]window, 0, len(windows))
	for _, w := range windows {
		zone := time.UTC
		if w.TimeZone != "" {
			var err error
			if zone, err = time.LoadLocation(w.TimeZone); err != nil {
				return nil, fmt.Errorf("unknown time zone %q of a window: use an IANA name such as Europe/Berlin",
					w.TimeZone)
			}
		}
		from, err := minutes(w.From)
		if err != nil {
			return nil, err
		}
		to, err := minutes(w.To)
		if err != nil {
			return nil, err
		}
		if to <= from {
			to += 24 * 60
		}
		c := window{spec: w, zone: zone, from: from, to: to, dates: map[string]bool{}}
		for _, d := range w.Dates {
			c.dates[d] = true
		}
		out = append(out, c)
	}
	return out, nil
}

func minutes(s string) (int, error) {
	h, m, ok := strings.Cut(s, ":")
	number := func(s string) int {
		if len(s) != 2 || s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9' {
			return -1
		}
		return 10*int(s[0]-'0') + int(s[1]-'0')
	}
	hour, minute := number(h), number(m)
	if !ok || hour < 0 || hour > 24 || minute < 0 || minute > 59 || hour == 24 && minute > 0 {
		return 0, fmt.Errorf("%q is not a time of day such as 09:00", s)
	}
	return 60*hour + minute, nil
}

// on reports whether the window opens on a day.
func (w window) on(day time.Time) bool {
	return len(w.spec.Days)+len(w.dates) == 0 || slices.Contains(w.spec.Days, day.Format("Mon")) ||
		w.dates[day.Format(time.DateOnly)]
}

// holds reports whether the zone's wall clock is inside the window. So a window that ends in an hour that daylight
// saving time skips ends when the clock jumps, one that begins there begins then, and an hour that the clock repeats
// counts twice.
func (w window) holds(at time.Time) bool {
	local := at.In(w.zone)
	y, m, d := local.Date()
	minute := 60*local.Hour() + local.Minute()
	for days := -1; days <= 0; days++ {
		since := minute - days*24*60 // minutes since that day's midnight, by the wall clock
		if since >= w.from && since < w.to && w.on(time.Date(y, m, d+days, 0, 0, 0, 0, time.UTC)) {
			return true
		}
	}
	return false
}

// moments returns the instants at which the window of the day of at plus some days may open or close: where the wall
// clock shows its times, before and after a change of the clock on that day, and the change itself.
func (w window) moments(at time.Time, days int) []time.Time {
	y, m, d := at.In(w.zone).Date()
	if !w.on(time.Date(y, m, d+days, 0, 0, 0, 0, time.UTC)) {
		return nil
	}
	var out []time.Time
	for _, near := range []int{-1, 2} { // the clock's offset from UTC on both sides of the window
		there := time.Date(y, m, d+days+near, 12, 0, 0, 0, w.zone)
		_, offset := there.Zone()
		for _, minute := range []int{w.from, w.to} {
			out = append(out, time.Date(y, m, d+days, 0, minute, -offset, 0, time.UTC))
		}
		start, end := there.ZoneBounds()
		out = append(out, start, end)
	}
	return out
}

func (w window) String() string {
	out := strings.Join(slices.Concat(w.spec.Days, w.spec.Dates), ", ")
	if out == "" {
		out = "every day"
	}
	return fmt.Sprintf("%s %s to %s %s", out, w.spec.From, w.spec.To, w.zone)
}

func openAt(windows []window, freezes []Freeze, at time.Time) (bool, string) {
	for _, f := range freezes {
		if f.Holds(at) {
			return false, f.String()
		}
	}
	allows, inside := []string{}, false
	for _, w := range windows {
		switch {
		case !w.spec.Deny:
			allows = append(allows, w.String())
			inside = inside || w.holds(at)
		case w.holds(at):
			return false, "closed: " + w.String()
		}
	}
	if len(allows) > 0 && !inside {
		return false, "open only " + strings.Join(allows, "; ")
	}
	return true, ""
}

// boundaries returns the times after at when the result of Open may change, in order: those of freezes, those of
// windows in the week after at and after each of them, and those of single dates.
func boundaries(windows []window, freezes []Freeze, at time.Time) []time.Time {
	var out []time.Time
	add := func(t time.Time) {
		if t.After(at) {
			out = append(out, t)
		}
	}
	for _, f := range freezes {
		add(f.From)
		if !f.Until.IsZero() {
			add(f.Until)
		}
	}
	starts := append([]time.Time{at}, out...)
	for _, w := range windows {
		for date := range w.dates {
			if day, err := time.ParseInLocation(time.DateOnly, date, w.zone); err == nil {
				starts = append(starts, day)
			}
		}
	}
	for _, start := range starts {
		for _, w := range windows {
			for days := -1; days <= 8; days++ {
				for _, t := range w.moments(start, days) {
					add(t)
				}
			}
		}
	}
	slices.SortStableFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}

// Stamp formats a time for texts: UTC, to the minute.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
