package bot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// commentID returns the ID of the comments of a fleet in other repositories. Two fleets never have the same: a slash
// becomes a dot, and a dot of the path %2E.
func commentID(fleet hint.Place) string {
	return strings.NewReplacer("%", "%25", ".", "%2E", "/", ".").Replace(fleet.Repo().Path)
}

// earlierCommentID returns the ID that comments of a fleet had before dots were escaped; "" if it is the same, or
// another fleet of the repository has it now or had it too.
func earlierCommentID(fleet hint.Place, uses []companions.Use) string {
	before := func(p hint.Place) string { return strings.ReplaceAll(p.Repo().Path, "/", ".") }
	if before(fleet) == commentID(fleet) || slices.ContainsFunc(uses,
		func(u companions.Use) bool { return u.Fleet != fleet && before(u.Fleet) == before(fleet) }) {
		return ""
	}
	return before(fleet)
}

// retiredState identifies the fleets that no longer ask for reviews in the repository; "" if there are none.
func (t *task) retiredState() string {
	var b strings.Builder
	for _, fleet := range t.uses.Ended(t.place) {
		b.WriteString(fleet.String() + "\n")
	}
	return b.String()
}

// retire says in the comments of fleets that no longer ask for reviews that nothing updates them. The first comment of
// a repository without a fleet belongs to the first fleet that still asks.
func (t *task) retire(ctx context.Context, mr *forge.MergeRequest, uses []companions.Use, fleetless bool) error {
	over, state := t.uses.Ended(t.place), t.retiredState()
	if t.state(mr.Number).retired == state {
		return nil
	}
	why := func(id, text string, fleet hint.Place) error {
		text = fmt.Sprintf(text, "`"+strings.ReplaceAll(safetext.Line(fleet.Repo().Path), "`", "'")+"`")
		return t.commenting(ctx, mr.Number, func(ctx context.Context) error {
			return publish.Retire(ctx, t.forge, t.place.Repo(), mr.Number, id, text)
		})
	}
	for _, fleet := range over {
		for _, id := range []string{commentID(fleet), earlierCommentID(fleet, uses)} {
			if id == "" {
				continue
			}
			if err := why(id, "The fleet %s no longer asks for reviews of merge requests in this repository.",
				fleet); err != nil {
				return err
			}
		}
	}
	var err error
	switch {
	case len(over) == 0: // the fleets ask again, and their reviews replace the comments
	case fleetless && len(uses) == 0:
		err = why("", "The fleet %s no longer asks for reviews of merge requests in this repository.", over[0])
	case fleetless:
		err = why(commentID(uses[0].Fleet), "The review for the fleet %s is in the first comment of Sluice.",
			uses[0].Fleet)
	}
	if err == nil {
		t.update(mr.Number, func(s *headState) { s.retired = state })
	}
	return err
}
