package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const historyPacks = 50

// history measures commands in clones of a repository with many objects of earlier commits, beside the same commands in a shallow clone.
func (b *bench) history(objects int) error {
	fmt.Printf("\n== 20 clusters × 10 apps behind a history of %d objects, processor time, beside a clone of depth 2\n", objects)
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
	commands := [][]string{{"affected", "HEAD~1..HEAD"}, {"diff", "-q", "--offline", "HEAD~1..HEAD", "-o", "markdown"}, {"hydrate", "-q", "--dry-run"}}
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
		for _, args := range commands {
			var base, this measured
			for round := range 5 { // in turn; noise only adds, so the least counts
				for _, one := range []struct {
					dir  string
					best *measured
				}{{filepath.Join(b.dir, "history-0"), &base}, {dir, &this}} {
					m, err := b.command(one.dir, b.sluice, args...)
					if err != nil {
						return fmt.Errorf("%s: %w", c.name, err)
					}
					if round == 0 || m.cpu < one.best.cpu {
						*one.best = m
					}
				}
			}
			fmt.Printf("%-30s %-9s %6.1f ms %4d MiB, shallow %6.1f ms %4d MiB: %.2f × (to reach: 1.2)\n", c.name, args[0],
				milliseconds(this.cpu), this.peak>>20, milliseconds(base.cpu), base.peak>>20, ratio(this.cpu, base.cpu))
		}
	}
	return nil
}

func (b *bench) git(dir string, args ...string) error {
	if dir != "" {
		args = append([]string{"-C", dir}, args...)
	}
	_, err := b.command("", "git", args...)
	return err
}

// linked makes a clone with a working tree whose packs are links to those of a bare repository.
func (b *bench) linked(bare, dir string) error {
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
func (b *bench) importHistory(bare string, objects int) error {
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

// fastImport adds commits to a branch: three objects each, which a pack keeps when it has every objects, and which are loose otherwise.
func (b *bench) fastImport(dir, branch string, objects, every int) error {
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
		_, _ = fmt.Fprintf(w, "commit refs/heads/%s\ncommitter b <b@example.com> %d +0000\ndata 1\nx\nM 100644 inline log\ndata %d\n%s\n", branch, 1_600_000_000+i, len(text), text) // Flush reports an error
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

// disk returns the bytes of a repository's objects.
func disk(gitDir string) (int64, error) {
	var sum int64
	return sum, filepath.WalkDir(filepath.Join(gitDir, "objects"), func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
}

// branches measures what a large environment branch costs others: real Git that clones and fetches one cluster's branch, the push of one
// changed target, and the disk after many hydrations.
func (b *bench) branches(sizes []int, apps, hydrations int) error {
	fmt.Printf("\n== branches of %d apps for each cluster, read by real git\n", apps)
	type reached struct{ full, shallow, fetch, push time.Duration }
	all := map[int]reached{}
	for _, n := range sizes {
		src := filepath.Join(b.dir, fmt.Sprintf("output-%d", n))
		bare := src + ".git"
		if err := generate(src, n, apps, globalValues); err != nil {
			return err
		}
		for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", bare}, {"-C", src, "init", "-q", "-b", "main"}, {"-C", src, "remote", "add", "origin", bare}} {
			if err := b.git("", args...); err != nil {
				return err
			}
		}
		if err := b.save(src, "start"); err != nil {
			return err
		}
		if _, err := b.hydrate(src, "--push"); err != nil {
			return err
		}
		var got reached
		const cluster = "cluster/c-0007"
		clone := src + "-clone"
		for round := range 5 {
			if err := os.RemoveAll(clone); err != nil {
				return err
			}
			full, err := b.command("", "git", "clone", "-q", "--single-branch", "--branch", cluster, "file://"+bare, clone)
			if err != nil {
				return err
			}
			if err := os.RemoveAll(clone); err != nil {
				return err
			}
			shallow, err := b.command("", "git", "clone", "-q", "--single-branch", "--depth", "1", "--branch", cluster, "file://"+bare, clone)
			if err != nil {
				return err
			}
			if err := b.edit(src, "apps/app-03/layers/cluster/c-0007/values.yaml", fmt.Sprintf("own: changed-%d\n", round)); err != nil {
				return err
			}
			push, err := b.hydrate(src, "--push")
			if err != nil {
				return err
			}
			fetch, err := b.command(clone, "git", "fetch", "-q", "origin", cluster)
			if err != nil {
				return err
			}
			if round == 0 {
				got = reached{full.cpu, shallow.cpu, fetch.cpu, push.cpu}
			}
			got = reached{min(got.full, full.cpu), min(got.shallow, shallow.cpu), min(got.fetch, fetch.cpu), min(got.push, push.cpu)}
		}
		all[n] = got
		fmt.Printf("%5d clusters: clone of a cluster branch %6.1f ms, of depth 1 %6.1f ms, fetch of a change %6.1f ms, hydration of one changed target with push %6.1f ms (processor time, least of 5)\n",
			n, milliseconds(got.full), milliseconds(got.shallow), milliseconds(got.fetch), milliseconds(got.push))
	}
	least, most := slices.Min(sizes), slices.Max(sizes)
	if a, z := all[least], all[most]; least != most {
		fmt.Printf("%d against %d clusters: clone %.2f ×, depth 1 %.2f ×, fetch %.2f × (to reach: 1.0), hydration with push %.2f × (to reach: 2)\n",
			most, least, ratio(z.full, a.full), ratio(z.shallow, a.shallow), ratio(z.fetch, a.fetch), ratio(z.push, a.push))
	}
	return b.growth(filepath.Join(b.dir, fmt.Sprintf("output-%d", slices.Sorted(maps.Keys(all))[0])), hydrations)
}

// growth prints the disk after many hydrations of one value each, in the clone and on the server, beside what git gc makes of both.
func (b *bench) growth(src string, hydrations int) error {
	began := time.Now()
	for i := range hydrations {
		if err := b.edit(src, "apps/app-03/layers/cluster/c-0009/values.yaml", fmt.Sprintf("own: again-%d\n", i)); err != nil {
			return err
		}
		if _, err := b.hydrate(src, "--push"); err != nil {
			return err
		}
	}
	fmt.Printf("%d hydrations of one value, each committed and pushed: %.0f ms each\n", hydrations, milliseconds(time.Since(began))/float64(hydrations))
	for _, dir := range []string{filepath.Join(src, ".git"), src + ".git"} {
		before, err := disk(dir)
		if err != nil {
			return err
		}
		packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
		if err != nil {
			return err
		}
		if err := b.git(dir, "gc", "-q", "--prune=now"); err != nil {
			return err
		}
		after, err := disk(dir)
		if err != nil {
			return err
		}
		fmt.Printf("%-20s %6.1f MiB in %d packs and loose objects, %.1f MiB after git gc: %.1f ×\n", filepath.Base(dir), float64(before)/(1<<20), len(packs), float64(after)/(1<<20), float64(before)/float64(after))
	}
	return nil
}
