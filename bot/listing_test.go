package bot

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// updates is a forge that lists merge requests by update, and counts its requests.
type updates struct {
	Forge
	all                       []*forge.MergeRequest
	access                    forge.Access
	listed, recent, one, asks int
}

func (u *updates) OpenMergeRequests(context.Context, forge.Repository, string) ([]*forge.MergeRequest, error) {
	u.listed++
	return u.where(func(mr *forge.MergeRequest) bool { return mr.State == forge.Open }), nil
}

func (u *updates) RecentMergeRequests(_ context.Context, _ forge.Repository, since time.Time) ([]*forge.MergeRequest,
	error,
) {
	u.recent++
	return u.where(func(mr *forge.MergeRequest) bool { return !mr.Updated.Before(since) }), nil
}

func (u *updates) MergeRequest(_ context.Context, _ forge.Repository, number int) (*forge.MergeRequest, error) {
	u.one++
	list := u.where(func(mr *forge.MergeRequest) bool { return mr.Number == number })
	if len(list) == 0 {
		return nil, forge.ErrNotFound
	}
	return list[0], nil
}

func (u *updates) Access(context.Context, forge.Repository, string) (forge.Access, error) {
	u.asks++
	return u.access, nil
}

func (u *updates) where(is func(*forge.MergeRequest) bool) []*forge.MergeRequest {
	var out []*forge.MergeRequest
	for _, mr := range u.all {
		if is(mr) {
			one := *mr
			out = append(out, &one)
		}
	}
	return out
}

func listingJob(f Forge, now *time.Time) *task {
	clock := func() time.Time { return *now }
	b := New(Config{Clock: clock, Log: slog.New(slog.DiscardHandler)})
	return &task{
		Bot: b, forge: statusForge{f, "hub:acme/fleet", b.statuses}, place: "hub:acme/fleet",
		settings: Settings{Drafts: true}, log: b.Log,
	}
}

// TestListing: one listing returns the merge request and the others of its head. Later listings ask for updates alone,
// and apply them: what was pushed to has its new head, and what was closed no longer counts. A merge request without an
// update is read by itself.
func TestListing(t *testing.T) {
	t.Parallel()
	now := time.Unix(10_000, 0)
	mr := func(number int, head string, age time.Duration) *forge.MergeRequest {
		return &forge.MergeRequest{
			Number: number, Head: head, Body: "text", State: forge.Open, TargetBranch: "main",
			Updated: now.Add(-age),
		}
	}
	f := &updates{all: []*forge.MergeRequest{mr(1, "a", time.Hour), mr(2, "b", 2*time.Hour), mr(3, "a", 3*time.Hour)}}
	j := listingJob(f, &now)
	task := func() *task {
		return &task{Bot: j.Bot, forge: j.forge, place: j.place, settings: j.settings, log: j.log}
	}
	check := func(what string, number int, head, text string, shared int, listed, recent, one int) {
		t.Helper()
		f.listed, f.recent, f.one = 0, 0, 0
		k := task()
		k.remember(trunkKey, "main")
		got, err := k.listings.read(t.Context(), k.forge, k.place, number)
		if err != nil || got.Head != head || got.Body != text {
			t.Fatalf("%s: the result of read is %+v, the error is %v", what, got, err)
		}
		same, err := k.status(got, verdictOwn).sameHead(t.Context())
		if err != nil || len(same) != shared {
			t.Errorf("%s: %d others have the head, want %d: %v", what, len(same), shared, err)
		}
		if f.listed != listed || f.recent != recent || f.one != one {
			t.Errorf("%s: %d listings, %d listings of updates, %d merge requests read; want %d, %d, %d", what, f.listed,
				f.recent, f.one, listed, recent, one)
		}
	}
	check("the first time", 1, "a", "text", 1, 1, 0, 0)
	check("nothing new", 1, "a", "text", 1, 0, 1, 0)
	check("not updated lately", 3, "a", "text", 1, 0, 1, 1)
	now = now.Add(time.Minute)
	f.all[1].Head, f.all[1].Updated = "a", now
	check("a push", 2, "a", "text", 2, 0, 1, 0)
	now = now.Add(time.Minute)
	f.all[0].State, f.all[0].Updated = forge.Closed, now
	check("another one was closed", 2, "a", "text", 1, 0, 1, 0)
	f.all = append(f.all, mr(4, "d", -time.Hour)) // the forge's clock is ahead
	check("opened", 4, "d", "text", 0, 0, 1, 0)
	check("after a clock that is ahead", 4, "d", "text", 0, 0, 1, 0)
}

