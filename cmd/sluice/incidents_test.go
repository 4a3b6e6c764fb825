package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestIncidents plays incidents at night. It executes every command that Sluice prints about one, each in a copy of the
// repositories, and goes on with what that prints until no command changes anything. There, verify must accept prod, and
// its clusters must run what the last command promised.
func TestIncidents(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	calm := startOfDrill(t)
	for name, i := range incidents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := calm.copy(t)
			i.happens(d)
			seen := d.look(i.asks...)
			if len(d.commands(seen)) == 0 {
				t.Fatalf("nothing says what to do:\n%s", seen)
			}
			d.follow(i, seen, nil)
		})
	}
}

// incident is something that happens to prod, which runs motto 3 after motto 1 and 2.
type incident struct {
	happens func(d *drill)
	asks    [][]string // commands whose output is read, besides that of status
	// ends are the mottos of prod-eu-1 and prod-us-1 in the end, by a part of the last command that has one of these
	// parts, after the waves that were left.
	ends map[string]string
}

var incidents = map[string]incident{
	"a bad commit": {
		happens: func(d *drill) { d.run(0, "sluice", "rollback", "prod", "--reason", "shop is down", "--by", "mia") },
		asks:    [][]string{{"promote", "prod"}, {"rollback", "prod"}},
		ends:    map[string]string{"resume": "3 3", "--again": "3 3", "rollback": "1 1"},
	},
	"the environment's branch is set back": {
		happens: func(d *drill) { d.server("update-ref", "refs/heads/env/prod", d.rev("env/prod~1")) },
		asks:    [][]string{{"promote", "prod"}, {"verify", "--from-remote"}},
		ends:    map[string]string{"--restore": "3 3", "--adopt": "2 2", "resume": "3 3"},
	},
	"a cluster's branch is set back": {
		happens: func(d *drill) {
			d.server("update-ref", "refs/heads/cluster/prod-eu-1", d.rev("cluster/prod-eu-1~1"))
		},
		asks: [][]string{{"promote", "prod"}},
		ends: map[string]string{"--restore": "3 3", "--adopt": "2 3", "resume": "3 3"},
	},
	"the environment's branch is deleted": {
		happens: func(d *drill) { d.server("branch", "-D", "env/prod") },
		asks:    [][]string{{"promote", "prod"}, {"hydrate", "--again", "--env", "prod", "--reason", "once more"}},
		ends:    map[string]string{"--restore": "3 3", "--recreate": "3 3"},
	},
	"a cluster's branch is deleted": {
		happens: func(d *drill) { d.server("branch", "-D", "cluster/prod-eu-1") },
		asks:    [][]string{{"promote", "prod"}},
		ends:    map[string]string{"--restore": "3 3", "--recreate": "3 3"},
	},
	"the records are deleted": {
		happens: func(d *drill) { d.server("branch", "-D", "sluice/state") },
		asks:    [][]string{{"promote", "prod"}},
		ends:    map[string]string{"repair": "3 3", "resume": "3 3", "rollback": "2 2"},
	},
	"the records are set back": {
		happens: func(d *drill) { d.server("update-ref", "refs/heads/sluice/state", d.rev("sluice/state~3")) },
		asks:    [][]string{{"promote", "prod"}},
		ends:    map[string]string{"repair": "3 3", "resume": "3 3", "rollback": "2 2"},
	},
	// What a foreign commit changed never reached a cluster, so the rollback goes back to what the clusters run.
	"somebody commits to the environment's branch": {
		happens: func(d *drill) {
			d.foreign("env/prod")
			d.run(1, "sluice", "rollback", "prod", "--reason", "shop is down")
		},
		asks: [][]string{{"promote", "prod"}},
		ends: map[string]string{"--again": "3 3", "rollback": "3 3"},
	},
	"somebody commits to a cluster's branch": {
		happens: func(d *drill) { d.foreign("cluster/prod-eu-1") },
		asks:    [][]string{{"promote", "prod"}, {"hydrate", "--again", "--env", "prod", "--reason", "once more"}},
		ends:    map[string]string{"--overwrite-foreign": "3 3"},
	},
	"a branch takes the name of a cluster's": {
		happens: func(d *drill) {
			d.server("branch", "-D", "cluster/prod-eu-1")
			d.server("branch", "cluster/prod-eu-1/fix", "main")
		},
		asks: [][]string{{"promote", "prod"}},
		ends: map[string]string{"--restore": "3 3", "--recreate": "3 3"},
	},
	"the trunk is rewritten in the middle of a rollout": {
		happens: func(d *drill) {
			d.motto("motto 4")
			d.run(0, "sluice", "promote", "prod")
			d.run(0, "git", "reset", "-q", "--hard", "HEAD~1")
			d.run(0, "git", "commit", "-q", "--allow-empty", "-m", "another history")
			d.run(0, "git", "push", "-q", "--force", "origin", "main")
			d.run(0, "sluice", "hydrate", "--push", "--overwrite-foreign")
		},
		asks: [][]string{{"promote", "prod"}},
		ends: map[string]string{"promote": "3 3", "rollback": "3 3", "resume": "3 3"},
	},
	"somebody halts a rollout": {
		happens: func(d *drill) {
			d.motto("motto 4")
			d.run(0, "sluice", "promote", "prod")
			d.run(0, "sluice", "halt", "prod", "--reason", "the fair", "--by", "mia")
		},
		asks: [][]string{{"promote", "prod"}},
		ends: map[string]string{"resume": "4 4", "rollback": "3 3"},
	},
}

