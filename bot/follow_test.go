package bot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
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

// A host that hangs is asked for a limited time. A fleet that follows itself, or one that follows it, is not followed
// without a review.
func TestWhatIsFollowed(t *testing.T) {
	t.Parallel()
	l := &looking{}
	b := New(Config{
		Clock: time.Now, Log: slog.New(slog.DiscardHandler),
		PlaceOf: func(address string) (hint.Place, bool) {
			path, ok := strings.CutPrefix(address, "https://hub/")
			return hint.NewPlace("hub", path), ok
		},
	})
	j := &task{Bot: b, place: "hub:acme/fleet", log: b.Log, space: &Workspace{Follows: l}}
	b.followers.set("hub:acme/other", map[hint.Place][]string{"hub:acme/fleet": {"main"}})
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
		err := (&follower{trunkTask: trunkTask{task: j}}).one(t.Context(),
			&fleet.Repository{Name: "one", URL: c.url, Follow: c.follow, File: "repositories/one.yaml", Line: 3})
		if asked := len(l.names) > 0; asked != c.asked || asked && (!l.deadline || !errors.Is(err, errHost)) ||
			!asked && (err == nil || !strings.HasPrefix(err.Error(), "repositories/one.yaml:3: ")) {
			t.Errorf("%+v: asked %t, with a deadline %t, %v", c, asked, l.deadline, err)
		}
	}
}

// lookingAt answers by name.
type lookingAt struct {
	Follows
	errs map[string]error
	got  []string
}

func (l *lookingAt) Look(_ context.Context, _ gitstore.Commit, name string) (*Followed, error) {
	l.got = append(l.got, name)
	return &Followed{Stale: true}, l.errs[name]
}

// What fails for one repository does not prevent the others, and the forge does not show what another server answered.
func TestEachIsFollowed(t *testing.T) {
	t.Parallel()
	l := &lookingAt{errs: map[string]error{
		"down":   fmt.Errorf("read merge requests: %w", forge.ErrUnavailable),
		"inside": errors.New("GET http://10.0.0.7/x: password"), "none": &PinError{Text: "no branch x"},
		"refused": &PinError{Text: "let the account push", Err: errors.New("10.0.0.7 says no")},
	}}
	b := New(Config{
		Clock: time.Now, Log: slog.New(slog.DiscardHandler),
		PlaceOf: func(string) (hint.Place, bool) { return "", false },
	})
	j := &task{Bot: b, place: "hub:acme/fleet", log: b.Log, space: &Workspace{Follows: l}}
	f := &fleet.Fleet{}
	for _, name := range []string{"down", "inside", "none", "refused", "fine"} {
		f.Repositories = append(f.Repositories, &fleet.Repository{
			Name: name, URL: "https://hub/acme/" + name,
			Follow: fleet.Follow{MergeRequest: true},
		})
	}
	failed, err := (&follower{trunkTask: trunkTask{task: j}, fleet: f}).each(t.Context())
	if !errors.Is(err, forge.ErrUnavailable) || len(l.got) != 5 {
		t.Errorf("%v; looked at %q", err, l.got)
	}
	want := []string{
		"inside: it cannot be followed: an internal error (the service's log has the error)",
		"none: no branch x", "refused: let the account push",
	}
	if !slices.Equal(failed, want) {
		t.Errorf("the status says %q, want %q", failed, want)
	}
}

// slowly answers after three minutes.
type slowly struct {
	Follows
	now time.Time
	got []string
}

func (s *slowly) Look(_ context.Context, _ gitstore.Commit, name string) (*Followed, error) {
	s.got, s.now = append(s.got, name), s.now.Add(3*time.Minute)
	return &Followed{Stale: true}, nil
}

