package bot

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// What is not newer is said so in the title and in the description, with both commits, and the description is known
// again.
func TestDescriptionOfAMoveBack(t *testing.T) {
	t.Parallel()
	f := &Followed{
		Name: "components", URL: "https://hub/acme/components", From: "v1.4.0", To: "v1.4.0",
		Was: strings.Repeat("1", 40), Commit: strings.Repeat("2", 40), Back: "moved",
	}
	if title := requestTitle(f); title != "components: v1.4.0 → v1.4.0 (moved)" {
		t.Error(title)
	}
	body := ownPart(f, followKeeps)
	if !strings.Contains(body, "v1.4.0 at "+f.Was+"\n") || !strings.Contains(body, "v1.4.0 (moved)\n") ||
		!strings.Contains(body, f.Commit) {
		t.Errorf("the description\n%s", body)
	}
	if known, people := splitDescription(body + "\nmine\n"); known == nil || strings.TrimSpace(people) != "mine" {
		t.Errorf("read again: %+v, %q", known, people)
	}
}

type backward struct {
	Follows
	committed bool
}

func (*backward) Look(context.Context, gitstore.Commit, string) (*Followed, error) {
	return &Followed{
		Name: "one", From: "v1.5.0", To: "v1.4.0", Was: strings.Repeat("1", 40),
		Commit: strings.Repeat("2", 40), Back: "lower",
	}, nil
}

func (b *backward) Commit(context.Context, gitstore.Commit, *Followed) error {
	b.committed = true
	return nil
}

// What is not newer is not committed to the trunk.
func TestNoCommitOfAMoveBack(t *testing.T) {
	t.Parallel()
	b := New(Config{
		Clock: time.Now, Log: slog.New(slog.DiscardHandler),
		PlaceOf: func(string) (hint.Place, bool) { return "", false },
	})
	space := &backward{}
	j := &task{Bot: b, place: "hub:acme/fleet", log: b.Log, space: &Workspace{Follows: space}}
	err := (&follower{trunkTask: trunkTask{task: j}}).one(t.Context(),
		&fleet.Repository{Name: "one", URL: "https://hub/acme/one", Follow: fleet.Follow{Commit: true}})
	if err == nil || !strings.Contains(err.Error(), "lower") ||
		!strings.Contains(err.Error(), "sluice deps update one") || space.committed {
		t.Errorf("%v, committed %t", err, space.committed)
	}
}

// The repository of a fleet's rendered branches counts as the fleet: each commit of the trunk starts one there.
func TestOutputsAreFollowed(t *testing.T) {
	t.Parallel()
	f := newFollowers()
	f.output("hub:acme/fleet", "hub:Acme/Rendered")
	f.set("hub:acme/other", map[hint.Place][]string{"hub:acme/rendered": {"main"}})
	f.output("hub:acme/other", "hub:acme/built")
	for pair, want := range map[[2]hint.Place]bool{
		{"hub:acme/other", "hub:acme/fleet"}: true, {"hub:acme/built", "hub:acme/fleet"}: true,
		{"hub:acme/rendered", "hub:acme/other"}: false,
	} {
		if got := f.reaches(pair[0], pair[1]); got != want {
			t.Errorf("%v: the result of reaches is %t", pair, got)
		}
	}
	if !f.is("hub:acme/rendered", "hub:Acme/Fleet") || f.is("hub:acme/other", "hub:acme/fleet") {
		t.Error("the output of a fleet is not known")
	}
}
