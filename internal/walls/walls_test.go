// Package walls tests the boundaries between the packages of the module: which package may reach which, also through
// others. The linter (depguard) sees direct imports alone.
package walls

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
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

// floors are the levels of the module, lowest first: a package imports packages of its own level and of lower ones. An
// entry covers the package and those below it, unless a longer entry covers them.
func floors() []([]string) {
	return [][]string{
		{"internal", "renderer/manifest"},
		{"renderer", "policy"},
		{"hydrate"},
		{"bot", "webhook"},
		{"service"},
		{"cmd", "deploy", "testdata"},
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

// forbidden lists what a package, and the packages below it, may not reach.
func forbidden() map[string][]string {
	const goGit, helm = "github.com/go-git/", "helm.sh/"
	return map[string][]string{
		"internal":           {module + "renderer", module + "policy", module + "hydrate"},
		"renderer/manifest":  {module + "renderer/helm", module + "renderer/kustomize", module + "renderer/fetch", goGit, helm},
		"renderer/helm":      {module + "renderer/fetch", goGit, "helm.sh/helm/v3/pkg/action"},
		"renderer/kustomize": {module + "renderer/fetch", goGit, helm},
		"renderer/fetch":     {module + "renderer/manifest", goGit, "helm.sh/helm/v3/pkg/action"},
		"renderer":           {module + "policy", goGit},
		"policy":             {module + "renderer/helm", module + "renderer/kustomize", goGit},
		"hydrate/fleet":      {module + "hydrate/gitstore", module + "renderer/helm", module + "renderer/fetch", goGit, "net/http"},
		"hydrate/bootstrap":  {module + "hydrate/gitstore", module + "renderer/helm", module + "renderer/fetch", goGit, "net/http", "os/exec"},
		"hydrate/gitstore":   {module + "hydrate/fleet", module + "renderer", helm},
		"hydrate/branch":     {module + "hydrate/source", module + "hydrate/compare", module + "renderer/helm", module + "policy"},
		"hydrate/source":     {module + "hydrate/branch", module + "hydrate/promote", module + "policy"},
		"hydrate/promote":    {module + "hydrate/gitstore", goGit, "net/http", "os/exec"},
		"hydrate/diff":       {module + "hydrate/gitstore", module + "policy", goGit, helm},
		"hydrate":            {module + "bot", module + "webhook", module + "service", module + "cmd"},
		"bot/forge/github":   {module + "hydrate", module + "renderer", module + "policy", module + "bot/forge/gitlab"},
		"bot/forge/gitlab":   {module + "hydrate", module + "renderer", module + "policy", module + "bot/forge/github"},
		"bot/command":        {module + "hydrate/gitstore", module + "renderer/helm", goGit},
		"bot":                {module + "service", module + "webhook"},
		"webhook":            {module + "hydrate", module + "renderer", module + "policy"},
		"service":            {module + "cmd"},
		"hydrate/objects":    {module + "policy"},
		"hydrate/signers":    {module + "hydrate/gitstore", goGit},
		"hydrate/notify":     {module + "hydrate/fleet", module + "renderer", goGit},
		"bot/hint":           {module + "hydrate", module + "renderer", module + "policy"},
	}
}

func TestClosures(t *testing.T) {
	t.Parallel()
	all := packages(t)
	for prefix, list := range forbidden() {
		if _, ok := all[prefix]; !ok && prefix != "internal" {
			t.Errorf("there is no package %s", prefix)
		}
		for name, p := range all {
			if name != prefix && (prefix != "internal" || !within(name, prefix)) {
				continue
			}
			for _, d := range p.Deps {
				if i := slices.IndexFunc(list, func(f string) bool { return d == f || strings.HasPrefix(d, strings.TrimSuffix(f, "/")+"/") }); i >= 0 {
					t.Errorf("%s reaches %s", name, d)
				}
			}
		}
	}
}

// TestMap requires that CONTRIBUTING.md names every package.
func TestMap(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range packages(t) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("the map of CONTRIBUTING.md does not name `%s`", name)
		}
	}
}
