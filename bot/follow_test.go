package bot

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// looking records how it is asked.
type looking struct {
	Follows
	names    []string
	deadline bool
}

var errHost = errors.New("the host does not answer")

func (l *looking) Look(ctx context.Context, _ gitstore.Commit, name string) (*Followed, error) {
	_, l.deadline = ctx.Deadline()
	l.names = append(l.names, name)
	return nil, errHost
}

// A host that hangs is asked for a limited time. A fleet that follows itself, or one that follows it, is not followed without a review.
func TestWhatIsFollowed(t *testing.T) {
	t.Parallel()
	l := &looking{}
	b := New(Config{Clock: time.Now, Log: slog.New(slog.DiscardHandler), PlaceOf: func(address string) (hint.Place, bool) {
		path, ok := strings.CutPrefix(address, "https://hub/")
		return hint.NewPlace("hub", path), ok
	}})
	j := &job{Bot: b, place: "hub:acme/fleet", log: b.Log, space: &Workspace{Follows: l}}
	b.followers.set("hub:acme/other", map[hint.Place]bool{"hub:acme/fleet": true})
	for _, c := range []struct {
		url    string
		follow fleet.Follow
		asked  bool
	}{
		{"https://hub/acme/components", fleet.Follow{Commit: true}, true},
		{"https://elsewhere/acme/components", fleet.Follow{Commit: true}, true},
		{"https://hub/acme/other", fleet.Follow{MergeRequest: true}, true},
		{"https://hub/acme/other", fleet.Follow{Commit: true}, false},
		{"https://hub/Acme/Fleet", fleet.Follow{Commit: true}, false},
		{"https://hub/Acme/Fleet", fleet.Follow{MergeRequest: true}, false},
	} {
		l.names = nil
		err := followOne(t.Context(), j, gitstore.Commit{}, &fleet.Repository{Name: "one", URL: c.url, Follow: c.follow, File: "repositories/one.yaml", Line: 3})
		if asked := len(l.names) > 0; asked != c.asked || asked && (!l.deadline || !errors.Is(err, errHost)) || !asked && (err == nil || !strings.HasPrefix(err.Error(), "repositories/one.yaml:3: ")) {
			t.Errorf("%+v: asked %t, with a deadline %t, %v", c, asked, l.deadline, err)
		}
	}
}

// Fleets that follow each other are found through others, in any spelling.
func TestReaches(t *testing.T) {
	t.Parallel()
	f := newFollowers()
	f.set("hub:Acme/One", map[hint.Place]bool{"hub:acme/two": true})
	f.set("hub:acme/two", map[hint.Place]bool{"hub:acme/three": true, "hub:acme/two": true})
	f.set("hub:acme/three", map[hint.Place]bool{"hub:acme/one": true})
	for pair, want := range map[[2]hint.Place]bool{
		{"hub:acme/two", "hub:acme/One"}: true, {"hub:acme/one", "hub:acme/ONE"}: true, {"hub:acme/four", "hub:acme/one"}: false, {"hub:acme/one", "hub:acme/four"}: false,
	} {
		if got := f.reaches(pair[0], pair[1]); got != want {
			t.Errorf("%v: %t", pair, got)
		}
	}
	b := New(Config{Clock: time.Now})
	b.followers = f
	if got := b.Followers("hub:ACME/two"); len(got) != 2 || got[0] != "hub:Acme/One" {
		t.Errorf("followers %v", got)
	}
	f.set("hub:Acme/One", nil)
	if f.reaches("hub:acme/two", "hub:acme/one") != true || f.reaches("hub:acme/one", "hub:acme/two") {
		t.Error("a fleet that follows nothing any more still does")
	}
}
