package forgetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

func testStatuses(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	f := w.Forge()
	long := strings.Repeat("a long description, ", 40)
	for _, s := range []forge.Status{
		{Context: "sluice", State: forge.Pending, Description: "waits"},
		{Context: "sluice", State: forge.Running, Description: "runs"},
		{Context: "sluice", State: forge.Running, Description: "runs"}, // repeating a status does no harm
		{Context: "sluice", State: forge.Success, Description: long, URL: "https://example.com/report"},
		{Context: "sluice/prod", State: forge.Failure, Description: "no"},
	} {
		if err := f.SetStatus(t.Context(), repo, mr.Head, s); err != nil {
			t.Fatalf("%s %s: %v", s.Context, s.State, err)
		}
	}
	w.Report(t, repo, mr.Head, "ada", forge.Status{Context: "kustomization/shop", State: forge.Success})
	got, err := f.Statuses(t.Context(), repo, mr.Head)
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].Context != "kustomization/shop" || got[0].Author.Login != "ada" || got[0].State != forge.Success {
		t.Errorf("somebody else's: %+v", got[0])
	}
	if s := got[1]; s.Context != "sluice" || s.State != forge.Success || s.Author.Login != w.Self().Login ||
		s.URL != "https://example.com/report" || !strings.HasPrefix(s.Description, "a long") ||
		len(s.Description) > 260 {
		t.Errorf("the newest: %+v", s)
	}
	if got[2].State != forge.Failure {
		t.Errorf("%+v", got[2])
	}
	if err := f.SetStatus(t.Context(), repo, strings.Repeat("0", 39)+"1",
		forge.Status{Context: "x", State: forge.Success}); !errors.Is(err, forge.ErrNotFound) {
		t.Errorf("a commit that does not exist: %v", err)
	}
}

func testRepositories(t *testing.T, w World) {
	many := pageItems(w) + 30
	for i := range many {
		w.Repository(t, fmt.Sprintf("acme/r%03d", i))
	}
	if !w.Checks() { // an App may write to every repository that it is installed on
		w.Grant(t, w.Repository(t, "acme/read"), w.Self().Login, forge.AccessRead)
	}
	got, err := w.Forge().Repositories(t.Context())
	if err != nil || len(got) != many {
		t.Fatalf("%d repositories, %v", len(got), err)
	}
	for i, r := range got {
		if want := fmt.Sprintf("acme/r%03d", i); r.Path != want {
			t.Errorf("%s, want %s", r.Path, want)
		}
	}
}

