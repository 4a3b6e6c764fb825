package gitlab_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
	"github.com/sluice-gitops/sluice/bot/forge/gitlab"
)

// bulkScene is a project with commits.
func bulkScene(t *testing.T, w *world) (repo forge.Repository, commits []string) {
	t.Helper()
	repo = w.Repository(t, "acme/fleet")
	w.User(t, "flux")
	w.Grant(t, repo, "flux", forge.AccessWrite)
	for i := range w.forge.BulkSize() {
		mr := w.Open(t, repo, forgetest.Scene{Title: "x", Author: "flux", SourceBranch: fmt.Sprint("b", i)})
		commits = append(commits, mr.Head)
	}
	return repo, commits
}

// brief are the fields that a request for many commits returns.
func brief(list []forge.Status) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s %s %s", s.Context, s.State, s.Updated.Format("15:04:05")))
	}
	return strings.Join(out, ", ")
}

// One query returns the statuses of many commits, as a request for each of them does. Commits with child pipelines, and
// those with more jobs or pipelines than the query asks for, are left out.
func TestStatusesOfMany(t *testing.T) {
	w := newWorld(t)
	repo, commits := bulkScene(t, w)
	post := func(i int, state, name string) {
		w.server.SetStatus(repo.Path, commits[i], "flux", state, name, "said")
	}
	for i, state := range []string{"success", "failed", "pending", "running", "canceled", "skipped"} {
		post(i, "running", "kustomization/shop/1")
		post(i, state, "kustomization/shop/1") // again in the same pipeline
		post(i, "success", "build")
	}
	const twice, jobs, pipelines, child, none = 6, 7, 8, 9, 10
	post(twice, "failed", "kustomization/shop/1")
	w.server.NewPipeline(repo.Path, commits[twice])
	post(twice, "success", "kustomization/shop/1")
	post(twice, "success", "kustomization/web/1")
	for i := range 50 {
		post(jobs, "success", fmt.Sprint("many/", i))
	}
	for range 5 {
		w.server.NewPipeline(repo.Path, commits[pipelines])
		post(pipelines, "success", "one")
	}
	w.server.Trigger(repo.Path, commits[child], "flux", "deploy", "kustomization/shop/1", "failed")
	requests := w.server.Requests()
	got, err := w.forge.StatusesOf(t.Context(), repo, commits)
	if err != nil {
		t.Fatal(err)
	}
	if n := w.server.Requests() - requests; n != 1 {
		t.Errorf("%d requests", n)
	}
	for i, c := range commits {
		list, ok := got[c]
		if left := i == jobs || i == pipelines || i == child; left == ok {
			t.Errorf("commit %d: in the answer: %t", i, ok)
		} else if left {
			continue
		}
		want, err := w.forge.Statuses(t.Context(), repo, c)
		if err != nil {
			t.Fatal(err)
		}
		if brief(list) != brief(want) || (i == none) != (len(want) == 0) && i < none {
			t.Errorf("commit %d: %s, want %s", i, brief(list), brief(want))
		}
	}
	if text := brief(got[commits[twice]]); !strings.Contains(text, "kustomization/shop/1 success") {
		t.Errorf("of two pipelines, the older status counts: %s", text)
	}
	if _, err := w.forge.StatusesOf(t.Context(), repo, slices.Concat(commits, commits)); !errors.Is(err,
		forge.ErrUnsupported) {
		t.Errorf("too many commits: %v", err)
	}
	if q, ok := w.forge.BulkQuota(); !ok || q.Limit == 0 {
		t.Errorf("quota %+v %t", q, ok)
	}
}

