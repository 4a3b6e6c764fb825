package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

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

// readers measures what large branches cost those who read them.
type readers struct{ repositories }

// run measures what a large environment branch costs others: real Git that clones and fetches one cluster's branch, the push of one
// changed target, and the disk after many hydrations.
func (b readers) run(sizes []int, apps, hydrations int) error {
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
		if err := b.git(bare, "pack-refs", "--all"); err != nil { // as forges do
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
func (b readers) growth(src string, hydrations int) error {
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

// repositories runs git in folders.
type repositories struct{ *bench }

func (b repositories) git(dir string, args ...string) error {
	if dir != "" {
		args = append([]string{"-C", dir}, args...)
	}
	_, err := b.command("", "git", args...)
	return err
}
