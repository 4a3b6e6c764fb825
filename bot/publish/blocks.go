package publish

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/report"
)

// The comment is the review, and behind it blocks that live longer: where the merged commit is, and what was commanded. A block's
// delimiters count only as whole lines, and nothing rendered begins a line with one.
const (
	blockJourney = "journey"
	blockLog     = "log"
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
		words := make([]string, len(done))
		for i, n := range done {
			words[i] = strconv.FormatInt(n, 10)
		}
		text := report.LogBlock(entries, report.LogRows(old), logRows)
		return withBlock(body, blockLog, donePrefix+strings.Join(words, " ")+doneSuffix+"\n"+text)
	})
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
