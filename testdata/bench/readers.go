package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// disk returns the bytes of all files in a folder.
func disk(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// readers measures what large branches cost those who read them.
type readers struct{ repositories }

// run measures what a large environment branch costs others: real Git that clones and fetches one cluster's branch, the
// push of one changed target, and the disk after many hydrations.
func (b readers) run(sizes []int, apps, hydrations int) error {
	fmt.Printf("\n== branches of %d apps for each cluster, read by real git\n", apps)
	all := map[int]reached{}
	for _, n := range sizes {
		src := filepath.Join(b.dir, fmt.Sprintf("output-%d", n))
		if err := b.prepare(src, n, apps); err != nil {
			return err
		}
		var got reached
		for round := range 5 {
			one, err := b.round(src, fmt.Sprintf("own: changed-%d\n", round))
			if err != nil {
				return err
			}
			if round == 0 {
				got = one
			}
			got = reached{min(got.full, one.full), min(got.shallow, one.shallow), min(got.fetch, one.fetch),
				min(got.push, one.push), min(got.wall, one.wall), min(got.git, one.git), min(got.gitWall, one.gitWall)}
		}
		all[n] = got
		fmt.Printf("%5d clusters: clone of a cluster branch %6.1f ms, of depth 1 %6.1f ms, fetch of a change %6.1f ms, hydration of one changed target with push %6.1f ms (processor time, least of 5)\n",
			n, milliseconds(got.full), milliseconds(got.shallow), milliseconds(got.fetch), milliseconds(got.push))
		fmt.Printf("  its wall time %6.1f ms; the same change pushed by git alone: processor time %6.1f ms, wall %6.1f ms (both with git on the server)\n",
			milliseconds(got.wall), milliseconds(got.git), milliseconds(got.gitWall))
	}
	least, most := slices.Min(sizes), slices.Max(sizes)
	if a, z := all[least], all[most]; least != most {
		fmt.Printf("%d against %d clusters: clone %.2f ×, depth 1 %.2f ×, fetch %.2f × (to reach: 1.0), hydration with push %.2f × (to reach: 2)\n",
			most, least, ratio(z.full, a.full), ratio(z.shallow, a.shallow), ratio(z.fetch, a.fetch),
			ratio(z.push, a.push))
		fmt.Printf("  push by git alone %.2f ×, of wall time %.2f ×; hydration with push, of wall time %.2f ×\n",
			ratio(z.git, a.git), ratio(z.gitWall, a.gitWall), ratio(z.wall, a.wall))
	}
	return b.growth(filepath.Join(b.dir, fmt.Sprintf("output-%d", least)), hydrations)
}

// reached are processor times, with those of git on the server, and wall times of a hydration with push and of the same
// push by git alone.
type reached struct{ full, shallow, fetch, push, wall, git, gitWall time.Duration }

// prepare writes a fleet and pushes its branches.
func (b readers) prepare(src string, clusters, apps int) error {
	if err := generate(src, clusters, apps, globalValues); err != nil {
		return err
	}
	if err := b.publish(src); err != nil {
		return err
	}
	if _, err := b.hydrate(src, "--push"); err != nil {
		return err
	}
	return b.git(src+".git", "pack-refs", "--all") // as forges do
}

// round clones a cluster's branch, changes one of its values, and fetches the change.
func (b readers) round(src, text string) (reached, error) {
	const cluster = "cluster/c-0007"
	clone := src + "-clone"
	var took [2]time.Duration
	for i, depth := range [][]string{nil, {"--depth", "1"}} {
		if err := os.RemoveAll(clone); err != nil {
			return reached{}, err
		}
		m, err := b.command("", "git", append(append([]string{"clone", "-q", "--single-branch", "--branch", cluster},
			depth...), "file://"+src+".git", clone)...)
		if err != nil {
			return reached{}, err
		}
		took[i] = m.cpu
	}
	if err := b.edit(src, "apps/app-03/layers/cluster/c-0007/values.yaml", text); err != nil {
		return reached{}, err
	}
	push, err := b.hydrate(src, "--push")
	if err != nil {
		return reached{}, err
	}
	fetch, err := b.command(clone, "git", "fetch", "-q", "origin", cluster)
	if err != nil {
		return reached{}, err
	}
	git, err := floor{b.repositories, src + ".git"}.push("c-0007", "app-03", text)
	return reached{took[0], took[1], fetch.cpu, push.cpu, push.wall, git.cpu, git.wall}, err
}

// growth prints the disk after many hydrations of one value each, in the clone and on the server, beside what git gc
// makes of both.
func (b readers) growth(src string, hydrations int) error {
	began := time.Now()
	for i := range hydrations {
		if err := b.edit(src, "apps/app-03/layers/cluster/c-0009/values.yaml",
			fmt.Sprintf("own: again-%d\n", i)); err != nil {
			return err
		}
		if _, err := b.hydrate(src, "--push"); err != nil {
			return err
		}
	}
	fmt.Printf("%d hydrations of one value, each committed and pushed: %.0f ms each\n", hydrations,
		milliseconds(time.Since(began))/float64(hydrations))
	for _, dir := range []string{filepath.Join(src, ".git"), src + ".git"} {
		before, err := disk(filepath.Join(dir, "objects"))
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
		after, err := disk(filepath.Join(dir, "objects"))
		if err != nil {
			return err
		}
		fmt.Printf("%-20s %6.1f MiB in %d packs and loose objects, %.1f MiB after git gc: %.1f ×\n", filepath.Base(dir),
			float64(before)/(1<<20), len(packs), float64(after)/(1<<20), float64(before)/float64(after))
	}
	return nil
}
