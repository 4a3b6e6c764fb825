package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

const historyPacks = 50

// past measures clones with a long history.
type past struct{ repositories }

// run measures commands in clones of a repository with many objects of earlier commits, beside the same commands in a
// shallow clone.
func (b past) run(objects int) error {
	fmt.Printf("\n== 20 clusters × 10 apps behind a history of %d objects, processor time, beside a clone of depth 2\n",
		objects)
	bare := filepath.Join(b.dir, "history.git")
	if err := b.importHistory(bare, objects); err != nil {
		return err
	}
	clones := []struct {
		name string
		make func(dir string) error
	}{
		{"shallow", func(dir string) error { return b.git("", "clone", "-q", "--depth", "2", "file://"+bare, dir) }},
		{fmt.Sprintf("%d packs", historyPacks), func(dir string) error { return b.linked(bare, dir) }},
		{"multi-pack-index", func(dir string) error {
			if err := b.linked(bare, dir); err != nil {
				return err
			}
			return b.git(dir, "multi-pack-index", "write", "--no-progress")
		}},
		{"1 pack, bitmap, commit-graph", func(dir string) error {
			if err := b.linked(bare, dir); err != nil {
				return err
			}
			if err := b.git(dir, "-c", "pack.window=0", "repack", "-adbq"); err != nil {
				return err
			}
			return b.git(dir, "commit-graph", "write", "--reachable", "--no-progress")
		}},
		{"alternates", func(dir string) error { return b.git("", "clone", "-q", "--shared", bare, dir) }},
		{"promisor (blob:none)", func(dir string) error {
			return b.git("", "clone", "-q", "--filter=blob:none", "file://"+bare, dir)
		}},
		{"50,000 loose objects", func(dir string) error {
			if err := b.git("", "clone", "-q", "--depth", "2", "file://"+bare, dir); err != nil {
				return err
			}
			return b.fastImport(dir, "loose", 50_000, 1<<30)
		}},
	}
	for i, c := range clones {
		dir := filepath.Join(b.dir, fmt.Sprintf("history-%d", i))
		if err := c.make(dir); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if _, err := b.hydrate(dir); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if i == 0 {
			continue
		}
		for _, args := range [][]string{{"affected", "HEAD~1..HEAD"},
			{"diff", "-q", "--offline", "HEAD~1..HEAD", "-o", "markdown"}, {"hydrate", "-q", "--dry-run"}} {
			base, this, err := b.beside(filepath.Join(b.dir, "history-0"), dir, args)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Printf("%-30s %-9s %6.1f ms %4d MiB, shallow %6.1f ms %4d MiB: %.2f × (to reach: 1.2)\n", c.name,
				args[0],
				milliseconds(this.cpu), this.peak>>20, milliseconds(base.cpu), base.peak>>20, ratio(this.cpu, base.cpu))
		}
	}
	return nil
}

// beside runs a command in two folders in turn, and returns the runs with the least processor time, because noise only
// adds.
func (b past) beside(one, other string, args []string) (base, this measured, err error) {
	const rounds = 7
	for round := range rounds {
		for _, run := range []struct {
			dir  string
			best *measured
		}{{one, &base}, {other, &this}} {
			m, err := b.command(run.dir, b.sluice, args...)
			if err != nil {
				return base, this, err
			}
			if round == 0 || m.cpu < run.best.cpu {
				*run.best = m
			}
		}
	}
	return base, this, nil
}

// linked makes a clone with a working tree whose packs are links to those of a bare repository.
func (b past) linked(bare, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if _, err := b.command("", "cp", "-al", bare, filepath.Join(dir, ".git")); err != nil {
		return err
	}
	if err := b.git(dir, "config", "core.bare", "false"); err != nil {
		return err
	}
	return b.git(dir, "reset", "-q", "--hard")
}

// importHistory writes a bare repository whose branch main has a fleet above many commits, in historyPacks packs.
func (b past) importHistory(bare string, objects int) error {
	if err := b.git("", "init", "-q", "--bare", "-b", "main", bare); err != nil {
		return err
	}
	if err := b.git(bare, "config", "uploadpack.allowFilter", "true"); err != nil {
		return err
	}
	if err := b.fastImport(bare, "main", objects, objects/historyPacks); err != nil {
		return err
	}
	src := filepath.Join(b.dir, "history-fleet")
	if err := b.git("", "clone", "-q", "--shared", bare, src); err != nil {
		return err
	}
	if err := generate(src, 20, 10, globalValues); err != nil {
		return err
	}
	if err := b.save(src, "fleet"); err != nil {
		return err
	}
	return b.edit(src, "apps/app-05/layers/global/values.yaml", globalValues+"extra: changed\n")
}

// fastImport adds commits of three objects each to a branch, until they have that many objects. A pack has at most
// every objects; if every is more than objects, Git stores all of them loose.
func (b past) fastImport(dir, branch string, objects, every int) error {
	limit := "0"
	if every > objects {
		limit = fmt.Sprint(objects + 1)
	}
	cmd := exec.CommandContext(b.ctx, "git", "-C", dir, "-c", "fastimport.unpackLimit="+limit, "fast-import", "--quiet")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	w := bufio.NewWriter(in)
	const each = 3 // blob, tree, commit
	for i := range objects / each {
		text := fmt.Sprintf("line %d of %s\n", i, branch)
		const commit = "commit refs/heads/%s\ncommitter b <b@example.com> %d +0000\ndata 1\nx\nM 100644 inline log\ndata %d\n%s\n"
		_, _ = fmt.Fprintf(w, commit, branch, 1_600_000_000+i, len(text), text) // Flush reports an error
		if every/each > 0 && i%(every/each) == every/each-1 {
			_, _ = io.WriteString(w, "checkpoint\n")
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := in.Close(); err != nil {
		return err
	}
	return cmd.Wait()
}
