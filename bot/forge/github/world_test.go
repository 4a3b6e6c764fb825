package github_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/github"
)

func TestContractWithToken(t *testing.T) { forgetest.Run(t, backend{}) }

func TestContractWithApp(t *testing.T) { forgetest.Run(t, backend{app: true}) }

type backend struct{ app bool }

func (b backend) New(t *testing.T) forgetest.World {
	t.Helper()
	return newWorld(t, b.app)
}

// signingKey is generated once, because that takes a while.
var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// world is a new, empty GitHub.
type world struct {
	server *fakegithub.Server
	forge  *github.Forge
	config github.Config
	app    bool
	self   forge.User

	mu    sync.Mutex
	waits []time.Duration
	at    time.Time
}

func newWorld(t *testing.T, app bool) *world {
	t.Helper()
	w := &world{app: app, at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.server = fakegithub.New(fakegithub.Options{Clock: w.now})
	server := httptest.NewServer(w.server)
	t.Cleanup(server.Close)
	w.config = github.Config{
		URL: server.URL, Clock: w.now, Sleep: w.sleep,
		Transport: described(t, http.DefaultTransport),
	}
	if app {
		w.server.AddApp(fakegithub.App{ID: 7, ClientID: "Iv1.abc", Slug: "sluice", Key: &signingKey().PublicKey})
		w.server.Install(7, "acme")
		w.self = forge.User{Login: "sluice[bot]", Bot: true}
		w.config.App = &github.App{ID: 7, PrivateKey: pemOf(signingKey())}
	} else {
		id, token := w.server.AddUser("robot")
		w.self, w.config.Token = forge.User{ID: id, Login: "robot"}, token
	}
	w.forge = w.adapter(t, w.config)
	return w
}

func (w *world) adapter(t *testing.T, c github.Config) *github.Forge {
	t.Helper()
	f, err := github.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func pemOf(key *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

func (w *world) sleep(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits, w.at = append(w.waits, d), w.at.Add(d)
	return ctx.Err()
}

func (w *world) Forge() forge.Forge { return w.forge }

func (w *world) Self() forge.User { return w.self }

func (w *world) Checks() bool { return w.app }

func (w *world) Repository(_ *testing.T, path string) forge.Repository {
	w.server.AddRepository(path, "")
	w.server.Grant(path, w.self.Login, "write")
	return forge.Repository{Path: path}
}

func (w *world) User(_ *testing.T, login string) forge.User {
	id, _ := w.server.AddUser(login)
	return forge.User{ID: id, Login: login}
}

func (w *world) Grant(_ *testing.T, repo forge.Repository, login string, a forge.Access) {
	w.server.Grant(repo.Path, login, a.String())
}

func (w *world) Team(_ *testing.T, team string, members, pending []string) {
	w.server.AddTeam(team, members, pending)
}

func (w *world) Protect(_ *testing.T, repo forge.Repository, branch string) {
	w.server.AddRules(repo.Path, branch)
}

func (w *world) Open(t *testing.T, repo forge.Repository, s forgetest.Scene) forge.MergeRequest {
	t.Helper()
	pr := fakegithub.PR{
		Title: s.Title, Body: s.Body, Author: s.Author, Head: s.SourceBranch, Base: s.TargetBranch,
		Labels: s.Labels, Draft: s.Draft,
	}
	if pr.Author == "" {
		pr.Author = w.self.Login
	}
	if s.Fork {
		_, name, _ := strings.Cut(repo.Path, "/")
		pr.HeadRepo = pr.Author + "/" + name
		w.server.AddFork(pr.HeadRepo, "")
	}
	got, err := w.server.OpenPR(repo.Path, pr)
	if err != nil {
		t.Fatal(err)
	}
	return forge.MergeRequest{Number: got.Number, Title: got.Title, Head: got.HeadSHA}
}

func (w *world) Push(t *testing.T, repo forge.Repository, number int) string {
	t.Helper()
	head, err := w.server.PushPR(repo.Path, number)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func (w *world) Merge(t *testing.T, repo forge.Repository, number int) string {
	t.Helper()
	sha, err := w.server.MergePR(repo.Path, number, "ada")
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

func (w *world) Close(t *testing.T, repo forge.Repository, number int) {
	t.Helper()
	if err := w.server.ClosePR(repo.Path, number); err != nil {
		t.Fatal(err)
	}
}

func (w *world) Comment(t *testing.T, repo forge.Repository, number int, login, body string) forge.Comment {
	t.Helper()
	c, err := w.server.CommentPR(repo.Path, number, login, body)
	if err != nil {
		t.Fatal(err)
	}
	return forge.Comment{ID: c.ID, Body: c.Body}
}

func (w *world) Report(t *testing.T, repo forge.Repository, commit, login string, s forge.Status) {
	t.Helper()
	state := strings.Replace(string(s.State), "running", "pending", 1)
	err := w.server.SetStatus(repo.Path, fakegithub.Status{
		SHA: commit, State: state, Context: s.Context,
		Description: s.Description, Creator: login,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) Fail(_ *testing.T, f forgetest.Fault) {
	kinds := map[forgetest.FaultKind]fakegithub.FaultKind{
		forgetest.RateLimited: fakegithub.TooMany, forgetest.Broken: fakegithub.BadGateway,
		forgetest.Lost:    fakegithub.Lost,
		forgetest.TooLong: fakegithub.TooLong, forgetest.Denied: fakegithub.Denied,
		forgetest.SignedOut: fakegithub.Unauthorized,
	}
	// The faults of the suite apply to repositories; requests of the App itself still work.
	w.server.Fail(fakegithub.Fault{
		Kind: kinds[f.Kind], Method: []string{"", "GET", "!GET"}[f.On], Path: "/repos/acme/fleet/", Times: f.Times,
		RetryAfter: f.RetryAfter,
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
	for _, c := range w.server.Comments(repo.Path, number) {
		out = append(out, forge.Comment{ID: c.ID, Author: forge.User{Login: c.Author}, Body: c.Body})
	}
	return out
}

func (w *world) Reactions(_ *testing.T, repo forge.Repository, _ int, comment int64) []forge.Reaction {
	var out []forge.Reaction
	for _, r := range w.server.Reactions(repo.Path, comment) {
		if login, content, _ := strings.Cut(r, " "); login == w.self.Login {
			out = append(out, forge.Reaction(content))
		}
	}
	return out
}

func (w *world) Check(_ *testing.T, repo forge.Repository, commit, name string) (forge.Check, bool) {
	var out forge.Check
	found := false
	for _, c := range w.server.Checks(repo.Path, commit) {
		if c.Name != name {
			continue
		}
		state := map[string]forge.StatusState{
			"queued": forge.Pending, "in_progress": forge.Running,
			"success": forge.Success, "failure": forge.Failure,
		}
		out = forge.Check{
			Name: c.Name, Commit: c.SHA, State: state[c.Status], Title: c.Title, Summary: c.Summary,
			URL: c.Details,
		}
		if c.Status == "completed" {
			out.State = state[c.Conclusion]
		}
		for _, a := range c.Annotations {
			out.Annotations = append(out.Annotations, forge.Annotation{
				Path: a.Path, Line: a.Start, Title: a.Title,
				Message: a.Message,
			})
		}
		found = true
	}
	return out, found
}

func (w *world) Numbers(_ *testing.T, repo forge.Repository) []int {
	var out []int
	for _, p := range w.server.PRs(repo.Path) {
		out = append(out, p.Number)
	}
	return out
}

func (w *world) Reviewers(_ *testing.T, repo forge.Repository, number int) []string {
	return fakegithub.Reviewers(w.server, repo.Path, number)
}

func (w *world) Deployments(_ *testing.T, repo forge.Repository) []string {
	return fakegithub.Deployments(w.server, repo.Path)
}

func (w *world) DeploymentPage(_ *testing.T, repo forge.Repository, environment string) string {
	return fakegithub.DeploymentPage(w.server, repo.Path, environment)
}
