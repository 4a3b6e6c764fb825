package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
)

var (
	usesPattern   = regexp.MustCompile(`(?m)^\s*-?\s*uses:\s*(.*)$`)
	pinnedPattern = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
)

// Every action of our workflows is pinned by digest, with its version in a comment, and the same everywhere.
func TestActionsArePinned(t *testing.T) {
	workflows, err := filepath.Glob(root + ".github/workflows/*.yaml")
	if err != nil || len(workflows) < 3 {
		t.Fatalf("the workflows are %v, the error is %v", workflows, err)
	}
	pins := map[string]string{}
	for _, file := range append(workflows, root+"action.yml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range usesPattern.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "./") {
				continue
			}
			if !pinnedPattern.MatchString(m[1]) {
				t.Errorf("%s: %s is not pinned by digest with its version", filepath.Base(file), m[1])
			}
			name, pin, _ := strings.Cut(m[1], "@")
			if pins[name] != "" && pins[name] != pin {
				t.Errorf("%s: %s is pinned twice: %s and %s", filepath.Base(file), name, pin, pins[name])
			}
			pins[name] = pin
		}
		if file != root+"action.yml" && !bytes.Contains(text, []byte("permissions: {contents: read}")) {
			t.Errorf("%s does not restrict its token", filepath.Base(file))
		}
	}
	if len(pins) < 5 {
		t.Errorf("only %d actions were found", len(pins))
	}
}

// goreleaser names archives and checksums as install.sh and the GitLab component request them, for the same systems
// as `make dist`.
func TestReleaseNames(t *testing.T) {
	var release struct {
		ProjectName string `yaml:"project_name"`
		Builds      []struct {
			Binary string
			Goos   []string
			Goarch []string
		}
		Archives []struct {
			Formats      []string
			NameTemplate string `yaml:"name_template"`
		}
		Checksum struct {
			NameTemplate string `yaml:"name_template"`
			Algorithm    string
		}
	}
	data, err := os.ReadFile(root + ".goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &release); err != nil {
		t.Fatal(err)
	}
	if len(release.Builds) != 1 || len(release.Archives) != 1 {
		t.Fatalf("the release is %+v", release)
	}
	b, a := release.Builds[0], release.Archives[0]
	name := strings.NewReplacer("{{ .ProjectName }}", release.ProjectName, "{{ .Version }}", "1.2.3", "{{ .Os }}",
		"linux", "{{ .Arch }}", "arm64").Replace(a.NameTemplate)
	if file := name + "." + strings.Join(a.Formats, ""); file != "sluice_1.2.3_linux_arm64.tar.gz" ||
		b.Binary != "sluice" {
		t.Errorf("archive %s with %s", file, b.Binary)
	}
	if release.Checksum.NameTemplate != "checksums.txt" || release.Checksum.Algorithm != "sha256" {
		t.Errorf("checksums: %+v", release.Checksum)
	}
	if strings.Join(b.Goos, " ") != "linux darwin" || strings.Join(b.Goarch, " ") != "amd64 arm64" {
		t.Errorf("build: %+v", b)
	}
}

// Forms and configuration parse, and link to files that exist.
func TestDocumentsOfTheProject(t *testing.T) {
	for _, pattern := range []string{
		".github/ISSUE_TEMPLATE/*", ".github/dependabot.yml",
		".devcontainer/devcontainer.json",
	} {
		files, err := filepath.Glob(root + pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("%s: the files are %v, the error is %v", pattern, files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var v map[string]any
			if err := yaml.Unmarshal(data, &v); err != nil {
				t.Errorf("%s: the error is %v", file, err)
			}
			for _, m := range blobPattern.FindAllSubmatch(data, -1) {
				if _, err := os.Stat(root + string(m[1])); err != nil {
					t.Errorf("%s leads to %s: %v", filepath.Base(file), m[1], err)
				}
			}
		}
	}
}

var blobPattern = regexp.MustCompile(`github\.com/sluice-gitops/sluice/blob/main/([\w./-]+\w)`)
