package publish_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
)

const (
	head  = "1111111111111111111111111111111111111111"
	newer = "2222222222222222222222222222222222222222"
)

// fake is a forge with one merge request, in memory. Methods that publish does not use are nil.
type fake struct {
	forge.MergeRequests
	head     string
	self     forge.User
	selfErr  error
	limit    int // characters that it accepts; 0 is CommentLimit
	comments []forge.Comment
	statuses map[string]forge.Status
	checks   []forge.Check
	checkErr error
	fail     map[string]error // error of the next call, by method
	trims    bool             // it removes whitespace at the end, as GitLab does
	lost     bool             // the next created comment is stored, but its answer is lost
	writes   []string
}

func newFake() *fake {
	return &fake{
		head: head, self: forge.User{Login: "sluice[bot]", Bot: true}, statuses: map[string]forge.Status{},
		checkErr: forge.ErrUnsupported, fail: map[string]error{},
	}
}

func (f *fake) next(method string) error {
	err := f.fail[method]
	delete(f.fail, method)
	return err
}

func (f *fake) MergeRequest(context.Context, forge.Repository, int) (*forge.MergeRequest, error) {
	return &forge.MergeRequest{Number: 7, Head: f.head}, nil
}

func (f *fake) Self(context.Context) (forge.User, error) { return f.self, f.selfErr }

func (f *fake) CommentLimit() int { return 65536 }

func (f *fake) Comments(context.Context, forge.Repository, int) ([]forge.Comment, error) {
	return slices.Clone(f.comments), f.next("Comments")
}

func (f *fake) Comment(context.Context, forge.Repository, int, int64) (*forge.Comment, error) {
	return nil, forge.ErrNotFound
}

func (f *fake) tooLong(body string) bool { return f.limit > 0 && len([]rune(body)) > f.limit }

func (f *fake) CreateComment(_ context.Context, _ forge.Repository, _ int, body string) (*forge.Comment, error) {
	if err := f.next("CreateComment"); err != nil {
		return nil, err
	}
	if f.tooLong(body) {
		return nil, fmt.Errorf("refused: %w", forge.ErrTooLong)
	}
	c := forge.Comment{ID: int64(len(f.comments) + 1), Author: f.self, Body: body}
	f.comments = append(f.comments, c)
	f.writes = append(f.writes, "create")
	if f.lost {
		f.lost = false
		return nil, forge.ErrUnavailable
	}
	return &c, nil
}

func (f *fake) EditComment(_ context.Context, _ forge.Repository, _ int, id int64, body string) error {
	if f.tooLong(body) {
		return fmt.Errorf("refused: %w", forge.ErrTooLong)
	}
	i := slices.IndexFunc(f.comments, func(c forge.Comment) bool { return c.ID == id })
	if f.trims {
		body = strings.TrimRight(body, "\n")
	}
	f.comments[i].Body = strings.ReplaceAll(body, "\n", "\r\n") // as some forges return it
	f.writes = append(f.writes, "edit")
	return nil
}

func (f *fake) DeleteComment(_ context.Context, _ forge.Repository, _ int, id int64) error {
	f.comments = slices.DeleteFunc(f.comments, func(c forge.Comment) bool { return c.ID == id })
	f.writes = append(f.writes, "delete")
	return nil
}

func (f *fake) SetStatus(_ context.Context, _ forge.Repository, commit string, s forge.Status) error {
	f.statuses[commit+" "+s.Context] = s
	f.writes = append(f.writes, "status")
	return nil
}

func (f *fake) CommitStatuses(ctx context.Context, r forge.Repository, commit string) ([]forge.Status, error) {
	return f.Statuses(ctx, r, commit)
}

func (f *fake) Statuses(_ context.Context, _ forge.Repository, commit string) ([]forge.Status, error) {
	var out []forge.Status
	for key, s := range f.statuses {
		if strings.HasPrefix(key, commit) {
			out = append(out, s)
		}
	}
	return out, nil
}

