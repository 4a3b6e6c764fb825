// Command up shows the service at work on a real Gitea, until it is interrupted: a fleet, the service with its pages,
// an open merge request with Sluice's comment, and a cluster that Flux syncs. It prints what to open.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-gitops/sluice/bed/bedtest"
)

const (
	fleet  = "acme/fleet"
	bot    = "sluice-bot"
	secret = "a-secret-of-the-demonstration-only"
	wait   = 5 * time.Minute // for the first comment
)

func main() {
	binary := flag.String("sluice", "bin/sluice", "the binary")
	files := flag.String("fleet", "testdata/fleet", "folder of the fleet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *binary, *files)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "bed-up:", err)
		os.Exit(1)
	}
}

// up is what runs.
type up struct {
	*bedtest.Gitea
	dir string
}

func run(ctx context.Context, binary, files string) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-bed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	template, err := bedtest.NewGiteaTemplate(ctx, filepath.Join(dir, "template"))
	if err != nil {
		return err
	}
	g, err := template.Start(ctx, filepath.Join(dir, "gitea"), "")
	if err != nil {
		return err
	}
	defer g.Close()
	u := &up{Gitea: g, dir: dir}
	addresses, err := bedtest.FreeAddresses(ctx, 2)
	if err != nil {
		return err
	}
	service, pages := addresses[0], addresses[1]
	token, err := u.people(ctx, "http://"+service+"/hooks/gitea")
	if err != nil {
		return err
	}
	if err := u.trunk(ctx, files); err != nil {
		return err
	}
	ended, err := u.serve(ctx, binary, service, pages, token)
	if err != nil {
		return err
	}
	number, err := u.request(ctx)
	if err != nil {
		return err
	}
	fmt.Println("waiting for Sluice's comment …")
	if err := u.reviewed(ctx, number, ended); err != nil {
		return err
	}
	fmt.Println("starting a cluster with Flux …")
	cluster, err := u.startCluster(ctx, binary)
	if err != nil {
		return err
	}
	defer cluster.Close()
	fmt.Printf(`
Gitea     %[1]s/%[2]s
          merge request with Sluice's comment: %[1]s/%[2]s/pulls/%[3]d
          sign in as mia (administers the repository) or ada (may write): password %[4]s
          merge it: curl -u mia:%[4]s -H 'Content-Type: application/json' -d '{"Do": "merge"}' %[1]s/api/v1/repos/%[2]s/pulls/%[3]d/merge
pages     http://%[5]s
cluster   %[9]s, which Flux syncs: %[10]s get pods -A
service   http://%[6]s, its log is %[7]s
Ctrl-C stops everything and removes %[8]s
`, u.URL, fleet, number, bedtest.Password, pages, service, u.log(), dir, synced, cluster.command())
	select {
	case <-ctx.Done():
		fmt.Println()
		return <-ended // the service drains
	case err := <-ended:
		return u.failed(err)
	}
}

// people creates the users, the repository with its rules, and the webhook. It returns the token of the bot.
func (u *up) people(ctx context.Context, hook string) (token string, err error) {
	for _, login := range []string{bot, "ada", "mia"} {
		if _, err := u.AddUser(ctx, login); err != nil {
			return "", err
		}
	}
	if err := u.AddEmptyRepository(ctx, fleet); err != nil {
		return "", err
	}
	for login, permission := range map[string]string{bot: "admin", "ada": "write", "mia": "admin"} {
		if err := u.Grant(ctx, fleet, login, permission); err != nil {
			return "", err
		}
	}
	if err := u.ProtectOutput(ctx, fleet, bot, "mia"); err != nil {
		return "", err
	}
	if err := u.AddHook(ctx, fleet, hook, secret, "push", "pull_request", "pull_request_sync", "pull_request_label",
		"pull_request_comment"); err != nil {
		return "", err
	}
	return u.Token(ctx, bot)
}

func (u *up) work() string { return filepath.Join(u.dir, "work") }

func (u *up) log() string { return filepath.Join(u.dir, "service.log") }

// git runs git in the working copy, as ada.
func (u *up) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // fixed arguments
	cmd.Dir = u.work()
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// trunk pushes the fleet.
func (u *up) trunk(ctx context.Context, files string) error {
	if err := os.CopyFS(u.work(), os.DirFS(files)); err != nil {
		return fmt.Errorf("copy the fleet: %w", err)
	}
	remote, err := url.Parse(u.URL + "/" + fleet + ".git")
	if err != nil {
		return err
	}
	remote.User = url.UserPassword("ada", bedtest.Password)
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"remote", "add", "origin", remote.String()},
		{"add", "-A"},
		{"commit", "-q", "-m", "A fleet"},
		{"push", "-q", "-u", "origin", "main"},
	} {
		if err := u.git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// serve starts the service. The channel gets its error when it ends.
func (u *up) serve(ctx context.Context, binary, address, pages, token string) (<-chan error, error) {
	file := filepath.Join(u.dir, "config.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(`listen: %s
data: %s
sweep: 10s
promote: 5s
drain: 5s
fingerprint: {env: BED_FINGERPRINT}
pages: {listen: %s}
forges:
  - {name: gitea, kind: gitea, api: %s, token: {env: BED_TOKEN}, secrets: [{env: BED_SECRET}], repositories: [%s]}
`, address, filepath.Join(u.dir, "data"), pages, u.URL, fleet)), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(u.log())
	if err != nil {
		return nil, err
	}
	defer log.Close()                                                  //nolint:errcheck // the process has it
	cmd := exec.CommandContext(ctx, binary, "serve", "--config", file) //nolint:gosec // what the caller built
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	cmd.Env = append(os.Environ(), "HOME="+u.dir, "SLUICE_OFFLINE=1", "BED_TOKEN="+token, "BED_SECRET="+secret,
		"BED_FINGERPRINT=fingerprint-key-of-the-demonstration")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// request opens a merge request that changes a value of one region, and returns its number.
func (u *up) request(ctx context.Context) (int, error) {
	if err := u.git(ctx, "checkout", "-q", "-b", "cad"); err != nil {
		return 0, err
	}
	file := filepath.Join(u.work(), "apps/shop/layers/region/us-east-1/values.yaml")
	if err := os.WriteFile(file, []byte("config:\n  currency: CAD\n"), 0o600); err != nil {
		return 0, err
	}
	for _, args := range [][]string{{"commit", "-q", "-a", "-m", "Sell in Canadian dollars"}, {"push", "-q", "origin", "cad"}} {
		if err := u.git(ctx, args...); err != nil {
			return 0, err
		}
	}
	pr, err := u.Open(ctx, fleet, bedtest.GiteaRequest{
		Title: "Sell in Canadian dollars", Author: "ada", Source: "cad",
		Body: "The shop in us-east-1 sells in Canadian dollars.",
	})
	if err != nil {
		return 0, err
	}
	return pr.Number, nil
}

// reviewed waits until the merge request has Sluice's comment.
func (u *up) reviewed(ctx context.Context, number int, ended <-chan error) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return u.failed(err)
		case <-deadline.C:
			return u.failed(fmt.Errorf("no comment within %s", wait))
		case <-look.C:
		}
		all, err := u.Comments(ctx, fleet, number)
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.User.Login == bot && strings.Contains(c.Body, "CAD") {
				return nil
			}
		}
	}
}

// failed returns an error with the end of the service's log.
func (u *up) failed(err error) error {
	data, readErr := os.ReadFile(u.log())
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	const most = 4000
	return fmt.Errorf("the service: %w\n%s", err, data[max(0, len(data)-most):])
}
