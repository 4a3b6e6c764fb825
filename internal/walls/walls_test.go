// Package walls tests the boundaries between the packages of the module: which package may reach which, directly or
// through others. The linter (depguard) checks only direct imports.
package walls

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sluice-gitops/sluice/"

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// packages lists the packages of the module by their path below it.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimPrefix(p.ImportPath, module)] = p
	}
	if len(found) < 40 {
		t.Fatalf("go list names only %d packages", len(found))
	}
	return found
}

// floors are the levels of the module, lowest first. A package may import packages of its own level and of lower
// ones. An entry covers the package and those below it, unless a longer entry covers them.
func floors() []([]string) {
	return [][]string{
		{"internal", "renderer/manifest", "bed/bedtest", "bundle/envelope", "bundle/receipt"},
		{"renderer", "gitstore"},
		{"fleet", "diff", "policy"},
		{"importer", "rollout", "report"},
		{"hydrate", "bundle/incoming", "bundle/mirror"},
		{"promote", "review", "hydrate/verify", "hydrate/artifacts", "bundle", "bundle/receipt/transfer"},
		{"bot", "site"},
		{"webhook"},
		{"service"},
		{"cmd", "deploy", "docs", "testdata", "bed/up"},
	}
}

func within(pkg, prefix string) bool { return pkg == prefix || strings.HasPrefix(pkg, prefix+"/") }

// floorOf returns the level of a package; -1 if no entry covers it.
func floorOf(pkg string) int {
	level, longest := -1, 0
	for i, prefixes := range floors() {
		for _, p := range prefixes {
			if within(pkg, p) && len(p) > longest {
				level, longest = i, len(p)
			}
		}
	}
	return level
}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	for name, p := range packages(t) {
		from := floorOf(name)
		if from < 0 {
			t.Errorf("%s is on no floor: add it to floors and to the map in CONTRIBUTING.md", name)
			continue
		}
		for _, i := range p.Imports {
			to, own := strings.CutPrefix(i, module)
			if own && floorOf(to) > from {
				t.Errorf("%s imports %s, which is on a higher floor", name, to)
			}
		}
	}
}