func (f *fake) CheckRuns(context.Context, forge.Repository, string) ([]forge.Status, error) {
	return nil, forge.ErrUnsupported
}

func (f *fake) SetCheck(_ context.Context, _ forge.Repository, c forge.Check) error {
	if f.checkErr != nil {
		return f.checkErr
	}
	f.checks = append(f.checks, c)
	f.writes = append(f.writes, "check")
	return nil
}

var (
	repo    = forge.Repository{Path: "acme/fleet"}
	request = &forge.MergeRequest{Number: 7, Head: head}
	options = publish.Options{Context: "sluice/review"}
)

// failed returns a review with a finding.
func failed(text string) *report.Review {
	return &report.Review{Head: head, Verdict: report.VerdictError, Errors: []string{text}}
}

func publishes(t *testing.T, f *fake, r *report.Review, want publish.Outcome) {
	t.Helper()
	out, err := publish.Review(t.Context(), f, repo, request, r, options)
	if err != nil || out != want {
		t.Fatalf("the output is %q, the error is %v, want %q", out, err, want)
	}
}

func TestOneComment(t *testing.T) {
	f := newFake()
	publishes(t, f, failed("broken"), publish.Created)
	publishes(t, f, failed("broken"), publish.Unchanged)
	publishes(t, f, failed("broken otherwise"), publish.Updated)
	if len(f.comments) != 1 || !strings.Contains(f.comments[0].Body, "broken otherwise") {
		t.Errorf("the comments are %+v", f.comments)
	}
	if s := f.statuses[head+" sluice/review"]; s.State != forge.Failure || s.Description == "" {
		t.Errorf("status %+v", s)
	}
	if f.writes[0] != "create" || f.writes[1] != "status" {
		t.Errorf("the status is written before its reason: %v", f.writes)
	}
}

func TestVerdicts(t *testing.T) {
	for verdict, want := range map[report.Verdict]forge.StatusState{
		report.VerdictPass: forge.Success, report.VerdictWarn: forge.Success, report.VerdictCaution: forge.Success,
		report.VerdictFail: forge.Failure, report.VerdictError: forge.Failure, "a verdict of tomorrow": forge.Failure,
	} {
		f := newFake()
		r := &report.Review{Head: head, Verdict: verdict, Changes: &diff.ChangeSet{}}
		if err := publish.Status(t.Context(), f, repo, r, options); err != nil ||
			f.statuses[head+" sluice/review"].State != want {
			t.Errorf("%s: the statuses are %+v, the error is %v", verdict, f.statuses, err)
		}
	}
}

// A check run marks the line of each cause once, and the lines of findings.
func TestAnnotations(t *testing.T) {
	one := diff.Withheld{
		App: "web", Cluster: "a", Environment: "dev", File: "apps/web/app.yaml", Line: 9,
		Message: "apps/web/app.yaml:9:1: no chart",
	}
	two := one
	two.Cluster = "b"
	nowhere := diff.Withheld{App: "db", Cluster: "a", Environment: "dev", Message: "too slow"}
	base := diff.Withheld{
		App: "old", Cluster: "a", Environment: "dev", File: "apps/old/app.yaml", Line: 1,
		Message: "gone", Before: true,
	}
	f, o := newFake(), options
	f.checkErr, o.Checks = nil, true
	r := &report.Review{
		Head: head, Verdict: report.VerdictError, Changes: &diff.ChangeSet{Withheld: []diff.Withheld{
			one, two, nowhere,
			base,
		}},
		Findings: report.Findings{Introduced: []report.Finding{{
			Rule: "image-tag", Severity: report.SeverityWarning,
			File: "apps/web/values.yaml", Line: 3, Message: "latest",
		}}},
	}
	if err := publish.Status(t.Context(), f, repo, r, o); err != nil || len(f.checks) != 1 {
		t.Fatalf("the checks are %+v, the error is %v", f.checks, err)
	}
	want := []forge.Annotation{
		{
			Path: "apps/web/app.yaml", Line: 9, Level: forge.Error, Title: "web on dev (2) cannot be rendered",
			Message: one.Message,
		},
		{Path: "apps/web/values.yaml", Line: 3, Level: forge.Warning, Title: "image-tag", Message: "latest"},
	}
	if got := f.checks[0].Annotations; !slices.Equal(got, want) {
		t.Errorf("the annotations are %+v\nwant %+v", got, want)
	}
}

