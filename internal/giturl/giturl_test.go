package giturl

import "testing"

func TestAddressesOfOneRepository(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/acme/base":              "github.com/acme/base",
		"https://git@GitHub.com/acme/base.git/":     "github.com/acme/base",
		"git@github.com:acme/base.git":              "github.com/acme/base",
		"ssh://git@github.com/acme/base":            "github.com/acme/base",
		"github.com/acme/Base":                      "github.com/acme/Base",
		"git::https://github.com/acme/base":         "github.com/acme/base",
		"ssh://git@git.example.com:2222/a/b":        "git.example.com:2222/a/b",
		"https://evil.example.com/github.com/a/b":   "evil.example.com/github.com/a/b",
		"https://github.com@evil.example.com/a/b":   "evil.example.com/a/b",
		"https://user:p@ss@git.example.com/a/b.git": "git.example.com/a/b",
		"": "",
	} {
		if got := Plain(address); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	if Key("https://github.com/ACME/Base.git") != Key("git@GITHUB.com:acme/base") {
		t.Error("case tells repositories apart")
	}
}