const drillFleet = `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: harbour}
spec:
  trunk: main
  layers: [class, environment, region, cluster]
  environments:
    - name: dev
    - name: prod
      after: [dev]
      promotion:
        mode: auto
        waves:
          - {name: canary, clusters: {matchLabels: {ring: canary}}, bake: 1h}
          - {name: rest}
`

// drill is a fleet, the server that it is pushed to, and an environment of processes.
type drill struct {
	t   *testing.T
	dir string
}

// startOfDrill returns a fleet whose prod ran motto 1 and 2, and runs motto 3.
func startOfDrill(t *testing.T) *drill {
	t.Helper()
	d := &drill{t: t, dir: t.TempDir()}
	fleet := filepath.Join(d.dir, "fleet")
	if err := errors.Join(os.CopyFS(fleet, os.DirFS("../../testdata/fleet")),
		os.WriteFile(filepath.Join(fleet, "sluice.yaml"), []byte(drillFleet), 0o600),
		os.Remove(filepath.Join(fleet, "clusters/staging-1.yaml")),
		os.Remove(filepath.Join(fleet, "clusters/staging-edge-1.yaml"))); err != nil {
		t.Fatal(err)
	}
	d.run(0, "git", "init", "-q", "--bare", "-b", "main", "../fleet.git")
	d.run(0, "git", "init", "-q", "-b", "main")
	d.run(0, "git", "remote", "add", "origin", "../fleet.git")
	d.run(0, "git", "add", "-A")
	d.motto("motto 1")
	d.run(0, "sluice", "promote", "prod", "--now", "--reason", "the first")
	for _, m := range []string{"motto 2", "motto 3"} {
		d.motto(m)
		d.run(0, "sluice", "promote", "prod", "--now", "--reason", "all of it")
	}
	d.ends("3 3")
	return d
}

// copy returns the same repositories in another folder.
func (d *drill) copy(t *testing.T) *drill {
	t.Helper()
	out := &drill{t: t, dir: t.TempDir()}
	if err := os.CopyFS(out.dir, os.DirFS(d.dir)); err != nil {
		t.Fatal(err)
	}
	return out
}

// motto commits and pushes a value, and writes it to dev.
func (d *drill) motto(text string) {
	d.t.Helper()
	name := filepath.Join(d.dir, "fleet/apps/shop/layers/global/values.yaml")
	data, err := os.ReadFile(name)
	if err != nil {
		d.t.Fatal(err)
	}
	changed := regexp.MustCompile(`mind the gap|motto \d`).ReplaceAllString(string(data), text)
	if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.run(0, "git", "commit", "-qam", text)
	d.run(0, "git", "push", "-q", "origin", "main")
	d.run(0, "sluice", "hydrate", "--push")
}

// foreign pushes a commit that Sluice did not make.
func (d *drill) foreign(branch string) {
	d.t.Helper()
	tip := d.rev(branch)
	d.run(0, "git", "fetch", "-q", "origin", branch)
	commit := d.run(0, "git", "commit-tree", "-p", tip, "-m", "by hand", d.rev("main^{tree}"))
	d.run(0, "git", "push", "-q", "origin", strings.TrimSpace(commit)+":refs/heads/"+branch)
}

func (d *drill) rev(name string) string {
	d.t.Helper()
	return strings.TrimSpace(d.server("rev-parse", "--verify", name))
}

// server runs git in the server's repository.
func (d *drill) server(args ...string) string {
	d.t.Helper()
	return d.run(0, "git", append([]string{"--git-dir=../fleet.git"}, args...)...)
}