func TestNothingToSay(t *testing.T) {
	f := newFake()
	publishes(t, f, &report.Review{Head: head, Verdict: report.VerdictPass, Changes: &diff.ChangeSet{}}, publish.None)
	if len(f.comments) != 0 || f.statuses[head+" sluice/review"].State != forge.Success {
		t.Errorf("comments %v, statuses %v", f.comments, f.statuses)
	}
}

// A review of an older head writes neither a comment nor a status.
func TestNewerHead(t *testing.T) {
	f := newFake()
	f.head = newer
	publishes(t, f, failed("broken"), publish.Superseded)
	if len(f.writes) != 0 {
		t.Errorf("written: %v", f.writes)
	}
}

// If the comment cannot be written, there is no status.
func TestCommentFails(t *testing.T) {
	f := newFake()
	f.fail["CreateComment"] = forge.ErrForbidden
	if _, err := publish.Review(t.Context(), f, repo, request, failed("broken"), options); !errors.Is(err,
		forge.ErrForbidden) || len(f.statuses) != 0 {
		t.Errorf("%v, statuses %v", err, f.statuses)
	}
}

func TestLostAnswer(t *testing.T) {
	f := newFake()
	f.lost = true
	publishes(t, f, failed("broken"), publish.Created)
	publishes(t, f, failed("broken"), publish.Unchanged)
	if len(f.comments) != 1 {
		t.Errorf("%d comments", len(f.comments))
	}
}

// If the forge accepts less than its limit, the comment gets shorter until it fits; otherwise the error is the
// forge's.
func TestTooLong(t *testing.T) {
	long := &report.Review{Head: head, Verdict: report.VerdictFail, Changes: &diff.ChangeSet{}}
	for i := range 300 {
		long.Findings.Introduced = append(long.Findings.Introduced, report.Finding{
			Rule: fmt.Sprintf("rule-%d", i), Severity: report.SeverityError, Message: strings.Repeat("wrong ", 40),
			App: "web", Clusters: []string{"eu-1"},
		})
	}
	f := newFake()
	publishes(t, f, long, publish.Created)
	whole := len([]rune(f.comments[0].Body))
	f = newFake()
	f.limit = whole - 100
	publishes(t, f, long, publish.Created)
	if n := len([]rune(f.comments[0].Body)); whole <= f.limit || n > f.limit {
		t.Errorf("%d characters, %d where they are accepted", n, whole)
	}
	f = newFake()
	f.limit = 10
	if _, err := publish.Review(t.Context(), f, repo, request, long, options); !errors.Is(err, forge.ErrTooLong) {
		t.Errorf("a forge that accepts nothing: %v", err)
	}
}

