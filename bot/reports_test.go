package bot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// talkingForge keeps the comments and statuses of one merge request.
type talkingForge struct {
	bombForge
	comments []string
	statuses []forge.Status
	commits  []string // of the statuses
	refuse   int      // that many statuses are refused
	mute     bool     // comments are refused
	said     func()   // is called with each comment; can be nil
	checks   error    // of reading and writing check runs
}

func (f *talkingForge) Self(context.Context) (forge.User, error) {
	return forge.User{Login: "sluice"}, nil
}

func (f *talkingForge) CommentLimit() int { return 65_536 }

func (f *talkingForge) Comments(context.Context, forge.Repository, int) ([]forge.Comment, error) {
	return nil, nil
}

func (f *talkingForge) CreateComment(_ context.Context, _ forge.Repository, _ int, body string) (*forge.Comment,
	error,
) {
	if f.mute {
		return nil, forge.ErrForbidden
	}
	f.comments = append(f.comments, body)
	if f.said != nil {
		f.said()
	}
	return &forge.Comment{ID: 1}, nil
}

func (f *talkingForge) Statuses(context.Context, forge.Repository, string) ([]forge.Status, error) {
	return nil, nil
}

func (f *talkingForge) OpenMergeRequests(context.Context, forge.Repository, string) ([]*forge.MergeRequest, error) {
	return []*forge.MergeRequest{&f.mr}, nil
}

// CommitStatuses returns the latest status of each context, as forges do.
func (f *talkingForge) CommitStatuses(_ context.Context, _ forge.Repository, commit string) ([]forge.Status, error) {
	return f.latest(commit, false), nil
}

// CheckRuns returns the latest check run of each name.
func (f *talkingForge) CheckRuns(_ context.Context, _ forge.Repository, commit string) ([]forge.Status, error) {
	return f.latest(commit, true), f.checks
}

func (f *talkingForge) latest(commit string, check bool) []forge.Status {
	latest := map[string]forge.Status{}
	for i, s := range f.statuses {
		if f.commits[i] == commit && s.Check == check {
			latest[s.Context] = s
		}
	}
	return slices.Collect(maps.Values(latest))
}

func (f *talkingForge) SetCheck(_ context.Context, _ forge.Repository, c forge.Check) error {
	if f.checks != nil {
		return f.checks
	}
	f.statuses = append(f.statuses, forge.Status{Context: c.Name, State: c.State, Description: c.Title, Check: true})
	f.commits = append(f.commits, c.Commit)
	return nil
}

func (f *talkingForge) SetStatus(_ context.Context, _ forge.Repository, commit string, s forge.Status) error {
	if f.refuse > 0 {
		f.refuse--
		return errors.New("502 Bad Gateway")
	}
	f.statuses, f.commits = append(f.statuses, s), append(f.commits, commit)
	return nil
}

// changedSpace is a repository whose reviews have a warning to tell.
type changedSpace struct{ bombSpace }

func (s *changedSpace) Review(_ context.Context, r review.Request) (*review.Result, error) {
	return &review.Result{Review: &report.Review{
		Fleet: "demo", Base: r.Base.Hash.String(), Head: r.Head.Hash.String(), Version: "test",
		Verdict: report.VerdictWarn, Changes: &diff.ChangeSet{},
		Findings: report.Findings{Introduced: []report.Finding{{
			Rule: "x", Severity: report.SeverityWarning,
			Message: "m",
		}}},
	}}, nil
}

func (s *changedSpace) DropPreview(context.Context, string) error { return nil }

// keeper records what it is told.
type keeper struct {
	address string
	err     error
	told    []string
	open    []int
}

func (k *keeper) OpenRequests(hint.Place) []int { return k.open }

func (k *keeper) Gone(_ hint.Place, number int) error {
	k.told = append(k.told, fmt.Sprintf("gone %d", number))
	return k.err
}

func (k *keeper) Keep(_, _ hint.Place, mr *forge.MergeRequest, r *report.Review) (string, error) {
	k.told = append(k.told, "keep "+mr.Title+" "+string(r.Verdict))
	return k.address, k.err
}

func (k *keeper) Note(_ hint.Place, mr *forge.MergeRequest, why string) error {
	k.told = append(k.told, "note "+mr.Title+": "+why)
	return k.err
}

func (k *keeper) Closed(_ hint.Place, mr *forge.MergeRequest) error {
	k.told = append(k.told, "closed "+mr.Title+" "+string(mr.State))
	return k.err
}

