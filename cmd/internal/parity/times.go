package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Time is a measurement: one task with Sluice and with another tool.
type Time struct {
	Task    string  `json:"task"`
	Tool    string  `json:"tool"`
	Machine string  `json:"machine"`
	Date    string  `json:"date"`
	Commit  string  `json:"commit"`
	Sluice  Measure `json:"sluice"`
	Other   Measure `json:"other"`
}

// Measure has the processor time of a task in several rounds, in milliseconds, and the memory of the largest process.
type Measure struct {
	Least  int64 `json:"least"`
	Median int64 `json:"median"`
	Most   int64 `json:"most"`
	MiB    int64 `json:"mebibytes"`
}

func measure(rounds []output) Measure {
	slices.SortFunc(rounds, func(a, b output) int { return int(a.cpu - b.cpu) })
	out := Measure{
		Least: rounds[0].cpu.Milliseconds(), Median: rounds[len(rounds)/2].cpu.Milliseconds(),
		Most: rounds[len(rounds)-1].cpu.Milliseconds(),
	}
	for _, o := range rounds {
		out.MiB = max(out.MiB, o.peak>>20)
	}
	return out
}

// call is a command with its arguments.
type call []string

// sum runs commands one after the other and adds their processor time up.
func (r *run) sum(dir string, calls []call) (output, error) {
	var all output
	if err := os.RemoveAll(filepath.Join(r.dir, "home")); err != nil { // caches
		return all, err
	}
	for _, c := range calls {
		out, err := r.command(dir, c[0], c[1:]...)
		if err != nil && !failed(err) {
			return all, err
		}
		all.cpu, all.peak = all.cpu+out.cpu, max(all.peak, out.peak)
	}
	return all, nil
}

// times measures what the tools and Sluice need for the same output. Rounds alternate.
func (r *run) times() ([]Time, error) {
	dir, cases, err := r.chartFleet()
	if err != nil {
		return nil, err
	}
	var out []Time
	for _, version := range []string{"3", "4"} {
		var calls []call
		for _, c := range cases {
			args, err := r.templateArgs(c)
			if err != nil {
				return nil, err
			}
			calls = append(calls, append(call{filepath.Join(r.bin, "helm"+version)}, args...))
		}
		t, err := r.time(dir, "helm"+version, calls)
		if err != nil {
			return nil, err
		}
		t.Task = fmt.Sprintf("the %d renderings of charts above, with Helm %s", len(cases), version)
		t.Tool = "`helm template`, a process for each"
		out = append(out, t)
	}
	repositories, err := filepath.Glob(filepath.Join(r.corpus, "kustomize", "giantswarm--*"))
	if err != nil || len(repositories) == 0 {
		return nil, fmt.Errorf("no giantswarm repository in %s", r.corpus)
	}
	dir, roots, err := r.rootFleet(repositories[0])
	if err != nil {
		return nil, err
	}
	var calls []call
	for _, app := range sorted(roots) {
		calls = append(calls, call{
			filepath.Join(r.bin, "kustomize"), "build", filepath.Join("content", roots[app]), "--load-restrictor",
			"LoadRestrictionsNone",
		})
	}
	t, err := r.time(dir, "local", calls)
	t.Task = fmt.Sprintf("the %d Kustomize roots of %s", len(roots), nameOf(repositories[0]))
	t.Tool = "`kustomize build`, a process for each"
	return append(out, t), err
}

func (r *run) time(dir, cluster string, others []call) (Time, error) {
	var ours, theirs []output
	for range r.rounds {
		to, err := os.MkdirTemp(r.dir, "time-")
		if err != nil {
			return Time{}, err
		}
		mine, err := r.sum(dir, []call{{r.sluice, "render", "-q", "--cluster", cluster, "--out", to}})
		if err != nil {
			return Time{}, err
		}
		other, err := r.sum(dir, others)
		if err != nil {
			return Time{}, err
		}
		ours, theirs = append(ours, mine), append(theirs, other)
		if err := os.RemoveAll(to); err != nil {
			return Time{}, err
		}
	}
	return Time{
		Machine: machine(), Date: time.Now().UTC().Format(time.DateOnly), Commit: r.commit,
		Sluice: measure(ours), Other: measure(theirs),
	}, nil
}
