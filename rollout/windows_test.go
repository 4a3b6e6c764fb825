package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// On days when a clock changes, a window is open exactly when the wall clock shows a time inside it: what ends in an
// hour that is skipped ends at the jump, and an hour that is repeated is open twice. What Open says about the next
// change is true, too.
func TestWindowsWhenClocksChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone     string
		change   time.Time // in UTC
		from, to string
		open     string // the spans in the two days around the change, in UTC
		days     []string
	}{
		{"UTC", utc(3, 8, 7, 0), "02:15", "02:45", "8 02:15–02:45, 9 02:15–02:45", nil},
		{"UTC", utc(11, 1, 6, 0), "22:00", "02:30", "31 22:00–02:30, 1 22:00–02:30", nil},
		// New York: 2026-03-08 02:00 EST becomes 03:00 EDT, at 07:00 UTC.
		{"America/New_York", utc(3, 8, 7, 0), "01:00", "02:30", "8 06:00–07:00, 9 05:00–06:30", nil},
		{"America/New_York", utc(3, 8, 7, 0), "02:15", "04:00", "8 07:00–08:00, 9 06:15–08:00", nil},
		{"America/New_York", utc(3, 8, 7, 0), "02:15", "02:45", "9 06:15–06:45", nil},
		{"America/New_York", utc(3, 8, 7, 0), "22:00", "02:30", "8 03:00–07:00, 9 02:00–06:30", nil},
		{"America/New_York", utc(3, 8, 7, 0), "22:00", "02:30", "8 03:00–07:00", []string{"Sat"}},
		{"America/New_York", utc(3, 8, 7, 0), "22:00", "02:30", "9 02:00–06:30", []string{"Sun"}},
		// 2026-11-01 02:00 EDT becomes 01:00 EST, at 06:00 UTC.
		{"America/New_York", utc(11, 1, 6, 0), "01:15", "01:45", "1 05:15–05:45, 1 06:15–06:45, 2 06:15–06:45", nil},
		{"America/New_York", utc(11, 1, 6, 0), "00:30", "01:30", "1 04:30–05:30, 1 06:00–06:30, 2 05:30–06:30", nil},
		{"America/New_York", utc(11, 1, 6, 0), "01:15", "03:00", "1 05:15–06:00, 1 06:15–08:00, 2 06:15–08:00", nil},
		{"America/New_York", utc(11, 1, 6, 0), "23:00", "01:30", "1 03:00–05:30, 1 06:00–06:30, 2 04:00–06:30", nil},
		{"America/New_York", utc(11, 1, 6, 0), "23:00", "01:30", "1 03:00–05:30, 1 06:00–06:30", []string{"Sat"}},
		// Lord Howe: half an hour. 2026-10-04 02:00 becomes 02:30, at 15:30 UTC of the day before; 2026-04-05 02:00
		// becomes 01:30, at 15:00 UTC.
		{"Australia/Lord_Howe", utc(10, 3, 15, 30), "01:00", "02:15", "3 14:30–15:30, 4 14:00–15:15", nil},
		{
			"Australia/Lord_Howe", utc(4, 4, 15, 0), "01:40", "01:50",
			"4 14:40–14:50, 4 15:10–15:20, 5 15:10–15:20", nil,
		},
		{"Australia/Lord_Howe", utc(10, 3, 15, 30), "02:15", "03:00", "3 15:30–16:00, 4 15:15–16:00", nil},
		{"Australia/Lord_Howe", utc(10, 3, 15, 30), "02:05", "02:25", "4 15:05–15:25", nil},
		{"Australia/Lord_Howe", utc(4, 4, 15, 0), "01:40", "02:30", "4 14:40–15:00, 4 15:10–16:00, 5 15:10–16:00", nil},
		{"Australia/Lord_Howe", utc(4, 4, 15, 0), "22:00", "01:45", "4 11:00–14:45, 4 15:00–15:15, 5 11:30–15:15", nil},
		// Berlin: 2026-03-29 02:00 becomes 03:00, and 2026-10-25 03:00 becomes 02:00, both at 01:00 UTC.
		{"Europe/Berlin", utc(3, 29, 1, 0), "22:00", "02:30", "28 21:00–01:00, 29 20:00–00:30", nil},
		{"Europe/Berlin", utc(10, 25, 1, 0), "22:00", "02:30", "24 20:00–00:30, 25 01:00–01:30, 25 21:00–01:30", nil},
		{"Europe/Berlin", utc(3, 29, 1, 0), "02:30", "04:00", "29 01:00–02:00, 30 00:30–02:00", nil},
		{"Europe/Berlin", utc(3, 29, 1, 0), "02:15", "02:45", "30 00:15–00:45", nil},
		{"Europe/Berlin", utc(10, 25, 1, 0), "02:15", "02:45", "25 00:15–00:45, 25 01:15–01:45, 26 01:15–01:45", nil},
		{"Europe/Berlin", utc(10, 25, 1, 0), "02:30", "04:00", "25 00:30–01:00, 25 01:30–03:00, 26 01:30–03:00", nil},
	} {
		windows := []fleet.Window{{Days: c.days, From: c.from, To: c.to, TimeZone: c.zone}}
		name := fmt.Sprintf("%s %s %s to %s around %s", c.zone, c.days, c.from, c.to, c.change.Format(time.DateOnly))
		var got string
		was, began := false, time.Time{}
		// From the last time without a window before the change, a day and a half long.
		start := c.change.Add(-8 * time.Hour)
		for at := start; at.Before(start.Add(36 * time.Hour)); at = at.Add(5 * time.Minute) {
			open, _, next := rollout.Open(windows, nil, at)
			if then, _, _ := rollout.Open(windows, nil, next); next.IsZero() || then == open {
				t.Fatalf("%s: at %s Open says that the next change is at %s, and nothing changes then", name, at, next)
			}
			if before, _, _ := rollout.Open(windows, nil, next.Add(-time.Nanosecond)); before != open {
				t.Fatalf("%s: at %s Open says that the next change is at %s, and there is an earlier one", name, at,
					next)
			}
			switch {
			case open && !was:
				began = at
			case !open && was:
				if got != "" {
					got += ", "
				}
				got += began.Format("2 15:04") + "–" + at.Format("15:04")
			}
			was = open
		}
		if got != c.open {
			t.Errorf("%s: open %s, want %s", name, got, c.open)
		}
	}
}

// utc is a time of the year 2026.
func utc(month time.Month, day, hour, minute int) time.Time {
	return time.Date(2026, month, day, hour, minute, 0, 0, time.UTC)
}
