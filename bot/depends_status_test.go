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

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
)

// pairForge has merge requests by repository and number, keeps statuses by commit, and counts the requests that it
// gets.
type pairForge struct {
	talkingForge
	mrs   map[string]*forge.MergeRequest
	calls int
	fails error // of reading merge requests other than those of acme/fleet
}

func (f *pairForge) MergeRequest(_ context.Context, r forge.Repository, n int) (*forge.MergeRequest, error) {
	f.calls++
	if f.fails != nil && r.Path != "acme/fleet" {
		return nil, f.fails
	}
	if mr := f.mrs[fmt.Sprintf("%s %d", r.Path, n)]; mr != nil {
		c := *mr
		return &c, nil
	}
	return nil, forge.ErrNotFound
}

func (f *pairForge) OpenMergeRequests(_ context.Context, r forge.Repository, _ string) ([]*forge.MergeRequest, error) {
	f.calls++
	if f.fails != nil && r.Path != "acme/fleet" {
		return nil, f.fails
	}
	var out []*forge.MergeRequest
	for k, mr := range f.mrs {
		if strings.HasPrefix(k, r.Path+" ") && mr.State == forge.Open {
			c := *mr
			out = append(out, &c)
		}
	}
	return out, nil
}

func (f *pairForge) RecentMergeRequests(_ context.Context, r forge.Repository, since time.Time) ([]*forge.MergeRequest,
	error,
) {
	f.calls++
	if f.fails != nil && r.Path != "acme/fleet" {
		return nil, f.fails
	}
	var out []*forge.MergeRequest
	for k, mr := range f.mrs {
		if strings.HasPrefix(k, r.Path+" ") && mr.Updated.After(since) {
			c := *mr
			out = append(out, &c)
		}
	}
	return out, nil
}

func (f *pairForge) Access(_ context.Context, _ forge.Repository, login string) (forge.Access, error) {
	f.calls++
	if login == "ada" {
		return forge.AccessWrite, nil
	}
	return forge.AccessRead, nil
}

func (f *pairForge) CommitStatuses(_ context.Context, _ forge.Repository, commit string) ([]forge.Status, error) {
	f.calls++
	var out []forge.Status
	for i, s := range f.statuses {
		if f.commits[i] == commit {
			out = append(out, s)
		}
	}
	return out, nil
}

func (f *pairForge) Statuses(ctx context.Context, r forge.Repository, commit string) ([]forge.Status, error) {
	return f.CommitStatuses(ctx, r, commit)
}

func (f *pairForge) CheckRuns(ctx context.Context, r forge.Repository, commit string) ([]forge.Status, error) {
	all, err := f.CommitStatuses(ctx, r, commit)
	return slices.DeleteFunc(all, func(s forge.Status) bool { return !s.Check }), err
}

// state returns the newest status of a commit in a context, with its description.
func (f *pairForge) state(commit, context string) string {
	out := ""
	for i, s := range f.statuses {
		if f.commits[i] == commit && s.Context == context {
			out = string(s.State) + " " + s.Description
		}
	}
	return out
}

func (f *pairForge) SetCheck(_ context.Context, _ forge.Repository, c forge.Check) error {
	f.statuses = append(f.statuses, forge.Status{
		Context: c.Name, State: c.State, Description: c.Title, Check: true,
		Author: forge.User{Login: "sluice"},
	})
	f.commits = append(f.commits, c.Commit)
	return nil
}

// trust records that somebody trusts a head.
func (f *pairForge) trust(commit string) {
	f.statuses = append(f.statuses, forge.Status{
		Context: trustContext, State: forge.Success, Description: "ada",
		Author: forge.User{Login: "sluice"},
	})
	f.commits = append(f.commits, commit)
}

// pairSpace is a fleet that declares a repository.
type pairSpace struct {
	bombSpace
	fleet     *fleet.Fleet
	companion func() (*report.Review, error)
	lags      bool // Git does not have the head yet
}

func (p *pairSpace) Revision(ctx context.Context, revision string, _ ...string) (gitstore.Commit, error) {
	if p.lags && revision == "head" {
		return gitstore.Commit{}, gitstore.ErrNoRef
	}
	return p.bombSpace.Revision(ctx, revision)
}

func (p *pairSpace) Fleet(context.Context, gitstore.Hash) (*fleet.Fleet, fleet.Problems, error) {
	return p.fleet, nil, nil
}

func (p *pairSpace) Companion(context.Context, CompanionRequest) (*report.Review, error) {
	return p.companion()
}
func (p *pairSpace) DropPreview(context.Context, string) error { return nil }

