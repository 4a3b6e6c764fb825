package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
)

// sample is the service's memory after a round, in bytes.
type sample struct {
	resident, children int64   // of the process, and of its render processes
	heap               int64   // of Go, in use after a collection
	tasks, seconds     float64 // tasks finished so far, and the processor time of the process for them
}

// growth sends rounds of events to many small repositories. In each round, every repository gets a merge request with
// its comment, a chat command, and the merge, after which the trunk is rendered. growth reads the service's memory
// after each round.
func (b *bench) growth(repositories, rounds int) error {
	fmt.Printf("\n== memory: %d repositories, %d rounds of merge request, chat command and merge for each; sweeps and promotions every 30 s\n", repositories, rounds)
	s, err := b.site("memory")
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.hamlets(repositories); err != nil {
		return err
	}
	if err := s.start(30*time.Second, "acme/*"); err != nil {
		return err
	}
	before, err := s.memory()
	if err != nil {
		return err
	}
	samples := []sample{before}
	for round := range rounds {
		began := time.Now()
		if err := s.round(repositories, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		one, err := s.memory()
		if err != nil {
			return err
		}
		samples = append(samples, one)
		fmt.Printf("round %2d: %5.1f s, %4.0f tasks of %.0f ms of the processor; resident %d MiB, Go heap after collection %.1f MiB, render processes %d MiB\n", round+1,
			time.Since(began).Seconds(), one.tasks-before.tasks, perTask(before, one), one.resident>>20,
			float64(one.heap)/(1<<20), one.children>>20)
		before = one
	}
	flat(samples, max(1, rounds/3))
	return nil
}

// perTask returns the processor time per task between two samples, in milliseconds.
func perTask(from, to sample) float64 {
	return 1000 * (to.seconds - from.seconds) / (to.tasks - from.tasks)
}

// flat compares the first third of the rounds with the last one.
func flat(samples []sample, third int) {
	begin, end := samples[1:1+third], samples[len(samples)-third:]
	for _, what := range []struct {
		name string
		of   func(sample) int64
	}{{"resident", func(s sample) int64 { return s.resident }}, {"Go heap", func(s sample) int64 { return s.heap }},
		{"render processes", func(s sample) int64 { return s.children }}} {
		first, last := mean(begin, what.of), mean(end, what.of)
		fmt.Printf("%-17s first third %6.1f MiB, last third %6.1f MiB: %.2f × (flat: 1)\n", what.name, first/(1<<20),
			last/(1<<20), last/first)
	}
	first, last := perTask(samples[0], samples[third]), perTask(samples[len(samples)-1-third], samples[len(samples)-1])
	fmt.Printf("%-17s first third %6.1f ms,  last third %6.1f ms:  %.2f × (flat: 1)\n", "processor a task", first, last,
		last/first)
}

func mean(list []sample, of func(sample) int64) float64 {
	var sum int64
	for _, s := range list {
		sum += of(s)
	}
	return float64(sum) / float64(len(list))
}

func hamlet(i int) string { return fmt.Sprintf("acme/small-%02d", i) }

// hamlets creates small repositories with four clusters and three apps.
func (s *site) hamlets(n int) error {
	for i := range n {
		src := s.work(hamlet(i))
		if err := generate(src, 4, 3, globalValues); err != nil {
			return err
		}
		if err := s.add(hamlet(i), src); err != nil {
			return err
		}
	}
	return nil
}

// round sends each repository its events and waits for the results.
func (s *site) round(n, round int) error {
	numbers := make([]int, n)
	for i := range n {
		branch := fmt.Sprintf("change-%d", round)
		if err := s.branch(hamlet(i), branch, fmt.Sprintf("apps/app-01/layers/cluster/c-%04d/values.yaml", round%4),
			fmt.Sprintf("own: changed-%d\n", round)); err != nil {
			return err
		}
		pr, err := s.hub.OpenPR(hamlet(i), fakegithub.PR{Title: "Change " + branch, Author: "ada", Head: branch})
		if err != nil {
			return err
		}
		numbers[i] = pr.Number
	}
	if err := s.idle(5 * time.Minute); err != nil {
		return err
	}
	for i, number := range numbers {
		if _, err := s.hub.CommentPR(hamlet(i), number, "ada", "/sluice status"); err != nil {
			return err
		}
	}
	if err := s.idle(5 * time.Minute); err != nil {
		return err
	}
	for i, number := range numbers {
		if _, err := s.hub.MergePR(hamlet(i), number, "ada"); err != nil {
			return err
		}
		if _, err := s.b.command("", "git", "-C", s.work(hamlet(i)), "fetch", "-q", "origin", "main"); err != nil {
			return err
		}
	}
	if err := s.idle(5 * time.Minute); err != nil {
		return err
	}
	for i, number := range numbers {
		if text := fmt.Sprint(s.hub.Comments(hamlet(i), number)); !strings.Contains(text, "runs it") {
			return fmt.Errorf("%s!%d was not rendered after its merge: %s", hamlet(i), number, text)
		}
	}
	return nil
}

// memory measures the service. It reads the heap after collections, which a request to pprof triggers.
func (s *site) memory() (sample, error) {
	var out sample
	for range 2 { // objects in pools survive one collection
		if _, err := s.get("http://" + s.debug + "/debug/pprof/heap?gc=1"); err != nil {
			return out, err
		}
	}
	heap, err := s.metric("go_memstats_heap_alloc_bytes")
	if err != nil {
		return out, err
	}
	out.heap = int64(heap)
	if out.tasks, err = s.metric("sluice_task_seconds_count"); err != nil {
		return out, err
	}
	if out.seconds, err = s.metric("process_cpu_seconds_total"); err != nil {
		return out, err
	}
	out.resident, out.children, err = familyMemory(s.server.Process.Pid)
	return out, err
}

// resident returns VmRSS of a process, in bytes.
func resident(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			var kib int64
			_, err := fmt.Sscanf(string(rest), "%d kB", &kib)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}
