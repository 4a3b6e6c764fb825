package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// day is the size of a simulated installation, and how long and how fast its time passes.
type day struct {
	repositories, hours int
	speed               float64
}

// What happens in an hour of a large installation: 50 merge requests are opened, and 200 pushes. Of those, 50 merge
// these requests, 100 go to their branches and 50 to trunks.
const (
	hourlyRequests = 50
	hourlyPushes   = 200
)

// fleetSize is one size of the fleets of an installation.
type fleetSize struct {
	clusters, apps int
	share          int // of a thousand repositories
	weight         int // of a hundred events: large fleets change more often
}

func fleetSizes() []fleetSize {
	return []fleetSize{{4, 3, 890, 60}, {20, 10, 100, 25}, {200, 20, 10, 15}}
}

func (f fleetSize) String() string { return fmt.Sprintf("%d × %d", f.clusters, f.apps) }

// spending is what the service has used so far.
type spending struct {
	at                       time.Time
	cpu                      time.Duration // of the service and its render processes
	tasks                    float64
	requests, counted        int // to the API, and those that count against a quota
	gits                     int64
	fetched, pushed, written int64 // bytes: from Git, to Git, and from the API
}

// simulate plays hours of an installation of many repositories, faster than the clock. It measures what the first
// start, the events, a restart and sweeps cost the service, and how long the results of events take. The forge and its
// Git share the machine: their time is not counted, but the results wait for it.
func simulate(b *bench, d day) error {
	s, err := b.site("day")
	if err != nil {
		return err
	}
	defer s.close()
	i := newInstallation(s)
	s.pause = time.Second / 2 // every look at the metrics costs the service some milliseconds
	began := time.Now()
	if err := i.found(d.repositories); err != nil {
		return err
	}
	fmt.Printf("\n== an installation of %d repositories (%s), written in %.0f s\n", d.repositories, i.list(),
		time.Since(began).Seconds())
	every := time.Hour // of sweeps: rest measures them
	if d.hours > 1 {
		every = time.Minute
	}
	if err := i.begin(every); err != nil {
		return err
	}
	defer i.watchMemory()()
	if err := i.phase("first start: cloned, rendered, pushed", i.settled); err != nil {
		return err
	}
	if err := i.hours(d); err != nil {
		return err
	}
	if err := i.rest(); err != nil {
		return err
	}
	size, err := disk(filepath.Join(s.dir, "data"))
	if err != nil {
		return err
	}
	fmt.Printf("data/ on disk: %.0f MiB\n", float64(size)/(1<<20))
	return nil
}

// phase measures what the service spends while work runs.
func (i *installation) phase(what string, work func() error) error {
	i.peak.Store(0)
	before, err := i.spent()
	if err != nil {
		return err
	}
	if err := work(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	after, err := i.spent()
	if err != nil {
		return err
	}
	cpu, tasks := after.cpu-before.cpu, after.tasks-before.tasks
	fmt.Printf("%s: %.1f s, %.1f s of processor time for %.0f tasks, %.0f ms each; at most %d MiB in memory, %d of render processes\n", what,
		after.at.Sub(before.at).Seconds(), cpu.Seconds(), tasks, milliseconds(cpu)/tasks, i.peak.Load()>>20,
		i.peakChildren.Load()>>20)
	fmt.Printf("  API: %d requests, of which %d count, %.1f KiB of answers each; Git: %d requests, %.1f MiB fetched, %.1f MiB pushed\n",
		after.requests-before.requests, after.counted-before.counted,
		float64(after.written-before.written)/1024/float64(max(1, after.requests-before.requests)),
		after.gits-before.gits, float64(after.fetched-before.fetched)/(1<<20),
		float64(after.pushed-before.pushed)/(1<<20))
	return nil
}

func (i *installation) spent() (spending, error) {
	out := spending{
		at: time.Now(), requests: i.hub.Requests(), counted: i.hub.Counted(), gits: i.traffic.git.requests.Load(),
		fetched: i.traffic.git.sent.Load(), pushed: i.traffic.git.received.Load(), written: i.traffic.api.sent.Load(),
	}
	var err error
	if out.tasks, err = i.metric("sluice_task_seconds_count"); err != nil {
		return out, err
	}
	out.cpu, err = familyTime(i.server.Process.Pid)
	return out, err
}

// watchMemory keeps the peaks of the service's memory up to date until the returned function is called.
func (i *installation) watchMemory() (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			pid := i.pid.Load()
			own, children, err := familyMemory(int(pid))
			if err != nil {
				continue // the service restarts
			}
			if own+children > i.peak.Load() {
				i.peak.Store(own + children)
				i.peakChildren.Store(children)
			}
		}
	}()
	return func() { close(done) }
}

