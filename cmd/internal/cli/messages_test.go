package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// told runs a command in a folder and returns what it writes to both streams.
func told(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	o := System()
	o.Out, o.Err, o.Terminal = &out, &out, false
	if status := Main(t.Context(), append(args, "--repo", dir), o); status == ExitOK {
		t.Errorf("sluice %s: status 0: %s", strings.Join(args, " "), &out)
	}
	return out.String()
}

// A refusal names what exists, and what the user can do with this command.
func TestMessagesNameTheNextStep(t *testing.T) {
	repo := hydratetest.New(t)
	var out bytes.Buffer
	o := System()
	o.Out, o.Err, o.Terminal = &out, &out, false
	if status := Main(t.Context(), []string{"init", repo.Dir}, o); status != ExitOK {
		t.Fatalf("init: status %d: %s", status, &out)
	}
	if got := told(t, repo.Dir, "status", "--local"); !strings.Contains(got, "make the first commit") {
		t.Errorf("without a commit: %s", got)
	}
	repo.Commit("Start a fleet")
	for command, want := range map[string]string{
		"status":                                   "the repository has no remote \"origin\" (add it with `git remote add`); with --local, ",
		"where --image pause":                      "with --local, ",
		"hydrate --push":                           "without --push, ",
		"verify --from-remote":                     "without --from-remote, ",
		"check --from-remote":                      "without --from-remote, ",
		"diff nope":                                `no commit is named "nope": name a branch, a tag or a commit`,
		"diff mian":                                `no commit is named "mian", did you mean main?`,
		"affected main..mian~1":                    `no commit is named "mian~1", did you mean main?`,
		"where --env foo":                          `the fleet has no environment "foo"; it has dev, prod`,
		"where --env prd":                          "did you mean prod?",
		"where --cluster x":                        `the fleet has no cluster "x"; it has dev-1, prod-1`,
		"status --local prd":                       "did you mean prod?",
		"status --local stage":                     `the fleet has no environment "stage"; it has dev, prod`,
		"freeze --local prd-1 --reason incident":   `"prd-1" is neither an environment nor a cluster, did you mean prod-1?`,
		"freeze --local dev-1 --reason incident":   "dev follows the trunk: set spec.state to frozen",
		"unfreeze --local dev":                     "set spec.state",
		"rollback --local dev":                     "dev follows the trunk: change or revert the commit on the trunk, ",
		"promote --local dev":                      "and run `sluice hydrate --push`",
		"explain --app hello --cluster production": `the fleet has no cluster "production"`,
	} {
		if got := told(t, repo.Dir, strings.Fields(command)...); !strings.Contains(got, want) {
			t.Errorf("sluice %s says\n%swant %q", command, got, want)
		}
	}
	if got := told(t, repo.Dir, "import", "--check"); !strings.Contains(got, "sluice.yaml has no spec.import") {
		t.Errorf("a check without an import: %s", got)
	}
	if got := told(t, repo.Dir, "import", "helmfile", "--state", "none.yaml"); !strings.Contains(got,
		"none.yaml does not exist: write it with `helmfile -e none build") {
		t.Errorf("without the state: %s", got)
	}
	for command, want := range map[string]string{
		"import":                              "sluice.yaml has no spec.import",
		"deps vendor":                         "nothing to store: ",
		"explain --app hello --cluster dev-1": "\nreplicas\n",
		"explain --app hello --all-clusters":  "\nreplicas\n",
	} {
		out.Reset()
		if status := Main(t.Context(), append(strings.Fields(command), "--repo", repo.Dir), o); status != ExitOK ||
			!strings.Contains(out.String(), want) {
			t.Errorf("sluice %s: status %d: %s", command, status, &out)
		}
	}
	out.Reset()
	if status := Main(t.Context(), []string{"serve", "--config", "none.yaml"}, o); status == ExitOK ||
		!strings.Contains(out.String(), "the configuration file none.yaml does not exist: name it with ") {
		t.Errorf("serve: status %d: %s", status, &out)
	}
	if got := told(t, t.TempDir(), "diff"); !strings.Contains(got, "is not in a Git repository (") ||
		strings.Contains(got, "not found") {
		t.Errorf("outside of a repository: %s", got)
	}
	if got := told(t, repo.Dir+"/none", "status"); !strings.Contains(got, "none does not exist") {
		t.Errorf("in a missing folder: %s", got)
	}
}

// A remote that does not answer is one message, although several environments need it, without the text of Go's HTTP
// client.
func TestUnreachableRemote(t *testing.T) {
	repo := hydratetest.New(t)
	var out bytes.Buffer
	o := System()
	o.Out, o.Err, o.Terminal = &out, &out, false
	if status := Main(t.Context(), []string{"init", repo.Dir}, o); status != ExitOK {
		t.Fatalf("init: status %d: %s", status, &out)
	}
	repo.Commit("Start a fleet")
	repo.Git("remote", "add", "origin", "http://127.0.0.1:1/fleet.git")
	if got := told(t, repo.Dir, "hydrate", "--push"); !strings.HasPrefix(got,
		"sluice: http://127.0.0.1:1/fleet.git: ") {
		t.Errorf("hydrate --push: %s", got)
	}
	got := told(t, repo.Dir, "status")
	if strings.Count(got, "connection refused: check the address, the network and the proxy, and whether the server is up") != 1 || strings.Contains(got, "Get ") || !strings.Contains(got, "http://127.0.0.1:1/fleet.git: ") {
		t.Errorf("an unreachable server: %s", got)
	}
	repo.Git("remote", "set-url", "origin", t.TempDir()+"/none.git")
	if got = told(t, repo.Dir, "status"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "check the address") {
		t.Errorf("a missing repository: %s", got)
	}
}
