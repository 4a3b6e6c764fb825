package gitops

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a cluster takes from another repository, which sluice.lock pins, equals what Flux's libraries build of that
// repository: a chart with values files and a local dependency, Kustomizations, what these bring, and files that the
// repository and its GitRepository ignore.
func TestOtherRepositoriesEqualFlux(t *testing.T) {
	tools := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", tools,
		"./sluice-reference-flux").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root := t.TempDir()
	server := serve(t, root)
	t.Cleanup(server.Close)
	fixtures := sections(t, "testdata/import/repositories.txt")
	run := func(dir, program string, args ...string) (string, error) {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_COUNT=4", "GIT_CONFIG_KEY_0=user.name",
			"GIT_CONFIG_VALUE_0=x", "GIT_CONFIG_KEY_1=user.email", "GIT_CONFIG_VALUE_1=x@example.com",
			"GIT_CONFIG_KEY_2=uploadpack.allowFilter", "GIT_CONFIG_VALUE_2=true",
			"GIT_CONFIG_KEY_3=uploadpack.allowAnySHA1InWant", "GIT_CONFIG_VALUE_3=true",
			"PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		return string(out), err
	}
	must := func(dir, program string, args ...string) {
		t.Helper()
		if out, err := run(dir, program, args...); err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
	}
	lib, fleet := filepath.Join(root, "lib"), filepath.Join(root, "fleet")
	unpack(t, lib, fixtures["lib"])
	must(lib, "git", "init", "-q", "-b", "main")
	must(lib, "git", "add", "-A")
	must(lib, "git", "commit", "-qm", "v1")
	must(lib, "git", "tag", "v1.0.0")
	url := server.URL + "/lib/.git"
	unpack(t, fleet, strings.ReplaceAll(fixtures["fleet"], "URL", url))
	must(fleet, "git", "init", "-q", "-b", "main")
	must(fleet, "git", "add", "-A")
	must(fleet, "git", "commit", "-qm", "start")
	if out, err := run(fleet, binary, "import", "--check"); err == nil ||
		!strings.Contains(out, "sluice deps add lib "+url) {
		t.Errorf("%v: %s", err, out)
	}
	must(fleet, binary, "deps", "add", "lib", url, "--tags", "v1.*")
	must(fleet, binary, "deps", "add", "lib-main", url, "--branch", "main")
	out, err := run(fleet, binary, "import", "--check")
	if err != nil || !strings.Contains(out, "0 differences, 0 apps not compared") ||
		!strings.Contains(out, "13 objects of 7 apps equal") {
		t.Errorf("%v: %s", err, out)
	}
	t.Log(out)
}