// TestReportIsLinked: the comment and the status of a review link to the page of its report. A report that cannot be
// kept, because the disk is full, leaves out the link and nothing else.
func TestReportIsLinked(t *testing.T) {
	t.Parallel()
	const page = "https://sluice.example.com/f/a/b/-/merge-requests/7/0100.html"
	for _, k := range []*keeper{{address: page}, {err: errors.New("no space left on device")}} {
		space := &changedSpace{bombSpace{head: gitstore.Hash{1}}}
		f := &talkingForge{bombForge: bombForge{mr: forge.MergeRequest{
			Number: 7, Title: "Seven",
			URL: "https://f.example.com/7", Head: space.head.String(), State: forge.Open, TargetBranch: "main",
		}}}
		var log bytes.Buffer
		b := New(Config{
			Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Reports:  k,
			Forges:   func(string) (Forge, bool) { return f, true },
			Settings: func(hint.Place) Settings { return Settings{Context: "sluice", Drafts: true} },
			Enqueue:  func(context.Context, hint.Hint) error { return nil },
			Open: func(context.Context, hint.Place) (*Workspace, error) {
				return &Workspace{Commits: space, Fleets: space, Reviews: space, Close: func() {}}, nil
			},
		})
		review := hint.Hint{Place: hint.NewPlace("f", "a/b"), Kind: hint.Review, Number: 7}
		if err := b.Do(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		f.mr.State = forge.Closed
		if err := b.Do(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(k.told, "; "); got != "keep Seven warn; closed Seven closed" {
			t.Errorf("the keeper was told %q", got)
		}
		if len(f.comments) != 1 || len(f.statuses) != 1 {
			t.Fatalf("comments %q, statuses %v", f.comments, f.statuses)
		}
		linked, url := strings.Contains(f.comments[0], "](<"+page+">)"), f.statuses[0].URL
		if k.err == nil && (!linked || url != page) || k.err != nil &&
			(linked || url != f.mr.URL || !strings.Contains(log.String(), "no space left on device")) {
			t.Errorf("linked %v, status %s, comment %s, log %s", linked, url, f.comments[0], log.String())
		}
	}
}

// refusedSpace is a repository whose server refuses previews.
type refusedSpace struct{ changedSpace }

func (s *refusedSpace) Review(ctx context.Context, r review.Request) (*review.Result, error) {
	out, err := s.changedSpace.Review(ctx, r)
	out.Preview = &compare.PreviewResult{Refused: "branch is protected from force push"}
	return out, err
}

// A review whose preview the Git server refuses says why it has none.
func TestRefusedPreviewIsTold(t *testing.T) {
	t.Parallel()
	space := &refusedSpace{changedSpace{bombSpace{head: gitstore.Hash{1}}}}
	f := &talkingForge{bombForge: bombForge{mr: forge.MergeRequest{
		Number: 7, Title: "Seven", Head: space.head.String(), State: forge.Open, TargetBranch: "main",
	}}}
	b := New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler), Reports: &keeper{},
		Forges:   func(string) (Forge, bool) { return f, true },
		Settings: func(hint.Place) Settings { return Settings{Context: "sluice", Drafts: true, Previews: true} },
		Enqueue:  func(context.Context, hint.Hint) error { return nil },
		Open: func(context.Context, hint.Place) (*Workspace, error) {
			return &Workspace{Commits: space, Fleets: space, Reviews: space, Close: func() {}}, nil
		},
	})
	if err := b.Do(t.Context(), hint.Hint{Place: hint.NewPlace("f", "a/b"), Kind: hint.Review, Number: 7}); err != nil {
		t.Fatal(err)
	}
	const want = "refuses to move the branch sluice/preview/7: branch is protected from force push"
	if len(f.comments) != 1 || !strings.Contains(strings.ReplaceAll(f.comments[0], "`", ""), want) {
		t.Errorf("comments %q, want %q", f.comments, want)
	}
}

// goneForge no longer has the merge request.
type goneForge struct {
	talkingForge
	gone bool
}

func (f *goneForge) MergeRequest(ctx context.Context, r forge.Repository, number int) (*forge.MergeRequest, error) {
	if f.gone {
		return nil, forge.ErrNotFound
	}
	return f.talkingForge.MergeRequest(ctx, r, number)
}

func (f *goneForge) OpenMergeRequests(ctx context.Context, r forge.Repository, branch string) ([]*forge.MergeRequest,
	error,
) {
	if f.gone {
		return nil, nil
	}
	return f.talkingForge.OpenMergeRequests(ctx, r, branch)
}

// TestMergeRequestThatIsGone: the list of merge requests learns that the forge deleted one, also if the webhook was
// lost. A merge request that is closed is recorded before its repository is opened, which can fail, and again if
// recording failed.
func TestMergeRequestThatIsGone(t *testing.T) {
	t.Parallel()
	k := &keeper{}
	space := &changedSpace{bombSpace{head: gitstore.Hash{1}}}
	f := &goneForge{talkingForge: talkingForge{bombForge: bombForge{mr: forge.MergeRequest{
		Number: 7, Title: "Seven",
		Head: space.head.String(), State: forge.Open, TargetBranch: "main",
	}}}}
	var opened error
	var waiting []hint.Hint
	b := New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler), Reports: k,
		Forges:   func(string) (Forge, bool) { return f, true },
		Settings: func(hint.Place) Settings { return Settings{Context: "sluice", Drafts: true} },
		Enqueue:  func(_ context.Context, h hint.Hint) error { waiting = append(waiting, h); return nil },
		Open: func(context.Context, hint.Place) (*Workspace, error) {
			return &Workspace{Commits: space, Fleets: space, Reviews: space, Close: func() {}}, opened
		},
	})
	review := hint.Hint{Place: hint.NewPlace("f", "a/b"), Kind: hint.Review, Number: 7}
	do := func(want string, fails bool) {
		t.Helper()
		k.told = nil
		if err := b.Do(t.Context(), review); (err != nil) != fails {
			t.Errorf("want %s: the error is %v", want, err)
		}
		if got := strings.Join(k.told, "; "); got != want {
			t.Errorf("the keeper was told %q, expected %q", got, want)
		}
	}
	do("keep Seven warn", false)
	f.gone, k.open = true, []int{7}
	if err := (&sweepTask{task: &task{Bot: b, place: review.Place}}).enqueueClosed(t.Context(), nil); err != nil ||
		len(waiting) != 1 || waiting[0] != review {
		t.Errorf("the sweep enqueues %v, %v", waiting, err)
	}
	do("gone 7", false)
	f.gone = false
	do("keep Seven warn", false) // it is there again
	f.mr.State, opened = forge.Closed, errors.New("the clone is damaged")
	do("closed Seven closed", true)
	opened, k.err = nil, errors.New("no space left on device")
	do("closed Seven closed", false)
	k.err = nil
	do("closed Seven closed", false)
}