// Sluice edits only comments with its marker that it wrote itself, and deletes its own duplicates.
func TestWhoseComment(t *testing.T) {
	f := newFake()
	publishes(t, f, failed("broken"), publish.Created)
	mine := f.comments[0].Body
	f.comments = []forge.Comment{
		{ID: 1, Author: forge.User{Login: "eve"}, Body: mine},
		{ID: 2, Author: forge.User{Login: "other[bot]", Bot: true}, Body: mine},
		{ID: 3, Author: f.self, Body: mine},
		{ID: 4, Author: f.self, Body: "by hand, without a marker"},
		{ID: 5, Author: f.self, Body: mine},
	}
	publishes(t, f, failed("broken otherwise"), publish.Updated)
	var left []int64
	for _, c := range f.comments {
		left = append(left, c.ID)
	}
	if !slices.Equal(left, []int64{1, 2, 3, 4}) || f.comments[0].Body != mine ||
		!strings.Contains(f.comments[2].Body, "otherwise") {
		t.Errorf("left %v", left)
	}
	f.selfErr, f.self = fmt.Errorf("a job's token: %w", forge.ErrForbidden), forge.User{}
	publishes(t, f, failed("once more"), publish.Updated)
	if f.comments[0].Body != mine || !strings.Contains(f.comments[1].Body, "once more") {
		t.Errorf("a token that may not ask who it is takes the first bot's comment: %+v", f.comments)
	}
	f.selfErr = forge.ErrUnavailable
	if _, err := publish.Review(t.Context(), f, repo, request, failed("x"), options); !errors.Is(err,
		forge.ErrUnavailable) {
		t.Errorf("a forge that fails: %v", err)
	}
}

// A review and a command that two processes publish at the same time have one comment in the end, with the review and
// the commands of both.
func TestCommentsOfTwoProcesses(t *testing.T) {
	for name, order := range map[string][]int{
		"the review first": {0, 1, 2}, "the review last": {1, 2, 0},
		"the review between": {2, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			single := func(write func(f *fake) error) string {
				f := newFake()
				if err := write(f); err != nil {
					t.Fatal(err)
				}
				return f.comments[0].Body
			}
			log := func(f *fake, comment int64, verb string) error {
				return publish.Log(t.Context(), f, repo, 7, comment,
					report.CommandEntry{Who: "mia", Command: "/sluice " + verb, Outcome: "done"})
			}
			bodies := []string{
				single(func(f *fake) error {
					_, err := publish.Comment(t.Context(), f, repo, request, failed("broken"), options)
					return err
				}),
				single(func(f *fake) error { return log(f, 41, "freeze") }),
				single(func(f *fake) error { return log(f, 42, "retry") }),
			}
			f := newFake()
			for i, n := range order {
				f.comments = append(f.comments, forge.Comment{ID: int64(i + 1), Author: f.self, Body: bodies[n]})
			}
			for _, comment := range []int64{41, 42} {
				if !slices.Contains(publish.Handled(f.self, f.comments), comment) {
					t.Errorf("the command of comment %d runs again", comment)
				}
			}
			if err := log(f, 43, "diff"); err != nil {
				t.Fatal(err)
			}
			if len(f.comments) != 1 || f.comments[0].ID != 1 {
				t.Fatalf("%d comments", len(f.comments))
			}
			body := f.comments[0].Body
			for _, want := range []string{
				"**: broken", "/sluice freeze", "/sluice retry", "/sluice diff",
				"3 commands",
			} {
				if strings.Count(body, want) != 1 {
					t.Errorf("%q is %d times in\n%s", want, strings.Count(body, want), body)
				}
			}
			if got := publish.Handled(f.self, f.comments); !slices.Equal(got, []int64{41, 42, 43}) {
				t.Errorf("handled %v", got)
			}
			publishes(t, f, failed("broken"), publish.Unchanged)
		})
	}
}

