package bot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
)

// A fleet has merge requests reviewed only in repositories of its owner, on its forge, that the configuration names and
// whose declaration asks for it.
func TestWhichRepositoriesAFleetReviews(t *testing.T) {
	t.Parallel()
	var swept []string
	b := New(Config{
		PlaceOf: func(address string) (hint.Place, bool) {
			name, ok := strings.CutPrefix(address, "https://")
			return hint.Place(name), ok
		},
		Enqueue: func(_ context.Context, h hint.Hint) error {
			swept = append(swept, fmt.Sprintf("%s %s", h.Kind, h.Place))
			return nil
		},
	})
	j := &task{Bot: b, place: "f:acme/fleet", log: slog.New(slog.DiscardHandler)}
	repository := func(name, place string, reviews bool) *fleet.Repository {
		return &fleet.Repository{Name: name, URL: "https://" + place, Wanted: "refs/heads/main", Reviews: reviews}
	}
	f := &fleet.Fleet{Repositories: []*fleet.Repository{
		repository("components", "f:Acme/components", true),
		repository("quiet", "f:acme/quiet", false),
		repository("another-owner", "f:evil/fleet", true),
		repository("another-forge", "g:acme/components", true),
		repository("itself", "f:acme/fleet", true),
		repository("itself-in-capitals", "f:ACME/Fleet", true),
		{Name: "unknown", URL: "ssh://elsewhere/acme/x", Wanted: "refs/heads/main", Reviews: true},
	}}
	learn := func(f *fleet.Fleet, tree byte) {
		t.Helper()
		swept = nil
		if err := j.learnUses(t.Context(), f, gitstore.Hash{tree}); err != nil {
			t.Fatal(err)
		}
	}
	learn(f, 1)
	if !slices.Equal(swept, []string{"sweep f:Acme/components"}) {
		t.Errorf("swept: %q", swept)
	}
	// a forge ignores the case, and webhooks have its own spelling
	for _, p := range []hint.Place{"f:Acme/components", "f:acme/components", "f:acme/Components"} {
		if !b.Uses(p) {
			t.Errorf("merge requests of %s are not reviewed", p)
		}
	}
	for _, p := range []hint.Place{
		"f:acme/quiet", "f:evil/fleet", "g:acme/components", "F:acme/components",
		"f:acme/fleet", "f:ACME/Fleet",
	} {
		if b.Uses(p) {
			t.Errorf("merge requests of %s are reviewed", p)
		}
	}
	if learn(f, 1); len(swept) > 0 {
		t.Errorf("the same trunk: %q", swept)
	}
	if learn(f, 2); len(swept) != 1 {
		t.Errorf("another trunk: %q", swept)
	}
	if learn(&fleet.Fleet{}, 3); b.Uses("f:Acme/components") {
		t.Error("the fleet no longer has the repository")
	}
}

// consumer is a fleet that takes content from the repository of a bombSpace.
type consumer struct {
	bombSpace
	companion func() (*report.Review, error)
	asked     int
}

func (c *consumer) Companion(context.Context, CompanionRequest) (*report.Review, error) {
	c.asked++
	return c.companion()
}