// Repositories that take long do not keep a worker, and the ones that were left out have their turn.
func TestRepositoriesThatTakeLong(t *testing.T) {
	t.Parallel()
	l := &slowly{now: time.Unix(1000, 0)}
	b := New(Config{
		Clock: func() time.Time { return l.now }, Log: slog.New(slog.DiscardHandler),
		PlaceOf: func(string) (hint.Place, bool) { return "", false },
	})
	j := &task{Bot: b, place: "hub:acme/fleet", log: b.Log, space: &Workspace{Follows: l}}
	f := &fleet.Fleet{}
	for _, name := range []string{"a", "b", "c"} {
		f.Repositories = append(f.Repositories, &fleet.Repository{
			Name: name, URL: "https://hub/acme/" + name,
			Follow: fleet.Follow{MergeRequest: true},
		})
	}
	f.Repositories = append(f.Repositories, &fleet.Repository{Name: "not followed", URL: "https://hub/acme/x"})
	for _, want := range []struct{ got, failed string }{
		{"a b", "others take too long to answer, so Sluice did not ask 1 repository; the next look begins with c"},
		{"c a", "others take too long to answer, so Sluice did not ask 1 repository; the next look begins with b"},
	} {
		l.got = nil
		failed, err := (&follower{trunkTask: trunkTask{task: j}, fleet: f}).each(t.Context())
		if got := strings.Join(l.got, " "); err != nil || got != want.got || strings.Join(failed, "; ") != want.failed {
			t.Errorf("asked %s, not %s; the status says %q: %v", got, want.got, failed, err)
		}
	}
	f.Repositories = f.Repositories[:1]
	for range 2 { // the repository whose turn it is is not followed any more
		if failed, err := (&follower{trunkTask: trunkTask{task: j}, fleet: f}).each(t.Context()); err != nil ||
			len(failed) > 0 {
			t.Errorf("%q: the error is %v", failed, err)
		}
	}
}

// Fleets that follow each other are found through others, in any spelling.
func TestReaches(t *testing.T) {
	t.Parallel()
	f := newFollowers()
	f.set("hub:Acme/One", map[hint.Place][]string{"hub:acme/two": {"main"}})
	f.set("hub:acme/two", map[hint.Place][]string{"hub:acme/three": {"main"}, "hub:acme/two": {"main"}})
	f.set("hub:acme/three", map[hint.Place][]string{"hub:acme/one": {"main"}})
	for pair, want := range map[[2]hint.Place]bool{
		{"hub:acme/two", "hub:acme/One"}: true, {"hub:acme/one", "hub:acme/ONE"}: true,
		{"hub:acme/four", "hub:acme/one"}: false, {"hub:acme/one", "hub:acme/four"}: false,
	} {
		if got := f.reaches(pair[0], pair[1]); got != want {
			t.Errorf("%v: the result of reaches is %t", pair, got)
		}
	}
	b := New(Config{Clock: time.Now})
	b.followers = f
	if got := b.Followers("hub:ACME/two"); len(got) != 2 || got[0] != "hub:Acme/One" {
		t.Errorf("followers %v", got)
	}
	f.set("hub:acme/four", map[hint.Place][]string{"hub:acme/two": {"", "old"}})
	for branch, want := range map[string]string{
		"main": "hub:Acme/One hub:acme/two", "": "hub:acme/four",
		"old": "hub:acme/four", "other": "",
	} {
		var names []string
		for _, p := range b.FollowersOf("hub:acme/Two", branch) {
			names = append(names, string(p))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("a push to %q concerns %q, want %q", branch, got, want)
		}
	}
	f.set("hub:Acme/One", nil)
	if f.reaches("hub:acme/one", "hub:acme/two") {
		t.Error("a fleet that follows nothing any more still does")
	}
	if !f.reaches("hub:acme/two", "hub:acme/one") {
		t.Error("the other fleet no longer follows this one")
	}
}

// movingForge has merge requests that are not open.
type movingForge struct {
	talkingForge
	recent []*forge.MergeRequest
	opened int
}

func (f *movingForge) RecentMergeRequests(context.Context, forge.Repository, time.Time) ([]*forge.MergeRequest, error) {
	return f.recent, nil
}

