package service

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/service/config"
	"github.com/sluice-gitops/sluice/service/notify"
)

// Branches may go only to repositories that the configuration names, however an address is written.
func TestWhereBranchesMayGo(t *testing.T) {
	f := &connected{Forge: config.Forge{
		Name: "f", Git: "https://git.example.com/sub", Repositories: []string{"acme/*"},
		Outputs: config.Outputs{"rendered/**", "https://other.example.com/acme/*", "git@git.example.com:acme/out.git"},
	}}
	source := forge.Repository{Path: "acme/fleet"}
	for address, want := range map[string]string{
		"https://git.example.com/sub/acme/out.git":               "acme/out",
		"https://git.example.com/sub/acme/out":                   "acme/out",
		"https://git.example.com/sub/rendered/a/b.git":           "rendered/a/b",
		"https://other.example.com/acme/out.git":                 "acme/fleet", // it is on another forge
		"git@git.example.com:acme/out":                           "acme/fleet",
		"https://git.example.com/acme/out.git":                   "",
		"http://git.example.com/sub/acme/out.git":                "",
		"https://git.example.com:444/sub/acme/out.git":           "",
		"https://git.example.com/sub/secret/out.git":             "",
		"https://git.example.com/sub/acme/../secret/out.git":     "",
		"https://git.example.com/sub/acme/%2e%2e/secret":         "",
		"https://git.example.com/sub/acme%2fout/x.git":           "",
		"https://git.example.com/sub//acme/out.git":              "",
		"https://git.example.com/sub/acme/out.git?x=1":           "",
		"https://git.example.com/sub/acme/a/b.git":               "",
		"https://git.example.com.evil.example/sub/acme/out.git":  "",
		"https://x@git.example.com/sub/acme/out.git":             "",
		"https://other.example.com/acme/../secret.git":           "",
		"https://other.example.com/acme/x/y.git":                 "",
		"ssh://git@git.example.com/acme/out.git":                 "",
		"/var/lib/other.git":                                     "",
		"file:///var/lib/other.git":                              "",
		"acme/out":                                               "",
		"rendered/a":                                             "",
		"https://git.example.com/sub/":                           "",
		"https://git.example.com/sub/rendered/../../etc/x.git":   "",
		"https://git.example.com/sub/rendered/%2e%2e/secret.git": "",
	} {
		got, onForge, err := f.output(source, address)
		if onForge != (want != "" && strings.HasPrefix(address, f.Git)) {
			t.Errorf("%s: on the forge: %t", address, onForge)
		}
		switch {
		case want == "" && !errors.Is(err, bot.ErrRefused):
			t.Errorf("%s: the path is %q, the error is %v", address, got.Path, err)
		case want != "" && (err != nil || got.Path != want):
			t.Errorf("%s: %q, %v, not %q", address, got.Path, err, want)
		}
	}
}

// A literal host in the configuration is notified. A host that a fleet completes must be public or allowed.
func TestReceiversStayWithinTheGuard(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	completed := "http://${cluster.name}:" + at.Port() + "/hook"
	for _, c := range []struct {
		address string
		allow   []string
		told    bool
	}{
		{server.URL + "/${cluster.name}", nil, true},
		{completed, nil, false},
		{completed, []string{"127.0.0.0/8", "::1"}, true},
	} {
		list := []config.Receiver{{Kind: "argocd", URL: c.address}}
		guard, err := receiverGuard(list, c.allow)
		if err != nil {
			t.Fatal(err)
		}
		asked = 0
		n := NewNotifier(list, "test", guard.Transport())
		n.Wait = time.Millisecond
		err = n.Notify(t.Context(), "https://git.example.com/acme/fleet",
			[]notify.Move{{Branch: "cluster/localhost", Cluster: "localhost", After: "a"}})
		if (err == nil) != c.told || (asked > 0) != c.told {
			t.Errorf("%s with %v: %d requests, %v", c.address, c.allow, asked, err)
		}
	}
}

