package walls

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var licenseRow = regexp.MustCompile(`(?m)^\| (\S+) \| (v\d\S*) \| (\S.*) \|$`)

// LICENSES.md lists every module of the released binaries, in the version that they contain.
func TestLicenses(t *testing.T) {
	data, err := os.ReadFile("../../LICENSES.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, row := range licenseRow.FindAllStringSubmatch(string(data), -1) {
		written[row[1]+" "+row[2]] = true
		if row[3] == "?" {
			t.Errorf("%s has no license that is known", row[1])
		}
	}
	used := map[string]bool{}
	for _, system := range []string{"linux", "darwin"} {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", module+"cmd/sluice")
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-tags=nomsgpack")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); line != "" {
				used[line] = true
			}
		}
	}
	var missing, extra []string
	for m := range used {
		if !written[m] {
			missing = append(missing, m)
		}
	}
	for m := range written {
		if !used[m] {
			extra = append(extra, m)
		}
	}
	slices.Sort(missing)
	slices.Sort(extra)
	if len(used) < 50 || len(missing)+len(extra) > 0 {
		t.Errorf("LICENSES.md is out of date (run make licenses): %d modules; missing %q, not used %q", len(used), missing, extra)
	}
}

var (
	actionUse    = regexp.MustCompile(`(?m)^\s*-?\s*uses:\s*(\S+)`)
	pinnedAction = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
)

// Workflows use third-party actions by digest, so that a moved tag changes nothing.
func TestActionsArePinned(t *testing.T) {
	uses := 0
	for _, pattern := range []string{"../../.github/workflows/*.yaml", "../../action.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range actionUse.FindAllStringSubmatch(string(data), -1) {
				uses++
				if !strings.HasPrefix(m[1], "./") && !pinnedAction.MatchString(m[1]) {
					t.Errorf("%s: %s is not pinned by digest", file, m[1])
				}
			}
		}
	}
	if uses < 10 {
		t.Errorf("only %d uses of actions were found", uses)
	}
}
