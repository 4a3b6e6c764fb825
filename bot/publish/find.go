package publish

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/report"
)

// find lists Sluice's own comments with an id, oldest first, by marker and author. A credential that may not read its
// own user, such as the token of a CI job, belongs to a bot. In that case, comments of all bots with the marker count
// as Sluice's own.
func find(ctx context.Context, f Forge, repo forge.Repository, number int, id string) ([]forge.Comment, error) {
	self, err := f.Self(ctx)
	if err != nil && !errors.Is(err, forge.ErrForbidden) && !errors.Is(err, forge.ErrUnsupported) &&
		!errors.Is(err, forge.ErrNotFound) && !errors.Is(err, forge.ErrUnauthorized) {
		return nil, err
	}
	all, err := f.Comments(ctx, repo, number)
	if err != nil {
		return nil, err
	}
	return own(self, all, id), nil
}

// one returns Sluice's own comment with an id; nil if there is none. Several processes can have created several. It
// unites them in the oldest.
func one(ctx context.Context, f Forge, repo forge.Repository, number int, id string) (*forge.Comment, error) {
	own, err := find(ctx, f, repo, number, id)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	first := own[0]
	if len(own) == 1 {
		return &first, nil
	}
	first.Body = united(own)
	err = f.EditComment(ctx, repo, number, first.ID, first.Body)
	if errors.Is(err, forge.ErrTooLong) { // drop the review, which can be created again
		first.Body = report.Marker(report.MarkerInfo{ID: id}) + "\n" + blocks(first.Body)
		err = f.EditComment(ctx, repo, number, first.ID, first.Body)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range own[1:] {
		if err := f.DeleteComment(ctx, repo, number, c.ID); err != nil && !errors.Is(err, forge.ErrNotFound) {
			return nil, err
		}
	}
	return &first, nil
}

// united returns the text of several comments in one: the first review, the first of each block, and the commands of
// all.
func united(own []forge.Comment) string {
	text := own[0].Body
	for _, c := range own {
		if info, ok := report.ParseMarker(c.Body); ok && info.Head != "" {
			text = c.Body
			break
		}
	}
	var done []int64
	var rows []string
	for _, c := range own {
		for _, name := range []string{blockRollout, blockWaits} {
			if have := block(c.Body, name); have != "" && block(text, name) == "" {
				text = withBlock(text, name, have)
			}
		}
		text = withAsked(text, asked(c.Body))
		log := block(c.Body, blockLog)
		done, rows = append(done, logged(log)...), append(rows, report.LogRows(log)...)
	}
	if len(done) > 0 {
		slices.Sort(done)
		text = withBlock(text, blockLog, doneLine(slices.Compact(done))+report.LogBlock(nil, rows, logRows))
	}
	return text
}

// own lists Sluice's own comments with an id. If none has the marker, it returns the oldest comment that lost it
// in an edit, so that the caller replaces that comment.
func own(self forge.User, all []forge.Comment, id string) []forge.Comment {
	var out []forge.Comment
	for _, c := range all {
		info, ok := report.ParseMarker(c.Body)
		if !ok || info.ID != id {
			continue
		}
		if self.Login != "" && strings.EqualFold(c.Author.Login, self.Login) || self.Login == "" && c.Author.Bot {
			out = append(out, c)
		}
	}
	if len(out) > 0 || self.Login == "" {
		return out
	}
	for _, c := range all {
		if strings.EqualFold(c.Author.Login, self.Login) && lost(c) {
			return []forge.Comment{c}
		}
	}
	return nil
}

func marked(c forge.Comment) bool {
	_, ok := report.ParseMarker(c.Body)
	return ok
}

// lost reports whether a comment without a marker is one of Sluice's: it begins with the headline, or it has a block.
// The caller checks the author.
func lost(c forge.Comment) bool {
	if marked(c) {
		return false
	}
	for _, name := range []string{blockRollout, blockLog, blockWaits, blockAsked} {
		if block(c.Body, name) != "" {
			return true
		}
	}
	for line := range strings.Lines(c.Body) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "<!--") { // part of a damaged marker
			return strings.HasPrefix(line, report.Heading)
		}
	}
	return false
}