// pair is a service of two replicas with merge request 7 of acme/fleet, and 3 of acme/one, which the fleet declares.
type pair struct {
	t        *testing.T
	forge    *pairForge
	replicas []*Bot
	fleet    *forge.MergeRequest
	one      *forge.MergeRequest
	space    *pairSpace
	other    *pairSpace // of acme/one
	enqueued []int
	now      time.Time
}

const dependsOnOne = "Depends-On: https://hub/acme/one/pull/3"

func newPair(t *testing.T, verdicts Verdicts) *pair {
	t.Helper()
	h1, h2 := gitstore.Hash{1}, gitstore.Hash{2}
	request := func(number int, head gitstore.Hash) *forge.MergeRequest {
		return &forge.MergeRequest{
			Number: number, Head: head.String(), State: forge.Open, TargetBranch: "main",
			Author: forge.User{Login: "ada"}, Updated: time.Unix(100, 0),
		}
	}
	p := &pair{t: t, fleet: request(7, h1), one: request(3, h2), now: time.Unix(1000, 0)}
	p.forge = &pairForge{mrs: map[string]*forge.MergeRequest{"acme/fleet 7": p.fleet, "acme/one 3": p.one}}
	f := &fleet.Fleet{Repositories: []*fleet.Repository{{
		Name: "one", URL: "https://hub/acme/one",
		Wanted: "refs/heads/main",
	}}}
	f.Spec.Trunk = "main"
	passed := &report.Review{Verdict: report.VerdictPass, Changes: &diff.ChangeSet{}}
	p.space = &pairSpace{bombSpace: bombSpace{head: h1, review: passed}, fleet: f}
	p.other = &pairSpace{bombSpace: bombSpace{head: h2, review: passed}, fleet: f}
	for range 2 {
		p.replicas = append(p.replicas, New(Config{
			Verdicts: verdicts,
			Clock:    func() time.Time { return p.now }, Log: slog.New(slog.DiscardHandler),
			Forges:   func(string) (Forge, bool) { return p.forge, true },
			Settings: func(hint.Place) Settings { return Settings{Context: "sluice", Drafts: true} },
			Enqueue: func(_ context.Context, h hint.Hint) error {
				p.enqueued = append(p.enqueued,
					h.Number)
				return nil
			},
			PlaceOf: func(a string) (hint.Place, bool) {
				host, path, ok := strings.Cut(strings.TrimPrefix(a, "https://"), "/")
				return hint.NewPlace(host, path), ok
			},
			Open: func(_ context.Context, at hint.Place) (*Workspace, error) {
				s := p.space
				if at == "hub:acme/one" {
					s = p.other
				}
				return &Workspace{Commits: s, Fleets: s, Reviews: s, Close: func() {}}, nil
			},
		}))
	}
	return p
}

// review has a replica review a merge request of the fleet.
func (p *pair) review(replica, number int) {
	p.t.Helper()
	if err := p.replicas[replica].Do(p.t.Context(), hint.Hint{
		Place: "hub:acme/fleet", Kind: hint.Review,
		Number: number,
	}); err != nil {
		p.t.Fatal(err)
	}
}

// describe changes the description of the fleet's merge request and has a replica review it.
func (p *pair) describe(replica int, body string) {
	p.t.Helper()
	p.now = p.now.Add(time.Minute)
	p.fleet.Body, p.fleet.Updated = body, p.now
	p.review(replica, 7)
}

// is checks the beginning of the status of a head.
func (p *pair) is(commit, context, want, when string) {
	p.t.Helper()
	if got := p.forge.state(commit, context); !strings.HasPrefix(got, want) {
		p.t.Errorf("%s: the status %s is %q, not %s", when, context, got, want)
	}
}

// unchanged reports whether a sweep of the first replica leaves out the fleet's merge request.
func (p *pair) unchanged() bool {
	b := p.replicas[0]
	j := &task{
		Bot: b, forge: statusForge{p.forge, "hub:acme/fleet", b.statuses}, place: "hub:acme/fleet",
		settings: b.Settings("hub:acme/fleet"), log: b.Log,
	}
	mr := *p.fleet
	return (&sweepTask{task: j}).unchanged(p.t.Context(), &mr)
}