// forbidden lists the packages that a package must not reach, directly or through others. A key names one package; a
// key that ends with /... names a package and those below it.
func forbidden() map[string][]string {
	const goGit, helm, actions, actions4 = "github.com/go-git/", "helm.sh/", "helm.sh/helm/v3/pkg/action",
		"helm.sh/helm/v4/pkg/action"
	own := func(names ...string) []string {
		for i := range names {
			names[i] = module + names[i]
		}
		return names
	}
	return map[string][]string{
		"docs": own("cmd", "service"), // tests of pages only
		"internal/...": own("renderer", "gitstore", "fleet", "diff", "policy", "importer", "rollout", "report",
			"hydrate", "promote", "review", "bot", "webhook", "site", "service", "cmd"),

		"renderer/...": append(own("gitstore", "fleet", "diff", "policy", "importer", "rollout", "report",
			"hydrate", "promote", "review", "bot", "webhook", "site", "service", "cmd"), goGit),
		"renderer": {actions, actions4},
		"renderer/manifest": append(own("renderer/helm", "renderer/kustomize", "renderer/fetch", "internal/retry"),
			helm, "net/http", "os/exec"),
		"renderer/helm":      append(own("renderer/fetch"), actions, actions4),
		"renderer/kustomize": append(own("renderer/fetch"), helm),
		"renderer/fetch":     append(own("renderer/manifest"), actions, actions4),
		"renderer/worker":    append(own("renderer/manifest", "renderer/fetch"), helm, "net/http"),

		"policy/...": append(own("gitstore", "fleet", "importer", "rollout", "report", "hydrate", "promote",
			"review", "bot", "webhook", "site", "service", "cmd"), goGit),
		"policy":           own("renderer/helm", "renderer/kustomize"),
		"policy/lifecycle": append(own("policy/schemas", "policy/confine", "renderer/helm", "renderer/kustomize"), helm),
		"policy/schemas":   own("renderer/helm", "renderer/kustomize", "renderer/worker"),

		"bundle/receipt": append(own("gitstore", "fleet", "rollout", "bundle/envelope"), goGit, "net/http", "os/exec"),
		"bundle":         own("report", "site", "bot", "service", "review", "hydrate/verify", "hydrate/compare"),
		"bundle/envelope": append(own("renderer/helm", "renderer/fetch", "gitstore", "fleet", "hydrate"), goGit, helm,
			"os/exec"),

		"bundle/incoming": append(own("hydrate/source", "hydrate/compare", "promote", "policy", "bundle/envelope"), helm),

		"bundle/mirror": own("hydrate", "policy", "promote", "bundle/envelope", "report"),

		"hydrate/...":           own("bot", "webhook", "site", "service", "cmd", "gitstore/worktree"),
		"hydrate":               own("policy", "promote", "hydrate/verify"),
		"hydrate/artifacts":     own("hydrate/compare", "hydrate/verify", "report"),
		"hydrate/admit":         own("policy", "promote", "hydrate/verify", "hydrate/compare", "hydrate/enforce"),
		"hydrate/handover":      own("policy", "promote", "hydrate/compare", "hydrate/verify"),
		"hydrate/bootstrap":     append(own("gitstore", "renderer/helm", "renderer/fetch"), goGit, "net/http", "os/exec"),
		"hydrate/branch":        own("hydrate/source", "hydrate/compare", "renderer/helm", "policy"),
		"hydrate/compare":       own("policy", "promote", "hydrate/verify"),
		"diff":                  append(own("gitstore", "policy"), goGit, helm),
		"hydrate/enforce":       own("promote", "hydrate/verify", "hydrate/compare"),
		"fleet/...":             append(own("gitstore", "renderer/helm", "renderer/fetch"), goGit, "net/http"),
		"gitstore":              append(own("fleet", "renderer"), helm),
		"gitstore/internal/...": append(own("fleet", "renderer", "internal"), helm, "net/http", "os/exec"),
		"gitstore/worktree":     append(own("fleet", "renderer"), helm),
		"hydrate/hydratetest":   own("policy", "promote"),
		"importer":              append(own("gitstore", "policy"), goGit),
		"importer/argocd":       append(own("fleet", "gitstore", "renderer/worker", "renderer/fetch"), goGit),
		"importer/eject": append(own("gitstore", "policy", "renderer/helm", "renderer/fetch", "renderer/worker"),
			goGit, helm, "net/http", "os/exec"),
		"importer/flux": append(own("fleet", "gitstore", "renderer/worker", "renderer/fetch"), goGit),

		"importer/helmfile": append(own("gitstore", "policy", "renderer/helm", "renderer/fetch", "renderer/worker"),
			goGit, "os/exec"),

		"fleet":                    own("fleet/explain", "fleet/check", "fleet/internal/fleettest"),
		"fleet/check":              own("fleet/explain", "fleet/internal/fleettest"),
		"fleet/explain":            own("fleet/internal/fleettest"),
		"fleet/internal/fleettest": own("fleet", "renderer"),
		"fleet/internal/yamlnode":  append(own("fleet", "gitstore", "renderer/helm", "renderer/fetch"), goGit, "net/http"),

		"importer/internal/layered":   append(own("fleet", "gitstore", "renderer"), goGit, helm, "net/http", "os/exec"),
		"importer/internal/pinned":    append(own("fleet", "gitstore", "renderer/fetch", "renderer/worker"), goGit),
		"importer/internal/reach":     append(own("fleet", "gitstore", "renderer"), goGit, helm, "net/http", "os/exec"),
		"importer/internal/templates": append(own("fleet", "gitstore", "renderer"), goGit, helm, "net/http", "os/exec"),
		"importer/internal/wire": append(own("fleet", "gitstore", "hydrate", "renderer"), goGit, helm, "net/http",
			"os/exec"),

		"service/events":    append(own("fleet", "renderer", "promote", "hydrate"), goGit),
		"service/notify":    append(own("fleet", "renderer"), goGit),
		"hydrate/ocigit":    append(own("hydrate", "hydrate/branch", "fleet", "policy", "promote"), helm),
		"hydrate/objects":   append(own("policy"), helm),
		"rollout":           append(own("gitstore"), goGit, "net/http", "os/exec"),
		"promote":           own("policy", "hydrate/compare", "hydrate/verify"),
		"hydrate/ownpolicy": own("hydrate/enforce", "hydrate/compare", "hydrate/verify", "promote"),
		"hydrate/session":   own("hydrate/compare", "hydrate/verify", "promote"),
		"hydrate/render":    own("hydrate/admit", "hydrate/compare", "promote", "policy"),
		"internal/signers":  append(own("gitstore"), goGit),
		"hydrate/source":    own("hydrate/branch", "rollout", "policy"),
		"hydrate/verify":    own("policy", "hydrate/compare"),

		"bot/...": own("service", "webhook", "cmd", "gitstore/worktree"),
		"bot":     own("bot/forge/github", "bot/forge/gitlab", "bot/forge/gitea"),
		"bot/ci": append(own("fleet", "gitstore", "hydrate", "renderer", "policy", "bot/forge"), goGit,
			"net/http"),
		"bot/command": append(own("gitstore", "renderer/helm"), goGit),
		"bot/companions": append(own("hydrate", "policy", "promote", "review", "bot/publish", "bot/queue",
			"renderer/helm"), helm, "net/http/httptest"),
		"bot/forge/github": own("fleet", "gitstore", "hydrate", "renderer", "policy", "bot/forge/gitlab", "bot/forge/gitea"),
		"bot/forge/gitlab": own("fleet", "gitstore", "hydrate", "renderer", "policy", "bot/forge/github", "bot/forge/gitea"),
		"bot/forge/gitea":  own("fleet", "gitstore", "hydrate", "renderer", "policy", "bot/forge/github", "bot/forge/gitlab"),
		"bot/hint":         own("fleet", "gitstore", "hydrate", "renderer", "policy"),
		"bot/publish":      append(own("gitstore", "policy", "renderer/helm"), goGit),
		"bot/triage":       append(own("gitstore", "policy", "renderer/helm"), goGit),
		"bot/queue":        append(own("fleet", "gitstore", "hydrate", "renderer", "policy"), goGit, helm),
		// the types of Kubernetes, which diff reads, import net/http
		"report":         append(own("gitstore", "policy", "renderer/helm"), goGit),
		"review":         own("bot", "promote", "service"),
		"review/upgrade": own("review", "policy/schemas", "policy/confine", "hydrate/enforce", "bot", "promote", "service"),

		"site/...":     append(own("service", "webhook", "cmd", "bot/forge"), "net/http/httptest"),
		"site":         own("bot/queue"),
		"site/conform": own("site/server", "bot", "policy"),
		"site/index":   own("policy", "promote"),

		"webhook": append(own("fleet", "gitstore", "hydrate", "renderer", "policy", "site", "service", "cmd"),
			goGit, helm),
		"service/...":      own("cmd", "gitstore/worktree"),
		"service":          own("bot/forge/github", "bot/forge/gitlab", "bot/forge/gitea"),
		"service/check":    append(own("gitstore", "bot", "policy"), goGit, helm),
		"service/config":   append(own("hydrate", "bot", "policy"), goGit, helm),
		"deploy":           own("hydrate", "renderer"),
		"cmd/internal/cli": own("bot/forge/forgetest"),
		"cmd/internal/app": own("bot/forge/forgetest", "hydrate/hydratetest"),
		"cmd/sluice":       own("bot/forge/forgetest", "hydrate/hydratetest"),
	}
}

