package publish

import (
	"context"
	"errors"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/report"
)

// find lists Sluice's own comments with an id, oldest first, by marker and author. A credential that may not read its
// own user, such as the token of a CI job, belongs to a bot. In that case, comments of all bots with the marker count
// as Sluice's own.
func find(ctx context.Context, f Forge, repo forge.Repository, number int, id string) ([]forge.Comment, error) {
	self, err := f.Self(ctx)
	if err != nil && !errors.Is(err, forge.ErrForbidden) && !errors.Is(err, forge.ErrUnsupported) && !errors.Is(err, forge.ErrNotFound) && !errors.Is(err, forge.ErrUnauthorized) {
		return nil, err
	}
	all, err := f.Comments(ctx, repo, number)
	if err != nil {
		return nil, err
	}
	return own(self, all, id), nil
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
	for _, name := range []string{blockRollout, blockLog, blockWaits} {
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
