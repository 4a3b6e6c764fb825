package deploy_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// marked is the first line of each block in the documents that is a complete configuration of the service.
const marked = "# config.yaml"

// blocks returns the YAML blocks of a document, without their indentation.
func blocks(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```").FindAllStringSubmatch(text, -1) {
		out = append(out, strings.TrimPrefix(strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n"), "\n"))
	}
	return out
}

// TestConfigurationsInDocuments checks every configuration in the documents with the service. Any block with forges
// must be marked; otherwise it would not be checked.
func TestConfigurationsInDocuments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range append(files, "../README.md", "chart/sluice/README.md") {
		for _, block := range blocks(read(t, file)) {
			switch {
			case strings.HasPrefix(block, marked):
				count++
				if err := serveCheck(t, block); err != nil {
					t.Errorf("%s: the error is %v\nthe block is\n%s", file, err, block)
				}
			case regexp.MustCompile(`(?m)^forges:`).MatchString(block):
				t.Errorf("%s has a configuration that does not begin with %q:\n%s", file, marked, block)
			}
		}
	}
	if count < 6 {
		t.Errorf("only %d configurations were found", count)
	}
}
