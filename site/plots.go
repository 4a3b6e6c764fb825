package site

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// history is what the page of the history fills in.
type history struct {
	Fleet *Fleet
	Plots []plot
}

// plot is an environment with the drawings of its figures and of its history.
type plot struct {
	*Environment
	Figures  []figure
	Timeline *timeline // nil without a history
}

// figure is one of DORA's figures, with a bar for each week.
type figure struct {
	Name, Value string
	Label       string // of the drawing; "" if no week has a value
	Width       int
	Bars        []bar
}

// bar is a week. Heights and places are in pixels. Rollbacks are red, on top of deployments.
type bar struct {
	X, Y, Height int
	RedY, Red    int
	Title        string
}

const (
	barWidth  = 14
	barGap    = 4
	barHeight = 32
)

func newHistory(f *Fleet) *history {
	out := &history{Fleet: f}
	for _, e := range f.Environments {
		out.Plots = append(out.Plots, plot{
			Environment: e, Figures: newFigures(e), Timeline: newTimeline(e, f.Made),
		})
	}
	return out
}

func newFigures(e *Environment) []figure {
	f := &e.Figures
	frequency, lead := figure{Name: "Frequency", Value: "–"}, figure{Name: "Lead time", Value: "–"}
	failed, restore := figure{Name: "Rolled back", Value: "–"}, figure{Name: "Time to restore", Value: "–"}
	if f.Deployed > 0 {
		frequency.Value = fmt.Sprintf("%.1f per week", f.PerWeek)
		failed.Value = fmt.Sprintf("%d %%", share(f.Failed, f.Deployed))
	}
	if f.LeadOf > 0 {
		lead.Value = span(f.Lead)
		if f.LeadLacks > 0 {
			lead.Value += fmt.Sprintf(" (without %s of unknown age)", count(f.LeadLacks, "promotion"))
		}
	}
	if f.Failed > 0 {
		restore.Value = span(f.Restore)
	}
	frequency.draw(e, "deployments and rollbacks", func(w Week) (n, red int, text string) {
		return w.Deployed, w.RolledBck, count(w.Deployed, "deployment") + ", " + count(w.RolledBck, "rollback")
	})
	lead.draw(e, "the median lead time", func(w Week) (n, red int, text string) {
		if w.LeadOf == 0 {
			return 0, 0, "no lead time"
		}
		return max(1, int(w.Lead/time.Second)), 0, "median " + span(w.Lead) + " of " + count(w.LeadOf, "commit")
	})
	failed.draw(e, "the share of deployments that were rolled back", func(w Week) (n, red int, text string) {
		return 0, share(w.RolledBck, w.Deployed), fmt.Sprintf("%d %% of %s", share(w.RolledBck, w.Deployed),
			count(w.Deployed, "deployment"))
	})
	restore.draw(e, "the median time to restore", func(w Week) (n, red int, text string) {
		if w.RolledBck == 0 {
			return 0, 0, "no rollback"
		}
		return max(1, int(w.Restore/time.Second)), 0, "median " + span(w.Restore) + " of " + count(w.RolledBck, "rollback")
	})
	return []figure{lead, frequency, failed, restore}
}

// share is a part in percent. A rollback of a deployment that was not read, or of an earlier week, counts as one.
func share(failed, deployed int) int {
	if failed == 0 {
		return 0
	}
	const all = 100
	return min(all, failed*all/max(1, deployed))
}

// draw adds a bar for each week, which is a number with another one on top of it in red.
func (g *figure) draw(e *Environment, what string, of func(Week) (n, red int, text string)) {
	most := 0
	for _, w := range e.Figures.Weeks {
		n, red, _ := of(w)
		most = max(most, n+red)
	}
	if most == 0 {
		return
	}
	g.Label = fmt.Sprintf("%s: %s in each of the last %s", e.Name, what, count(len(e.Figures.Weeks), "week"))
	g.Width = len(e.Figures.Weeks)*(barWidth+barGap) - barGap
	for i, w := range e.Figures.Weeks {
		n, red, text := of(w)
		b := bar{X: i * (barWidth + barGap), Height: drawn(n, most), Red: drawn(red, most)}
		b.Height = min(b.Height, barHeight-b.Red)
		b.Y = barHeight - b.Height
		b.RedY = b.Y - b.Red
		b.Title = "week of " + w.Start.Format("2006-01-02") + ": " + text
		g.Bars = append(g.Bars, b)
	}
}

// drawn is the height of a number. What is not zero can be seen.
func drawn(n, most int) int {
	if n == 0 {
		return 0
	}
	return max(2, int(int64(n)*barHeight/int64(most)))
}