// A replica that reviewed a merge request with its dependencies does not go by that review after another replica
// reviewed it without them.
func TestDependenciesComeBackOnAnotherReplica(t *testing.T) {
	t.Parallel()
	p := newPair(t, newOwnVerdicts())
	p.describe(0, dependsOnOne)
	p.is(p.fleet.Head, "sluice", "pending", "with the line")
	if !p.unchanged() {
		t.Error("a sweep reviews it again although nothing changed")
	}
	p.describe(1, "")
	p.is(p.fleet.Head, "sluice", "success", "without it")
	p.fleet.Body = dependsOnOne
	if p.unchanged() {
		t.Error("the sweep of the first replica takes the status of the second one for its own")
	}
	p.describe(0, dependsOnOne)
	p.is(p.fleet.Head, "sluice", "pending", "with the line again")
}

// A review for another fleet that fails does not have the own review forget what it depended on.
func TestDependenciesComeBackAfterAnotherReviewFailed(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	var fail error
	p.space.companion = func() (*report.Review, error) {
		return &report.Review{Verdict: report.VerdictPass, Changes: &diff.ChangeSet{}}, fail
	}
	p.replicas[0].uses.Set("hub:acme/other", map[hint.Place]companions.Use{"hub:acme/fleet": {
		Fleet: "hub:acme/other",
		Name:  "fleet",
	}})
	p.describe(0, dependsOnOne)
	p.is(p.fleet.Head, "sluice/fleets", "pending", "with the line")
	fail = errors.New("the clone is damaged")
	p.fleet.Body, p.fleet.Updated = "", p.now.Add(time.Minute)
	if err := p.replicas[0].Do(t.Context(), hint.Hint{
		Place: "hub:acme/fleet", Kind: hint.Review,
		Number: 7,
	}); err == nil {
		t.Fatal("the review for the other fleet does not fail")
	}
	p.is(p.fleet.Head, "sluice", "success", "without it")
	fail = nil
	p.describe(0, dependsOnOne)
	p.is(p.fleet.Head, "sluice", "pending", "with the line again")
}

// A merge request that is closed for the second time no longer counts for others of its head, although this replica saw
// the first time only.
func TestClosedTwiceOnTwoReplicas(t *testing.T) {
	t.Parallel()
	p := newPair(t, newOwnVerdicts())
	two := *p.fleet
	two.Number, two.Body = 8, "Depends-On: nonsense"
	p.forge.mrs["acme/fleet 8"] = &two
	step := func(replica, number int, state forge.State) {
		t.Helper()
		p.now = p.now.Add(time.Minute)
		two.State, two.Updated, p.enqueued = state, p.now, nil
		p.review(replica, number)
	}
	step(0, 8, forge.Open)
	step(1, 8, forge.Closed)
	step(0, 8, forge.Open)
	step(0, 7, forge.Open)
	p.is(p.fleet.Head, "sluice", "fail", "while the other one is open")
	step(1, 8, forge.Closed)
	if len(p.enqueued) != 1 || p.enqueued[0] != 7 {
		t.Errorf("enqueued %v: nothing recomputes the status of 7", p.enqueued)
	}
	if step(1, 8, forge.Closed); len(p.enqueued) > 0 {
		t.Errorf("enqueued %v: the same closing is processed twice", p.enqueued)
	}
}

// Many lines cost no more requests than the merge requests that may be named, and a sweep costs one for each repository
// that is named.
func TestRequestsOfManyLines(t *testing.T) {
	t.Parallel()
	for _, author := range []string{"ada", "eve"} {
		p := newPair(t, nil)
		p.fleet.Author.Login = author
		p.forge.trust(p.fleet.Head)
		var lines []string
		for i := range 100 {
			lines = append(lines, fmt.Sprintf("Depends-On: https://hub/acme/one/pull/%d", 1000+i))
		}
		p.forge.calls = 0
		p.describe(0, strings.Join(lines, "\n"))
		p.is(p.fleet.Head, "sluice", "fail", author)
		const own, each = 8, 1 // listings, access, trust and statuses; one read of each merge request
		if p.forge.calls > own+each*companions.MaxDependencies {
			t.Errorf("the review of %s sent %d requests", author, p.forge.calls)
		}
		for range 2 {
			p.forge.calls = 0
			if p.now = p.now.Add(time.Minute); !p.unchanged() || p.forge.calls > 1 {
				t.Errorf("a sweep of %s's merge request without a change: unchanged %t, %d requests", author,
					p.unchanged(), p.forge.calls)
			}
		}
	}
}

