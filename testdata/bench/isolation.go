package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-gitops/sluice/renderer"
)

// workers measures workers on the targets of a fleet.
type workers struct {
	*bench
	clusters, apps, jobs int
	contents             []renderer.Content
}

// bundle returns the input of a target.
func (w *workers) bundle(i int) (*renderer.Bundle, error) {
	out, err := helmBundle(w.contents[i%w.apps], values(i/w.apps))
	if err == nil {
		out.Light = true // as those of a hydration, after the first target of an app
	}
	return out, err
}

// isolation measures what worker processes cost: a warm pool of them renders the targets of a fleet, and so does the
// engine in this process, on as many processors. As in a hydration, more targets wait than there are processes. The
// rounds alternate, and the least of each counts, because noise only adds.
func isolation(b *bench, clusters, apps int) error {
	w := &workers{bench: b, clusters: clusters, apps: apps, jobs: runtime.NumCPU(),
		contents: make([]renderer.Content, apps)}
	targets := clusters * apps
	fmt.Printf("\n== isolation: %d clusters × %d apps = %d targets, %d at once\n", clusters, apps, targets, w.jobs)
	for i := range w.contents {
		name := fmt.Sprintf("app-%02d", i)
		w.contents[i] = renderer.Content{Name: name, Digest: name}
		for file, text := range chart(name) {
			w.contents[i].Files = append(w.contents[i].Files, renderer.File{Path: file, Data: []byte(text)})
		}
	}
	const rounds = 3
	var inProcess, isolated spent
	for range rounds {
		one, err := w.renderAll(renderer.NewEngine(renderer.DefaultLimits()), targets, w.jobs)
		if err != nil {
			return err
		}
		inProcess.least(one)
		if one, err = w.renderIsolated(targets); err != nil {
			return err
		}
		isolated.least(one)
	}
	fmt.Printf("%-28s %8.2f s   processors %8.2f s\n", "in this process", inProcess.wall.Seconds(),
		inProcess.cpu.Seconds())
	fmt.Printf("%-28s %8.2f s   processors %8.2f s   %.2f × the time in this process (to reach: 1.3), %.2f × the processor time\n",
		"in a warm pool of workers", isolated.wall.Seconds(), isolated.cpu.Seconds(),
		ratio(isolated.wall, inProcess.wall), ratio(isolated.cpu, inProcess.cpu))
	return nil
}

// spent is the time of one round: on the clock, and of all processors for this process and its children.
type spent struct{ wall, cpu time.Duration }

func (s *spent) least(one spent) {
	if s.wall == 0 || one.wall < s.wall {
		s.wall = one.wall
	}
	if s.cpu == 0 || one.cpu < s.cpu {
		s.cpu = one.cpu
	}
}

// renderIsolated renders in workers that have rendered every chart before. Their processor time counts from their
// start, because the system tells it when they end.
func (w *workers) renderIsolated(targets int) (spent, error) {
	before, err := childrenTime()
	if err != nil {
		return spent{}, err
	}
	pool := renderer.NewPool(renderer.PoolOptions{Command: []string{w.sluice, "render-child"}, Size: w.jobs})
	if _, err := w.renderAll(pool, w.apps*w.jobs, w.jobs); err != nil {
		pool.Close()
		return spent{}, err
	}
	out, err := w.renderAll(pool, targets, w.jobs*renderer.InFlight)
	pool.Close()
	if err != nil {
		return out, err
	}
	after, err := childrenTime()
	out.cpu += after - before
	return out, err
}

// renderAll renders the first targets. The processor time is that of this process.
func (w *workers) renderAll(r renderer.Renderer, targets, atOnce int) (spent, error) {
	before, err := processorTime()
	if err != nil {
		return spent{}, err
	}
	began := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, atOnce)
	for range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < targets; i = int(next.Add(1)) - 1 {
				one, err := w.bundle(i)
				if err == nil {
					_, err = r.Render(w.ctx, one)
				}
				if err != nil {
					failed <- fmt.Errorf("target %d: %w", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return spent{}, err
	}
	after, err := processorTime()
	return spent{time.Since(began), after - before}, err
}

// childrenTime is the processor time of the children that have ended.
func childrenTime() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