// run executes a command, whose exit status must be the wanted one; -1 is any. It returns both outputs.
func (d *drill) run(status int, name string, args ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = filepath.Join(d.dir, "fleet")
	c.Env = append(os.Environ(), "HOME="+d.dir, "SLUICE_CACHE_DIR="+filepath.Join(d.dir, "cache"), "SLUICE_OFFLINE=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		d.t.Fatalf("%s: %v", name, err)
	}
	if got := c.ProcessState.ExitCode(); status >= 0 && got != status {
		d.t.Fatalf("%s %s: exit status %d, want %d:\n%s", name, strings.Join(args, " "), got, status, out)
	}
	return string(out)
}

// look returns what somebody reads who looks at the incident.
func (d *drill) look(asks ...[]string) string {
	d.t.Helper()
	var out strings.Builder
	for _, args := range slices.Concat([][]string{{"status", "prod"}}, asks) {
		out.WriteString("$ sluice " + strings.Join(args, " ") + "\n" + d.run(-1, "sluice", args...))
	}
	return out.String()
}

var (
	printedCommand = regexp.MustCompile("`((?:sluice|git) [^`]+)`")
	placeholders   = strings.NewReplacer("WHY", "the drill", "REASON", "the drill", "NAME", "shop")
)

// commands are the commands that a text prints, with words for their placeholders.
func (d *drill) commands(text string) [][]string {
	var out [][]string
	var known []string
	for _, m := range printedCommand.FindAllStringSubmatch(text, -1) {
		if slices.Contains(known, m[1]) {
			continue
		}
		known = append(known, m[1])
		args := strings.Fields(m[1])
		for i, a := range args {
			switch a {
			case "COMMIT", "REV":
				args[i] = d.rev("main")
			default:
				args[i] = placeholders.Replace(a)
			}
		}
		out = append(out, args)
	}
	return out
}

// follow executes each command that a text prints in a copy, looks again, and goes on with what that prints. done are
// the commands that led here.
func (d *drill) follow(i incident, text string, done []string) {
	d.t.Helper()
	path := strings.Join(done, " && ")
	if len(done) > 5 {
		d.t.Fatalf("no end after %s:\n%s", path, text)
	}
	before, moved := d.server("for-each-ref"), 0
	for _, args := range d.commands(text) {
		line := strings.Join(args, " ")
		if slices.Contains(done, line) {
			continue
		}
		next := d.copy(d.t)
		out := next.run(-1, args[0], args[1:]...)
		d.t.Logf("%s\n$ %s\n%s", path, line, out)
		if next.server("for-each-ref") == before {
			continue // it shows something, or waits for what nothing here gives
		}
		moved++
		next.follow(i, next.look(), append(slices.Clone(done), line))
	}
	if moved > 0 {
		return
	}
	if len(done) == 0 {
		d.t.Fatalf("no printed command changes anything:\n%s", text)
	}
	want := ""
	for _, line := range slices.Backward(done) {
		for _, part := range slices.Sorted(maps.Keys(i.ends)) {
			if want == "" && strings.Contains(line, part) {
				want = i.ends[part]
			}
		}
	}
	if want == "" {
		d.t.Fatalf("%s is not expected to end anything:\n%s", path, text)
	}
	d.run(-1, "sluice", "promote", "prod", "--now", "--reason", "the waves that are left") // blocked, while it is halted
	d.t.Logf("%s: it ends with %s", path, want)
	d.ends(want)
}

// ends checks the mottos of prod-eu-1 and prod-us-1, and that the branches are what their records say.
func (d *drill) ends(mottos string) {
	d.t.Helper()
	// unmerged: the trunk that was rewritten has not got the commit any more
	out := d.run(-1, "sluice", "verify", "--from-remote", "--env", "prod")
	if !regexp.MustCompile(`(?m)^env/prod (ok|behind|unmerged)\b`).MatchString(out) {
		d.t.Errorf("in the end, verify says: %s", out)
	}
	got := ""
	for _, cluster := range []string{"prod-eu-1", "prod-us-1"} {
		text := d.server("grep", "-h", "motto [0-9]", "cluster/"+cluster)
		got += " " + regexp.MustCompile(`motto (\d)`).FindStringSubmatch(text)[1]
	}
	if got = strings.TrimSpace(got); got != mottos {
		d.t.Errorf("prod-eu-1 and prod-us-1 run the mottos %s, want %s", got, mottos)
	}
}