// hours sends the events of some hours at their times, and prints how long their results took.
func (i *installation) hours(d day) error {
	events := d.hours * (hourlyRequests + hourlyPushes)
	gap := time.Duration(float64(time.Hour) / float64(hourlyRequests+hourlyPushes) / d.speed)
	const backlog = 10 // merge requests that were open before
	for n := range min(backlog, d.repositories/2) {
		if err := i.one(i.choose(opened), opened, -1-n); err != nil {
			return err
		}
	}
	if err := i.idle(5 * time.Minute); err != nil {
		return err
	}
	clear(i.took)
	what := fmt.Sprintf("%d hours of %d merge requests and %d pushes, %g × as fast as the clock", d.hours,
		hourlyRequests, hourlyPushes, d.speed)
	if err := i.phase(what, func() error { return i.parts(events, gap, max(1, min(6, d.hours/2))) }); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, kind := range []string{opened, updated, merged, pushed} {
		quantiles(kind, i.took[kind])
	}
	for _, size := range fleetSizes() {
		quantiles(opened+", fleets of "+size.String(), i.took[opened+size.String()])
	}
	return nil
}

// parts plays the events in equal parts. After each of several parts it prints what must not grow from one to the next.
func (i *installation) parts(events int, gap time.Duration, n int) error {
	for part := range n {
		tasks, err := i.spent()
		if err != nil {
			return err
		}
		if err := errors.Join(i.play(events*part/n, events*(part+1)/n, gap), i.idle(5*time.Minute)); err != nil {
			return err
		}
		if n == 1 {
			return nil
		}
		after, err := i.spent()
		if err != nil {
			return err
		}
		m, err := i.memory()
		if err != nil {
			return err
		}
		routines, err := i.metric("go_goroutines")
		if err != nil {
			return err
		}
		files, err := i.metric("process_open_fds")
		if err != nil {
			return err
		}
		size, err := disk(filepath.Join(i.dir, "data"))
		if err != nil {
			return err
		}
		fmt.Printf("  part %d of %d: %.0f tasks of %.0f ms; %d API requests, %d of Git; Go heap after collection %.1f MiB, resident %d MiB, render processes %d MiB, %.0f goroutines, %.0f open files, data/ %.1f MiB\n",
			part+1, n, after.tasks-tasks.tasks, milliseconds(after.cpu-tasks.cpu)/(after.tasks-tasks.tasks),
			after.requests-tasks.requests, after.gits-tasks.gits,
			float64(m.heap)/(1<<20), m.resident>>20, m.children>>20, routines, files, float64(size)/(1<<20))
	}
	return nil
}

func quantiles(what string, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	n := len(took)
	fmt.Printf("  %-62s %4d: median %6.0f ms, p99 %6.0f ms, longest %6.0f ms\n", what, n, milliseconds(took[n/2]),
		milliseconds(took[(n*99+99)/100-1]), milliseconds(took[n-1]))
}

// rest measures sweeps of repositories of which none moves, and checks of their promotions. Both cost the same however
// fast time passes.
func (i *installation) rest() error {
	const tasks = 2 // of each repository in a round: the sweep, and the check of its promotions
	all := 0
	for _, places := range i.places {
		all += len(places)
	}
	every := max(20*time.Second, time.Duration(all)*120*time.Millisecond) // a round must end before the next begins
	if err := i.stop(os.Interrupt); err != nil {
		return err
	}
	if err := i.begin(every); err != nil {
		return err
	}
	if err := i.phase("start with all that is in data/", i.settled); err != nil {
		return err
	}
	return i.phase("a sweep and a check of promotions of each, nothing moved", func() error {
		before, err := i.metric("sluice_task_seconds_count")
		if err != nil {
			return err
		}
		if err := i.until("the next sweep has begun", 2*every, func() bool {
			n, err := i.metric("sluice_task_seconds_count")
			return err == nil && int(n-before) >= tasks*all
		}); err != nil {
			return err
		}
		return i.idle(5 * time.Minute)
	})
}

func (i *installation) list() string {
	var out []string
	for _, size := range fleetSizes() {
		out = append(out, fmt.Sprintf("%d of %s", len(i.places[size]), size))
	}
	return strings.Join(out, ", ") + " clusters × apps"
}