// TestListingOfALongTask: a task that took longer than listFresh lists again before it writes.
func TestListingOfALongTask(t *testing.T) {
	t.Parallel()
	now := time.Unix(10_000, 0)
	f := &updates{all: []*forge.MergeRequest{{Number: 1, Head: "a", State: forge.Open, Updated: now}}}
	j := listingJob(f, &now)
	if _, err := j.listings.read(t.Context(), j.forge, j.place, 1); err != nil {
		t.Fatal(err)
	}
	v := verdictForge{statusForge: j.forge, status: headStatus{task: j}}
	f.all[0].Head = "newer"
	for _, c := range []struct {
		wait time.Duration
		head string
	}{{0, "a"}, {listFresh, "newer"}} {
		now = now.Add(c.wait)
		if mr, err := v.MergeRequest(t.Context(), j.place.Repo(), 1); err != nil || mr.Head != c.head {
			t.Errorf("after %s: %+v, %v", c.wait, mr, err)
		}
	}
	f.all[0].State, f.all[0].Updated = forge.Closed, now
	now = now.Add(listFresh)
	if mr, err := v.MergeRequest(t.Context(), j.place.Repo(), 1); err != nil || mr.State != forge.Closed {
		t.Errorf("closed: %+v, %v", mr, err)
	}
}

// TestListingOfASingleRead: what a single read returned is in the listing, although the forge's list shows it later.
func TestListingOfASingleRead(t *testing.T) {
	t.Parallel()
	now := time.Unix(10_000, 0)
	f := &updates{all: []*forge.MergeRequest{
		{Number: 1, Head: "a", State: forge.Open, Updated: now.Add(-time.Hour)},
		{Number: 2, Head: "b", State: forge.Open, Updated: now},
	}}
	j := listingJob(f, &now)
	v := verdictForge{statusForge: j.forge, status: headStatus{task: j}}
	if _, err := j.listings.read(t.Context(), j.forge, j.place, 1); err != nil {
		t.Fatal(err)
	}
	f.all[0].Head = "newer" // and its update is not listed yet
	if mr, err := j.listings.read(t.Context(), j.forge, j.place, 1); err != nil || mr.Head != "newer" || f.one != 1 {
		t.Fatalf("%+v after %d reads, %v", mr, f.one, err)
	}
	if mr, err := v.MergeRequest(t.Context(), j.place.Repo(), 1); err != nil || mr.Head != "newer" {
		t.Errorf("the verdict is of an older head than the review: %+v, %v", mr, err)
	}
	f.all[0].State = forge.Closed
	if _, err := j.listings.read(t.Context(), j.forge, j.place, 1); err != nil {
		t.Fatal(err)
	}
	if open, err := j.listings.open(t.Context(), j.forge, j.place); err != nil || len(open) != 1 {
		t.Errorf("%d merge requests are open after one was closed: %v", len(open), err)
	}
}

// TestListingAfterASweep: a complete listing does not forget the newest update, which may be one of a merge request
// that was closed.
func TestListingAfterASweep(t *testing.T) {
	t.Parallel()
	now := time.Unix(100_000, 0)
	old := now.Add(-10 * time.Hour)
	l := newListings(func() time.Time { return now })
	open := []*forge.MergeRequest{{Number: 1, State: forge.Open, Updated: old}}
	check := func(what string, want time.Time) {
		t.Helper()
		if since, ok := l.since("hub:acme/fleet"); !ok || !since.Equal(want.Add(-listOverlap)) {
			t.Errorf("%s: updates since %s, want those since %s", what, since, want.Add(-listOverlap))
		}
	}
	l.replace("hub:acme/fleet", now, open)
	check("the first sweep", old)
	l.update("hub:acme/fleet", now, []*forge.MergeRequest{{Number: 2, State: forge.Merged, Updated: now}})
	check("a merge", now)
	l.replace("hub:acme/fleet", now.Add(time.Minute), open)
	check("the next sweep", now)
	l.replace("hub:acme/fleet", now, open)
	check("a sweep that began before the last listing", old)
}

// TestAuthorAccess: reviews remember write access for ten minutes, or until a membership event; less than write access
// never.
func TestAuthorAccess(t *testing.T) {
	t.Parallel()
	now := time.Unix(10_000, 0)
	f := &updates{access: forge.AccessRead}
	j := listingJob(f, &now)
	check := func(what string, want forge.Access, asks int) {
		t.Helper()
		f.asks = 0
		if got, err := j.permissions.access(t.Context(), j.forge, j.place, "ada"); err != nil || got != want ||
			f.asks != asks {
			t.Errorf("%s: %s after %d requests, want %s after %d: %v", what, got, f.asks, want, asks, err)
		}
	}
	check("read access", forge.AccessRead, 1)
	f.access = forge.AccessWrite
	check("write access", forge.AccessWrite, 1)
	check("again", forge.AccessWrite, 0)
	f.access = forge.AccessNone
	now = now.Add(accessFresh - time.Second)
	check("after nearly ten minutes", forge.AccessWrite, 0)
	now = now.Add(time.Second)
	check("after ten minutes", forge.AccessNone, 1)
	f.access = forge.AccessWrite
	check("granted", forge.AccessWrite, 1)
	f.access = forge.AccessRead
	j.ForgetAccess()
	check("after an event", forge.AccessRead, 1)
}