// A repository that is a fleet itself has its own review and status, whatever happens to the reviews of a fleet that
// takes content from it.
func TestReviewsOfAFleetAndForAnother(t *testing.T) {
	t.Parallel()
	passed := func() *report.Review {
		return &report.Review{Verdict: report.VerdictPass, Changes: &diff.ChangeSet{}}
	}
	for name, c := range map[string]struct {
		own       *report.Review // nil: it exceeds a limit
		companion func() (*report.Review, error)
		fleets    string // the status of the other fleet
		failed    bool
		asked     int // in two tasks
	}{
		"both pass": {
			passed(), func() (*report.Review, error) { return passed(), nil }, "success", false,
			1,
		},
		"own exceeds a limit": {nil, func() (*report.Review, error) { return passed(), nil }, "success", false, 1},
		"other exceeds a limit": {passed(), func() (*report.Review, error) {
			return nil,
				fmt.Errorf("%w: too much memory", ErrStopped)
		}, "failure", false, 1},
		"other refuses": {passed(), func() (*report.Review, error) {
			return nil,
				fmt.Errorf("%w: its trunk is invalid", ErrRefused)
		}, "failure", false, 1},
		"other cannot be read": {
			passed(), func() (*report.Review, error) { return nil, gitstore.ErrNotFound }, "",
			true, 2,
		},
		"other no longer asks": {passed(), func() (*report.Review, error) { return nil, nil }, "", false, 1},
		"other is unknown": {
			passed(), func() (*report.Review, error) { return nil, ErrUnknownForge }, "", false,
			1,
		},
		"other is not rendered": {passed(), func() (*report.Review, error) {
			r := passed()
			r.Verdict, r.Stopped = report.VerdictError, true
			return r, nil
		}, "failure", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			space := &consumer{bombSpace: bombSpace{head: gitstore.Hash{1}, review: c.own}, companion: c.companion}
			f, b := space.bot()
			b.Open = func(context.Context, hint.Place) (*Workspace, error) {
				return &Workspace{Commits: space, Fleets: space, Reviews: space, Close: func() {}}, nil
			}
			b.uses.Set("hub:acme/other", map[hint.Place]companions.Use{"hub:acme/fleet": {
				Fleet: "hub:acme/other",
				Name:  "fleet",
			}})
			for range 2 {
				err := b.Do(t.Context(), hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 7})
				if (err != nil) != c.failed || errors.Is(err, gitstore.ErrNotFound) {
					t.Errorf("the task ends with %v", err)
				}
			}
			last := map[string]forge.StatusState{}
			for _, s := range f.statuses {
				last[s.Context] = s.State
			}
			own := forge.Success
			if c.own == nil {
				own = forge.Failure
			}
			if last["sluice"] != own || string(last["sluice/fleets"]) != c.fleets {
				t.Errorf("statuses: %v", last)
			}
			if space.reviews != 1 || space.asked != c.asked {
				t.Errorf("%d reviews of its own and %d for the other, expected 1 and %d", space.reviews, space.asked,
					c.asked)
			}
		})
	}
}

// shelf records whose reports are kept.
type shelf struct {
	keeper
	kept []string
}

func (s *shelf) Keep(p, fleet hint.Place, _ *forge.MergeRequest, r *report.Review) (string, error) {
	s.kept = append(s.kept, fmt.Sprintf("%s in %s", p, fleet))
	return "https://sluice.example.com/" + fleet.Repo().Path + "/" + r.Head + ".html", nil
}

// The comment of a review for a fleet links to the page of its report, and so does that of the repository's own review.
// A fleet that refuses the review has no page.
func TestReportForAFleetIsLinked(t *testing.T) {
	t.Parallel()
	passed := &report.Review{
		Verdict: report.VerdictWarn, Changes: &diff.ChangeSet{}, Head: gitstore.Hash{1}.String(),
		Findings: report.Findings{Introduced: []report.Finding{{
			Rule: "x", Severity: report.SeverityWarning,
			Message: "m",
		}}},
	}
	for name, c := range map[string]struct {
		companion func() (*report.Review, error)
		kept      string
		links     int
	}{
		"rendered": {
			func() (*report.Review, error) { r := *passed; return &r, nil },
			"hub:acme/fleet in hub:acme/fleet, hub:acme/fleet in hub:acme/other", 2,
		},
		"refused": {func() (*report.Review, error) { return nil, ErrRefused }, "hub:acme/fleet in hub:acme/fleet", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *passed
			space := &consumer{bombSpace: bombSpace{head: gitstore.Hash{1}, review: &own}, companion: c.companion}
			k := &shelf{}
			f := &talkingForge{bombForge: bombForge{mr: forge.MergeRequest{
				Number: 7, Head: space.head.String(),
				State: forge.Open, TargetBranch: "main",
			}}}
			_, b := space.bot()
			b.Reports, b.Forges = k, func(string) (Forge, bool) { return f, true }
			b.Open = func(context.Context, hint.Place) (*Workspace, error) {
				return &Workspace{Commits: space, Fleets: space, Reviews: space, Close: func() {}}, nil
			}
			b.uses.Set("hub:acme/other", map[hint.Place]companions.Use{"hub:acme/fleet": {
				Fleet: "hub:acme/other",
				Name:  "fleet",
			}})
			if err := b.Do(t.Context(), hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 7}); err != nil {
				t.Fatal(err)
			}
			links := 0
			for _, text := range f.comments {
				links += strings.Count(text, space.head.String()+".html>")
			}
			if kept := strings.Join(k.kept, ", "); kept != c.kept || links != c.links {
				t.Errorf("kept %s, %d links in %q", kept, links, f.comments)
			}
		})
	}
}
