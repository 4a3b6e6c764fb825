package publish

import (
	"context"
	"errors"
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

// Log adds what became of a command to the comment's log.
func Log(ctx context.Context, f Forge, repo forge.Repository, number int, id string, entries ...report.CommandEntry) error {
	if len(entries) == 0 {
		return nil
	}
	return edit(ctx, f, repo, number, id, func(body string) string {
		return withBlock(body, blockLog, report.LogBlock(entries, report.LogRows(block(body, blockLog)), logRows))
	})
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
