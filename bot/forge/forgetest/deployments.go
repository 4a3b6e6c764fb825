package forgetest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Deployed is a World that tells which deployments a repository has, oldest first, as `environment commit state` in the
// words of the forge. A World whose adapter implements forge.Deployments implements it.
type Deployed interface {
	Deployments(t *testing.T, repo forge.Repository) []string
	// DeploymentPage is the address that an environment links to.
	DeploymentPage(t *testing.T, repo forge.Repository, environment string) string
}

func testDeployments(t *testing.T, w World) {
	f, ok := w.Forge().(forge.Deployments)
	state, told := w.(Deployed)
	if !ok || !told {
		t.Skip("the adapter shows no deployments")
	}
	repo := scene(t, w)
	first, second := open(t, w, repo, "a").Head, open(t, w, repo, "b").Head
	set := func(commit string, s forge.StatusState, description string) {
		t.Helper()
		if err := f.SetDeployment(t.Context(), repo, forge.Deployment{
			Environment: "prod", Commit: commit, State: s, Description: description, Rendered: repo, Branch: "env/prod",
			Trunk: "main", Production: true,
		}); err != nil {
			t.Fatalf("%s of %.10s: %v", s, commit, err)
		}
	}
	states := func(want ...string) {
		t.Helper()
		var got []string
		for _, line := range state.Deployments(t, repo) {
			words := strings.Fields(line)
			name := map[string]string{first: "first", second: "second"}[words[1]]
			word := map[string]string{ // of GitHub and of GitLab
				"in_progress": "runs", "running": "runs", "success": "succeeded", "failure": "failed", "failed": "failed",
			}[words[2]]
			got = append(got, words[0]+" "+name+" "+word)
		}
		if len(got) == 0 && len(want) == 0 {
			return
		}
		for i, one := range want {
			if i >= len(got) || !slices.Contains(strings.Split(one, "|"), got[i]) || len(got) != len(want) {
				t.Fatalf("deployments: got %q, want %q", got, want)
			}
		}
	}
	set(first, forge.Failure, "it never began")
	states()
	set(first, forge.Running, "wave 1")
	set(first, forge.Running, "wave 2 "+strings.Repeat("of many ", 60))
	states("prod first runs")
	if page := state.DeploymentPage(t, repo, "prod"); !strings.HasSuffix(page, "/tree/env/prod") ||
		!strings.Contains(page, "/"+repo.Path+"/") || strings.Contains(page, "/api/") {
		t.Errorf("page of prod: got %q, want that of the branch", page)
	}
	for range 2 {
		set(first, forge.Success, "done")
	}
	states("prod first succeeded")
	set(second, forge.Success, "done")
	states("prod first succeeded|prod first ", "prod second succeeded") // GitHub has inactive ones
	set(second, forge.Failure, "rolled back")
	set(first, forge.Success, "back")
	states("prod first succeeded", "prod second failed")
	before := w.Requests()
	set(first, forge.Success, "back")
	if n := w.Requests() - before; n > 3 {
		t.Errorf("requests for a state that is there already: got %d, want at most 3", n)
	}
	err := f.SetDeployment(t.Context(), repo, forge.Deployment{
		Environment: "prod", Commit: strings.Repeat("0", 39) + "1", State: forge.Running, Trunk: "main",
	})
	if err == nil {
		t.Error("a commit that does not exist: got no error")
	}
	w.Fail(t, Fault{Kind: Denied, On: OnWrite, Times: 9})
	if err := f.SetDeployment(t.Context(), repo, forge.Deployment{
		Environment: "dev", Commit: first, State: forge.Success, Trunk: "main",
	}); !errors.Is(err, forge.ErrForbidden) {
		t.Errorf("without the permission: got %v, want %v", err, forge.ErrForbidden)
	}
}
