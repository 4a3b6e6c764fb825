package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// diffs measures `sluice diff` on fleets of all sizes: once with different values on each cluster, so that every
// target is rendered separately, and once with equal values, so that a change of all clusters is rendered once.
func (b *bench) diffs(sizes []int, apps int) error {
	same := map[int]time.Duration{}
	for _, shared := range []bool{false, true} {
		for _, n := range sizes {
			what := "one value in ten of a cluster's own"
			if shared {
				what = "the same values on all clusters"
			}
			fmt.Printf("\n== diff: %d clusters × %d apps, %s\n", n, apps, what)
			took, err := b.diffFleet(n, apps, shared)
			if err != nil {
				return fmt.Errorf("diff, %d clusters: %w", n, err)
			}
			if shared {
				same[n] = took
			}
		}
	}
	if same[100] > 0 && same[1000] > 0 {
		fmt.Printf("\nan identical change, 1,000 clusters against 100: %.2f × (to reach: 1.5)\n",
			ratio(same[1000], same[100]))
	}
	return nil
}

// diffFleet returns the median time of the diff of one app's global value.
func (b *bench) diffFleet(clusters, apps int, shared bool) (time.Duration, error) {
	src := filepath.Join(b.dir, fmt.Sprintf("diff-%d-%t", clusters, shared))
	values := globalValues
	if shared {
		values = strings.Replace(values, "${cluster.name}", "shared", 1)
	}
	if err := generate(src, clusters, apps, values); err != nil {
		return 0, err
	}
	if err := (repositories{b}).publish(src); err != nil {
		return 0, err
	}
	each, err := b.rival(src, clusters, apps)
	if err != nil {
		return 0, err
	}
	if _, err := b.hydrate(src, "--push"); err != nil {
		return 0, err
	}
	if _, err := b.diff(src, "one cluster's value", "apps/app-03/layers/cluster/c-0007/values.yaml", "level: debug\n",
		2*each); err != nil {
		return 0, err
	}
	took, err := b.diff(src, "one app's global value", "apps/app-05/layers/global/values.yaml", values+
		"extra: changed\n", time.Duration(2*clusters)*each)
	if err != nil {
		return 0, err
	}
	text := strings.Replace(chart("app-07")["templates/config.yaml"], "data:\n", "data:\n  upgraded: \"yes\"\n", 1)
	_, err = b.diff(src, "a chart's upgrade", "charts/app-07/templates/config.yaml", text,
		time.Duration(2*clusters)*each)
	return took, err
}

// diff changes a file, measures the diff of the change three times, and reverts the change. The rival renders both
// sides of every changed target and compares the texts, on all processors.
func (b *bench) diff(src, what, name, text string, rival time.Duration) (time.Duration, error) {
	file := filepath.Join(src, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return 0, err
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return 0, err
	}
	for _, args := range [][]string{{"-C", src, "add", "-A"}, {"-C", src, "commit", "-qm", what}} {
		if _, err := b.command("", "git", args...); err != nil {
			return 0, err
		}
	}
	var all []measured
	for range 3 {
		m, err := b.command(src, b.sluice, "diff", "-q", "--from-remote", "--offline", "HEAD~1..HEAD", "-o", "markdown")
		if err != nil {
			return 0, err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b measured) int { return int(a.wall - b.wall) })
	m := all[1]
	row(what, m, fmt.Sprintf("%.1f × faster than helm template and diff for every target",
		rival.Seconds()/m.wall.Seconds()))
	if _, err := b.command("", "git", "-C", src, "reset", "-q", "--hard", "HEAD~1"); err != nil {
		return 0, err
	}
	return m.wall, nil
}
