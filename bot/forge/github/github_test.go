package github_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/github"
)

func TestContractWithAToken(t *testing.T) { forgetest.Run(t, backend{}) }

func TestContractAsAnApp(t *testing.T) { forgetest.Run(t, backend{app: true}) }

type backend struct{ app bool }

func (b backend) New(t *testing.T) forgetest.World { return newWorld(t, b.app) }

// world is a GitHub on which nothing has happened yet.
type world struct {
	server *fakegithub.Server
	forge  *github.Forge
	app    bool

	mu    sync.Mutex
	waits []time.Duration
	moved time.Duration // by waits
	base  int
}

const token = "token-of-the-test"

func newWorld(t *testing.T, app bool) *world {
	t.Helper()
	w := &world{app: app}
	w.server = fakegithub.New(fakegithub.Options{})
	server := httptest.NewServer(w.server)
	t.Cleanup(server.Close)
	c := github.Config{URL: server.URL, Clock: w.now, Sleep: w.sleep, Transport: described(t)}
	if app {
		w.server.AddApp(7, "sluice", "acme")
		c.App = &github.App{ID: 7, PrivateKey: privateKey(t)}
	} else {
		w.server.AddUser("sluice-bot", token)
		c.Token = token
	}
	var err error
	if w.forge, err = github.New(c); err != nil {
		t.Fatal(err)
	}
	return w
}

