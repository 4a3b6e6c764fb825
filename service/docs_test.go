package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	yaml "go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/service/config"
	"github.com/sluice-gitops/sluice/webhook"
)

const root = "../"

func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(root + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// pages returns all documents by name, below the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{"docs", "deploy"} {
		err := filepath.WalkDir(root+dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
				name := strings.TrimPrefix(path, root)
				out[name] = page(t, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	out["README.md"] = page(t, "README.md")
	if len(out) < 20 {
		t.Fatalf("only %d pages", len(out))
	}
	return out
}

// exported returns the names and labels of the service's metrics.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 1000)
	newMetrics(&Service{initial: &config.Config{}}).registry.Describe(descs)
	close(descs)
	out := map[string][]string{}
	for d := range descs {
		m := regexp.MustCompile(`fqName: "(sluice_[a-z_]+)".*variableLabels: \{([a-z,]*)\}`).FindStringSubmatch(d.String())
		if m == nil {
			continue
		}
		out[m[1]] = strings.Split(m[2], ",")
		if strings.HasSuffix(m[1], "_seconds") {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				out[m[1]+part] = append(strings.Split(m[2], ","), "le")
			}
		}
	}
	if len(out["sluice_webhooks_total"]) != 3 {
		t.Fatalf("the output is %v", out)
	}
	return out
}

