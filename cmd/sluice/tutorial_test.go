package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var (
	blockPattern  = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	filePattern   = regexp.MustCompile(`^# ([\w./-]+)\n`)
	statusPattern = regexp.MustCompile(`^\(exit status (\d)\)$`)
)

// TestTutorials does what the tutorials in docs/tutorials say, in order: it writes each YAML block to the file that its
// first line names, runs the commands after $, and looks for the lines below a command in its output. … stands for any
// text.
func TestTutorials(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	pages, err := filepath.Glob("../../docs/tutorials/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 3 {
		t.Fatalf("found only %d tutorials", len(pages))
	}
	dir := t.TempDir()
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		script, commands := scriptOf(string(text))
		if commands < 5 {
			t.Errorf("%s has only %d commands", page, commands)
		}
		name := strings.TrimSuffix(filepath.Base(page), ".md") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, Setup: scriptEnvironment,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exit": exitStatus},
	})
}

// TestFirstSite does what docs/first-site.md says, as TestTutorials does.
func TestFirstSite(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	for _, program := range []string{"git", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the page uses %s: %v", program, err)
		}
	}
	text, err := os.ReadFile("../../docs/first-site.md")
	if err != nil {
		t.Fatal(err)
	}
	const least = 20
	script, commands := scriptOf(string(text))
	if commands < least {
		t.Errorf("the page has only %d commands", commands)
	}
	file := filepath.Join(t.TempDir(), "first-site.txtar")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files: []string{file}, Setup: scriptEnvironment,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exit": exitStatus},
	})
}

// TestGallery runs the commands of docs/gallery.md, as TestTutorials does. Each section runs in a repository with the
// files of the folder of docs/examples/fleets that has its name.
func TestGallery(t *testing.T) {
	t.Parallel()
	const fleets = "../../docs/examples/fleets"
	text, err := os.ReadFile("../../docs/gallery.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadDir(fleets)
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n## ")[1:]
	if len(examples) == 0 || len(sections) != len(examples) {
		t.Errorf("docs/gallery.md has %d sections for %d examples", len(sections), len(examples))
	}
	dir := t.TempDir()
	for _, section := range sections {
		name, _, _ := strings.Cut(section, "\n")
		script, commands := scriptOf(section)
		if commands < 2 {
			t.Errorf("the section %s has only %d commands", name, commands)
		}
		files := os.DirFS(fleets + "/" + name)
		script = "cd tutorial\nexec git init -q -b main\nexec git add -A\nexec git commit -qm first\ncd ..\n" + script
		err := fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(files, file)
			script += "-- tutorial/" + file + " --\n" + string(data)
			return err
		})
		if err != nil {
			t.Fatalf("the section %s has no example: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".txtar"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, Setup: scriptEnvironment,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exit": exitStatus},
	})
}

// scriptOf turns a tutorial into a script, and counts its commands.
func scriptOf(page string) (string, int) {
	var script, files strings.Builder
	script.WriteString("mkdir tutorial\ncd tutorial\n")
	commands := 0
	for i, block := range blockPattern.FindAllStringSubmatch(page, -1) {
		if name := filePattern.FindStringSubmatch(block[2]); name != nil && block[1] == "yaml" {
			fmt.Fprintf(&files, "-- blocks/%d --\n%s", i, strings.TrimPrefix(block[2], name[0]))
			fmt.Fprintf(&script, "mkdir %s\ncp $WORK/blocks/%d %s\n", filepath.Dir(name[1]), i, name[1])
			continue
		}
		for _, part := range strings.Split("\n"+block[2], "\n$ ")[1:] {
			commands++
			lines := strings.Split(strings.TrimSpace(part), "\n")
			status := "0"
			if m := statusPattern.FindStringSubmatch(lines[len(lines)-1]); m != nil {
				status, lines = m[1], lines[:len(lines)-1]
			}
			fmt.Fprintf(&script, "exit %s sh -ec '(%s) 2>&1'\n", status, strings.ReplaceAll(lines[0], "'", "''"))
			for _, line := range lines[1:] {
				wanted := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line)), "…", ".*")
				if wanted != "" && wanted != ".*" {
					fmt.Fprintf(&script, "stdout '%s'\n", strings.ReplaceAll(wanted, "'", "''"))
				}
			}
		}
	}
	return script.String() + files.String(), commands
}
