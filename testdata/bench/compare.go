package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// revision is one of the two compared binaries, with its own fleet.
type revision struct {
	name, binary, src string
	took              map[string][]time.Duration // processor times by row
}

const (
	compareClusters = 40
	compareApps     = 10
	compareRounds   = 9
)

// compare measures two binaries in turn and prints the ratio of each row. It compares processor times, because the
// wall times of a shared machine vary more than the effects that it measures. Noise only adds to a time, so the ratio
// is that of the smallest times; the spread is the range of the ratios of the rounds. It returns an error if a ratio
// is above limit.
func (b *bench) compare(base string, limit float64) error {
	revisions := []*revision{{name: "base", binary: base}, {name: "this", binary: b.sluice}}
	for _, r := range revisions {
		r.took = map[string][]time.Duration{}
		if err := b.prepare(r); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	rows := []struct {
		what string
		args []string
	}{
		{"start", []string{"--version"}},
		{"no change", []string{"hydrate", "-q", "--dry-run"}},
		{"one cluster's value", []string{"hydrate", "-q", "--dry-run"}},
		{"one app's global value", []string{"hydrate", "-q", "--dry-run"}},
		{"diff of that value", []string{"diff", "-q", "--from-remote", "--offline", "HEAD~1..HEAD", "-o", "markdown"}},
		{"affected by that value", []string{"affected", "HEAD~1..HEAD"}},
		{"all targets", []string{"hydrate", "-q", "--dry-run"}},
	}
	fmt.Printf("\n== %d clusters × %d apps, processor time, %d rounds in turn\n", compareClusters, compareApps,
		compareRounds)
	var slow []string
	for _, row := range rows {
		for _, r := range revisions {
			if err := b.change(r.src, row.what); err != nil {
				return err
			}
		}
		for range compareRounds {
			for _, r := range revisions {
				m, err := b.command(r.src, r.binary, row.args...)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", row.what, r.name, err)
				}
				r.took[row.what] = append(r.took[row.what], m.cpu)
			}
		}
		got := compareTimes(revisions[0].took[row.what], revisions[1].took[row.what])
		fmt.Printf("%-28s %8.1f ms → %8.1f ms   %.2f ×   (rounds: %.2f to %.2f)\n", row.what, milliseconds(got.base),
			milliseconds(got.this), got.ratio, got.low, got.high)
		if got.ratio > limit {
			slow = append(slow, row.what)
		}
	}
	if len(slow) > 0 {
		return fmt.Errorf("slower than %.2f × the base: %q", limit, slow)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// comparison is the comparison of one row.
type comparison struct {
	base, this       time.Duration // smallest times
	ratio, low, high float64       // of the smallest times; of the rounds
}

// compareTimes compares the times of rounds. Both lists have the same length.
func compareTimes(base, this []time.Duration) comparison {
	out := comparison{base: base[0], this: this[0]}
	for i := range base {
		out.base, out.this = min(out.base, base[i]), min(out.this, this[i])
		round := ratio(this[i], base[i])
		if i == 0 {
			out.low, out.high = round, round
		}
		out.low, out.high = min(out.low, round), max(out.high, round)
	}
	out.ratio = ratio(out.this, out.base)
	return out
}

// prepare writes and hydrates the fleet of a revision.
func (b *bench) prepare(r *revision) error {
	r.src = filepath.Join(b.dir, "compare-"+r.name)
	if err := generate(r.src, compareClusters, compareApps, globalValues); err != nil {
		return err
	}
	if err := (repositories{b}).publish(r.src); err != nil {
		return err
	}
	// for dry runs, and for --from-remote
	for _, args := range [][]string{{"hydrate", "-q"}, {"hydrate", "-q", "--push"}} {
		if _, err := b.command(r.src, r.binary, args...); err != nil {
			return err
		}
	}
	return nil
}

// change commits the change that a row measures.
func (b *bench) change(src, what string) error {
	switch what {
	case "no change":
		return b.edit(src, "README.md", "a file that no target reads\n")
	case "one cluster's value":
		return b.edit(src, "apps/app-03/layers/cluster/c-0007/values.yaml", "level: debug\n")
	case "one app's global value":
		return b.edit(src, "apps/app-05/layers/global/values.yaml", globalValues+"extra: changed\n")
	case "all targets": // every target depends on it
		return b.edit(src, "layers/global/values.yaml", "everywhere: changed\n")
	}
	return nil
}
