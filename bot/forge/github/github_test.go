package github_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/github"
	"github.com/sluice-gitops/sluice/bot/publish"
)

func TestWorkflowToken(t *testing.T) {
	w := newWorld(t, false)
	repo := w.Repository(t, "acme/fleet")
	server := httptest.NewServer(w.server)
	defer server.Close()
	f, err := github.New(github.Config{URL: server.URL, Token: w.server.WorkflowToken(repo.Path), Clock: time.Now})
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
	w.pass(56 * time.Minute)
	later, err := w.forge.GitToken(t.Context(), repo)
	if err != nil || later == first {
		t.Errorf("a token shortly before its end: %v", err)
	}
	w.server.Withdraw()
	if _, err := w.forge.OpenMergeRequests(t.Context(), repo, ""); err != nil {
		t.Errorf("a token that was withdrawn: %v", err)
	}
}

func TestDeliveries(t *testing.T) {
	w := newWorld(t, true)
	w.Repository(t, "acme/fleet")
	at := w.now()
	for _, d := range []fakegithub.Delivery{
		{GUID: "old", Event: "push", Status: 500, At: at.Add(-2 * time.Hour)},
		{GUID: "ok", Event: "push", Status: 200, At: at},
		{GUID: "lost", Event: "push", Status: 502, At: at},
		{GUID: "mended", Event: "push", Status: 0, At: at},
		{GUID: "mended", Event: "push", Status: 200, At: at},
	} {
		w.server.AddDelivery(d)
	}
	failed, err := w.forge.FailedDeliveries(t.Context(), at.Add(-time.Hour))
	if err != nil || len(failed) != 1 || failed[0].GUID != "lost" {
		t.Fatalf("the failed is %+v, the error is %v", failed, err)
	}
	if err := w.forge.Redeliver(t.Context(), failed[0].ID); err != nil {
		t.Error(err)
	}
	if _, err := newWorld(t, false).forge.FailedDeliveries(t.Context(), at); !errors.Is(err, forge.ErrUnsupported) {
		t.Errorf("with a token: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []github.Config{
		{Clock: time.Now},
		{Token: "a"},
		{Clock: time.Now, Token: "a", URL: "http://github.example.com/api/v3"},
		{Clock: time.Now, Token: "a", URL: "https://u:p@github.example.com"},
		{Clock: time.Now, App: &github.App{ID: 1, PrivateKey: []byte("no key")}},
		{Clock: time.Now, Token: "a", App: &github.App{}},
	} {
		if _, err := github.New(c); err == nil || strings.Contains(err.Error(), "u:p@") &&
			!strings.Contains(err.Error(), "address") {
			t.Errorf("%+v: the error is %v", c, err)
		}
	}
}

// An App that reads check runs and cannot write them finds its states where it writes them: in commit statuses.
func TestAppThatOnlyReadsChecks(t *testing.T) {
	w := newWorld(t, true)
	w.server.AddApp(fakegithub.App{
		ID: 9, ClientID: "Iv1.def", Slug: "reader", Key: &signingKey().PublicKey,
		ReadChecks: true,
	})
	w.server.Install(9, "acme")
	w.config.App = &github.App{ID: 9, PrivateKey: pemOf(signingKey())}
	f := w.adapter(t, w.config)
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	mr := w.Open(t, repo, forgetest.Scene{Title: "Change", Author: "ada", SourceBranch: "a"})
	o := publish.Options{Context: "sluice", Checks: true}
	if err := publish.Say(t.Context(), f, repo, mr.Head, forge.Status{
		State:       forge.Failure,
		Description: "stopped by ada",
	}, o); err != nil {
		t.Fatal(err)
	}
	got, err := publish.States(t.Context(), f, repo, mr.Head, o)
	if err != nil || len(got) != 1 || got[0].Description != "stopped by ada" || got[0].Check {
		t.Errorf("read %+v, %v", got, err)
	}
}