// timeline is the history of an environment along the time. Places are in percent of its width.
type timeline struct {
	Label string
	Marks []timeMark
	Spans []timeSpan
	Ticks []timeTick
	Kinds []string // of the marks and spans, for the legend
}

// timeMark is a commit of the environment branch.
type timeMark struct {
	At    string
	Kind  string
	Title string
	Event *Event
}

// timeSpan is a freeze or a halt, from its command to its end.
type timeSpan struct {
	From, Width string
	Kind        string
	Title       string
	Row         int // from the top
	end         float64
}

type timeTick struct{ At, Text string }

const timeRows = 3 // rows of freezes and halts

// Below returns the top of a row of spans in pixels.
func (s timeSpan) Below() int { return 34 + s.Row*9 } //nolint:mnd // of the drawing

// Height is that of the drawing, in pixels.
func (t *timeline) Height() int {
	rows := 0
	for _, s := range t.Spans {
		rows = max(rows, s.Row+1)
	}
	return 54 + rows*9 //nolint:mnd // of the drawing
}

// Axis is the place of the line of dates.
func (t *timeline) Axis() int { return t.Height() - 18 } //nolint:mnd // of the drawing

// newTimeline draws the history of an environment until now.
func newTimeline(e *Environment, now time.Time) *timeline {
	if len(e.History) == 0 {
		return nil
	}
	from := now.Add(-time.Hour)
	for i := range e.History {
		if e.History[i].At.Before(from) {
			from = e.History[i].At
		}
	}
	whole := now.Sub(from)
	from = from.Add(-whole / 50) //nolint:mnd // room for the first mark
	whole = now.Sub(from) + whole/50
	place := func(t time.Time) float64 {
		const all = 100
		return min(all, max(0, all*float64(t.Sub(from))/float64(whole)))
	}
	out := &timeline{}
	kinds := map[string]int{}
	for i := len(e.History) - 1; i >= 0; i-- {
		h := &e.History[i]
		if h.Commit != "" {
			kinds[h.Kind]++
			out.Marks = append(out.Marks, timeMark{percent(place(h.At)), h.Kind, h.Kind + ": " + h.What, h})
			continue
		}
		if until, ok := ends(e.History[:i], h, now); ok {
			kinds[h.Kind]++
			out.span(h, place(h.At), place(until))
		}
	}
	for _, kind := range timeKinds() {
		if n := kinds[kind]; n > 0 {
			out.Kinds = append(out.Kinds, kind)
			out.Label += ", " + kindCount(kind, n)
		}
	}
	out.Label = "History of " + e.Name + out.Label + ". The list below has the same."
	form := "2 Jan"
	if whole < 4*24*time.Hour { //nolint:mnd // days
		form = "2 Jan 15:04"
	}
	for i := range 3 {
		at := from.Add(whole * time.Duration(i) / 3) //nolint:mnd // equal parts
		out.Ticks = append(out.Ticks, timeTick{percent(place(at)), at.UTC().Format(form)})
	}
	return out
}

func timeKinds() []string {
	return []string{
		kindHydrate, kindPromote, kindRollback, kindNow, kindForeign,
		string(rollout.EventFreeze), string(rollout.EventHalt),
	}
}

// kindCount writes "3 promotions".
func kindCount(kind string, n int) string {
	switch kind {
	case kindHydrate:
		kind = "hydration"
	case kindPromote:
		kind = "promotion"
	case kindForeign:
		kind = "foreign commit"
	}
	return count(n, kind)
}

// ends returns when a freeze or a halt ended, or now; later are the events after it, newest first. It is false for
// other commands.
func ends(later []Event, h *Event, now time.Time) (time.Time, bool) {
	end, ok := map[string]string{
		string(rollout.EventFreeze): string(rollout.EventUnfreeze), string(rollout.EventHalt): string(rollout.EventResume),
	}[h.Kind]
	if !ok {
		return time.Time{}, false
	}
	until := now
	if !h.Until.IsZero() && h.Until.Before(now) {
		until = h.Until
	}
	for _, l := range slices.Backward(later) {
		if (l.Kind == end || l.Kind == h.Kind) && l.Scope == h.Scope && l.At.Before(until) {
			return l.At, true // another one of the same scope takes its place
		}
	}
	return until, true
}

// span adds a freeze or a halt in the first row that has room for it.
func (t *timeline) span(h *Event, from, to float64) {
	row := 0
	for ; row < timeRows-1; row++ {
		if !slices.ContainsFunc(t.Spans, func(s timeSpan) bool { return s.Row == row && s.end > from }) {
			break
		}
	}
	t.Spans = append(t.Spans, timeSpan{
		From: percent(from), Width: percent(max(0.4, to-from)), Kind: h.Kind, Row: row, end: to, //nolint:mnd // to be seen
		Title: h.What + " by " + h.By,
	})
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", x) }
