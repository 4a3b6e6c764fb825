package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// addBomb commits a folder of ten levels of 40 equal entries, 11 objects for 40^10 paths, with plumbing commands only:
// no other command of git ends with it.
func (s *sandbox) addBomb(dir, folder string) {
	s.t.Helper()
	tree := func(entries string) string {
		cmd := s.command(dir, "git", "mktree")
		cmd.Stdin = strings.NewReader(entries)
		out, err := cmd.Output()
		if err != nil {
			s.t.Fatalf("git mktree: %v", err)
		}
		return strings.TrimSpace(string(out))
	}
	mode, at := "100644 blob", s.run(dir, "git", "rev-parse", "HEAD:sluice.yaml")
	for range 10 {
		var entries strings.Builder
		for i := range 40 {
			fmt.Fprintf(&entries, "%s %s\tf%02d.yaml\n", mode, at, i)
		}
		mode, at = "040000 tree", tree(entries.String())
	}
	for name := folder; name != "."; name = path.Dir(name) { // from the inside out
		above := "HEAD:"
		if parent := path.Dir(name); parent != "." {
			above += parent
		}
		var entries strings.Builder
		if s.command(dir, "git", "cat-file", "-e", above).Run() == nil {
			for line := range strings.Lines(s.run(dir, "git", "ls-tree", above) + "\n") {
				if !strings.HasSuffix(line, "\t"+path.Base(name)+"\n") && line != "\n" {
					entries.WriteString(line)
				}
			}
		}
		fmt.Fprintf(&entries, "040000 tree %s\t%s\n", at, path.Base(name))
		at = tree(entries.String())
	}
	s.run(dir, "git", "update-ref", "refs/heads/main",
		s.run(dir, "git", "commit-tree", at, "-p", "HEAD", "-m", "a bomb"))
}

// Verbs end soon with a commit that has more paths than anybody can list: they name the folder and the limit, or do
// not look at it.
func TestTreeBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	s := newSandbox(t)
	const limit = "more than 2000000 files and folders"
	diff, hydrate := "diff main~1..main", "hydrate --dry-run"
	for folder, refused := range map[string]map[string]string{
		"other":                    {diff: "other has " + limit},
		"apps/shop/bomb":           {diff: "apps has " + limit},
		"clusters/bomb":            {diff: "clusters has " + limit},
		"layers/region/bomb":       {diff: "layers has " + limit},
		"charts/web/templates/x":   {diff: "charts has " + limit, hydrate: "charts/web/templates has " + limit},
		"manifests/baseline/bombs": {diff: "manifests has " + limit, hydrate: "manifests/baseline/bombs has " + limit},
		"policy": {
			diff: "the folder has more than 2000 files", hydrate: "the folder has more than 2000 files",
			"validate --commit main": "the folder has more than 2000 files",
		},
	} {
		name := strings.ReplaceAll(folder, "/", "-")
		s.source(name)
		dir := filepath.Join(s.dir, name)
		s.addBomb(dir, folder)
		for _, verb := range []string{diff, hydrate, "validate --commit main", "import --detect", "try .", "ci --no-comment --no-status"} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			cmd := s.command(dir, s.binary, strings.Fields(verb)...)
			cmd.Env = append(cmd.Env, "GITHUB_ACTIONS=true", "GITHUB_EVENT_NAME=push", "GITHUB_REF=refs/heads/main",
				"GITHUB_REPOSITORY=acme/fleet", "GITHUB_SHA="+s.run(dir, "git", "rev-parse", "main"))
			bound := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
			bound.Dir, bound.Env = cmd.Dir, cmd.Env
			out, err := bound.CombinedOutput()
			late := ctx.Err() != nil
			cancel()
			text := strings.Join(strings.Fields(string(out)), " ")
			switch want, known := refused[verb]; {
			case late:
				t.Errorf("a bomb at %s: sluice %s does not end within 30 seconds", folder, verb)
			case known && (err == nil || !strings.Contains(text, want) && !strings.Contains(text, want[:30])):
				t.Errorf("a bomb at %s: sluice %s ends with %v, want %q in\n%s", folder, verb, err, want, out)
			case !known && (verb == hydrate || strings.HasPrefix(verb, "validate")) && err != nil:
				t.Errorf("a bomb at %s, which nothing reads: sluice %s ends with %v:\n%s", folder, verb, err, out)
			}
		}
	}
}

// Every verb ends within a second after a signal, whatever it does at that time: walks over a bomb, templates and rules
// that take minutes, a remote that does not answer.
func TestSignalsEndEveryVerb(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	s := newSandbox(t)
	remote := silent(t)
	prepare := func(name, file, text string) string {
		s.source(name)
		dir := filepath.Join(s.dir, name)
		s.run(dir, "git", "remote", "add", "origin", remote)
		if file == "" {
			s.addBomb(dir, "charts/web/templates/bomb")
			return dir
		}
		full := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.run(dir, "git", "add", "-A")
		s.run(dir, "git", "commit", "-qm", "more")
		return dir
	}
	local := []string{
		"diff main~1..main", "hydrate --dry-run", "validate --commit main", "render --cluster dev-1 --app shop",
		"where", "try .", "site --out pages", "import --detect",
	}
	remotes := []string{
		"hydrate --push", "verify --from-remote", "status", "history prod", "promote prod", "try " + remote,
		"deps add repository x " + remote,
	}
	for dir, verbs := range map[string][]string{
		prepare("bombed", "", ""): local,
		prepare("loops", "charts/web/templates/loop.yaml",
			"{{ range $i := until 30000 }}{{ range $j := until 30000 }}{{ if eq $i $j -1 }}x{{ end }}{{ end }}{{ end }}"): local[:4],
		prepare("rules", "policy/slow.rego", "package main\nimport rego.v1\ndeny contains \"x\" if {\n\tsome i in numbers.range(1, 3000)\n\tsome j in numbers.range(1, 3000)\n\ti * j == -1\n}\n"): local[:2],
		prepare("waits", "x", "x"): remotes,
	} {
		for _, verb := range verbs {
			for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
				cmd := s.command(dir, s.binary, strings.Fields(verb)...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(rand.Int64N(int64(1500 * time.Millisecond))))
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				_ = cmd.Process.Signal(signal) // it may have ended
				select {
				case <-ended:
				case <-time.After(time.Second):
					t.Errorf("in %s, sluice %s runs a second after %s", filepath.Base(dir), verb, signal)
					_ = cmd.Process.Kill()
					<-ended
				}
			}
		}
	}
}

// silent returns the address of a repository whose server accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		var open []net.Conn // so that none is closed
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range open {
					_ = c.Close()
				}
				return
			}
			open = append(open, c)
		}
	}()
	return "http://" + l.Addr().String() + "/fleet.git"
}
