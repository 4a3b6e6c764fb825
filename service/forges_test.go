package service

import (
	"errors"
	"testing"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/service/config"
)

// TestWhereBranchesMayGo: only to what the configuration names, however an address is written.
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