// If an edit removed the marker of a comment by Sluice's user, Sluice replaces the comment instead of adding a second
// one. Comments of others, and comments of the same user that are not a review, stay.
func TestLostMarker(t *testing.T) {
	f := newFake()
	publishes(t, f, failed("broken"), publish.Created)
	if err := publish.Log(t.Context(), f, repo, 7, 41, report.CommandEntry{
		Who: "mia", Command: "/sluice help",
		Outcome: "answered",
	}); err != nil {
		t.Fatal(err)
	}
	full := f.comments[0].Body
	_, edited, _ := strings.Cut(full, "\r\n")
	review, _, _ := strings.Cut(edited, "<!-- sluice-log")
	foreign := []forge.Comment{
		{ID: 1, Author: forge.User{Login: "eve"}, Body: edited},
		{ID: 2, Author: forge.User{Login: "other[bot]", Bot: true}, Body: edited},
		{ID: 3, Author: f.self, Body: "a note\n\n## Sluice: as it was yesterday"},
		{ID: 4, Author: f.self, Body: "> " + review},
	}
	for name, body := range map[string]string{
		"marker removed": edited, "marker damaged": strings.Replace(full, "sluice-review", "sluice", 1),
		"text before the marker": "Edited by mia.\n" + full,
		"no blocks":              review, "only the log": edited[strings.Index(edited, "<!-- sluice-log"):],
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.comments = append(slices.Clone(foreign), forge.Comment{ID: 5, Author: f.self, Body: body})
			if body != review {
				if !slices.Contains(publish.Handled(f.self, f.comments), 41) {
					t.Error("the handled command is forgotten")
				}
			}
			if err := publish.Answer(t.Context(), f, repo, 7, "answer/9",
				func() (string, error) { return "the answer", nil }); err != nil || len(f.comments) != 6 {
				t.Fatalf("an answer is a comment of its own: %d comments, %v", len(f.comments), err)
			}
			publishes(t, f, failed("broken otherwise"), publish.Updated)
			publishes(t, f, failed("broken otherwise"), publish.Unchanged)
			if len(f.comments) != 6 || !slices.Equal(f.comments[:4], foreign) ||
				!strings.Contains(f.comments[4].Body, "broken otherwise") {
				t.Errorf("the comments are %+v", f.comments)
			}
			if got := strings.Contains(f.comments[4].Body, "/sluice help"); got != (body != review) {
				t.Errorf("the log is there: %t", got)
			}
		})
	}
	t.Run("the log first", func(t *testing.T) {
		f := newFake()
		f.comments = []forge.Comment{{ID: 1, Author: f.self, Body: review}}
		if err := publish.Log(t.Context(), f, repo, 7, 42, report.CommandEntry{
			Who: "mia", Command: "/sluice plan",
			Outcome: "answered",
		}); err != nil {
			t.Fatal(err)
		}
		publishes(t, f, failed("broken"), publish.Updated)
		if len(f.comments) != 1 || !strings.Contains(f.comments[0].Body, "/sluice plan") {
			t.Errorf("the comments are %+v", f.comments)
		}
	})
	t.Run("unknown user", func(t *testing.T) { // without a marker, the author is unknown
		f := newFake()
		f.selfErr, f.self = forge.ErrForbidden, forge.User{}
		f.comments = []forge.Comment{{ID: 1, Author: forge.User{Login: "other[bot]", Bot: true}, Body: review}}
		publishes(t, f, failed("broken"), publish.Created)
		if f.comments[0].Body != review {
			t.Errorf("the comments are %+v", f.comments)
		}
	})
}

// The log and the promotions survive a new review. The note that a head waits for trust does not.
func TestBlocks(t *testing.T) {
	for _, trims := range []bool{false, true} {
		f := newFake()
		f.trims = trims
		testBlocks(t, f)
	}
}

