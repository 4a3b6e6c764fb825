package gitlab_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
	"github.com/sluice-gitops/sluice/bot/forge/gitlab"
)

func TestContract(t *testing.T) { forgetest.Run(t, backend{}) }

type backend struct{}

func (backend) New(t *testing.T) forgetest.World {
	t.Helper()
	return newWorld(t)
}

// world is a new, empty GitLab.
type world struct {
	server *fakegitlab.Server
	forge  *gitlab.Forge
	url    string

	mu    sync.Mutex
	waits []time.Duration
	moved time.Duration // by waits
}

const token = "token-of-the-test"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.server = fakegitlab.New(fakegitlab.Options{})
	server := httptest.NewServer(w.server)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.server.AddUser("project_1_bot_5f3a", token, true)
	f, err := gitlab.New(gitlab.Config{
		URL: server.URL + "/api/v4", Token: token, Clock: w.now, Sleep: w.sleep,
		Transport: shapes{t, http.DefaultTransport},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.forge = f
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(w.moved)
}

func (w *world) sleep(_ context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits, w.moved = append(w.waits, d), w.moved+d
	return nil
}

func (w *world) Forge() forge.Forge { return w.forge }

func (w *world) Self() forge.User { return forge.User{Login: "project_1_bot_5f3a", Bot: true} }

func (w *world) Checks() bool { return false }

func (w *world) Repository(_ *testing.T, path string) forge.Repository {
	w.server.AddProject(path, "")
	w.server.Grant(path, w.Self().Login, fakegitlab.Maintainer)
	return forge.Repository{Path: path}
}

func (w *world) User(_ *testing.T, login string) forge.User {
	return forge.User{ID: int64(w.server.AddUser(login, "", false)), Login: login}
}

func (w *world) Grant(_ *testing.T, repo forge.Repository, login string, a forge.Access) {
	w.server.Grant(repo.Path, login, []int{
		0, fakegitlab.Reporter, fakegitlab.Developer, fakegitlab.Maintainer,
		fakegitlab.Owner,
	}[a])
}

func (w *world) Team(_ *testing.T, team string, members, pending []string) {
	w.server.AddGroup(team, members, pending)
}

func (w *world) Protect(_ *testing.T, repo forge.Repository, branch string) {
	w.server.Protect(repo.Path, branch, fakegitlab.Maintainer)
}

func (w *world) Open(t *testing.T, repo forge.Repository, s forgetest.Scene) forge.MergeRequest {
	t.Helper()
	if s.Author == "" {
		s.Author = w.Self().Login
	}
	scene := fakegitlab.MergeRequest{
		Title: s.Title, Body: s.Body, Author: s.Author, SourceBranch: s.SourceBranch,
		TargetBranch: s.TargetBranch, Labels: s.Labels,
	}
	if s.Draft {
		scene.Title = "Draft: " + s.Title
	}
	if s.Fork {
		scene.SourceProject = s.Author + "/fork"
		w.server.AddProject(scene.SourceProject, "")
		w.server.Grant(scene.SourceProject, w.Self().Login, fakegitlab.Reporter)
	}
	iid := w.server.Open(repo.Path, scene)
	return forge.MergeRequest{Number: iid, Title: s.Title, Head: w.server.Head(repo.Path, iid)}
}

func (w *world) Push(_ *testing.T, repo forge.Repository, number int) string {
	return w.server.Push(repo.Path, number)
}

func (w *world) Merge(t *testing.T, repo forge.Repository, number int) string {
	t.Helper()
	sha, err := w.server.Merge(repo.Path, number, "ada")
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

func (w *world) Close(_ *testing.T, repo forge.Repository, number int) {
	w.server.Close(repo.Path, number)
}

func (w *world) Comment(_ *testing.T, repo forge.Repository, number int, login, body string) forge.Comment {
	return forge.Comment{ID: int64(w.server.Comment(repo.Path, number, login, body)), Body: body}
}

func (w *world) Report(_ *testing.T, repo forge.Repository, commit, login string, s forge.Status) {
	state := map[forge.StatusState]string{
		forge.Pending: "pending", forge.Running: "running", forge.Success: "success",
		forge.Failure: "failed",
	}[s.State]
	w.server.SetStatus(repo.Path, commit, login, state, s.Context, s.Description)
}

func (w *world) Fail(_ *testing.T, f forgetest.Fault) {
	w.server.Fail(fakegitlab.Fault{
		Kind: map[forgetest.FaultKind]fakegitlab.FaultKind{
			forgetest.RateLimited: fakegitlab.TooMany, forgetest.Broken: fakegitlab.BadGateway,
			forgetest.Lost:    fakegitlab.Lost,
			forgetest.TooLong: fakegitlab.TooLong, forgetest.Denied: fakegitlab.Denied,
			forgetest.SignedOut: fakegitlab.Unauthorized,
		}[f.Kind],
		Method: []string{"", "GET", "!GET"}[f.On], Times: f.Times, RetryAfter: f.RetryAfter,
	})
}

func (w *world) Requests() int { return w.server.Requests() }

func (w *world) Waits() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waits
}

func (w *world) Comments(_ *testing.T, repo forge.Repository, number int) []forge.Comment {
	var out []forge.Comment
	for _, n := range w.server.Notes(repo.Path, number) {
		out = append(out, forge.Comment{ID: int64(n.ID), Author: forge.User{Login: n.Author}, Body: n.Body})
	}
	return out
}

func (w *world) Reactions(_ *testing.T, repo forge.Repository, number int, comment int64) []forge.Reaction {
	var out []forge.Reaction
	for _, n := range w.server.Notes(repo.Path, number) {
		if int64(n.ID) == comment {
			for _, e := range n.Emojis {
				out = append(out, forge.Reaction(e))
			}
		}
	}
	return out
}

func (w *world) Deployments(_ *testing.T, repo forge.Repository) []string {
	return fakegitlab.Deployments(w.server, repo.Path)
}

func (w *world) DeploymentPage(_ *testing.T, repo forge.Repository, environment string) string {
	return fakegitlab.EnvironmentPage(w.server, repo.Path, environment)
}

func (w *world) Reviewers(_ *testing.T, repo forge.Repository, number int) []string {
	return fakegitlab.Reviewers(w.server, repo.Path, number)
}

func (w *world) Check(*testing.T, forge.Repository, string, string) (forge.Check, bool) {
	return forge.Check{}, false
}

func (w *world) Numbers(_ *testing.T, repo forge.Repository) []int {
	return w.server.Numbers(repo.Path)
}

// shapes compares every request and answer with https://docs.gitlab.com/api/.
type shapes struct {
	t    *testing.T
	next http.RoundTripper
}

func (s shapes) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := fakegitlab.CheckRequest(r); err != nil {
		s.t.Errorf("request %s %s: %v", r.Method, r.URL.Path, err)
	}
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	if err := fakegitlab.CheckAnswer(r, resp.StatusCode, data); err != nil {
		s.t.Errorf("answer to %s %s: %v", r.Method, r.URL.Path, err)
	}
	return resp, nil
}

