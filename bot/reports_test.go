package bot

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// talkingForge keeps the comments and statuses of one merge request.
type talkingForge struct {
	bombForge
	comments []string
	statuses []forge.Status
	commits  []string // of the statuses
	refuse   int      // that many statuses are refused
}

func (f *talkingForge) Self(context.Context) (forge.User, error) {
	return forge.User{Login: "sluice"}, nil
}

func (f *talkingForge) CommentLimit() int { return 65_536 }

func (f *talkingForge) Comments(context.Context, forge.Repository, int) ([]forge.Comment, error) {
	return nil, nil
}

func (f *talkingForge) CreateComment(_ context.Context, _ forge.Repository, _ int, body string) (*forge.Comment, error) {
	f.comments = append(f.comments, body)
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
	latest := map[string]forge.Status{}
	for i, s := range f.statuses {
		if f.commits[i] == commit {
			latest[s.Context] = s
		}
	}
	return slices.Collect(maps.Values(latest)), nil
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

func (s *changedSpace) Review(_ context.Context, r ReviewRequest) (*report.Review, *compare.PreviewResult, error) {
	return &report.Review{
		Fleet: "demo", Base: r.Base.Hash.String(), Head: r.Head.Hash.String(), Version: "test", Verdict: report.VerdictWarn, Changes: &diff.ChangeSet{},
		Findings: report.Findings{Introduced: []report.Finding{{Rule: "x", Severity: report.SeverityWarning, Message: "m"}}},
	}, nil, nil
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

func (k *keeper) Keep(_ hint.Place, mr *forge.MergeRequest, r *report.Review) (string, error) {
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

// TestReportIsLinked: the comment and the status of a review link to the page of its report. A report that cannot be kept, because the
// disk is full, leaves out the link and nothing else.
func TestReportIsLinked(t *testing.T) {
	t.Parallel()
	const page = "https://sluice.example.com/f/a/b/-/merge-requests/7/0100.html"
	for _, k := range []*keeper{{address: page}, {err: errors.New("no space left on device")}} {
		space := &changedSpace{bombSpace{head: gitstore.Hash{1}}}
		f := &talkingForge{bombForge: bombForge{mr: forge.MergeRequest{Number: 7, Title: "Seven", URL: "https://f.example.com/7", Head: space.head.String(), State: forge.Open, TargetBranch: "main"}}}
		var log bytes.Buffer
		b := New(Config{
			Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.NewTextHandler(&log, nil)), Reports: k,
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
		if k.err == nil && (!linked || url != page) || k.err != nil && (linked || url != f.mr.URL || !strings.Contains(log.String(), "no space left on device")) {
			t.Errorf("linked %v, status %s, comment %s, log %s", linked, url, f.comments[0], log.String())
		}
	}
}
