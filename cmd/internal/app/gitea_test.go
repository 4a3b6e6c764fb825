package app_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/bed/bedtest"
)

// bedStories need more real servers than a Gitea.
var bedStories = []string{"TestFluxAppliesWaves", "TestFromFlux", "TestArgoCDAppliesWaves", "TestFromArgoCD", "TestFluxUpgradesClusters"}

// giteaStories are also played on a real Gitea if the bed is built (docs/bed.md).
var giteaStories = []string{
	"TestStory", "TestLostWebhooks", "TestUntrustedContributors", "TestTrustOfAnotherHead", "TestChat",
	"TestPromotionByChat", "TestPromotionRequest", "TestUnprotectedBranches", "TestDraftsAndLabels",
	"TestRetargetAndReopen", "TestMergeRequestsOfOtherRepositories", "TestOutputRepository",
}

// giteaFolder is the folder of the giteaTemplate. TestMain removes it.
var giteaFolder = filepath.Join(os.TempDir(), fmt.Sprint("gitea-template-", os.Getpid()))

// giteaTemplate returns the new Gitea of which each story starts a copy.
var giteaTemplate = sync.OnceValues(func() (*bedtest.GiteaTemplate, error) {
	return bedtest.NewGiteaTemplate(context.Background(), giteaFolder)
})

// tea is a real Gitea with the people of a story.
type tea struct {
	*bedtest.Gitea
	t     *testing.T
	life  context.Context  // that does not end before the cleanup of the test
	relay *httptest.Server // of its webhooks
	take  func(event string, body []byte)
}

