// Package docs_test checks what the pages quote: versions of Sluice and messages. Links, commands, configurations,
// tutorials and the gallery are checked beside the code that they show.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// release returns the version that docs/upgrading.md declares as the one that all pages quote.
func release(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`The pages quote the release \*\*v(\d+\.\d+\.\d+)\*\*`).FindStringSubmatch(read(t, "upgrading.md"))
	if m == nil {
		t.Fatal("docs/upgrading.md names no release that the pages quote")
	}
	return m[1]
}

// quoted finds versions of Sluice: of the action, the component, the template, images and the binary.
var quoted = regexp.MustCompile(`(?i)(?:\bsluice(?:-ci)?[@:/ ]v?|release[a-z ]*,? (?:such as )?\(?v|\bversion: v)(\d+(?:\.\d+)*)`)

// The pages, the examples and the files that users copy quote the release of docs/upgrading.md, or the first numbers
// of it: @v0 is the newest v0 release.
func TestQuotedVersions(t *testing.T) {
	t.Parallel()
	want, count := release(t), 0
	var files []string
	for _, dir := range []string{".", "../deploy", "../templates"} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(name, ".go") {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append(files, "../README.md", "../action.yml", "../CONTRIBUTING.md", "../SECURITY.md") {
		for _, m := range quoted.FindAllStringSubmatch(read(t, name), -1) {
			count++
			if !strings.HasPrefix(want+".", m[1]+".") {
				t.Errorf("%s quotes %q; docs/upgrading.md says that the pages quote v%s", name, m[0], want)
			}
		}
	}
	const fewest = 10
	if count < fewest {
		t.Errorf("found only %d quoted versions, want at least %d", count, fewest)
	}
}

// foreign are messages of libraries and programs that Sluice passes on.
var foreign = []string{"authentication required"}

// Each message that docs/troubleshooting.md quotes is in the sources. … stands for a name, and so does a file that the
// sources name by a constant.
func TestQuotedMessages(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "tools" || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == ".git"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			sources.WriteString(read(t, name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(sources.String(), "")
	for _, message := range foreign {
		text += "\n" + message
	}
	count := 0
	for line := range strings.Lines(read(t, "troubleshooting.md")) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		first, _, _ := strings.Cut(line, " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			for part := range strings.SplitSeq(strings.ReplaceAll(m[1], "sluice.lock", "%s"), "…") {
				count++
				if !strings.Contains(text, strings.TrimSpace(part)) {
					t.Errorf("docs/troubleshooting.md quotes %q, and no source has %q", m[1], strings.TrimSpace(part))
				}
			}
		}
	}
	const fewest = 30
	if count < fewest {
		t.Errorf("found only %d messages, want at least %d", count, fewest)
	}
}
