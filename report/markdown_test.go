package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/report"
)

var update = flag.Bool("update", false, "write the golden files anew")

const githubLimit = 65_536 - 512

func samples() map[string]*report.Review {
	return map[string]*report.Review{
		"one-target": oneTarget(), "three-apps": threeApps(), "ten-thousand": tenThousand(), "deletions": deletions(),
		"only-noise": onlyNoise(),
		"failures":   failures(), "broken": broken(), "no-effect": noEffect(), "findings": findings(),
		"rollout": rollout(), "hostile": hostile(),
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if got != string(want) {
		t.Errorf("%s differs from the golden file; see it with `go test ./report -update && git diff`\n%s", name,
			firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "want: " + a[i] + "\ngot:  " + b[i]
		}
	}
	return "one is a beginning of the other"
}

func TestMarkdownGolden(t *testing.T) {
	for name, r := range samples() {
		t.Run(name, func(t *testing.T) {
			text, _ := report.Markdown(r, githubLimit)
			golden(t, name+".md", text)
		})
	}
}