// startGitea starts a Gitea whose webhooks the story delivers, as it delivers those of the fakes.
func (s *story) startGitea() (token string) {
	s.t.Helper()
	template, err := giteaTemplate()
	if err != nil {
		s.t.Fatal(err)
	}
	g, err := template.Start(s.t.Context(), s.t.TempDir(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(g.Close)
	w := &tea{Gitea: g, t: s.t, life: context.WithoutCancel(s.t.Context()), take: s.deliver}
	s.tea, s.git, s.forge = w, &httptest.Server{URL: g.URL}, &httptest.Server{URL: g.URL}
	w.relay = httptest.NewServer(http.HandlerFunc(w.event))
	s.t.Cleanup(w.relay.Close)
	for _, login := range []string{"sluice-bot", "ada", "mia", "eve"} {
		_, err := g.AddUser(s.t.Context(), login)
		w.check(err)
	}
	w.repository(repo)
	for login, permission := range map[string]string{"ada": "write", "mia": "admin"} {
		w.check(g.Grant(s.t.Context(), repo, login, permission))
	}
	w.check(g.ProtectOutput(s.t.Context(), repo, "sluice-bot", "mia"))
	token, err = g.Token(s.t.Context(), "sluice-bot")
	w.check(err)
	return token
}

// event receives a webhook of Gitea. It checks Gitea's signature, because the story signs what it delivers.
func (w *tea) event(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	if got := r.Header.Get("X-Gitea-Signature"); err != nil || got != hex.EncodeToString(mac.Sum(nil)) {
		w.t.Errorf("the signature of a webhook is %q: %v", got, err)
	}
	w.take(r.Header.Get("X-Gitea-Event"), body)
}

func (w *tea) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// bare returns the folder of a repository.
func (w *tea) bare(path string) string { return filepath.Join(w.Dir, "repositories", path+".git") }

// remote returns the address that a person pushes to.
func (w *tea) remote(path, login string) string {
	u, err := url.Parse(w.URL)
	w.check(err)
	u.User, u.Path = url.UserPassword(login, bedtest.Password), "/"+path+".git"
	return u.String()
}

// repository creates an empty repository that the bot administers, with a webhook.
func (w *tea) repository(path string) {
	w.t.Helper()
	w.check(w.AddEmptyRepository(w.life, path))
	w.check(w.Grant(w.life, path, "sluice-bot", "admin"))
	w.check(w.AddHook(w.life, path, w.relay.URL, secret, "push", "pull_request", "pull_request_sync",
		"pull_request_label", "pull_request_comment"))
}

// fork forks the repository. What is pushed from now on goes to the fork too.
func (s *story) fork(login, branch string) {
	s.t.Helper()
	s.tea.check(s.tea.As(login).Do(s.tea.life, http.MethodPost, "/repos/"+repo+"/forks", map[string]any{}, nil))
	work := filepath.Join(s.dir, "work")
	fork := s.tea.remote(login+"/"+path.Base(repo), login)
	for _, address := range []string{s.remote(repo), fork} {
		s.run(work, "remote", "set-url", "--add", "--push", "origin", address)
	}
	s.run(work, "push", "-q", fork, "HEAD:"+branch)
}

func (w *tea) open(path string, r bedtest.GiteaRequest) int {
	w.t.Helper()
	if r.Title == "" {
		r.Title = "Change " + r.Source
	}
	pr, err := w.Open(w.life, path, r)
	w.check(err)
	return pr.Number
}

// head returns the head of a merge request; "" if there is none.
func (w *tea) head(path string, number int) string {
	pr, err := w.Pull(w.life, path, number)
	if err != nil {
		return ""
	}
	return pr.Head.SHA
}

func (w *tea) numbers(path string) (out []int) {
	all, err := w.Pulls(w.life, path)
	w.check(err)
	for _, pr := range all {
		out = append(out, pr.Number)
	}
	return out
}

// said returns the comments of a user.
func (w *tea) said(path string, number int, login string) (out []string) {
	all, err := w.Comments(w.life, path, number)
	w.check(err)
	for _, c := range all {
		if c.User.Login == login {
			out = append(out, c.Body)
		}
	}
	return out
}

// state returns the state of a status.
func (w *tea) state(path, sha, context string) string {
	if sha == "" {
		return ""
	}
	all, err := w.Statuses(w.life, path, sha)
	w.check(err)
	i := slices.IndexFunc(all, func(s bedtest.GiteaStatus) bool { return s.Context == context })
	if i < 0 {
		return ""
	}
	return all[i].State
}

// edit changes fields of a merge request.
func (w *tea) edit(path string, number int, fields map[string]any) {
	w.t.Helper()
	w.check(w.As("ada").Do(w.life, http.MethodPatch, fmt.Sprintf("/repos/%s/pulls/%d", path, number), fields, nil))
}

// label sets the labels of a merge request, and creates those that do not exist.
func (w *tea) label(path string, number int, names ...string) {
	w.t.Helper()
	var known []struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
	}
	w.check(w.As("").Do(w.life, http.MethodGet, "/repos/"+path+"/labels", nil, &known))
	ids := []int64{}
	for _, name := range names {
		one := struct {
			ID int64 `json:"id"`
		}{}
		for _, k := range known {
			if k.Name == name {
				one.ID = k.ID
			}
		}
		if one.ID == 0 {
			w.check(w.As("").Do(w.life, http.MethodPost, "/repos/"+path+"/labels",
				map[string]any{"name": name, "color": "#00aabb"}, &one))
		}
		ids = append(ids, one.ID)
	}
	w.check(w.As("ada").Do(w.life, http.MethodPut, fmt.Sprintf("/repos/%s/issues/%d/labels", path, number),
		map[string]any{"labels": ids}, nil))
}

// unprotect removes the rules of branch protection.
func (w *tea) unprotect(path string) {
	w.t.Helper()
	var rules []struct {
		Name string `json:"rule_name"`
	}
	w.check(w.As("").Do(w.life, http.MethodGet, "/repos/"+path+"/branch_protections", nil, &rules))
	for _, r := range rules {
		w.check(w.As("").Do(w.life, http.MethodDelete, "/repos/"+path+"/branch_protections/"+
			url.PathEscape(r.Name), nil, nil))
	}
}
