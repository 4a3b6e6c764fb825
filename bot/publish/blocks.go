package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/report"
)

// The comment is the review, and behind it blocks that live longer: where the merged commit is, and what was commanded. A block's
// delimiters count only as whole lines, and nothing rendered begins a line with one.
const (
	blockJourney = "journey"
	blockLog     = "log"
	blockWaits   = "waits" // until the next review
	logRows      = 20
)

func opening(name string) string { return "<!-- sluice-" + name + " -->" }
func closing(name string) string { return "<!-- /sluice-" + name + " -->" }

// block reads a block of a comment.
func block(body, name string) string {
	_, rest, ok := strings.Cut("\n"+strings.ReplaceAll(body, "\r\n", "\n"), "\n"+opening(name)+"\n")
	if !ok {
		return ""
	}
	text, _, ok := strings.Cut(rest, "\n"+closing(name))
	if !ok {
		return ""
	}
	return text
}

// blocks are all blocks of a comment, to be put behind a new review.
func blocks(body string) string {
	var out strings.Builder
	for _, name := range []string{blockJourney, blockLog} {
		if text := block(body, name); text != "" {
			out.WriteString("\n" + opening(name) + "\n" + text + "\n" + closing(name) + "\n")
		}
	}
	return out.String()
}

// withBlock replaces or adds a block.
func withBlock(body, name, text string) string {
	body = strings.ReplaceAll(body, "\r\n", "\n")
	whole := "\n" + opening(name) + "\n" + strings.Trim(text, "\n") + "\n" + closing(name) + "\n"
	old := block(body, name)
	if old == "" {
		return strings.TrimRight(body, "\n") + "\n" + whole
	}
	return strings.Replace(body, "\n"+opening(name)+"\n"+old+"\n"+closing(name)+"\n", whole, 1)
}

// Journey brings the journey in a merge request's comment up to date. Without a comment one is made.
func Journey(ctx context.Context, f Forge, repo forge.Repository, number int, id string, rows []report.JourneyRow) error {
	return edit(ctx, f, repo, number, id, func(body string) string { return withBlock(body, blockJourney, report.JourneyBlock(rows)) })
}

// Log adds what became of a comment's commands to the log, and that the comment is done.
func Log(ctx context.Context, f Forge, repo forge.Repository, number int, comment int64, entries ...report.CommandEntry) error {
	return edit(ctx, f, repo, number, "", func(body string) string {
		old := block(body, blockLog)
		if slices.Contains(logged(old), comment) {
			return body
		}
		done := append(logged(old), comment)
		done = done[max(0, len(done)-handled):]
		text := report.LogBlock(entries, report.LogRows(old), logRows)
		return withBlock(body, blockLog, doneLine(done)+text)
	})
}

// Forget makes a comment one whose commands are not done, so that Log takes what becomes of them when they are tried again.
func Forget(ctx context.Context, f Forge, repo forge.Repository, number int, comment int64) error {
	return edit(ctx, f, repo, number, "", func(body string) string {
		old := block(body, blockLog)
		done := logged(old)
		i := slices.Index(done, comment)
		if i < 0 {
			return body
		}
		_, rest, _ := strings.Cut(strings.TrimLeft(old, "\n"), "\n")
		return withBlock(body, blockLog, doneLine(slices.Delete(done, i, i+1))+rest)
	})
}

func doneLine(done []int64) string {
	words := make([]string, len(done))
	for i, n := range done {
		words[i] = strconv.FormatInt(n, 10)
	}
	return donePrefix + strings.Join(words, " ") + doneSuffix + "\n"
}

// Answer writes a comment of its own, once for each id: text is not asked for when it is there.
func Answer(ctx context.Context, f Forge, repo forge.Repository, number int, id string, text func() (string, error)) error {
	own, err := find(ctx, f, repo, number, id)
	if err != nil || len(own) > 0 {
		return err
	}
	body, err := text()
	if err != nil {
		return err
	}
	return create(ctx, f, repo, number, id, report.Marker(report.MarkerInfo{ID: id})+"\n"+body)
}

