package walls

import (
	"os"
	"os/exec"
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
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", module+"cmd/sluice")
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
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
		t.Errorf("LICENSES.md is out of date (run make licenses): %d modules; missing %q, not used %q", len(used),
			missing, extra)
	}
}
