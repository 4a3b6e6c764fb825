// Command drill simulates an incident: an in-memory forge, Git over HTTP, the real `sluice serve`, and a stand-in for
// Argo CD or Flux that reports the health of clusters as commit statuses. It prints what the person on call sees, and
// fails if the result differs from docs/promotion-model.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

const (
	whole = 5 * time.Minute  // the drill
	step  = 60 * time.Second // one step of it
)

// The fleet's environments: prod follows dev automatically, and halts when a cluster turns red.
const graph = `apiVersion: sluice.dev/v1alpha1
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
        onFailure: halt
        health: {commitStatuses: [sync]}
        rights: [{roles: [write]}]
        waves:
          - {name: canary, clusters: {matchLabels: {ring: canary}}, bake: 3s}
          - {name: rest}
`

func main() {
	binary := flag.String("sluice", "bin/sluice", "the binary")
	fleet := flag.String("fleet", "testdata/fleet", "folder of the fleet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, whole)
	err := run(ctx, *binary, *fleet)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "drill:", err)
		os.Exit(1)
	}
}

// drill is the stage and the state of the incident.
type drill struct {
	*stage.Stage
	binary string
	clone  string      // of the person on call
	down   atomic.Bool // the forge answers every request with an error
}

func run(ctx context.Context, binary, fleet string) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-drill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	d := &drill{binary: binary, clone: filepath.Join(dir, "oncall")}
	if d.Stage, err = stage.New(ctx, stage.Options{Kind: "github", Dir: dir, Fleet: fleet, Forge: d.outage,
		Edit: edit}); err != nil {
		return err
	}
	defer d.Close()
	log := &stage.Journal{}
	service, err := d.Serve(ctx, stage.Serving{Binary: binary, Log: log})
	if err != nil {
		return err
	}
	defer service.Kill()
	agents, end := context.WithCancel(ctx)
	defer end()
	if err = service.Ready(ctx, step); err == nil {
		d.SendTo(service.Address)
		go d.report(agents)
		err = d.play(ctx)
	}
	if err == nil {
		err = service.Stop(step)
	}
	if err != nil {
		return fmt.Errorf("%w\n\nthe service's log:\n%s", err, log)
	}
	tell("the incident is over, and the end state is what the model says")
	return nil
}

// edit writes the drill's environments into the fleet.
func edit(dir string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte(graph), 0o600),
		os.Remove(filepath.Join(dir, "clusters/staging-1.yaml")),
		os.Remove(filepath.Join(dir, "clusters/staging-edge-1.yaml")),
	)
}

