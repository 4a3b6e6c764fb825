package gitea_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
	"github.com/sluice-gitops/sluice/bot/forge/gitea"
)

// template returns the new Gitea of which each world starts a copy. TestMain sets it.
var template func() (*bedtest.GiteaTemplate, error)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "gitea-template-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
		template = sync.OnceValues(func() (*bedtest.GiteaTemplate, error) {
			return bedtest.NewGiteaTemplate(context.Background(), dir)
		})
		return m.Run()
	}())
}

// TestContract runs the contract of the adapters against a real Gitea.
func TestContract(t *testing.T) {
	bedtest.Need(t, "gitea")
	forgetest.Run(t, backend{})
}

type backend struct{}

func (backend) New(t *testing.T) forgetest.World {
	t.Helper()
	return newWorld(t, fmt.Sprintf("[api]\nMAX_RESPONSE_ITEMS = %[1]d\nDEFAULT_PAGING_NUM = %[1]d\n", pageItems))
}

// pageItems is the length of a page in the worlds of the contract: opening a merge request takes Gitea half a second.
const pageItems = 10

// self is the user of the adapter.
const self = "sluice-bot"

// world is a new Gitea.
type world struct {
	*bedtest.Gitea
	forge *gitea.Forge
	id    int64             // of self
	next  http.RoundTripper // to Gitea

	mu       sync.Mutex
	waits    []time.Duration
	moved    time.Duration // by waits
	faults   []forgetest.Fault
	requests int
}

func newWorld(t *testing.T, settings string) *world {
	t.Helper()
	made, err := template()
	check(t, err)
	g, err := made.Start(t.Context(), t.TempDir(), settings)
	check(t, err)
	t.Cleanup(g.Close)
	w := &world{Gitea: g, next: http.DefaultTransport}
	w.id, err = g.AddUser(t.Context(), self)
	check(t, err)
	token, err := g.Token(t.Context(), self)
	check(t, err)
	w.forge, err = gitea.New(gitea.Config{URL: g.URL, Token: token, Clock: w.now, Sleep: w.sleep, Transport: w})
	check(t, err)
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// fault returns the fault of a request; false if there is none.
func (w *world) fault(r *http.Request) (forgetest.Fault, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests++
	for i := range w.faults {
		f := &w.faults[i]
		if f.Times == 0 || f.On == forgetest.OnRead && r.Method != http.MethodGet ||
			f.On == forgetest.OnWrite && r.Method == http.MethodGet {
			continue
		}
		f.Times--
		return *f, true
	}
	return forgetest.Fault{}, false
}

// RoundTrip implements http.RoundTripper: it is what lies between the adapter and Gitea.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	f, ok := w.fault(r)
	if !ok {
		return w.next.RoundTrip(r)
	}
	answer := func(code int, text string) (*http.Response, error) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return &http.Response{
			StatusCode: code, Status: http.StatusText(code), Header: http.Header{}, Request: r,
			Body: io.NopCloser(strings.NewReader(text)),
		}, nil
	}
	switch f.Kind {
	case forgetest.RateLimited: // of a proxy, as Codeberg has
		resp, err := answer(http.StatusTooManyRequests, "slow down")
		resp.Header.Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
		return resp, err
	case forgetest.Broken:
		return answer(http.StatusBadGateway, "Bad Gateway")
	case forgetest.TooLong:
		return answer(http.StatusRequestEntityTooLarge, "413 Request Entity Too Large")
	case forgetest.Denied:
		return answer(http.StatusForbidden,
			`{"message":"token does not have at least one of required scope(s): [write:issue]","url":"https://host/api/swagger"}`)
	case forgetest.SignedOut:
		return answer(http.StatusUnauthorized, `{"message":"invalid username, password or token","url":"https://host/api/swagger"}`)
	}
	resp, err := w.next.RoundTrip(r)
	if err == nil {
		_ = resp.Body.Close()
		err = errors.New("connection reset by peer")
	}
	return nil, err
}

func (w *world) Forge() forge.Forge { return w.forge }

func (w *world) Self() forge.User { return forge.User{ID: w.id, Login: self} }

func (w *world) Checks() bool { return false }

// PageItems implements forgetest.Paged.
func (w *world) PageItems() int { return pageItems }

func (w *world) Repository(t *testing.T, path string) forge.Repository {
	t.Helper()
	check(t, w.AddPrivateRepository(t.Context(), path))
	check(t, w.Gitea.Grant(t.Context(), path, self, "admin"))
	return forge.Repository{Path: path}
}

func (w *world) User(t *testing.T, login string) forge.User {
	t.Helper()
	id, err := w.AddUser(t.Context(), login)
	check(t, err)
	return forge.User{ID: id, Login: login}
}

func (w *world) Grant(t *testing.T, repo forge.Repository, login string, a forge.Access) {
	t.Helper()
	check(t, w.Gitea.Grant(t.Context(), repo.Path, login, []string{"none", "read", "write", "admin", "owner"}[a]))
}

