package app

import (
	"errors"
	"testing"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/cmd/internal/config"
)

// TestWhereBranchesMayGo: only to what the configuration names, however an address is written.
func TestWhereBranchesMayGo(t *testing.T) {
	f := &configured{Forge: config.Forge{
		Name: "f", Git: "https://git.example.com/sub", Repositories: []string{"acme/*"},
		Outputs: config.Outputs{"rendered/**", "https://other.example.com/acme/*", "git@git.example.com:acme/out.git"},
	}}
	source := forge.Repository{Path: "acme/fleet"}
	for address, want := range map[string]string{
		"https://git.example.com/sub/acme/out.git":               "acme/out",
		"https://git.example.com/sub/acme/out":                   "acme/out",
		"https://git.example.com/sub/rendered/a/b.git":           "rendered/a/b",
		"https://other.example.com/acme/out.git":                 "acme/fleet", // its credential is not of this forge
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
		got, err := f.output(source, address)
		switch {
		case want == "" && !errors.Is(err, bot.ErrRefused):
			t.Errorf("%s: %q, %v", address, got.Path, err)
		case want != "" && (err != nil || got.Path != want):
			t.Errorf("%s: %q, %v, not %q", address, got.Path, err, want)
		}
	}
}

// TestOutputCredential: a credential goes to the host that it is for, and nowhere else.
func TestOutputCredential(t *testing.T) {
	auth := func(output string, env map[string]string) (string, error) {
		e := Environment{Getenv: func(name string) string { return env[name] }}
		a, err := e.outputAuth(output, "https://git.example.com/acme/fleet.git")
		return a.Token, err
	}
	own := map[string]string{"SLUICE_GIT_TOKEN": "source", "SLUICE_OUTPUT_GIT_TOKEN": "output", "SLUICE_OUTPUT_GIT_HOST": "out.example.com"}
	for output, want := range map[string]string{
		"https://out.example.com/x.git":      "output",
		"https://OUT.example.com/x.git":      "output",
		"http://out.example.com/x.git":       "",
		"https://out.example.com:8443/x.git": "",
		"https://evil.example.com/x.git":     "",
		"https://git.example.com/x.git":      "source",
		"http://git.example.com/x.git":       "",
		"/var/lib/x.git":                     "",
	} {
		if got, err := auth(output, own); got != want || err != nil {
			t.Errorf("%s gets %q, %v, not %q", output, got, err, want)
		}
	}
	delete(own, "SLUICE_OUTPUT_GIT_HOST")
	if got, err := auth("https://out.example.com/x.git", own); err == nil {
		t.Errorf("without a host it gets %q", got)
	}
	own["SLUICE_OUTPUT_GIT_HOST"] = "http://127.0.0.1:8080"
	if got, err := auth("http://127.0.0.1:8080/x.git", own); got != "output" || err != nil {
		t.Errorf("over HTTP, as it was said: %q, %v", got, err)
	}
}