// Waits says in the comment that a head waits for trust, and remembers since when it is the merge request's. What is remembered of
// the same head stays; any other head is seen anew, also one that was there before.
func Waits(ctx context.Context, f Forge, repo forge.Repository, number int, head string, since time.Time) error {
	return edit(ctx, f, repo, number, "", func(body string) string {
		if have, _ := waiting(body); have == head {
			return body
		}
		return withBlock(body, blockWaits, fmt.Sprintf("%s%s %s%s\n⏳ `%.10s` is not rendered: its author may not write here. Whoever may, and has looked at it, lets Sluice render it by the comment `/sluice trust`.",
			waitsPrefix, head, since.UTC().Format(time.RFC3339Nano), doneSuffix, head))
	})
}

// Waiting is the head that waits for trust, and since when it is the merge request's; "" if none does.
func Waiting(ctx context.Context, f Forge, repo forge.Repository, number int) (head string, since time.Time, err error) {
	own, err := find(ctx, f, repo, number, "")
	if err != nil || len(own) == 0 {
		return "", time.Time{}, err
	}
	head, since = waiting(own[0].Body)
	return head, since, nil
}

const waitsPrefix = "<!-- head "

func waiting(body string) (head string, since time.Time) {
	line, _, _ := strings.Cut(strings.TrimLeft(block(body, blockWaits), "\n"), "\n")
	line, ok := strings.CutPrefix(strings.TrimSpace(line), waitsPrefix)
	head, text, _ := strings.Cut(strings.TrimSuffix(line, doneSuffix), " ")
	since, err := time.Parse(time.RFC3339Nano, text)
	if !ok || err != nil {
		return "", time.Time{}
	}
	return head, since
}

// handled is how many comments the log remembers as done.
const (
	handled    = 200
	donePrefix = "<!-- done "
	doneSuffix = " -->"
)

// logged are the comments that a log's block has as done.
func logged(log string) []int64 {
	line, _, _ := strings.Cut(strings.TrimLeft(log, "\n"), "\n")
	list, ok := strings.CutPrefix(line, donePrefix)
	if !ok {
		return nil
	}
	var out []int64
	for word := range strings.FieldsSeq(strings.TrimSuffix(list, doneSuffix)) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// Logged says whether a comment's commands are done.
func Logged(ctx context.Context, f Forge, repo forge.Repository, number int, comment int64) (bool, error) {
	own, err := find(ctx, f, repo, number, "")
	if err != nil || len(own) == 0 {
		return false, err
	}
	return slices.Contains(logged(block(own[0].Body, blockLog)), comment), nil
}

// Handled are the comments whose commands are done, as Sluice's own log among a merge request's comments has it.
func Handled(self forge.User, all []forge.Comment) []int64 {
	mine := own(self, all, "")
	if len(mine) == 0 {
		return nil
	}
	return logged(block(mine[0].Body, blockLog))
}

// edit changes the comment, and writes it only if that changes anything.
func edit(ctx context.Context, f Forge, repo forge.Repository, number int, id string, change func(body string) string) error {
	own, err := find(ctx, f, repo, number, id)
	if err != nil {
		return err
	}
	if len(own) == 0 {
		return create(ctx, f, repo, number, id, change(report.Marker(report.MarkerInfo{ID: id})))
	}
	old := strings.ReplaceAll(own[0].Body, "\r\n", "\n")
	body := change(old)
	if strings.TrimSpace(body) == strings.TrimSpace(old) {
		return nil
	}
	err = f.EditComment(ctx, repo, number, own[0].ID, body)
	if errors.Is(err, forge.ErrTooLong) { // the review gives way: it can be made again
		var kept string
		if info, ok := report.ParseMarker(old); ok {
			kept = report.Marker(info)
		}
		return f.EditComment(ctx, repo, number, own[0].ID, change(kept+"\n"+blocks(old)))
	}
	return err
}