func (w *world) Team(t *testing.T, team string, members, _ []string) {
	t.Helper()
	org, name, _ := strings.Cut(team, "/")
	check(t, w.AddTeam(t.Context(), org, name, append(members, self)...))
}

func (w *world) Protect(t *testing.T, repo forge.Repository, branch string) {
	t.Helper()
	check(t, w.Gitea.Protect(t.Context(), repo.Path, branch, self))
}

func (w *world) Open(t *testing.T, repo forge.Repository, s forgetest.Scene) forge.MergeRequest {
	t.Helper()
	r := bedtest.GiteaRequest{
		Title: s.Title, Body: s.Body, Author: s.Author, Source: s.SourceBranch, Target: s.TargetBranch, Labels: s.Labels,
		Fork: s.Fork,
	}
	if s.Author == "" {
		r.Author = self
	}
	if s.Draft {
		r.Title = "WIP: " + s.Title
	}
	if s.Fork { // to fork a private repository
		check(t, w.Gitea.Grant(t.Context(), repo.Path, r.Author, "read"))
	}
	pr, err := w.Gitea.Open(t.Context(), repo.Path, r)
	check(t, err)
	return forge.MergeRequest{Number: pr.Number, Title: s.Title, Head: pr.Head.SHA}
}

func (w *world) Push(t *testing.T, repo forge.Repository, number int) string {
	t.Helper()
	pr, err := w.Pull(t.Context(), repo.Path, number)
	check(t, err)
	head, err := w.Write(t.Context(), pr.Head.Repo.Path, pr.User.Login, pr.Head.Label)
	check(t, err)
	return head
}

func (w *world) Merge(t *testing.T, repo forge.Repository, number int) string {
	t.Helper()
	commit, err := w.Gitea.Merge(t.Context(), repo.Path, number, "ada")
	check(t, err)
	return commit
}

func (w *world) Close(t *testing.T, repo forge.Repository, number int) {
	t.Helper()
	check(t, w.CloseRequest(t.Context(), repo.Path, number))
}

func (w *world) Comment(t *testing.T, repo forge.Repository, number int, login, body string) forge.Comment {
	t.Helper()
	c, err := w.Gitea.Comment(t.Context(), repo.Path, number, login, body)
	check(t, err)
	return forge.Comment{ID: c.ID, Body: body}
}

func (w *world) Report(t *testing.T, repo forge.Repository, commit, login string, s forge.Status) {
	t.Helper()
	state := string(s.State)
	if s.State == forge.Running {
		state = "pending"
	}
	check(t, w.SetStatus(t.Context(), repo.Path, commit, login,
		bedtest.GiteaStatus{State: state, Context: s.Context, Description: s.Description}))
}

func (w *world) Fail(_ *testing.T, f forgetest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.Times = max(f.Times, 1)
	w.faults = append(w.faults, f)
}

func (w *world) Requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

func (w *world) Waits() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waits
}

func (w *world) Comments(t *testing.T, repo forge.Repository, number int) []forge.Comment {
	t.Helper()
	all, err := w.Gitea.Comments(t.Context(), repo.Path, number)
	check(t, err)
	var out []forge.Comment
	for _, c := range all {
		out = append(out, forge.Comment{ID: c.ID, Author: forge.User{ID: c.User.ID, Login: c.User.Login}, Body: c.Body})
	}
	return out
}

func (w *world) Reactions(t *testing.T, repo forge.Repository, _ int, comment int64) []forge.Reaction {
	t.Helper()
	var all []struct {
		Content string `json:"content"`
		User    struct {
			Login string `json:"login"`
		} `json:"user"`
	}
	check(t, w.As("").Do(t.Context(), http.MethodGet,
		fmt.Sprintf("/repos/%s/issues/comments/%d/reactions", repo.Path, comment), nil, &all))
	var out []forge.Reaction
	for _, r := range all {
		if r.User.Login == self {
			out = append(out, forge.Reaction(r.Content))
		}
	}
	return out
}

// Reviewers implements forgetest.Reviewed.
func (w *world) Reviewers(t *testing.T, repo forge.Repository, number int) []string {
	t.Helper()
	var pr struct {
		Users []struct {
			Login string `json:"login"`
		} `json:"requested_reviewers"`
		Teams []struct {
			Name string `json:"name"`
		} `json:"requested_reviewers_teams"`
	}
	check(t, w.As("").Do(t.Context(), http.MethodGet, fmt.Sprintf("/repos/%s/pulls/%d", repo.Path, number), nil, &pr))
	out := []string{}
	for _, u := range pr.Users {
		out = append(out, u.Login)
	}
	org, _, _ := strings.Cut(repo.Path, "/")
	for _, team := range pr.Teams {
		out = append(out, org+"/"+team.Name)
	}
	return out
}

func (w *world) Check(*testing.T, forge.Repository, string, string) (forge.Check, bool) {
	return forge.Check{}, false
}

func (w *world) Numbers(t *testing.T, repo forge.Repository) []int {
	t.Helper()
	all, err := w.Pulls(t.Context(), repo.Path)
	check(t, err)
	var out []int
	for _, pr := range all {
		out = append(out, pr.Number)
	}
	return out
}