// GitLab answers with empty lists if the credential may not read pipelines, so that an answer without any pipeline says
// nothing.
func TestStatusesOfManyWithoutPipelines(t *testing.T) {
	w := newWorld(t)
	repo, commits := bulkScene(t, w)
	w.server.SetStatus(repo.Path, commits[0], "flux", "success", "kustomization/shop/1", "")
	w.server.AddUser("reader", "token-of-a-guest", true)
	w.server.Grant(repo.Path, "reader", fakegitlab.Guest)
	guest, err := gitlab.New(gitlab.Config{
		URL: w.url + "/api/v4", Token: "token-of-a-guest", Clock: w.now,
		Sleep: w.sleep,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := guest.StatusesOf(t.Context(), repo, commits); err != nil || len(got) != 0 {
		t.Errorf("a guest reads %v: %v", got, err)
	}
	if got, err := w.forge.StatusesOf(t.Context(), repo, commits[1:]); err != nil || len(got) != 0 {
		t.Errorf("an answer without any pipeline: %v: %v", got, err)
	}
	if got, err := w.forge.StatusesOf(t.Context(), repo, commits); err != nil || len(got) != len(commits) {
		t.Errorf("an answer with a pipeline: %v: %v", got, err)
	}
}

// What refuses queries is told apart from an outage: single commits may still be read.
func TestStatusesOfManyRefused(t *testing.T) {
	w := newWorld(t)
	repo, commits := bulkScene(t, w)
	if _, err := w.forge.StatusesOf(t.Context(), forge.Repository{Path: "acme/none"}, commits); !errors.Is(err,
		forge.ErrUnsupported) {
		t.Errorf("unknown project: %v", err)
	}
	w.server.AddJobToken(repo.Path, "job")
	job, err := gitlab.New(gitlab.Config{URL: w.url + "/api/v4", JobToken: "job", Clock: w.now, Sleep: w.sleep})
	if err != nil {
		t.Fatal(err)
	}
	if job.BulkSize() != 0 {
		t.Error("the token of a job sends queries")
	}
	for _, body := range []string{
		`{"errors":[{"message":"Query has complexity of 251, which exceeds max complexity of 250"}]}`,
		`{"data":{"project":{"c0":null}},"errors":[{"message":"timeout","path":["project","c0"]}]}`,
		`{"data":{"project":{"c0":{"nodes":[{"jobs":{"nodes":[{"id":"gid://gitlab/Ci::Build/1","name":null,"kind":"BUILD","status":"SUCCESS"}]}}]}}},"errors":[{"message":"x"}]}`,
	} {
		f, err := gitlab.New(gitlab.Config{
			URL: w.url + "/api/v4", Token: token, Clock: w.now, Sleep: w.sleep,
			Transport: said(body),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.StatusesOf(t.Context(), repo, commits[:1]); !errors.Is(err, forge.ErrUnsupported) {
			t.Errorf("%s: the result of StatusesOf is %v, the error is %v", body, got, err)
		}
	}
	// A job whose name the credential may not read hides the commit, not the answer.
	hidden := `{"data":{"project":{"c0":{"nodes":[{"jobs":{"nodes":[{"id":"gid://gitlab/Ci::Build/1","name":null,"kind":"BUILD","status":"SUCCESS"}]}}]},"c1":{"nodes":[]}}}}`
	f, err := gitlab.New(gitlab.Config{
		URL: w.url + "/api/v4", Token: token, Clock: w.now, Sleep: w.sleep,
		Transport: said(hidden),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.StatusesOf(t.Context(), repo, commits[:2]); err != nil || len(got) != 1 || got[commits[1]] == nil {
		t.Errorf("the result of StatusesOf is %v, the error is %v", got, err)
	}
}

// An answer that lies about the form, is partial or is too large hides what it is about, and is never taken for a
// success or for a commit without a status.
func TestStatusesOfManyHostile(t *testing.T) {
	w := newWorld(t)
	repo, commits := bulkScene(t, w)
	job := func(id, kind, status string) string {
		return fmt.Sprintf(`{"id":%q,"name":"kustomization/shop/1","kind":%q,"status":%q}`, id, kind, status)
	}
	good := job("gid://gitlab/GenericCommitStatus/7", "GENERIC", "FAILED")
	jobs := func(list string) string { return `{"nodes":[{"jobs":{"nodes":` + list + `}}]}` }
	for name, c := range map[string]struct {
		c0   string // the pipelines of the first commit
		want string // its statuses; "hidden": none is known; "error": there is no answer
	}{
		"as it is":               {jobs("[" + good + "]"), "failure"},
		"no pipeline":            {`{"nodes":[]}`, ""},
		"pipelines are null":     {`{"nodes":null}`, "hidden"},
		"pipelines are missing":  {`{}`, "hidden"},
		"a pipeline is null":     {`{"nodes":[null]}`, "hidden"},
		"jobs are null":          {jobs("null"), "hidden"},
		"jobs are missing":       {`{"nodes":[{"jobs":{}}]}`, "hidden"},
		"a job is null":          {jobs("[" + good + ",null]"), "hidden"},
		"an id without a number": {jobs("[" + job("gid://gitlab/x/", "GENERIC", "SUCCESS") + "]"), "hidden"},
		"an id beyond 64 bits": {
			jobs("[" + job("gid://gitlab/x/99999999999999999999", "GENERIC", "SUCCESS") + "]"),
			"hidden",
		},
		"an older success": {jobs("[" + good + "," + job("gid://gitlab/GenericCommitStatus/6", "GENERIC",
			"SUCCESS") + "]"), "failure"},
		"a state that is new": {
			jobs("[" + job("gid://gitlab/GenericCommitStatus/7", "GENERIC", "SUCCESSFUL") + "]"),
			"pending",
		},
		"a child pipeline": {jobs("[" + job("gid://gitlab/Ci::Bridge/7", "BRIDGE", "SUCCESS") + "]"), "hidden"},
		"fifty jobs":       {jobs("[" + strings.Repeat(good+",", 49) + good + "]"), "hidden"},
		"five pipelines": {`{"nodes":[` + strings.Repeat(`{"jobs":{"nodes":[]}},`, 4) +
			`{"jobs":{"nodes":[]}}]}`, "hidden"},
		"a text":          {`"success"`, "error"},
		"a list":          {`[]`, "error"},
		"deep":            {strings.Repeat("[", 20_000), "error"},
		"forty megabytes": {jobs("[" + strings.Repeat(" ", 40<<20) + "]"), "error"},
	} {
		t.Run(name, func(t *testing.T) {
			body := said(`{"data":{"project":{"c0":` + c.c0 + `,"c1":` + jobs("["+good+"]") + `,"c99":` +
				jobs("["+good+"]") + `}}}`)
			f, err := gitlab.New(gitlab.Config{
				URL: w.url + "/api/v4", Token: token, Clock: w.now, Sleep: w.sleep,
				Transport: body,
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.StatusesOf(t.Context(), repo, commits[:2])
			if (err != nil) != (c.want == "error") {
				t.Fatalf("the error is %v, want %q", err, c.want)
			}
			if err != nil {
				return
			}
			list, ok := got[commits[0]]
			if ok == (c.want == "hidden") || len(got[commits[1]]) != 1 || len(got) > 2 {
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
