package main

import (
	"os"
	"path/filepath"
)

func (b *bench) edit(src, name, text string) error {
	file := filepath.Join(src, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	return b.save(src, "change "+name)
}

func (b *bench) save(src, message string) error {
	for _, args := range [][]string{{"-C", src, "add", "-A"}, {"-C", src, "commit", "-qm", message},
		{"-C", src, "push", "-q", "origin", "HEAD:main"}} {
		if _, err := b.command("", "git", args...); err != nil {
			return err
		}
	}
	return nil
}

// repositories runs git in folders.
type repositories struct{ *bench }

func (b repositories) git(dir string, args ...string) error {
	if dir != "" {
		args = append([]string{"-C", dir}, args...)
	}
	_, err := b.command("", "git", args...)
	return err
}

// publish makes a folder a repository whose remote is a bare repository beside it, and pushes its first commit. The
// objects of both are in packs afterwards, as those of clones and of forges are; only the commits of a measurement are
// loose, as somebody's latest commits are.
func (b repositories) publish(src string) error {
	bare := src + ".git"
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", bare},
		{"-C", src, "init", "-q", "-b", "main"}, {"-C", src, "remote", "add", "origin", bare}} {
		if err := b.git("", args...); err != nil {
			return err
		}
	}
	if err := b.save(src, "start"); err != nil {
		return err
	}
	for _, dir := range []string{src, bare} {
		if err := b.git(dir, "gc", "-q", "--prune=now"); err != nil {
			return err
		}
	}
	return nil
}