// reached returns the first package of deps that the list forbids; empty if there is none.
func reached(deps, list []string) string {
	for _, d := range deps {
		if slices.ContainsFunc(list, func(f string) bool {
			return d == f ||
				strings.HasPrefix(d, strings.TrimSuffix(f, "/")+"/")
		}) {
			return d
		}
	}
	return ""
}

func TestClosures(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for key, list := range forbidden() {
		prefix, below := strings.CutSuffix(key, "/...")
		used := false
		for name, p := range all {
			if name != prefix && (!below || !within(name, prefix)) {
				continue
			}
			used = true
			if d := reached(p.Deps, list); d != "" {
				t.Errorf("%s reaches %s", name, d)
			}
		}
		if !used {
			t.Errorf("forbidden names %s, which does not exist", key)
		}
	}
}

// TestEveryPackageHasAnEntry requires a separate entry in forbidden for each top-level package and each package of
// hydrate.
func TestEveryPackageHasAnEntry(t *testing.T) {
	t.Parallel()
	for _, name := range withoutEntry(slices.Collect(maps.Keys(packages(t)))) {
		t.Errorf("%s has no entry in forbidden: say what it may not reach", name)
	}
	if got := withoutEntry([]string{"newpackage", "hydrate/new", "bot/deep/new", "fleet"}); !slices.Equal(got,
		[]string{"hydrate/new", "newpackage"}) {
		t.Errorf("packages without an entry: %q", got)
	}
}

func withoutEntry(names []string) []string {
	entries := forbidden()
	var out []string
	for _, name := range names {
		_, one := entries[name]
		_, below := entries[name+"/..."]
		top := !strings.Contains(name, "/")
		if (top || strings.HasPrefix(name, "hydrate/")) && !one && !below {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestMap requires that CONTRIBUTING.md names every package, and no package that does not exist.
func TestMap(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| package | owns |")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no table of packages")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	all := packages(t)
	all["newpackage"] = listed{}
	unnamed, unknown := compareMap(table, all)
	if !slices.Equal(unnamed, []string{"newpackage"}) {
		t.Errorf("the map of CONTRIBUTING.md lacks %q (newpackage is the test's own)", unnamed)
	}
	for _, name := range unknown {
		if !strings.HasPrefix(name, "testdata/") { // go list passes over testdata
			t.Errorf("the map of CONTRIBUTING.md names %s, which does not exist", name)
		}
	}
}

// compareMap returns the packages that a table lacks and the rows without a package.
func compareMap(table string, all map[string]listed) (unnamed, unknown []string) {
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		rows[m[1]] = true
		if _, ok := all[m[1]]; !ok {
			unknown = append(unknown, m[1])
		}
	}
	for name := range all {
		if !rows[name] {
			unnamed = append(unnamed, name)
		}
	}
	slices.Sort(unnamed)
	return unnamed, unknown
}
