package site

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

func TestTimeline(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 11, 12, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return now.Add(-time.Duration(n) * 24 * time.Hour) }
	e := &Environment{Name: "prod", History: []Event{
		{Kind: kindRollback, Commit: "4", At: day(2), What: "Roll back"},
		{Kind: string(rollout.EventHalt), At: day(3), By: "eve", What: "halt; reason: errors"},
		{Kind: string(rollout.EventUnfreeze), At: day(5), By: "ada", What: "unfreeze"},
		{Kind: string(rollout.EventApprove), At: day(6)},
		{Kind: string(rollout.EventFreeze), At: day(7), By: "ada", Until: day(1), What: "freeze until"},
		{Kind: string(rollout.EventFreeze), At: day(8), By: "ada", Scope: "eu-1", Until: day(4), What: "freeze eu-1"},
		{Kind: kindPromote, Commit: "2", At: day(9), What: "Promote"},
		{Kind: kindPromote, Commit: "1", At: day(10), What: "Open"},
	}}
	got := newTimeline(e, now)
	want := "History of prod, 2 promotions, 1 rollback, 2 freezes, 1 halt. The list below has the same."
	if got.Label != want {
		t.Errorf("the label: got %q, want %q", got.Label, want)
	}
	if len(got.Marks) != 3 || got.Marks[0].Event.Commit != "1" || !strings.HasPrefix(got.Marks[0].At, "1.9") {
		t.Errorf("marks: got %+v, want three, the oldest one after a little room", got.Marks)
	}
	whole := 10 * 24 * time.Hour
	scale := float64(whole) / float64(whole+whole/25)
	for i, want := range []struct {
		kind       string
		from, days float64
		row        int
	}{
		{"freeze", 8, 4, 0}, // of a cluster, until the time that it names
		{"freeze", 7, 2, 1}, // ended by a command, beside the first one
		{"halt", 3, 3, 0},   // not ended
	} {
		s := got.Spans[i]
		if s.Kind != want.kind || s.Row != want.row || s.Width != percent(want.days*10*scale) ||
			s.From != percent(scale*(2+10*(10-want.from))) {
			t.Errorf("span %d: got %+v, want %+v, from %s for %s", i, s, want, percent(scale*(2+10*(10-want.from))),
				percent(want.days*10*scale))
		}
	}
	if newTimeline(&Environment{}, now) != nil {
		t.Error("an environment without a history has a timeline")
	}
	one := newTimeline(&Environment{Name: "dev", History: []Event{{Kind: kindHydrate, Commit: "1", At: now}}}, now)
	if len(one.Marks) != 1 || len(one.Ticks) != 3 {
		t.Errorf("the timeline of one commit of this moment: got %+v, want one mark", one)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 11, 12, 0, 0, 0, time.UTC)
	e := &Environment{Name: "prod", History: []Event{
		{Kind: kindRollback, Commit: "3", At: now.Add(-time.Hour)},
		{Kind: kindPromote, Commit: "2", At: now.Add(-3 * time.Hour)},
		{Kind: kindPromote, Commit: "1", At: now.Add(-20 * 24 * time.Hour)},
	}}
	e.figures(now)
	list := newFigures(e)
	var names, values []string
	for _, g := range list {
		names, values = append(names, g.Name), append(values, g.Value)
	}
	if got, want := strings.Join(values, ", "), "–, 0.7 per week, 50 %, 2 hours"; got != want {
		t.Errorf("%q: got %q, want %q", names, got, want)
	}
	if list[0].Label != "" || list[0].Bars != nil {
		t.Errorf("lead time: got %+v, want no drawing without a value", list[0])
	}
	last := len(list[1].Bars) - 1
	if b := list[1].Bars[last]; b.Height != barHeight/2 || b.Red != barHeight/2 || b.RedY != 0 ||
		!strings.Contains(b.Title, "1 deployment, 1 rollback") {
		t.Errorf("this week: got %+v, want one deployment with a rollback on top", b)
	}
	if b := list[2].Bars[last]; b.Red != barHeight || !strings.Contains(b.Title, "100 % of 1 deployment") {
		t.Errorf("the share of this week: got %+v, want all", b)
	}
	if b := list[3].Bars[last]; b.Height != barHeight || !strings.Contains(b.Title, "median 2 hours of 1 rollback") {
		t.Errorf("the time to restore of this week: got %+v, want two hours", b)
	}
}