func testBlocks(t *testing.T, f *fake) {
	t.Helper()
	ctx, at := t.Context(), time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	entry := report.CommandEntry{Who: "mia", Command: "/sluice help", Outcome: "answered", At: at}
	steps := []error{
		publish.Waits(ctx, f, repo, 7, head, at),
		publish.Log(ctx, f, repo, 7, 41, entry),
		publish.Log(ctx, f, repo, 7, 42, entry),
		publish.Log(ctx, f, repo, 7, 42, entry), // once
		publish.Rollout(ctx, f, repo, 7, "", []report.RolloutRow{{Environment: "staging", State: "done"}}, ""),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	if got, since, err := publish.Waiting(ctx, f, repo, 7); got != head || !since.Equal(at) || err != nil {
		t.Errorf("waiting %s since %s, %v", got, since, err)
	}
	if err := publish.Waits(ctx, f, repo, 7, head, at.Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, since, _ := publish.Waiting(ctx, f, repo, 7); !since.Equal(at) {
		t.Errorf("the same head was seen first at %s, not %s", at, since)
	}
	publishes(t, f, failed("broken"), publish.Updated)
	body := f.comments[0].Body
	if len(f.comments) != 1 || strings.Count(body, "/sluice help") != 2 || !strings.Contains(body, "staging") ||
		!strings.Contains(body, "broken") {
		t.Errorf("the comment is %s", body)
	}
	if got, _, err := publish.Waiting(ctx, f, repo, 7); got != "" || err != nil {
		t.Errorf("still waiting: %s, %v", got, err)
	}
	for id, want := range map[int64]bool{41: true, 42: true, 43: false} {
		if got := slices.Contains(publish.Handled(f.self, f.comments), id); got != want {
			t.Errorf("comment %d is logged: %t", id, got)
		}
	}
	if err := publish.Forget(ctx, f, repo, 7, 41); err != nil {
		t.Fatal(err)
	}
	if got := publish.Handled(f.self, f.comments); !slices.Equal(got, []int64{42}) {
		t.Errorf("handled after Forget: %v", got)
	}
	// A person cannot mark a command as done.
	forged := append([]forge.Comment{{
		ID: 99, Author: forge.User{Login: "eve"},
		Body: strings.ReplaceAll(f.comments[0].Body, "done 42", "done 43"),
	}}, f.comments...)
	if got := publish.Handled(f.self, forged); !slices.Equal(got, []int64{42}) {
		t.Errorf("handled with a forged comment: %v", got)
	}
}

// If the comment gets too long, the review is shortened and the log stays.
func TestBlocksOutliveTheReview(t *testing.T) {
	f, ctx := newFake(), t.Context()
	publishes(t, f, failed(strings.Repeat("wrong ", 300)), publish.Created)
	f.limit = len([]rune(f.comments[0].Body)) + 10
	if err := publish.Log(ctx, f, repo, 7, 41, report.CommandEntry{
		Who: "mia", Command: "/sluice help",
		Outcome: "answered",
	}); err != nil {
		t.Fatal(err)
	}
	if body := f.comments[0].Body; !strings.Contains(body, "/sluice help") || strings.Contains(body, "wrong wrong") {
		t.Errorf("the body is %s", body)
	}
	f.limit = 0
	// the review that was dropped, and the next one
	for _, text := range []string{strings.Repeat("wrong ", 300), "broken"} {
		publishes(t, f, failed(text), publish.Updated)
		word, _, _ := strings.Cut(text, " ")
		if body := f.comments[0].Body; !strings.Contains(body, "/sluice help") || !strings.Contains(body, word) {
			t.Errorf("no %q: %s", word, body)
		}
	}
}

// A state is written once: as a check run if possible, and as a commit status otherwise.
func TestSay(t *testing.T) {
	state := forge.Status{State: forge.Pending, Description: "waits for trust"}
	for name, c := range map[string]struct {
		checks   bool
		checkErr error
		want     []string
		err      error
	}{
		"statuses":            {false, nil, []string{"status"}, nil},
		"check runs":          {true, nil, []string{"check"}, nil},
		"no check runs":       {true, forge.ErrUnsupported, []string{"status"}, nil},
		"no right to checks":  {true, forge.ErrForbidden, []string{"status"}, nil},
		"the check run fails": {true, forge.ErrUnavailable, nil, forge.ErrUnavailable},
	} {
		f, o := newFake(), options
		f.checkErr, o.Checks = c.checkErr, c.checks
		if err := publish.Say(t.Context(), f, repo, head, state, o); !errors.Is(err, c.err) ||
			!slices.Equal(f.writes, c.want) {
			t.Errorf("%s: the writes are %v, the error is %v", name, f.writes, err)
		}
		if c.want == nil || c.want[0] != "status" {
			continue
		}
		f.statuses[head+" sluice/review"] = forge.Status{
			Context: "sluice/review", State: state.State,
			Description: state.Description,
		}
		if err := publish.Say(t.Context(), f, repo, head, state, o); err != nil || len(f.writes) != 1 {
			t.Errorf("%s: said twice: %v, %v", name, f.writes, err)
		}
	}
}

func TestAnswerOnce(t *testing.T) {
	f, asked := newFake(), 0
	text := func() (string, error) { asked++; return "the answer", nil }
	for range 2 {
		if err := publish.Answer(t.Context(), f, repo, 7, "answer/41", text); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 || len(f.comments) != 1 || !strings.Contains(f.comments[0].Body, "the answer") {
		t.Errorf("asked %d times: %+v", asked, f.comments)
	}
	publishes(t, f, failed("broken"), publish.Created) // in a separate comment
}

// Two comments of one fleet, which two processes created, become one when the fleet no longer asks for reviews.
func TestRetireUnitesComments(t *testing.T) {
	t.Parallel()
	f := newFake()
	for i, command := range []string{"", "/sluice retry"} {
		body := report.Marker(report.MarkerInfo{ID: "a.b", Head: head}) + "\n" + report.Heading + "a review\n"
		f.comments = append(f.comments, forge.Comment{ID: int64(i + 1), Author: f.self, Body: body})
		if command == "" {
			continue
		}
		f.comments[i].Body += "\n<!-- sluice-log -->\n<!-- done 41 -->\n" +
			report.LogBlock([]report.CommandEntry{{Command: command}}, nil, 20) + "\n<!-- /sluice-log -->\n"
	}
	for range 2 {
		if err := publish.Retire(t.Context(), f, forge.Repository{}, 7, "a.b", "Nobody asks."); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.comments) != 1 || f.comments[0].ID != 1 {
		t.Fatalf("%d comments: %+v", len(f.comments), f.comments)
	}
	if body := f.comments[0].Body; !strings.Contains(body, "Nobody asks.") || strings.Contains(body, "a review") ||
		!strings.Contains(body, "1 command") || !strings.Contains(body, "<!-- done 41 -->") {
		t.Errorf("writes %q, comment\n%s", f.writes, body)
	}
}

// A comment keeps its place when its ID changes, and a retired one says why and is not touched again.
func TestEarlierIDAndRetirement(t *testing.T) {
	t.Parallel()
	f := newFake()
	r := &report.Review{Head: head, Verdict: report.VerdictFail, Errors: []string{"it cannot be compared"}}
	mr := &forge.MergeRequest{Number: 7}
	for _, o := range []publish.Options{
		{ID: "a.b.c"},
		{ID: "a.b%2Ec", Earlier: "a.b.c"},
		{ID: "a.b%2Ec", Earlier: "a.b.c"},
	} {
		if _, err := publish.Comment(t.Context(), f, forge.Repository{}, mr, r, o); err != nil {
			t.Fatal(err)
		}
	}
	if info, _ := report.ParseMarker(f.comments[0].Body); len(f.comments) != 1 || info.ID != "a.b%2Ec" ||
		len(f.writes) != 2 {
		t.Fatalf("%d comments, the first has the ID %q; writes %q", len(f.comments), info.ID, f.writes)
	}
	for range 2 {
		for _, id := range []string{"a.b%2Ec", "other"} {
			if err := publish.Retire(t.Context(), f, forge.Repository{}, 7, id, "Nobody asks."); err != nil {
				t.Fatal(err)
			}
		}
	}
	if body := f.comments[0].Body; len(f.comments) != 1 || len(f.writes) != 3 ||
		!strings.Contains(body, "Nobody asks.") || strings.Contains(body, "compared") {
		t.Errorf("writes %q, comment\n%s", f.writes, body)
	}
}

// A routine change gets a status beside that of the review; nothing else does, unless it had one.
func TestRoutineStatus(t *testing.T) {
	const context = "sluice/routine"
	routine := func(yes bool) *report.Review {
		r := &report.Review{Head: head, Verdict: report.VerdictPass, Changes: &diff.ChangeSet{}}
		r.Routine = &report.Routine{Routine: yes, Why: "only images change"}
		if !yes {
			r.Routine.Why = "spec.replicas changes"
		}
		return r
	}
	waiting := routine(true)
	waiting.Waits = "waits for acme/lib#7"
	failed := routine(true)
	failed.Verdict = report.VerdictFail
	unasked := routine(true)
	unasked.Routine = nil
	for name, c := range map[string]struct {
		reviews []*report.Review
		state   forge.StatusState // "" if there is no such status
		text    string
	}{
		"routine":               {[]*report.Review{routine(true)}, forge.Success, "only images change"},
		"not routine":           {[]*report.Review{routine(false)}, "", ""},
		"waiting":               {[]*report.Review{waiting}, "", ""},
		"failed":                {[]*report.Review{failed}, "", ""},
		"the fleet asks not":    {[]*report.Review{unasked}, "", ""},
		"not routine any more":  {[]*report.Review{routine(true), routine(false)}, forge.Failure, "not routine any more: spec.replicas changes"},
		"failed after a pass":   {[]*report.Review{routine(true), failed}, forge.Failure, "not routine any more"},
		"routine once more":     {[]*report.Review{routine(true), routine(false), routine(true)}, forge.Success, "only images change"},
		"twice the same review": {[]*report.Review{routine(true), routine(true)}, forge.Success, "only images change"},
	} {
		f := newFake()
		for _, r := range c.reviews {
			if err := publish.Status(t.Context(), f, forge.Repository{}, r, publish.Options{Context: "sluice"}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got, ok := f.statuses[head+" "+context]
		if ok != (c.state != "") || got.State != c.state || !strings.HasPrefix(got.Description, c.text) {
			t.Errorf("%s: got %q, %q, want %q, %q", name, got.State, got.Description, c.state, c.text)
		}
		if name == "twice the same review" && len(f.writes) != 3 {
			t.Errorf("%s: it wrote %q, want the routine status once", name, f.writes)
		}
	}
}

// The comment remembers who was asked for a review, through later reviews, commands and a second comment.
func TestAsked(t *testing.T) {
	f := newFake()
	o := options
	o.Asked = []string{"aa", "bb"}
	if _, err := publish.Review(t.Context(), f, repo, request, failed("broken"), o); err != nil {
		t.Fatal(err)
	}
	asked := func(want ...string) {
		t.Helper()
		if got, err := publish.Asked(t.Context(), f, repo, 7, o.ID); err != nil || !slices.Equal(got, want) {
			t.Errorf("keys in the comment: got %q, %v, want %q", got, err, want)
		}
	}
	asked("aa", "bb")
	writes := len(f.writes)
	for range 2 { // known keys change nothing
		publishes(t, f, failed("broken"), publish.Unchanged)
	}
	if len(f.writes) > writes+2 { // statuses
		t.Errorf("writes: got %q, want no comment", f.writes[writes:])
	}
	o.Asked = []string{"bb", "cc"}
	if out, err := publish.Review(t.Context(), f, repo, request, failed("broken"), o); err != nil || out != publish.Updated {
		t.Errorf("a new key: got %s, %v, want %s", out, err, publish.Updated)
	}
	asked("aa", "bb", "cc")
	if err := publish.Rollout(t.Context(), f, repo, 7, o.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	publishes(t, f, failed("otherwise broken"), publish.Updated)
	asked("aa", "bb", "cc")
	f.comments = append(f.comments, forge.Comment{ID: 99, Author: f.self, Body: strings.ReplaceAll(f.comments[0].Body, "aa", "dd")})
	publishes(t, f, failed("broken"), publish.Updated)
	asked("aa", "bb", "cc", "dd")
}
