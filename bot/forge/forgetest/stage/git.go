package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repo is the bare repository of a stage and its working copy.
type Repo struct {
	dir  string
	life context.Context //nolint:containedctx // of the stage
}

// Bare returns the folder of the repository, Work that of the working copy.
func (r *Repo) Bare() string { return filepath.Join(r.dir, "git", Repository+".git") }

// Work returns the folder of the working copy.
func (r *Repo) Work() string { return filepath.Join(r.dir, "work") }

// Git runs git in a folder, as ada.
func (r *Repo) Git(dir string, args ...string) error {
	_, err := r.output(dir, args...)
	return err
}

func (r *Repo) output(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.life, "git", args...) //nolint:gosec // of the stage's own making
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// GitOutput runs git on the bare repository and returns its output; "" if it fails.
func (r *Repo) GitOutput(args ...string) string {
	out, err := r.output(r.Bare(), args...)
	if err != nil {
		return ""
	}
	return out
}

// Ref returns a branch's commit; "" if there is none.
func (r *Repo) Ref(branch string) string {
	return r.GitOutput("rev-parse", "-q", "--verify", "refs/heads/"+branch)
}

// Refs returns all branches.
func (r *Repo) Refs() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(r.GitOutput("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)",
		"refs/heads")) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[name] = hash
	}
	return out
}

// Branch creates a branch from the trunk as it is, with a change, and pushes it.
func (r *Repo) Branch(name, message string, edit func(dir string) error) error {
	work := r.Work()
	if err := errors.Join(r.Git(work, "fetch", "-q", "origin"),
		r.Git(work, "checkout", "-q", "-B", name, "origin/main")); err != nil {
		return err
	}
	return r.change(name, message, edit)
}

// Change pushes one more commit to a branch.
func (r *Repo) Change(name, message string, edit func(dir string) error) error {
	if err := r.Git(r.Work(), "checkout", "-q", name); err != nil {
		return err
	}
	return r.change(name, message, edit)
}

func (r *Repo) change(name, message string, edit func(dir string) error) error {
	work := r.Work()
	if err := edit(work); err != nil {
		return err
	}
	return errors.Join(r.Git(work, "add", "-A"), r.Git(work, "commit", "-q", "--allow-empty", "-m", message),
		r.Git(work, "push", "-q", "origin", "HEAD:"+name))
}