// A sweep notices each change of a companion, and permissions that may have changed.
func TestSweepNoticesCompanions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *pair){
		"another head":        func(p *pair) { p.one.Head = gitstore.Hash{3}.String() },
		"another target":      func(p *pair) { p.one.TargetBranch = "junk" },
		"merged":              func(p *pair) { p.one.State = forge.Merged },
		"closed":              func(p *pair) { p.one.State = forge.Closed },
		"a comment of trust":  func(*pair) {},
		"another description": func(p *pair) { p.one.Body = "Depends-On: nonsense" },
		"a long time":         func(p *pair) { p.one.Updated, p.now = time.Unix(100, 0), p.now.Add(2*time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, nil)
			p.describe(0, dependsOnOne)
			if p.now = p.now.Add(time.Minute); !p.unchanged() {
				t.Fatal("nothing changed, and it is reviewed again")
			}
			p.now = p.now.Add(time.Minute)
			p.one.Updated = p.now
			if change(p); p.unchanged() {
				t.Error("the sweep does not notice it")
			}
		})
	}
}

// A merge into a branch that the fleet does not take is no merge of the companion.
func TestCompanionMergedElsewhere(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.describe(0, dependsOnOne)
	p.is(p.fleet.Head, "sluice", "pending", "while it is open")
	change := func(target string, state forge.State) {
		p.now = p.now.Add(time.Minute)
		p.one.TargetBranch, p.one.State, p.one.Updated = target, state, p.now
		p.describe(0, dependsOnOne)
	}
	change("junk", forge.Open)
	p.is(p.fleet.Head, "sluice", "pending", "with another target")
	change("junk", forge.Merged)
	p.is(p.fleet.Head, "sluice", "fail", "after the merge into that")
	change("main", forge.Merged)
	p.is(p.fleet.Head, "sluice", "success", "after the merge into the branch of the fleet")
}

// Somebody without write access who opens a merge request with the head of somebody else's does not decide its status.
func TestStrangerWithTheSameHead(t *testing.T) {
	t.Parallel()
	for name, checks := range map[string]bool{"statuses": false, "check runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, nil)
			p.replicas[0].Settings = func(hint.Place) Settings {
				return Settings{
					Context: "sluice", Drafts: true,
					Checks: checks,
				}
			}
			p.describe(0, "")
			p.is(p.fleet.Head, "sluice", "success", "alone")
			eves := *p.fleet
			eves.Number, eves.Fork, eves.Author.Login = 8, true, "eve"
			p.forge.mrs["acme/fleet 8"] = &eves
			review := func(number int, body string) {
				t.Helper()
				p.now = p.now.Add(time.Minute)
				eves.Body, eves.Updated = body, p.now
				p.review(0, number)
			}
			review(8, "")
			p.is(p.fleet.Head, "sluice", "success", "with a stranger's that waits for trust")
			p.forge.trust(p.fleet.Head)
			review(8, "Depends-On: nonsense")
			p.is(p.fleet.Head, "sluice", "success", "with a stranger's that depends on nonsense")
			p.fleet.State, p.fleet.Updated = forge.Closed, p.now
			p.review(0, 7)
			eves.Labels = []string{"changed"}
			review(8, "Depends-On: nonsense")
			p.is(p.fleet.Head, "sluice", "fail", "of a stranger's that is alone")
		})
	}
}

// A merge request that the forge deleted no longer counts for others of its head, and what depends on it is reviewed
// again.
func TestDeletedMergeRequest(t *testing.T) {
	t.Parallel()
	p := newPair(t, newOwnVerdicts())
	two := *p.fleet
	two.Number, two.Body = 8, "Depends-On: nonsense"
	p.forge.mrs["acme/fleet 8"] = &two
	p.review(0, 8)
	p.replicas[0].dependents.Add(companions.Reference{Place: "hub:acme/fleet", Number: 8},
		hint.Hint{Place: "hub:acme/one", Kind: hint.Review, Number: 3})
	p.review(0, 7)
	p.is(p.fleet.Head, "sluice", "fail", "while the other one exists")
	delete(p.forge.mrs, "acme/fleet 8")
	p.enqueued = nil
	p.review(0, 8)
	slices.Sort(p.enqueued)
	if !slices.Equal(p.enqueued, []int{3, 7}) {
		t.Errorf("enqueued %v", p.enqueued)
	}
	if err := p.replicas[0].Do(t.Context(), hint.Hint{
		Place: "hub:acme/fleet", Kind: hint.Review, Number: 7,
		Force: true,
	}); err != nil {
		t.Fatal(err)
	}
	p.is(p.fleet.Head, "sluice", "success", "after the other one was deleted")
	p.enqueued = nil
	if p.review(0, 8); len(p.enqueued) > 0 {
		t.Errorf("enqueued %v for one that is gone already", p.enqueued)
	}
}
