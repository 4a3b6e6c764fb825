package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWalls holds what each package may reach, through others too, against the design; the linter sees direct imports
// alone.
func TestWalls(t *testing.T) {
	const own = "github.com/sluice-gitops/sluice/"
	for pkg, forbidden := range map[string][]string{
		"renderer/manifest":  {own + "renderer/helm", own + "renderer/kustomize", own + "renderer/fetch", own + "hydrate", "github.com/go-git/", "helm.sh/"},
		"renderer/helm":      {own + "hydrate", own + "renderer/fetch", "github.com/go-git/", "helm.sh/helm/v3/pkg/action"},
		"renderer/kustomize": {own + "hydrate", own + "renderer/fetch", "github.com/go-git/", "helm.sh/"},
		"renderer/fetch":     {own + "hydrate", own + "renderer/manifest", "github.com/go-git/", "helm.sh/helm/v3/pkg/action"},
		"renderer":           {own + "hydrate", own + "renderer/fetch", own + "cmd", "github.com/go-git/"},
		"hydrate/signers":    {own + "hydrate/gitstore", own + "hydrate/fleet", own + "renderer", "github.com/go-git/", "net/http"},
		"hydrate/fleet":      {own + "hydrate/gitstore", own + "renderer/helm", own + "renderer/fetch", "github.com/go-git/", "net/http"},
		"hydrate/bootstrap":  {own + "hydrate/gitstore", own + "renderer/helm", own + "renderer/fetch", "github.com/go-git/", "net/http", "os/exec"},
		"hydrate/gitstore":   {own + "hydrate/fleet", own + "renderer", "helm.sh/"},
		"hydrate":            {own + "cmd"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", own+pkg).Output()
		if err != nil {
			t.Fatalf("%s: %v", pkg, err)
		}
		dependencies := strings.Fields(string(out))
		if len(dependencies) < 10 {
			t.Fatalf("%s: only %d dependencies were listed", pkg, len(dependencies))
		}
		for _, d := range dependencies {
			for _, f := range forbidden {
				if strings.HasPrefix(d, f) {
					t.Errorf("%s reaches %s", pkg, d)
				}
			}
		}
	}
}
