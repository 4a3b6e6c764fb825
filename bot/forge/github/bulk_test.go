package github_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
)

// bulkScene is a repository with commits that have statuses.
func bulkScene(t *testing.T, w *world, n int) (repo forge.Repository, commits []string) {
	t.Helper()
	repo = w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	w.Grant(t, repo, "ada", forge.AccessWrite)
	for i := range n {
		mr := w.Open(t, repo, forgetest.Scene{Title: "x", Author: "ada", SourceBranch: fmt.Sprint("b", i)})
		commits = append(commits, mr.Head)
	}
	return repo, commits
}

// brief are the fields that a request for many commits returns.
func brief(list []forge.Status) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s %s %t", s.Context, s.State, s.Check))
	}
	return strings.Join(out, ", ")
}

// postAll posts statuses of all states, and with an App check runs, to the first commits.
func postAll(t *testing.T, w *world, repo forge.Repository, commits []string) {
	t.Helper()
	for i, state := range []forge.StatusState{forge.Success, forge.Failure, forge.Pending, forge.Running} {
		w.Report(t, repo, commits[i], "ada", forge.Status{Context: "Kustomization/Shop", State: forge.Pending})
		if err := w.forge.SetStatus(t.Context(), repo, commits[i],
			forge.Status{Context: "kustomization/shop", State: state, Description: "said"}); err != nil {
			t.Fatal(err)
		}
		if !w.app {
			continue
		}
		if err := w.forge.SetCheck(t.Context(), repo, forge.Check{
			Name: "check", Commit: commits[i], State: state,
			Title: "t", Summary: "s",
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStatusesOfManyWithToken(t *testing.T) { testStatusesOfMany(t, false) }

func TestStatusesOfManyWithApp(t *testing.T) { testStatusesOfMany(t, true) }

// One request returns the statuses and check runs of a hundred commits, as requests for each of them do, for one point
// of GitHub's quota for GraphQL. Unknown commits, and those with more statuses than one page, are left out.
func testStatusesOfMany(t *testing.T, app bool) {
	t.Helper()
	w := newWorld(t, app)
	repo, commits := bulkScene(t, w, 9)
	postAll(t, w, repo, commits)
	w.server.Expect(repo, "required")
	const full = 7
	for i := range 101 {
		w.Report(t, repo, commits[full], "ada", forge.Status{Context: fmt.Sprint("many/", i), State: forge.Success})
	}
	unknown := strings.Repeat("0", 39) + "1"
	requests, counted := w.server.Requests(), w.server.Counted()
	ask := slices.Clone(commits)
	for len(ask) < w.forge.BulkSize() {
		ask = append(ask, unknown)
	}
	got, err := w.forge.StatusesOf(t.Context(), repo, ask)
	if err != nil {
		t.Fatal(err)
	}
	if n, points := w.server.Requests()-requests, w.server.GraphPoints(); n != 1 || points != 1 ||
		w.server.Counted() != counted {
		t.Errorf("%d requests, %d points, %d of the other quota", n, points, w.server.Counted()-counted)
	}
	for i, c := range commits[:full+1] {
		list, ok := got[c]
		want, err := w.forge.Statuses(t.Context(), repo, c)
		if err != nil || ok != (i != full) || ok && brief(list) != brief(want) {
			t.Errorf("commit %d: %s, want %s %v", i, brief(list), brief(want), err)
		}
	}
	if list := brief(got[commits[1]]); !strings.Contains(list, "kustomization/shop failure false") ||
		app && !strings.Contains(list, "check failure true") {
		t.Errorf("statuses %q", list)
	}
	if _, ok := got[unknown]; ok || len(got) != len(commits)-1 {
		t.Errorf("%d commits have statuses", len(got))
	}
	if q, ok := w.forge.BulkQuota(); !ok || q.Remaining != 4999 {
		t.Errorf("quota %+v", q)
	}
}

// TestStatusesOfManyRefused: the limit of GraphQL stops no request of the other quota, and no further query is sent
// before it ends.
func TestStatusesOfManyRefused(t *testing.T) {
	w := newWorld(t, true)
	repo, commits := bulkScene(t, w, 2)
	if _, err := w.forge.StatusesOf(t.Context(), repo, make([]string, w.forge.BulkSize()+1)); err == nil ||
		w.server.GraphPoints() != 0 {
		t.Errorf("more commits than one request may name: %v", err)
	}
	if _, err := w.forge.StatusesOf(t.Context(), repo, []string{`"){viewer{login}}`}); err == nil ||
		w.server.GraphPoints() != 0 {
		t.Errorf("a commit that is no hash: %v", err)
	}
	for _, c := range commits {
		w.Report(t, repo, c, "ada", forge.Status{Context: "sync", State: forge.Success})
	}
	w.server.SetGraphPoints(5000)
	var limit *forge.RateLimitError
	if _, err := w.forge.StatusesOf(t.Context(), repo, commits); !errors.As(err, &limit) ||
		!errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("at the limit: %v", err)
	}
	if q, ok := w.forge.BulkQuota(); !ok || q.Stretch() != 16 {
		t.Errorf("at the limit: %+v", q)
	}
	before := w.server.Requests()
	if _, err := w.forge.StatusesOf(t.Context(), repo, commits); !errors.As(err, &limit) ||
		w.server.Requests() != before {
		t.Errorf("at the limit: %v, %d requests", err, w.server.Requests()-before)
	}
	if list, err := w.forge.Statuses(t.Context(), repo, commits[0]); err != nil || len(list) != 1 {
		t.Errorf("the other quota: %v %v", list, err)
	}
	w.pass(limit.Until.Sub(w.now()))
	w.server.SetGraphPoints(0)
	if got, err := w.forge.StatusesOf(t.Context(), repo, commits); err != nil || len(got) != 2 {
		t.Errorf("after the limit: %v %v", got, err)
	}
	w.server.Fail(fakegithub.Fault{Method: http.MethodPost, Path: "/graphql", Kind: fakegithub.BadGateway, Times: 100})
	if _, err := w.forge.StatusesOf(t.Context(), repo, commits); !errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("a query that takes too long: %v", err)
	}
}

// TestStatusesOfManyHostile: an answer that is partial or lies about the form hides what it is about.
func TestStatusesOfManyHostile(t *testing.T) {
	w := newWorld(t, false)
	repo, commits := bulkScene(t, w, 2)
	contexts := func(list string) string {
		return `{"__typename":"Commit","statusCheckRollup":{"contexts":{"pageInfo":{"hasNextPage":false},"nodes":` +
			list + `}}}`
	}
	const good = `{"__typename":"StatusContext","context":"sync","state":"FAILURE"}`
	for name, c := range map[string]struct {
		c0   string // the first commit
		want string // its statuses; "hidden": none is known; "error": there is no answer
	}{
		"as it is":          {contexts("[" + good + "]"), "failure"},
		"no status":         {`{"__typename":"Commit","statusCheckRollup":null}`, ""},
		"contexts are null": {contexts("null"), "hidden"},
		"contexts missing":  {`{"__typename":"Commit","statusCheckRollup":{}}`, "hidden"},
		"a context is null": {contexts("[" + good + ",null]"), "hidden"},
		"an unknown kind":   {contexts(`[{"__typename":"Attestation","state":"SUCCESS"}]`), "hidden"},
		"another object":    {`{"__typename":"Tag"}`, "hidden"},
		"a state that is new": {
			contexts(`[{"__typename":"StatusContext","context":"sync","state":"SUCCESSFUL"}]`),
			"failure",
		},
		"more of them":    {strings.Replace(contexts("["+good+"]"), "false", "true", 1), "hidden"},
		"a text":          {`"success"`, "error"},
		"forty megabytes": {contexts("[" + strings.Repeat(" ", 40<<20) + "]"), "error"},
	} {
		t.Run(name, func(t *testing.T) {
			config := w.config
			config.Transport = said(`{"data":{"repository":{"c0":` + c.c0 + `,"c1":` + contexts("["+good+"]") + `}}}`)
			got, err := w.adapter(t, config).StatusesOf(t.Context(), repo, commits)
			if (err != nil) != (c.want == "error") {
				t.Fatalf("the error is %v, want %q", err, c.want)
			}
			if err != nil {
				return
			}
			list, ok := got[commits[0]]
			if ok == (c.want == "hidden") || len(got[commits[1]]) != 1 {
				t.Fatalf("the result of StatusesOf is %v, want %q", got, c.want)
			}
			if ok && (c.want == "") != (len(list) == 0) || len(list) > 0 && string(list[0].State) != c.want {
				t.Errorf("the list is %v, want %q", list, c.want)
			}
		})
	}
}

// said answers each request with a text.
type said string

func (s said) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	_, err := answer.WriteString(string(s))
	resp := answer.Result()
	resp.Request = r
	return resp, err
}

// TestStatusesOfManyForbidden: a credential that cannot read check runs, or not the repository, is an error that says
// so.
func TestStatusesOfManyForbidden(t *testing.T) {
	blind := newWorld(t, true)
	blind.server.AddApp(fakegithub.App{
		ID: 8, ClientID: "Iv1.def", Slug: "blind", Key: &signingKey().PublicKey,
		NoChecks: true,
	})
	blind.server.Install(8, "acme")
	blind.config.App.ID = 8
	f := blind.adapter(t, blind.config)
	repo, commits := bulkScene(t, blind, 2)
	if _, err := f.StatusesOf(context.Background(), repo, commits); !errors.Is(err, forge.ErrUnsupported) ||
		!strings.Contains(err.Error(), "not accessible") {
		t.Errorf("without the right to read check runs: %v", err)
	}
	other := newWorld(t, false)
	if _, err := other.forge.StatusesOf(t.Context(), forge.Repository{Path: "acme/hidden"}, commits); !errors.Is(err,
		forge.ErrUnsupported) || !strings.Contains(err.Error(), "Could not resolve") {
		t.Errorf("a repository that cannot be read: %v", err)
	}
}
