package config_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/service/config"
)

func TestPages(t *testing.T) {
	t.Parallel()
	const forge = "forges: [{name: hub, kind: github, token: {env: T}, secrets: [{env: T}], repositories: [\"a/b\"]}]\n"
	const secret = "{env: T}"
	for text, want := range map[string]string{
		"":                                    "",
		"pages: {listen: \"127.0.0.1:8081\"}": "",
		"pages: {listen: \"localhost:8081\"}": "",
		"pages: {listen: \"[::1]:8081\"}":     "",
		"pages: {listen: \":8081\"}":          "other machines can reach",
		"pages: {listen: \"10.0.0.1:8081\"}":  "other machines can reach",
		"pages: {listen: \":8080\", auth: {header: {name: X-User, from: [10.0.0.1]}}}":                                                          "listen uses the address :8080",
		"pages: {listen: \":8081\", auth: {header: {name: X-User, from: [10.0.0.1, \"10.1.0.0/16\"]}}}":                                         "",
		"pages: {listen: \":8081\", auth: {header: {name: X-User}}}":                                                                            "header.from",
		"pages: {listen: \":8081\", auth: {header: {name: X-User, from: [proxy]}}}":                                                             "header.from",
		"pages: {auth: {header: {name: X-User, from: [10.0.0.1]}}}":                                                                             "pages.listen",
		"pages: {listen: \":8081\", address: \"https://s.example.com\", auth: {forge: {name: hub, clientID: x, clientSecret: " + secret + "}}}": "",
		"pages: {listen: \":8081\", address: \"https://s.example.com\", auth: {forge: {name: lab, clientID: x, clientSecret: " + secret + "}}}": "there is no forge \"lab\"",
		"pages: {listen: \":8081\", address: \"https://s.example.com\", auth: {forge: {name: hub}}}":                                            "clientID and clientSecret",
		"pages: {listen: \":8081\", auth: {oidc: {issuer: \"https://id.example.com\", clientID: x, clientSecret: " +
			secret + "}}}": "must be a URL",
		"pages: {listen: \":8081\", address: \"https://s.example.com\", auth: {oidc: {issuer: \"https://id.example.com\", clientID: x, clientSecret: " + secret + "}}}":        "",
		"pages: {listen: \":8081\", address: \"https://s.example.com\", auth: {oidc: {issuer: \"https://id.example.com\"}, header: {name: X, from: [10.0.0.1]}}}":              "only one of",
		"pages: {listen: \":8081\", address: \"https://s.example.com\", auth: {oidc: {issuer: \"https://id.example.com\", clientID: x, clientSecret: {env: NONE}}}, other: 1}": "unknown key other",
	} {
		_, err := config.Parse("c.yaml", []byte(forge+text),
			config.Sources{Getenv: func(name string) string { return map[string]string{"T": "secret"}[name] }})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
}
