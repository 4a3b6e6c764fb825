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
		"ssh://git@github.com:22/acme/base":         "github.com/acme/base",
		"ssh://git@ssh.github.com:443/acme/base":    "github.com/acme/base",
		"ssh://git@altssh.gitlab.com:443/a/b/c.git": "gitlab.com/a/b/c",
		"HTTPS://github.com:443/acme/base":          "github.com/acme/base",
		"https://ssh.github.com/acme/base":          "ssh.github.com/acme/base",
		"https://git.example.com:22/a/b":            "git.example.com:22/a/b",
		"git@git.example.com:22/a/b":                "git.example.com/22/a/b",
		"https://evil.example.com/github.com/a/b":   "evil.example.com/github.com/a/b",
		"https://github.com@evil.example.com/a/b":   "evil.example.com/a/b",
		"https://user:p@ss@git.example.com/a/b.git": "git.example.com/a/b",
		"": "",
	} {
		if got := Plain(address); got != want {
			t.Errorf("%s: the result of Plain is %q, want %q", address, got, want)
		}
	}
	if Key("https://github.com/ACME/Base.git") != Key("git@GITHUB.com:acme/base") {
		t.Error("case tells repositories apart")
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct{ server, address, want string }{
		{"https://github.com", "https://github.com/acme/base.git", "acme/base"},
		{"https://github.com/", "git@GitHub.com:acme/Base", "acme/Base"},
		{"https://git.example.com/gitlab", "https://git.example.com/GitLab/a/b/c", "a/b/c"},
		{"https://git.example.com:8443", "https://git.example.com:8443/a/b", "a/b"},
		{"https://git.example.com:8443", "https://git.example.com/a/b", ""},
		{"https://git.example.com/gitlab", "https://git.example.com/gitlabs/a/b", ""},
		{"https://git.example.com/gitlab", "https://git.example.com/gitlab", ""},
		{"https://github.com", "https://github.com/", ""},
		{"https://github.com", "https://github.com/../api", ""},
		{"https://github.com", "https://github.com/acme/../../api", ""},
		{"https://github.com", "https://github.com/.", ""},
		{"https://github.com", "https://github.com//acme/base", ""},
		{"https://github.com", "https://github.com/acme//base", ""},
		{"https://github.com", "", ""},
	} {
		if got, ok := Below(c.server, c.address); got != c.want || ok != (c.want != "") {
			t.Errorf("%s below %s: %q %v, want %q", c.address, c.server, got, ok, c.want)
		}
	}
}