func TestJobToken(t *testing.T) {
	w := newWorld(t)
	repo := w.Repository(t, "acme/fleet")
	w.server.AddJobToken(repo.Path, "job")
	f, err := gitlab.New(gitlab.Config{URL: w.url + "/api/v4", JobToken: "job", Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Self(t.Context()); !errors.Is(err, forge.ErrUnsupported) {
		t.Errorf("self: %v", err)
	}
	if _, err := f.MergeRequest(t.Context(), repo, 1); !errors.Is(err, forge.ErrForbidden) {
		t.Errorf("merge request: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []gitlab.Config{
		{Clock: time.Now},
		{Clock: time.Now, Token: "a", JobToken: "b"},
		{Token: "a"},
		{Clock: time.Now, Token: "a", URL: "http://gitlab.example.com/api/v4"},
		{Clock: time.Now, Token: "a", URL: "https://u:p@gitlab.example.com/api/v4"},
	} {
		if _, err := gitlab.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// A credential never goes to another host.
func TestRedirect(t *testing.T) {
	seen := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen = true }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+r.URL.Path, http.StatusFound)
	}))
	defer server.Close()
	f, err := gitlab.New(gitlab.Config{URL: server.URL, Token: "a", Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Self(t.Context()); err == nil || seen {
		t.Errorf("followed: %v, %v", seen, err)
	}
}

func TestMachineNames(t *testing.T) {
	w := newWorld(t)
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	mr := w.Open(t, repo, forgetest.Scene{Title: "x", Author: "ada", SourceBranch: "x"})
	for login, bot := range map[string]bool{
		"project_12_bot": true, "project_12_bot3": true, "group_7_bot_0a1b2c": true,
		"ada": false, "robot": false, "project_bot": false,
	} {
		w.User(t, login)
		said := w.Comment(t, repo, mr.Number, login, "hello")
		got, err := w.forge.Comment(t.Context(), repo, mr.Number, said.ID)
		if err != nil || got.Author.Bot != bot {
			t.Errorf("%s: the result of Comment is %+v, the error is %v", login, got, err)
		}
	}
}

// A user who takes the former name of a member does not get the member's rights. A member who takes the former name
// of a non-member has their rights at once.
func TestNameChangesHands(t *testing.T) {
	names := map[string]string{"1": "alice", "2": "mallory"} // by id
	levels := map[string]int{"1": 40}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/users"):
			for id, name := range names {
				if name == r.URL.Query().Get("username") {
					_, _ = fmt.Fprintf(w, `[{"id": %s, "username": %q}]`, id, name)
				}
			}
		case strings.Contains(path, "/members/all/") && levels[id] > 0:
			_, _ = fmt.Fprintf(w, `{"id": %s, "username": %q, "state": "active", "access_level": %d}`, id, names[id],
				levels[id])
		case strings.Contains(path, "/members/all/"):
			http.Error(w, `{"message": "404 Not found"}`, http.StatusNotFound)
		case strings.Contains(path, "/groups/"):
			_, _ = io.WriteString(w, `{"id": 1, "full_path": "sre"}`)
		default:
			_, _ = io.WriteString(w, `{"id": 1, "visibility": "public"}`)
		}
	}))
	defer server.Close()
	f, err := gitlab.New(gitlab.Config{URL: server.URL, Token: "a", Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	see := func(login string, access forge.Access, member bool) {
		t.Helper()
		if got, err := f.Access(t.Context(), forge.Repository{Path: "acme/fleet"}, login); err != nil || got != access {
			t.Errorf("%s has %v, not %v: %v", login, got, access, err)
		}
		if got, err := f.InTeam(t.Context(), forge.Repository{Path: "acme/fleet"}, "acme/sre", login); err != nil ||
			got != member {
			t.Errorf("%s is in the team: %t, not %t: %v", login, got, member, err)
		}
	}
	see("alice", forge.AccessMaintain, true)
	see("mallory", forge.AccessRead, false)
	names["1"], names["2"] = "mallory", "alice"
	see("alice", forge.AccessRead, false)
	see("mallory", forge.AccessMaintain, true)
}

// GitLab ignores the case of paths, so a configured path in another case has the same merge requests, and their
// authors are known.
func TestMergeRequestsOfOtherCase(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/merge_requests") {
			_, _ = io.WriteString(w,
				`[{"iid": 7, "state": "merged", "source_project_id": 1, "target_project_id": 1, "author": {"id": 1, "username": "alice"}}]`)
			return
		}
		_, _ = io.WriteString(w, `{"id": 1, "path_with_namespace": "acme/fleet"}`)
	}))
	defer server.Close()
	f, err := gitlab.New(gitlab.Config{URL: server.URL, Token: "a", Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"acme/fleet": 1, "Acme/Fleet": 1, "fork/fleet": 0} {
		if got, err := f.MergeRequestsOf(t.Context(), forge.Repository{Path: path},
			strings.Repeat("a", 40)); err != nil || len(got) != want {
			t.Errorf("%s: %d merge requests: %v", path, len(got), err)
		}
	}
}