// An address names a repository of the configuration however it is written, and no other one.
func TestPlacesOfAddresses(t *testing.T) {
	forges := map[string]*connected{
		"a": {Forge: config.Forge{Name: "a", Git: "https://git.example.com", Repositories: []string{"acme/*"}}},
		"b": {Forge: config.Forge{
			Name: "b", Git: "https://git.example.com",
			Repositories: []string{"other/*", "acme/fleet"},
		}},
		"c": {Forge: config.Forge{Name: "c", Git: "https://lab.example.com/sub", Repositories: []string{"a/**"}}},
		"d": {Forge: config.Forge{
			Name: "d", Git: "https://hub.example.com",
			Repositories: []string{"Team/Fleet", "Team/app-*", "open-*/*"},
		}},
	}
	for address, want := range map[string]string{
		"https://git.example.com/acme/components.git":  "a:acme/components",
		"https://git.example.com/acme/fleet":           "a:acme/fleet",
		"ssh://git@git.example.com/acme/components":    "a:acme/components",
		"ssh://git@git.example.com:22/acme/components": "a:acme/components",
		"https://git.example.com/other/components":     "b:other/components",
		"https://lab.example.com/sub/a/b/c.git":        "c:a/b/c",
		"https://git.example.com/Acme/Components":      "a:acme/Components",
		"https://LAB.example.com/Sub/A/b/C":            "c:a/b/C",
		"https://hub.example.com/team/fleet":           "d:Team/Fleet",
		"https://hub.example.com/team/app-Web":         "d:Team/app-Web",
		"https://hub.example.com/open-source/Charts":   "d:open-source/Charts",
		"https://hub.example.com/Open-Source/Charts":   "d:open-source/Charts",
		"https://lab.example.com/a/b":                  "",
		"https://git.example.com/private/x":            "",
		"https://git.example.com/acme/../private/x":    "",
		"https://git.example.com.evil.example/acme/x":  "",
		"https://git.example.com@evil.example/acme/x":  "",
		"https://evil.example/git.example.com/acme/x":  "",
		"https://git.example.com:444/acme/components":  "",
	} {
		got, ok := addressed(forges, address)
		if string(got) != want || ok != (want != "") {
			t.Errorf("%s: the result of addressed is %q", address, got)
		}
	}
}

// A place has the spelling of the forge's listing, which webhooks have too.
func TestPlacesAsListed(t *testing.T) {
	l := newListings(slog.New(slog.DiscardHandler), time.Now)
	l.forges["a"] = listing{places: []hint.Place{"a:acme/fleet", "a:acme/Charts"}}
	l.forges["b"] = listing{places: []hint.Place{"b:ACME/COMPONENTS"}}
	for p, want := range map[hint.Place]hint.Place{
		"a:Acme/charts": "a:acme/Charts", "a:acme/fleet": "a:acme/fleet",
		"a:Acme/Components": "a:Acme/Components", "c:acme/Fleet": "c:acme/Fleet",
	} {
		if got := l.spelled(p); got != want {
			t.Errorf("%s: the result of spelled is %s", p, got)
		}
	}
	forges := map[string]*connected{"a": {Forge: config.Forge{
		Name: "a", Git: "https://git.example.com",
		Repositories: []string{"acme/*"},
	}}}
	if got, ok := l.placeOf(forges, "https://git.example.com/Acme/charts"); got != "a:acme/Charts" || !ok {
		t.Errorf("the result of placeOf is %s, ok is %t", got, ok)
	}
	if got, ok := l.placeOf(forges, "https://git.example.com/other/charts"); ok {
		t.Errorf("the result of placeOf is %s", got)
	}
	l.forges["a"] = listing{places: []hint.Place{"a:ACME/Charts"}} // which no pattern matches, as with webhooks
	if got, ok := l.placeOf(forges, "https://git.example.com/Acme/charts"); got != "a:acme/charts" || !ok {
		t.Errorf("the result of placeOf is %s, ok is %t", got, ok)
	}
}
