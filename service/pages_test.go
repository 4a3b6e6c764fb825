package service

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
	"github.com/sluice-gitops/sluice/bot/forge/gitlab"
	"github.com/sluice-gitops/sluice/service/config"
)

// silentForge does not answer.
type silentForge struct{ forge.Forge }

func (silentForge) Access(context.Context, forge.Repository, string) (forge.Access, error) {
	return forge.AccessAdmin, errors.New("502 Bad Gateway")
}

// TestWhoMayRead: who signed in with one forge sees the repositories that this forge lets the person read, and none of
// another forge.
func TestWhoMayRead(t *testing.T) {
	t.Parallel()
	hub, onHub := hubApp(t, time.Now)
	lab := fakegitlab.New(fakegitlab.Options{})
	at := httptest.NewServer(lab)
	t.Cleanup(at.Close)
	lab.AddUser("bot", "token", true)
	onLab, err := gitlab.New(gitlab.Config{
		URL: at.URL + "/api/v4", Token: "token", Clock: time.Now,
		Transport: http.DefaultTransport,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"acme/fleet", "acme/other"} {
		hub.AddRepository(path, "")
		lab.AddProject(path, "")
		lab.Grant(path, "bot", fakegitlab.Maintainer)
	}
	for login, role := range map[string]string{"ada": "read", "wim": "write", "nora": "none"} {
		hub.AddUser(login)
		hub.Grant("acme/fleet", login, role)
	}
	for login, level := range map[string]int{
		"ada": fakegitlab.Reporter, "wim": fakegitlab.Developer,
		"guest": fakegitlab.Guest, "nora": 0,
	} {
		lab.AddUser(login, "", false)
		lab.Grant("acme/fleet", login, level)
	}
	lab.AddGroup("acme", []string{"gail"}, []string{"wait"})
	ask := func(signedIn string, silent bool, person, repository string) (bool, error) {
		hubForge, labForge := forge.Forge(onHub), forge.Forge(onLab)
		if silent {
			hubForge, labForge = silentForge{onHub}, silentForge{onLab}
		}
		s := &Service{initial: &config.Config{Pages: config.Pages{Auth: config.PagesAuth{Forge: config.PagesForge{Name: signedIn}}}}}
		s.current.Store(&reloadable{forges: map[string]*connected{
			"hub": {Adapter: Adapter{Forge: hubForge}},
			"lab": {Adapter: Adapter{Forge: labForge}},
		}})
		return s.mayRead(t.Context(), person, repository)
	}
	for _, c := range []struct {
		forge, person, repository string
		want                      bool
	}{
		{"hub", "ada", "hub/acme/fleet", true},
		{"hub", "wim", "hub/acme/fleet", true},
		{"hub", "ADA", "hub/acme/fleet", true},
		{"hub", "nora", "hub/acme/fleet", false},
		{"hub", "nobody", "hub/acme/fleet", false},
		{"hub", "ada", "hub/acme/other", false},
		{"hub", "ada", "hub/acme/none", false},
		{"hub", "ada", "hub/", false},
		{"hub", "ada", "", false},
		{"hub", "ada", "lab/acme/fleet", false},
		{"hub", "ada", "web/acme/fleet", false},
		{"hub", "gail", "lab/acme/fleet", false},
		{"lab", "ada", "lab/acme/fleet", true},
		{"lab", "wim", "lab/acme/fleet", true},
		{"lab", "gail", "lab/acme/fleet", true},
		{"lab", "gail", "lab/acme/other", true},
		{"lab", "guest", "lab/acme/fleet", false},
		{"lab", "nora", "lab/acme/fleet", false},
		{"lab", "nobody", "lab/acme/fleet", false},
		{"lab", "wait", "lab/acme/fleet", false},
		{"lab", "ada", "lab/acme/other", false},
		{"lab", "ada", "lab/acme/none", false},
		{"lab", "ada", "hub/acme/fleet", false},
	} {
		if got, err := ask(c.forge, false, c.person, c.repository); err != nil || got != c.want {
			t.Errorf("%s signed in with %s may read %q: %t, not %t: %v", c.person, c.forge, c.repository, got, c.want,
				err)
		}
	}
	for _, name := range []string{"../../orgs/acme", "ada/../wim", "a b", "ada?x", "", "ada%2f.."} {
		for _, at := range []string{"hub", "lab"} {
			if got, _ := ask(at, false, name, at+"/acme/fleet"); got {
				t.Errorf("%q may read a repository of %s", name, at)
			}
		}
	}
	if got, err := ask("lab", true, "ada", "lab/acme/fleet"); err == nil {
		t.Errorf("a forge that does not answer: %t", got)
	}
	lab.Grant("acme/fleet", "ada", 0)
	hub.Grant("acme/fleet", "ada", "none")
	for _, at := range []string{"hub", "lab"} {
		if got, err := ask(at, false, "ada", at+"/acme/fleet"); got || err != nil {
			t.Errorf("after ada lost the right on %s: %t, %v", at, got, err)
		}
	}
}