// A commit can have more merge requests than fit on a page of GitLab's default size. None is left out, because the
// authors of all of them may not approve a promotion of the commit. The paths of the projects are read once, however
// many merge requests they have.
func TestMergeRequestsOfAllPages(t *testing.T) {
	const all, defaultSize = 150, 20
	lookups := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/merge_requests") {
			lookups++
			_, _ = fmt.Fprintf(w, `{"id": 1, "path_with_namespace": %q}`,
				map[bool]string{true: "acme/fleet", false: "eve/fleet"}[strings.HasSuffix(r.URL.Path, "/1")])
			return
		}
		number := func(name string, otherwise int) int {
			if n, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil {
				return n
			}
			return otherwise
		}
		page, size := number("page", 1), number("per_page", defaultSize)
		var list []string
		for i := (page - 1) * size; i < min(page*size, all); i++ {
			list = append(list, fmt.Sprintf(`{"iid": %d, "state": "opened", "source_project_id": %d, "target_project_id": %[2]d}`, i+1, 1+i%2))
		}
		if page*size < all {
			w.Header().Set("X-Next-Page", strconv.Itoa(page+1))
		}
		_, _ = fmt.Fprintf(w, "[%s]", strings.Join(list, ","))
	}))
	defer server.Close()
	f, err := gitlab.New(gitlab.Config{URL: server.URL, Token: "a", Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.MergeRequestsOf(t.Context(), forge.Repository{Path: "acme/fleet"}, strings.Repeat("a", 40))
	if err != nil || len(got) != all/2 {
		t.Errorf("%d of %d merge requests of the project: %v", len(got), all/2, err)
	}
	if lookups > 3 { // the path of the fork twice: it could have been renamed
		t.Errorf("%d requests for the paths of 2 projects", lookups)
	}
}

// Merge requests of a renamed project are found under its new path at once. The source of a fork's merge request has
// its new path after projectLife.
func TestMergeRequestsAfterARename(t *testing.T) {
	name, fork := "acme/fleet", "eve/fleet"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/merge_requests"):
			_, _ = io.WriteString(w,
				`[{"iid": 7, "state": "merged", "source_project_id": 2, "target_project_id": 1, "author": {"id": 1, "username": "alice"}}]`)
		case strings.HasSuffix(r.URL.Path, "/2"):
			_, _ = fmt.Fprintf(w, `{"id": 2, "path_with_namespace": %q}`, fork)
		default:
			_, _ = fmt.Fprintf(w, `{"id": 1, "path_with_namespace": %q}`, name)
		}
	}))
	defer server.Close()
	now := time.Unix(0, 0)
	f, err := gitlab.New(gitlab.Config{URL: server.URL, Token: "a", Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	see := func(path, source string) {
		t.Helper()
		got, err := f.MergeRequestsOf(t.Context(), forge.Repository{Path: path}, strings.Repeat("a", 40))
		if err != nil || len(got) != 1 || got[0].SourceRepo != source {
			t.Errorf("%s: %+v, %v, want one of %s", path, got, err, source)
		}
	}
	see("acme/fleet", "eve/fleet")
	name, fork = "acme/clusters", "eve/clusters"
	see("acme/clusters", "eve/fleet")
	now = now.Add(time.Hour)
	see("acme/clusters", "eve/clusters")
}

// A public project can keep its repository to its members. A guest of a public project reads what everybody reads, a
// guest of a private one reads no code, and a blocked member reads nothing.
func TestWhoReadsTheRepository(t *testing.T) {
	for _, c := range []struct {
		project string
		member  string // "": the user is none
		want    forge.Access
	}{
		{`"visibility": "public"`, "", forge.AccessRead},
		{`"visibility": "public", "repository_access_level": "enabled"`, "", forge.AccessRead},
		{`"visibility": "public", "repository_access_level": "private"`, "", forge.AccessNone},
		{`"visibility": "public", "repository_access_level": "disabled"`, "", forge.AccessNone},
		{`"visibility": "internal", "repository_access_level": "enabled"`, "", forge.AccessNone},
		{`"visibility": "private"`, "", forge.AccessNone},
		{
			`"visibility": "public", "repository_access_level": "enabled"`, `"state": "active", "access_level": 10`,
			forge.AccessRead,
		},
		{
			`"visibility": "public", "repository_access_level": "private"`, `"state": "active", "access_level": 10`,
			forge.AccessNone,
		},
		{
			`"visibility": "public", "repository_access_level": "private"`, `"state": "active", "access_level": 20`,
			forge.AccessRead,
		},
		{`"visibility": "private"`, `"state": "active", "access_level": 10`, forge.AccessNone},
		{`"visibility": "public"`, `"state": "blocked", "access_level": 40`, forge.AccessNone},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch path := r.URL.Path; {
			case strings.HasSuffix(path, "/users"):
				_, _ = io.WriteString(w, `[{"id": 1, "username": "alice"}]`)
			case strings.Contains(path, "/members/all/") && c.member != "":
				_, _ = fmt.Fprintf(w, `{"id": 1, "username": "alice", %s}`, c.member)
			case strings.Contains(path, "/members/all/"):
				http.Error(w, `{"message": "404 Not found"}`, http.StatusNotFound)
			default:
				_, _ = fmt.Fprintf(w, `{"id": 1, %s}`, c.project)
			}
		}))
		f, err := gitlab.New(gitlab.Config{URL: server.URL, Token: "a", Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Access(t.Context(), forge.Repository{Path: "acme/fleet"}, "alice"); err != nil ||
			got != c.want {
			t.Errorf("project %s, member {%s}: %v, not %v: %v", c.project, c.member, got, c.want, err)
		}
		server.Close()
	}
}
