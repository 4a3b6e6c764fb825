package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/service/config"
)

func parse(text string) (*config.Config, error) {
	return config.Parse("sluice.yaml", []byte(text), config.Sources{
		Getenv: func(k string) string { return map[string]string{"TOKEN": "t0ken\n", "HOOK": "h00k"}[k] },
		Read: func(f string) ([]byte, error) {
			if f != "/run/key" {
				return nil, &os.PathError{Op: "open", Path: f, Err: os.ErrNotExist}
			}
			return []byte("k3y\n"), nil
		},
	})
}

const good = `
signKey: /run/key
mirrors: 512Mi
sweep: 1m
forges:
  - kind: github
    app: {id: 7, key: {file: /run/key}}
    secrets: [{env: HOOK}]
    repositories: ["acme/*"]
    settings: {labels: [fleet], drafts: false}
    overrides:
      - {repositories: [acme/edge], settings: {drafts: true, previews: false}}
  - name: ours
    kind: gitlab
    api: https://git.example.com/sub/api/v4
    token: {env: TOKEN}
    secrets: [{env: HOOK}]
    repositories: ["platform/**"]
`

func TestParse(t *testing.T) {
	c, err := parse(good)
	if err != nil {
		t.Fatal(err)
	}
	if c.Mirrors != 512<<20 || c.Sweep != time.Minute || c.Workers != 4 || c.Listen != ":8080" ||
		c.Queue.Replicas != 1 {
		t.Errorf("the result of parse is %+v", c)
	}
	hub, lab := &c.Forges[0], &c.Forges[1]
	if hub.Git != "https://github.com" || hub.Name != "github" || string(hub.App.Key.Bytes()) != "k3y" ||
		string(lab.Token.Bytes()) != "t0ken" || lab.Git != "https://git.example.com/sub" {
		t.Errorf("the forges are %+v", c.Forges)
	}
	if s := fmt.Sprintf("%v %+v", c.Forges, lab.Token); strings.Contains(s, "t0ken") &&
		!strings.Contains(s, "(secret)") {
		t.Errorf("a secret is printed: %s", s)
	}
}

// The patterns of repositories decide which settings apply and which repositories belong to the forge.
func TestPatterns(t *testing.T) {
	c, err := parse(good)
	if err != nil {
		t.Fatal(err)
	}
	hub, lab := &c.Forges[0], &c.Forges[1]
	if s := hub.For("acme/edge"); !*s.Drafts || *s.Previews || s.Labels[0] != "fleet" {
		t.Errorf("the result of For is %+v", s)
	}
	for repo, want := range map[string]bool{"acme/fleet": true, "acme/a/b": false, "other/fleet": false} {
		if hub.Has(repo) != want {
			t.Errorf("%s: the want is %v", repo, !want)
		}
	}
	if !lab.Has("platform/a/b") || lab.Has("platform") {
		t.Error("groups and their subgroups")
	}
}

func TestParseReportsAllProblems(t *testing.T) {
	_, err := parse(`
workers: -1
reviews: 101
listen: ":1"
metrics: ":1"
debug: ":1"
sweep: 1s
signKey: /none
forges:
  - {kind: gerrit, name: A}
  - {kind: github, repositories: [fleet], secrets: [{env: NOTHING}], token: {file: /none}, api: "https://u:p@x/"}
  - {kind: github, app: {id: 1}, signing: [{env: HOOK}], repositories: ["a/b"], settings: {branchProtection: maybe}}
  - {kind: gitea, token: {env: HOOK}, secrets: [{env: HOOK}], repositories: ["a/b"]}
events:
  late: 1s
  receivers:
    - {name: A, kind: pager}
    - {name: hook, kind: webhook, url: {env: HOOK}, secret: {env: HOOK}, events: [all], severity: high}
    - {name: hook, kind: slack, secret: {env: HOOK}, template: "{{.None}}", environments: ["["]}
    - {name: mail, kind: email, mail: {tls: none, host: mx.example.com, user: u, from: x}}
`)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"workers: -1", "reviews: 101", "metrics: another setting uses the address :1",
		"debug: another setting uses the address :1", "sweep: 1s", "signKey: open /none",
		"forges[0].kind: \"gerrit\"", "forges[0].name: \"A\"", "secrets[0]: the secret is empty",
		"/none", "forges[1].api: it must be", "\"fleet\" is not a pattern",
		"forges[2]: another forge has the name \"github\"", "forges[2].app", "forges[2].signing",
		"forges[2].settings.branchProtection: \"maybe\" must be",
		"forges[3].api: set the address of the server",
		"events.late: 1s", "events.receivers[0].name: \"A\"", "events.receivers[0].kind: \"pager\"",
		"events.receivers[1].url: it must be", "events.receivers[1].secret: it must be whsec_", "events.receivers[1].events: \"all\"",
		"events.receivers[1].severity: \"high\"", "events.receivers[2].name: another receiver",
		"events.receivers[2].url: it is required", "events.receivers[2].secret: a webhook needs one",
		"events.receivers[2].template: ", "events.receivers[2]: \"[\" is not a valid pattern",
		"events.receivers[3].mail.tls: a password is not sent", "events.receivers[3].mail: set user and password",
		"events.receivers[3].mail.to", "events.receivers[3].mail: \"x\" is not an address",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "u:p@x") {
		t.Errorf("the error holds the credential of a URL: %v", err)
	}
	if _, err := parse("workrs: 3\nforges: []"); err == nil || !strings.Contains(err.Error(), "sluice.yaml:1: unknown key workrs, did you mean workers?") {
		t.Errorf("an unknown key: %v", err)
	}
	if _, err := parse("forges: []"); err == nil || !strings.Contains(err.Error(), "at least one") {
		t.Errorf("no forge: %v", err)
	}
}