func privateKey(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
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

func (w *world) Self() forge.User {
	if w.app {
		return forge.User{Login: "sluice[bot]", Bot: true}
	}
	return forge.User{Login: "sluice-bot"}
}

func (w *world) Checks() bool { return w.app }

func (w *world) Repository(_ *testing.T, path string) forge.Repository {
	w.server.AddRepository(path, "")
	w.server.Grant(path, w.Self().Login, "maintain")
	return forge.Repository{Path: path}
}

func (w *world) User(_ *testing.T, login string) forge.User {
	return forge.User{ID: w.server.AddUser(login, ""), Login: login}
}

func (w *world) Grant(_ *testing.T, repo forge.Repository, login string, a forge.Access) {
	w.server.Grant(repo.Path, login, []string{"", "read", "write", "maintain", "admin"}[a])
}

func (w *world) Team(_ *testing.T, team string, members, pending []string) {
	w.server.AddTeam(team, members, pending)
}

func (w *world) Open(_ *testing.T, repo forge.Repository, s forgetest.Scene) forge.MergeRequest {
	if s.Author == "" {
		s.Author = w.Self().Login
	}
	scene := fakegithub.Scene{
		Title: s.Title, Body: s.Body, Author: s.Author, SourceBranch: s.SourceBranch, TargetBranch: s.TargetBranch, Labels: s.Labels, Draft: s.Draft,
	}
	if s.Fork {
		scene.Fork = s.Author + "/fleet"
	}
	number := w.server.Open(repo.Path, scene)
	return forge.MergeRequest{Number: number, Title: s.Title, Head: w.server.Head(repo.Path, number)}
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

func (w *world) Say(_ *testing.T, repo forge.Repository, number int, login, body string) forge.Comment {
	return forge.Comment{ID: w.server.Say(repo.Path, number, login, body), Body: body}
}

func (w *world) Report(_ *testing.T, repo forge.Repository, commit, login string, s forge.Status) {
	state := map[forge.StatusState]string{forge.Pending: "pending", forge.Running: "pending", forge.Success: "success", forge.Failure: "failure"}[s.State]
	w.server.Report(repo.Path, commit, login, state, s.Context, s.Description)
}

func (w *world) Fail(t *testing.T, f forgetest.Fault) {
	t.Helper()
	if w.app { // its token first, so that the fault meets what the test is about
		for _, path := range []string{"acme/fleet"} {
			if _, err := w.forge.GitToken(t.Context(), forge.Repository{Path: path}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.server.Fail(fakegithub.Fault{
		Kind: map[forgetest.FaultKind]fakegithub.FaultKind{
			forgetest.RateLimited: fakegithub.TooMany, forgetest.Broken: fakegithub.BadGateway, forgetest.Lost: fakegithub.Lost,
			forgetest.TooLong: fakegithub.TooLong, forgetest.Denied: fakegithub.Denied, forgetest.SignedOut: fakegithub.Unauthorized,
		}[f.Kind],
		Method: []string{"", "GET", "!GET"}[f.On], Path: "/repos/", Times: f.Times, RetryAfter: f.RetryAfter,
	})
}

func (w *world) Requests() int { return w.server.Requests() }

func (w *world) Waits() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.waits)
}

func (w *world) Comments(_ *testing.T, repo forge.Repository, number int) []forge.Comment {
	var out []forge.Comment
	for _, c := range w.server.Comments(repo.Path, number) {
		out = append(out, forge.Comment{ID: c.ID, Author: forge.User{Login: c.Author}, Body: c.Body})
	}
	return out
}

func (w *world) Reactions(_ *testing.T, repo forge.Repository, number int, comment int64) []forge.Reaction {
	var out []forge.Reaction
	for _, c := range w.server.Comments(repo.Path, number) {
		if c.ID == comment {
			for _, r := range c.Reactions {
				out = append(out, forge.Reaction(r))
			}
		}
	}
	return out
}

func (w *world) Check(_ *testing.T, repo forge.Repository, commit, name string) (forge.Check, bool) {
	c, ok := w.server.Check(repo.Path, commit, name)
	out := forge.Check{Name: name, Commit: commit, Title: c.Title, Summary: c.Summary, State: forge.Pending}
	switch {
	case c.Conclusion == "success":
		out.State = forge.Success
	case c.Conclusion != "":
		out.State = forge.Failure
	}
	for _, a := range c.Annotations {
		out.Annotations = append(out.Annotations, forge.Annotation{Path: a.Path, Line: a.Line, Title: a.Title, Message: a.Message})
	}
	return out, ok
}

func (w *world) Numbers(_ *testing.T, repo forge.Repository) []int {
	return w.server.Numbers(repo.Path)
}

func TestWorkflowToken(t *testing.T) {
	w := newWorld(t, false)
	w.Repository(t, "acme/fleet")
	w.server.AddWorkflowToken("acme/fleet", "workflow")
	server := httptest.NewServer(w.server)
	defer server.Close()
	f, err := github.New(github.Config{URL: server.URL, Token: "workflow", Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if self, err := f.Self(t.Context()); err != nil || self.Login != "github-actions[bot]" || !self.Bot {
		t.Errorf("self %+v, %v", self, err)
	}
}

func TestAppTokens(t *testing.T) {
	w := newWorld(t, true)
	repo := w.Repository(t, "acme/fleet")
	other := w.Repository(t, "acme/other")
	first, err := w.forge.GitToken(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.forge.GitToken(t.Context(), repo); err != nil || again != first {
		t.Errorf("a second token although the first holds: %v", err)
	}
	if second, err := w.forge.GitToken(t.Context(), other); err != nil || second == first {
		t.Errorf("one token for two repositories: %v", err)
	}
	w.mu.Lock()
	w.moved += 56 * time.Minute
	w.mu.Unlock()
	if later, err := w.forge.GitToken(t.Context(), repo); err != nil || later == first {
		t.Errorf("a token shortly before its end: %v", err)
	}
}

func TestDeliveries(t *testing.T) {
	w := newWorld(t, true)
	w.Repository(t, "acme/fleet")
	at := w.now()
	for _, d := range []fakegithub.Delivery{
		{GUID: "old", Code: 500, At: at.Add(-2 * time.Hour)}, {GUID: "ok", Code: 200, At: at}, {GUID: "lost", Code: 502, At: at}, {GUID: "mended", Code: 0, At: at}, {GUID: "mended", Code: 200, At: at},
	} {
		w.server.AddDelivery(d)
	}
	failed, err := w.forge.FailedDeliveries(t.Context(), at.Add(-time.Hour))
	if err != nil || len(failed) != 1 || failed[0].GUID != "lost" {
		t.Fatalf("%+v, %v", failed, err)
	}
	if err := w.forge.Redeliver(t.Context(), failed[0].ID); err != nil {
		t.Error(err)
	}
	if failed, err = w.forge.FailedDeliveries(t.Context(), at.Add(-time.Hour)); err != nil || len(failed) != 0 {
		t.Errorf("after it was sent again: %+v, %v", failed, err)
	}
	if _, err := newWorld(t, false).forge.FailedDeliveries(t.Context(), at); !errors.Is(err, forge.ErrUnsupported) {
		t.Errorf("with a token: %v", err)
	}
}