func (f *movingForge) CreateMergeRequest(_ context.Context, _ forge.Repository,
	r forge.NewRequest,
) (*forge.MergeRequest, error) {
	f.opened++
	return &forge.MergeRequest{Number: 2, SourceBranch: r.SourceBranch}, nil
}

// moving counts how often it moves a branch.
type moving struct {
	Follows
	moved int
}

func (m *moving) Move(context.Context, gitstore.Commit, *Followed) (string, error) {
	m.moved++
	return "new", nil
}

// following returns a task that follows repositories.
func following(hub Forge, m Follows) *task {
	b := New(Config{
		Clock: time.Now, Log: slog.New(slog.DiscardHandler),
		Enqueue: func(context.Context, hint.Hint) error { return nil },
	})
	return &task{
		Bot: b, forge: statusForge{hub, "hub:acme/fleet", newStatuses(time.Now)}, place: "hub:acme/fleet",
		log: b.Log, space: &Workspace{Follows: m},
	}
}

// A declined commit stays declined while it is the newest, whatever else the trunk's sluice.lock pins meanwhile. Only a
// merge request to the trunk says what becomes of the branch.
func TestDeclinedPins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f       Followed
		state   forge.State
		target  string
		moves   int
		refused bool
	}{
		"declined":                        {Followed{Same: true, UpToDate: true}, forge.Closed, "main", 0, false},
		"declined, another pin moved":     {Followed{Same: true}, forge.Closed, "main", 0, false},
		"merged, and undone on the trunk": {Followed{Same: true}, forge.Merged, "main", 0, false},
		"a newer commit":                  {Followed{}, forge.Closed, "main", 1, false},
		"closed for another branch":       {Followed{Same: true}, forge.Closed, "release", 1, false},
		"a person's, merged elsewhere":    {Followed{By: "Ada"}, forge.Merged, "release", 0, true},
		"a person's, squashed and merged": {Followed{By: "Ada"}, forge.Merged, "main", 1, false},
	} {
		f := c.f
		f.Name, f.Branch, f.Target, f.Head, f.To = "components", "sluice-follow/components", "main", "old", "v2"
		hub, m := &movingForge{recent: []*forge.MergeRequest{{
			State: c.state, SourceBranch: f.Branch,
			TargetBranch: c.target, Head: f.Head,
		}}}, &moving{}
		j := following(hub, m)
		for range 2 - c.moves { // the second time with what the process remembers
			again := f
			if err := (&follower{trunkTask: trunkTask{task: j}}).keepRequest(t.Context(), &again,
				nil); (err != nil) != c.refused {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
		if m.moved != c.moves || hub.opened != c.moves {
			t.Errorf("%s: the branch moved %d times, %d merge requests opened, want %d", name, m.moved, hub.opened,
				c.moves)
		}
	}
}

// Each of several replicas writes what it finds, also if another one wrote something else since.
func TestFollowStatusOfReplicas(t *testing.T) {
	t.Parallel()
	shared := &talkingForge{}
	one, two := following(shared, nil), following(shared, nil)
	for i, step := range []struct {
		j      *task
		failed []string
		want   int // statuses so far
	}{
		{two, nil, 0},
		{one, []string{"gone"}, 1},
		{one, []string{"gone"}, 1},
		{two, []string{"gone"}, 1},
		{two, nil, 2},
		{one, nil, 2},
		{one, []string{"gone"}, 3},
		{two, nil, 4},
		{one, []string{"gone"}, 5},
	} {
		if err := (&follower{trunkTask: trunkTask{task: step.j}}).report(t.Context(), step.failed); err != nil {
			t.Fatal(err)
		}
		state := forge.Success
		if len(step.failed) > 0 {
			state = forge.Failure
		}
		if n := len(shared.statuses); n != step.want || n > 0 && step.want > 0 && shared.statuses[n-1].State != state {
			t.Errorf("step %d: %+v", i, shared.statuses)
		}
	}
}