// outage wraps the forge: while it is down, every request fails.
func (d *drill) outage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.down.Load() {
			http.Error(w, "the forge is down", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// report simulates the agents in the clusters: it sets the status `sync` on every tip of a cluster branch. The status
// is red for a cluster of prod whose shop has the bug.
func (d *drill) report(ctx context.Context) {
	const pause = 300 * time.Millisecond
	known := map[string]bool{}
	for ctx.Err() == nil {
		for name, hash := range d.Refs() {
			if !strings.HasPrefix(name, "cluster/") || known[hash] {
				continue
			}
			state := "success"
			if strings.HasPrefix(name, "cluster/prod-") && d.GitOutput("grep", "-l", "mind the bug", hash) != "" {
				state = "failure"
			}
			if err := d.GitHub().SetStatus(stage.Repository, fakegithub.Status{SHA: hash, State: state, Context: "sync",
				Creator: "argocd"}); err == nil {
				known[hash] = true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// play runs all steps of the incident.
func (d *drill) play(ctx context.Context) error {
	for _, one := range []func(context.Context) error{d.before, d.canary, d.goBack, d.second, d.unrelated, d.forgeDown,
		d.fix, d.after} {
		if err := one(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *drill) before(ctx context.Context) error {
	say("22:00  prod has its first state")
	if err := d.until(ctx, "dev follows the trunk", func() bool { return d.Ref("env/dev") != "" }); err != nil {
		return err
	}
	if err := d.Git("", "clone", "-q", d.Bare(), d.clone); err != nil {
		return err
	}
	if _, err := d.sluice(ctx, 0, "promote", "prod", "--by", "mia"); err != nil {
		return err
	}
	return d.until(ctx, "every cluster of prod runs it", func() bool {
		return d.grep("mind the gap", "prod-eu-1",
			"prod-us-1")
	})
}

func (d *drill) canary(ctx context.Context) error {
	say("23:10  ada's change of the shop is merged; it has a bug")
	commit, err := d.merge("bug", "A better greeting", replaceIn("apps/shop/layers/global/values.yaml", "mind the gap",
		"mind the bug"))
	if err != nil {
		return err
	}
	if err := d.until(ctx, "the canary prod-eu-1 gets it", func() bool {
		return d.grep("mind the bug",
			"prod-eu-1")
	}); err != nil {
		return err
	}
	if err := d.until(ctx, "its health is red: Sluice halts prod, and the commit's status sluice/prod is red",
		func() bool {
			return d.Status(commit, "sluice/prod") == "failure"
		}); err != nil {
		return err
	}
	say("23:12  the person on call reads the status")
	return d.shows(ctx, 0, []string{"halted", "sluice rollback prod"}, "status", "prod")
}

func (d *drill) goBack(ctx context.Context) error {
	say("23:13  the person on call rolls the canary back")
	us := d.Ref("cluster/prod-us-1")
	if err := d.shows(ctx, 0, []string{"wave canary of prod is back at", "held", "sluice resume prod --wave canary"},
		"rollback", "prod", "--wave", "canary", "--reason", "checkout is down", "--by", "mia"); err != nil {
		return err
	}
	if !d.grep("mind the gap", "prod-eu-1") || d.Ref("cluster/prod-us-1") != us {
		return errors.New("the rollback of the canary moved something else, or not the canary")
	}
	return nil
}

func (d *drill) second(ctx context.Context) error {
	say("23:14  somebody else rolls back too")
	before := d.Refs()
	if err := d.shows(ctx, 1, []string{"rolled back already"}, "rollback", "prod", "--reason", "checkout is down",
		"--by", "noor"); err != nil {
		return err
	}
	for name, hash := range d.Refs() {
		if strings.HasPrefix(name, "cluster/prod-") && before[name] != hash {
			return fmt.Errorf("the second rollback moved %s", name)
		}
	}
	return nil
}

func (d *drill) unrelated(ctx context.Context) error {
	say("23:20  an unrelated change is merged; the shop stays where it is")
	if _, err := d.merge("gateway", "A newer gateway", replaceIn("apps/gateway/layers/global/values.yaml", "5.2",
		"5.3")); err != nil {
		return err
	}
	if err := d.until(ctx, "all clusters of prod have the gateway",
		func() bool { return d.grep("gateway:5.3", "prod-eu-1", "prod-us-1") }); err != nil {
		return err
	}
	if d.grep("mind the bug", "prod-eu-1") || d.grep("mind the bug", "prod-us-1") {
		return errors.New("the bug came back with an unrelated commit")
	}
	return d.shows(ctx, 0, []string{"held", "shop"}, "status", "prod")
}

func (d *drill) forgeDown(ctx context.Context) error {
	say("23:30  the forge's API is down: freeze works with Git alone")
	d.down.Store(true)
	defer d.down.Store(false)
	if err := d.shows(ctx, 0, []string{"held"}, "status", "prod"); err != nil {
		return err
	}
	if err := d.shows(ctx, 0, []string{"freeze"}, "freeze", "prod", "--until", "4h", "--reason", "wait for the fix",
		"--by", "mia"); err != nil {
		return err
	}
	return d.shows(ctx, 0, nil, "unfreeze", "prod", "--by", "mia")
}

func (d *drill) fix(ctx context.Context) error {
	say("00:05  the forge is back; ada's fix is merged")
	if _, err := d.merge("fix", "The greeting without the bug",
		replaceIn("apps/shop/layers/global/values.yaml", "mind the bug", "mind the step")); err != nil {
		return err
	}
	return d.until(ctx, "all clusters of prod have the fix: it changes the shop, so the holds end",
		func() bool { return d.grep("mind the step", "prod-eu-1", "prod-us-1") })
}

func (d *drill) after(ctx context.Context) error {
	say("00:10  the end state")
	if err := d.until(ctx, "the rollout is complete and green", func() bool {
		return d.Status(d.Ref("main"), "sluice/prod") == "success"
	}); err != nil {
		return err
	}
	text, err := d.sluice(ctx, 0, "status", "prod")
	switch {
	case err != nil:
		return err
	case strings.Contains(text, "held") || strings.Contains(text, "halted"):
		return errors.New("something is still held or halted")
	}
	for _, name := range []string{"prod-eu-1", "prod-us-1", "prod-edge-1"} {
		if d.GitOutput("rev-parse", "cluster/"+name+"^{tree}") != d.GitOutput("rev-parse", "env/prod:"+name) {
			return fmt.Errorf("%s does not run what prod desires", name)
		}
	}
	if err := d.shows(ctx, 0, []string{"env/prod ok"}, "verify", "--from-remote"); err != nil {
		return err
	}
	return d.shows(ctx, 0, []string{"Roll wave canary of prod back", "mia", "checkout is down"}, "history", "prod")
}

// merge opens a merge request as ada and merges it as mia.
func (d *drill) merge(branch, title string, change func(dir string) error) (string, error) {
	if err := d.Branch(branch, title, change); err != nil {
		return "", err
	}
	number, err := d.Open(branch, "ada")
	if err != nil {
		return "", err
	}
	return d.Merge(number)
}

// grep reports whether the branches of all clusters have a text.
func (d *drill) grep(text string, clusters ...string) bool {
	for _, name := range clusters {
		if d.GitOutput("grep", "-l", text, "refs/heads/cluster/"+name) == "" {
			return false
		}
	}
	return true
}

// shows runs a command and fails unless its output has all parts.
func (d *drill) shows(ctx context.Context, code int, parts []string, args ...string) error {
	text, err := d.sluice(ctx, code, args...)
	if err == nil && !stage.ContainsAll(text, parts...) {
		err = fmt.Errorf("the output of sluice %s lacks one of %q", args[0], parts)
	}
	return err
}

// sluice runs a command in the clone of the person on call, prints it with its output, and checks its exit status.
func (d *drill) sluice(ctx context.Context, code int, args ...string) (string, error) {
	if err := d.Git(d.clone, "pull", "-q"); err != nil {
		return "", err
	}
	var quoted []string
	for _, a := range args {
		if strings.Contains(a, " ") {
			a = fmt.Sprintf("%q", a)
		}
		quoted = append(quoted, a)
	}
	tell("$ sluice %s", strings.Join(quoted, " "))
	cmd := exec.CommandContext(ctx, d.binary, append(args, "--quiet")...) //nolint:gosec // a binary and arguments of the drill
	cmd.Dir = d.clone
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "SLUICE_OFFLINE=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	for line := range strings.Lines(out.String()) {
		fmt.Print("    │ ", line)
	}
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && !failed:
		return "", err
	case failed && exit.ExitCode() != code, !failed && code != 0:
		return "", fmt.Errorf("sluice %s: %w, want exit status %d", args[0], err, code)
	}
	return out.String(), nil
}

func (d *drill) until(ctx context.Context, what string, is func() bool) error {
	if err := stage.WaitFor(ctx, step, what, is); err != nil {
		return err
	}
	tell("%s", what)
	return nil
}

// replaceIn replaces a text in a file of the fleet.
func replaceIn(name, from, to string) func(dir string) error {
	return func(dir string) error {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file) //nolint:gosec // on the stage
		if err != nil {
			return err
		}
		if !bytes.Contains(data, []byte(from)) {
			return fmt.Errorf("%s has no %q", name, from)
		}
		return os.WriteFile(file, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600) //nolint:gosec // on the stage
	}
}

func say(title string) { fmt.Printf("\n%s\n", title) }

func tell(format string, args ...any) { fmt.Printf("  %s\n", fmt.Sprintf(format, args...)) }