func testChecks(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	c := forge.Check{
		Name: "sluice", Commit: mr.Head, State: forge.Failure, Title: "2 objects change",
		Summary: "**bold**", URL: "https://example.com/r",
	}
	const many = 120 // more than one request accepts
	for i := range many {
		c.Annotations = append(c.Annotations, forge.Annotation{
			Path: "apps/web/app.yaml", Line: i + 1,
			Level: forge.Error, Title: "rule", Message: "wrong",
		})
	}
	err := w.Forge().SetCheck(t.Context(), repo, c)
	if !w.Checks() {
		if !errors.Is(err, forge.ErrUnsupported) {
			t.Errorf("without check runs: %v", err)
		}
		if _, err := w.Forge().CheckRuns(t.Context(), repo, mr.Head); !errors.Is(err, forge.ErrUnsupported) {
			t.Errorf("read without check runs: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got, ok := w.Check(t, repo, mr.Head, "sluice")
	if !ok || got.State != forge.Failure || got.Title != c.Title || got.Summary != c.Summary ||
		len(got.Annotations) != many || got.Annotations[many-1].Line != many {
		t.Errorf("%t, %s %q, %d annotations", ok, got.State, got.Title, len(got.Annotations))
	}
	if runs, err := w.Forge().CheckRuns(t.Context(), repo, mr.Head); err != nil || len(runs) != 1 ||
		runs[0].Context != "sluice" || runs[0].State != forge.Failure || !runs[0].Check {
		t.Errorf("check runs: %+v, %v", runs, err)
	}
	c.State, c.Annotations = forge.Success, nil
	if err := w.Forge().SetCheck(t.Context(), repo, c); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.Check(t, repo, mr.Head, "sluice"); got.State != forge.Success {
		t.Errorf("after the second run: %+v", got)
	}
}

func testPeople(t *testing.T, w World) {
	repo := scene(t, w)
	f := w.Forge()
	self, err := f.Self(t.Context())
	if err != nil || self.Login != w.Self().Login {
		t.Errorf("self %+v, %v", self, err)
	}
	w.User(t, "eve")
	for login, access := range map[string]forge.Access{
		"rita": forge.AccessRead, "will": forge.AccessWrite,
		"mia": forge.AccessMaintain, "ann": forge.AccessAdmin,
	} {
		w.User(t, login)
		w.Grant(t, repo, login, access)
		if got, err := f.Access(t.Context(), repo, login); err != nil || got != access {
			t.Errorf("%s has %s, want %s (%v)", login, got, access, err)
		}
	}
	if got, err := f.Access(t.Context(), repo, "eve"); err != nil || got >= forge.AccessWrite {
		t.Errorf("a user without rights has %s (%v)", got, err)
	}
	w.Grant(t, repo, "will", forge.AccessNone)
	if got, err := f.Access(t.Context(), repo, "will"); err != nil && !errors.Is(err, forge.ErrNotFound) ||
		got >= forge.AccessWrite {
		t.Errorf("a revoked right: %s (%v)", got, err)
	}
}

func testTeams(t *testing.T, w World) {
	repo := scene(t, w)
	for _, login := range []string{"sue", "pat", "eve"} {
		w.User(t, login)
	}
	w.Team(t, "acme/sre", []string{"sue"}, []string{"pat"})
	f := w.Forge()
	for login, want := range map[string]bool{"sue": true, "pat": false, "eve": false} {
		for _, team := range []string{"acme/sre", "sre"} {
			if got, err := f.InTeam(t.Context(), repo, team, login); err != nil || got != want {
				t.Errorf("%s in %s: %t, %v", login, team, got, err)
			}
		}
	}
	if in, err := f.InTeam(t.Context(), repo, "acme/nobody", "sue"); in ||
		err != nil && !errors.Is(err, forge.ErrNotFound) {
		t.Errorf("a team that does not exist: %t, %v", in, err)
	}
}

func testRateLimit(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	w.Fail(t, Fault{Kind: RateLimited, RetryAfter: 7 * time.Second, Times: 2})
	if _, err := w.Forge().CreateComment(t.Context(), repo, mr.Number, "after a while"); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Comments(t, repo, mr.Number)); n != 1 {
		t.Errorf("%d comments", n)
	}
	var waited time.Duration
	for _, d := range w.Waits() {
		waited += d
	}
	if waited < 14*time.Second {
		t.Errorf("waited %v", w.Waits())
	}
}

func testLongRateLimit(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	w.Fail(t, Fault{Kind: RateLimited, RetryAfter: time.Hour})
	_, err := w.Forge().MergeRequest(t.Context(), repo, mr.Number)
	var limit *forge.RateLimitError
	if !errors.As(err, &limit) || !errors.Is(err, forge.ErrUnavailable) {
		t.Fatalf("an hour's limit: %v", err)
	}
	before := w.Requests()
	if _, err = w.Forge().MergeRequest(t.Context(), repo, mr.Number); !errors.As(err, &limit) ||
		w.Requests() != before {
		t.Errorf("a request within the rate limit's wait: %v, %d requests", err, w.Requests()-before)
	}
}

func testBroken(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	w.Fail(t, Fault{Kind: Broken, On: OnRead, Times: 2})
	if _, err := w.Forge().MergeRequest(t.Context(), repo, mr.Number); err != nil {
		t.Errorf("two 502s: %v", err)
	}
	w.Fail(t, Fault{Kind: Broken, On: OnRead, Times: 20})
	before := w.Requests()
	if _, err := w.Forge().MergeRequest(t.Context(), repo, mr.Number); !errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("a server that is down: %v", err)
	}
	if n := w.Requests() - before; n > 8 {
		t.Errorf("%d tries", n)
	}
}

func testRefused(t *testing.T, w World) {
	repo := scene(t, w)
	mr := open(t, w, repo, "a")
	for kind, want := range map[FaultKind]error{Denied: forge.ErrForbidden, SignedOut: forge.ErrUnauthorized} {
		w.Fail(t, Fault{Kind: kind, Times: 2})
		_, err := w.Forge().MergeRequest(t.Context(), repo, mr.Number)
		if !errors.Is(err, want) || strings.Contains(fmt.Sprint(err), "token-of-the-test") {
			t.Errorf("%v: %v", want, err)
		}
		for range 2 { // the remaining faults
			_, _ = w.Forge().MergeRequest(t.Context(), repo, mr.Number)
		}
	}
}

func testProtected(t *testing.T, w World) {
	repo := scene(t, w)
	f, ok := w.Forge().(forge.Protection)
	if !ok {
		t.Skip("the adapter does not report protection")
	}
	w.Protect(t, repo, "sluice/state")
	for branch, want := range map[string]bool{
		"sluice/state": true, "main": false, "sluice/stat": false,
		"sluice/state/x": false,
	} {
		got, err := f.Protected(t.Context(), repo, branch)
		if got != want || err != nil && (want || !errors.Is(err, forge.ErrNotFound)) {
			t.Errorf("branch %s: protected %t, %v, want %t", branch, got, err, want)
		}
	}
	w.Fail(t, Fault{Kind: Denied, On: OnRead, Times: 9})
	if got, err := f.Protected(t.Context(), repo, "sluice/state"); got || !errors.Is(err, forge.ErrForbidden) {
		t.Errorf("without the right to read the rules: %t, %v", got, err)
	}
}