// alerts is the checked part of deploy/alerts.yaml.
type alerts struct {
	Groups []struct {
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// The service has every metric that a document, an alert or the chart names.
func TestMetricsInDocuments(t *testing.T) {
	known := exported(t)
	texts := pages(t)
	for _, name := range []string{
		"deploy/alerts.yaml", "deploy/chart/sluice/values.yaml",
		"deploy/chart/sluice/ci/replicas-values.yaml",
	} {
		texts[name] = page(t, name)
	}
	named := map[string]bool{}
	for name, text := range texts {
		for _, metric := range regexp.MustCompile(`\bsluice_[a-z_]+[a-z]`).FindAllString(text, -1) {
			// names of release archives
			if strings.HasPrefix(metric, "sluice_linux_") || strings.HasPrefix(metric, "sluice_darwin_") {
				continue
			}
			named[metric] = true
			if known[metric] == nil {
				t.Errorf("%s names the metric %s, which does not exist", name, metric)
			}
		}
	}
	for metric := range known {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, "")
		if !strings.Contains(texts["docs/runbook.md"], base) {
			t.Errorf("docs/runbook.md does not describe the metric %s", base)
		}
	}
	if len(named) < 8 {
		t.Errorf("only %d metrics are named: %v", len(named), named)
	}
}

// The rules select only labels that their metrics have, and each alert has a section in the runbook.
func TestAlerts(t *testing.T) {
	known := exported(t)
	var a alerts
	dec := yaml.NewDecoder(strings.NewReader(page(t, "deploy/alerts.yaml")))
	if err := dec.Decode(&a); err != nil {
		t.Fatal(err)
	}
	runbook, count := page(t, "docs/runbook.md"), 0
	for _, g := range a.Groups {
		for _, r := range g.Rules {
			count++
			selectors := regexp.MustCompile(`(sluice_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(r.Expr, -1)
			if len(selectors) == 0 && r.Alert != "SluiceDown" {
				t.Errorf("%s looks at none of Sluice's metrics: %s", r.Alert, r.Expr)
			}
			for _, s := range selectors {
				for _, label := range regexp.MustCompile(`([a-z]+)\s*[=!]`).FindAllStringSubmatch(s[2], -1) {
					if !slices.Contains(known[s[1]], label[1]) {
						t.Errorf("%s: %s has no label %s, but %v", r.Alert, s[1], label[1], known[s[1]])
					}
				}
			}
			if r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s has no time, severity or summary", r.Alert)
			}
			if want := "docs/runbook.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"],
				want) {
				t.Errorf("%s leads to %q, want …%s", r.Alert, r.Annotations["runbook_url"], want)
			}
			if !strings.Contains(runbook, "\n### "+r.Alert+"\n") {
				t.Errorf("docs/runbook.md has no section %s", r.Alert)
			}
		}
	}
	if sections := len(regexp.MustCompile(`(?m)^### Sluice[A-Z]`).FindAllString(runbook, -1)); sections != count ||
		count < 6 {
		t.Errorf("%d alerts, %d sections", count, sections)
	}
}

// The code writes every log line that a document quotes as msg="…".
func TestLogLines(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"bot", "cmd", "service", "webhook"} {
		err := filepath.WalkDir(root+dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				source.WriteString(page(t, strings.TrimPrefix(path, root)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	for name, text := range pages(t) {
		for _, m := range regexp.MustCompile(`msg=(?:"([^"]*)"|([a-z]+))`).FindAllStringSubmatch(text, -1) {
			count++
			line := m[1] + m[2]
			if !regexp.MustCompile(`\.(Info|Warn|Error)\("` + regexp.QuoteMeta(line) +
				`"`).MatchString(source.String()) {
				t.Errorf("%s quotes the line %q, which no code writes", name, line)
			}
		}
	}
	if count < 5 {
		t.Errorf("only %d lines are quoted", count)
	}
}

// Every link of the documents to a file or heading of the repository has a target.
func TestLinks(t *testing.T) {
	all := pages(t)
	anchor := func(heading string) string {
		heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)),
			"")
		return strings.ReplaceAll(heading, " ", "-")
	}
	for name, text := range all {
		text = regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(text, "")
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			target, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") {
				continue
			}
			file := filepath.Join(filepath.Dir(name), target)
			if target == "" {
				file = name
			}
			if _, err := os.Stat(root + file); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
				continue
			}
			headings := regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(all[file], -1)
			if section != "" && !slices.ContainsFunc(headings,
				func(h []string) bool { return anchor(h[1]) == section }) {
				t.Errorf("%s links to %s: there is no such heading", name, m[1])
			}
		}
	}
	for name := range all {
		if in, _ := filepath.Match("docs/*.md", name); in && name != "docs/README.md" &&
			!strings.Contains(all["docs/README.md"], "("+filepath.Base(name)) {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

// manifest is the format of
// https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest.
type manifest struct {
	DefaultEvents      []string          `json:"default_events"`
	DefaultPermissions map[string]string `json:"default_permissions"`
}

// needed maps a method of go-github, or an address, to the permission of an App's installation that it needs, as in
// https://docs.github.com/rest/authentication/permissions-required-for-github-apps. "app" means that the App itself
// may call it.
func needed() map[string]string {
	const itself = "app"
	return map[string]string{
		"Apps.Get": itself, "Apps.FindRepositoryInstallation": itself, "Apps.ListInstallations": itself,
		"Apps.CreateInstallationToken": itself,
		"Apps.ListHookDeliveries":      itself, "Apps.RedeliverHookDelivery": itself,
		"Checks.CreateCheckRun": "checks: write", "Checks.UpdateCheckRun": "checks: write",
		"Checks.ListCheckRunsForRef": "checks: read",
		"Issues.ListComments":        "issues: read", "Issues.GetComment": "issues: read",
		"Issues.CreateComment": "issues: write", "Issues.EditComment": "issues: write",
		"Issues.DeleteComment": "issues: write", "repos/%s/%s/issues/%d/labels": "issues: write",
		"repos/%s/%s/issues/%d/labels/%s": "issues: write", "PullRequests.RequestReviewers": "pull_requests: write",
		"Reactions.CreateIssueCommentReaction": "issues: write",
		"PullRequests.Get":                     "pull_requests: read", "PullRequests.List": "pull_requests: read",
		"PullRequests.ListPullRequestsWithCommit": "pull_requests: read",
		"PullRequests.Create":                     "pull_requests: write", "PullRequests.Edit": "pull_requests: write",
		"Repositories.CreateStatus": "statuses: write", "Repositories.ListStatuses": "statuses: read",
		"Repositories.ListDeployments": "deployments: read", "Repositories.CreateDeployment": "deployments: write",
		"Repositories.ListDeploymentStatuses": "deployments: read",
		"Repositories.CreateDeploymentStatus": "deployments: write",
		"Teams.GetTeamMembershipBySlug":       "members: read", "Users.Get": "metadata: read",
		"repos/%s/%s/collaborators/%s/permission": "metadata: read", "graphql": "metadata: read",
		"Apps.ListRepos": "metadata: read", "Repositories.ListByAuthenticatedUser": "metadata: read",
		// Not in the API: pushes, and the permissions that GitHub requires for events.
		"git push": "contents: write", "push": "contents: read", "pull_request": "pull_requests: read",
		"issue_comment": "issues: read",
		"check_run":     "checks: read", "check_suite": "checks: read", "merge_group": "merge_queues: read",
		"member": "members: read", "membership": "members: read", "organization": "members: read",
		"team": "members: read",
	}
}

// calls returns the methods of go-github that the adapter calls, and the addresses that it requests itself.
func calls(t *testing.T) map[string]bool {
	t.Helper()
	//nolint:staticcheck // files of one package, no build tags
	packages, err := parser.ParseDir(token.NewFileSet(), root+"bot/forge/github", func(i fs.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, 0)
	if err != nil || packages["github"] == nil {
		t.Fatal(errors.Join(err, errors.New("there is no package github")))
	}
	out := map[string]bool{"git push": true}
	ast.Inspect(packages["github"], func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch on := method.X.(type) {
		case *ast.SelectorExpr:
			if of, ok := on.X.(*ast.SelectorExpr); ok && of.Sel.Name == "client" {
				out[on.Sel.Name+"."+method.Sel.Name] = true
			}
			if on.Sel.Name == "client" && method.Sel.Name == "NewRequest" {
				out[address(call)] = true
			}
		}
		return true
	})
	return out
}

// address returns the address of a NewRequest call.
func address(call *ast.CallExpr) string {
	found := "graphql"
	ast.Inspect(call.Args[1], func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
			found = strings.Trim(text.Value, `"`)
		}
		return true
	})
	return found
}

// The App's manifest in the documentation lists the events that the service handles, and exactly the permissions that
// the adapter's requests, pushes and these events need.
func TestManifest(t *testing.T) {
	text := page(t, "docs/github-app.md")
	_, block, ok := strings.Cut(text, "```json\n")
	block, _, _ = strings.Cut(block, "```")
	var m manifest
	if err := json.Unmarshal([]byte(block), &m); !ok || err != nil {
		t.Fatalf("docs/github-app.md has no manifest: %v", err)
	}
	var form manifest
	_, area, _ := strings.Cut(page(t, "docs/examples/github/create-app.html"), "<textarea")
	_, area, _ = strings.Cut(area, ">")
	area, _, _ = strings.Cut(area, "</textarea>")
	if err := json.Unmarshal([]byte(area), &form); err != nil ||
		strings.TrimSpace(area) != strings.TrimSpace(strings.ReplaceAll("\n"+block, "\n   ", "\n")) {
		t.Errorf("docs/examples/github/create-app.html has another manifest than docs/github-app.md: %v", err)
	}
	// every App gets these
	events := slices.DeleteFunc(webhook.Events("github"), func(e string) bool {
		return strings.HasPrefix(e,
			"installation")
	})
	if got := slices.Sorted(slices.Values(m.DefaultEvents)); !slices.Equal(got, slices.Sorted(slices.Values(events))) {
		t.Errorf("the manifest's events are %v, those that are heard %v", got, events)
	}
	used := calls(t)
	if len(used) < 20 {
		t.Fatalf("only %d calls were found: %v", len(used), used)
	}
	for _, e := range events {
		used[e] = true
	}
	want := map[string]string{}
	for call := range used {
		need, known := needed()[call]
		if !known {
			t.Errorf("the permission that %s needs is unknown: add it to the test, and to the manifest", call)
			continue
		}
		name, level, _ := strings.Cut(need, ": ")
		if level == "write" || level == "read" && want[name] == "" {
			want[name] = level
		}
	}
	if !maps.Equal(m.DefaultPermissions, want) {
		t.Errorf("the manifest's permissions are\n%v\nwhat is needed is\n%v", m.DefaultPermissions, want)
	}
	for name, level := range want {
		if !strings.Contains(text, fmt.Sprintf("| `%s` | %s |", name, level)) {
			t.Errorf("docs/github-app.md does not say what %s: %s is for", name, level)
		}
	}
	for call := range needed() {
		if !used[call] {
			t.Errorf("%s is not used any more", call)
		}
	}
}

// docs/webhooks.md names the events of both forges.
func TestWebhookEventsAreDocumented(t *testing.T) {
	text := page(t, "docs/webhooks.md")
	for _, kind := range []string{"github", "gitlab"} {
		for _, e := range webhook.Events(kind) {
			if !strings.Contains(text, "`"+e+"`") {
				t.Errorf("docs/webhooks.md does not name the event %s of %s", e, kind)
			}
		}
	}
}

// rows returns the code spans in the first column of the tables below a heading of level three.
func rows(text, heading string) []string {
	_, rest, _ := strings.Cut(text, "\n### "+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n### ")
	var out []string
	for line := range strings.Lines(rest) {
		first, ok := strings.CutPrefix(line, "| ")
		if first, _, found := strings.Cut(first, " | "); ok && found {
			for _, m := range regexp.MustCompile("`([A-Za-z.]+)`").FindAllStringSubmatch(first, -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// keys returns the YAML keys of a struct. Those of the structs that deep names have the name of their parent before
// them.
func keys(kind reflect.Type, deep ...string) []string {
	var out []string
	for field := range kind.Fields() {
		name := field.Tag.Get("yaml")
		if !slices.Contains(deep, name) {
			out = append(out, name)
			continue
		}
		for _, below := range keys(field.Type) {
			out = append(out, name+"."+below)
		}
	}
	return out
}

// The tables of docs/service.md have each key of the configuration, and no other.
func TestConfigurationIsDocumented(t *testing.T) {
	text := page(t, "docs/service.md")
	for heading, want := range map[string][]string{
		"Keys of the service":      keys(reflect.TypeFor[config.Config](), "queue", "network"),
		"Keys of a forge":          keys(reflect.TypeFor[config.Forge]()),
		"Settings of repositories": keys(reflect.TypeFor[config.Settings]()),
	} {
		have := rows(text, heading)
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s: the page has\n%q, the configuration\n%q", heading, have, want)
		}
	}
}

// The runbook's table of metrics has their labels.
func TestLabelsOfMetricsInTheRunbook(t *testing.T) {
	text, count := page(t, "docs/runbook.md"), 0
	for metric, labels := range exported(t) {
		m := regexp.MustCompile("(?m)^\\|[^|]*`" + metric + "`[^|]*\\| ([a-z, ]*)\\|").FindStringSubmatch(text)
		if m == nil {
			continue // _bucket, _sum and _count
		}
		count++
		if have := strings.TrimSpace(m[1]); have != strings.Join(labels, ", ") {
			t.Errorf("the runbook gives %s the labels %q, and it has %q", metric, have, labels)
		}
	}
	if count < 12 {
		t.Errorf("only %d metrics are in the table", count)
	}
}
