package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// fan measures the first hydration of a large fleet by one `sluice serve`, by two and by four that share a NATS server, in turn. Each is on one
// processor, or on an equal share of one if the machine has too few: see parts. The forge, Git and NATS run in this process, in a part of
// their own.
func (b *bench) fan(clusters, apps int) error {
	const rounds = 3
	goals := map[int]float64{2: 1.8, 4: 3.2}
	if _, err := exec.LookPath("taskset"); err != nil {
		fmt.Println("\n== replicas: left out, there is no taskset(1) here")
		return nil
	}
	fmt.Printf("\n== %d targets rendered and pushed by `sluice serve`\n", clusters*apps)
	sizes := []int{1, 2, 4}
	machine, err := newParts(slices.Max(sizes) + 1)
	if err == nil {
		defer func() { _ = machine.close() }()
		fmt.Printf("each process, and the forge, Git and NATS together, have %.2f of a processor (control groups)\n", machine.share)
	} else {
		machine, sizes = nil, slices.DeleteFunc(sizes, func(n int) bool { return n > runtime.NumCPU() })
		fmt.Printf("each process has a processor; forge, Git and NATS run beside them: there are no control groups to write (%v)\n", err)
	}
	least, alone := map[int]time.Duration{}, map[int]time.Duration{}
	for range rounds {
		for _, replicas := range sizes {
			f, err := b.replicas(clusters, apps, replicas, machine)
			if err != nil {
				return fmt.Errorf("%d replicas: %w", replicas, err)
			}
			fmt.Printf("%d process(es): %.1f s from the start to the branch on the server; processor time %s s, and %.1f s of forge, Git server and NATS; shards rendered: %s\n   %s\n",
				replicas, f.wall.Seconds(), strings.Join(f.cpu, " and "), f.servers.Seconds(), strings.Join(f.shards, " and "), f.times)
			if have := least[replicas]; have == 0 || f.wall < have {
				least[replicas], alone[replicas] = f.wall, f.wall-f.times.server()
			}
		}
	}
	for _, replicas := range sizes[1:] {
		fmt.Printf("%d against one: %.2f × (to reach: %.1f), least of %d; %.2f × without the time in which the Git server takes the packfile\n",
			replicas, ratio(least[1], least[replicas]), goals[replicas], rounds, ratio(alone[1], alone[replicas]))
	}
	return nil
}

// fanned is the cost of a hydration by several replicas.
type fanned struct {
	wall    time.Duration
	cpu     []string      // seconds of each replica with its render processes
	shards  []string      // that each replica rendered
	servers time.Duration // processor time of this process and of Git's
	times   *timeline
}

// replicas hydrates a fleet that has no rendered branches.
func (b *bench) replicas(clusters, apps, replicas int, machine *parts) (out fanned, err error) {
	name := fmt.Sprintf("replicas-%d", replicas)
	s, err := b.site(name)
	if err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	defer s.close()
	nats, err := natsOf(s)
	if err != nil {
		return out, err
	}
	defer func() { nats.Shutdown(); nats.WaitForShutdown() }()
	const repo = "acme/large"
	src := s.work(repo)
	if err := generate(src, clusters, apps, globalValues); err != nil {
		return out, err
	}
	if err := s.add(repo, src); err != nil {
		return out, err
	}
	ids := make([]int, replicas)
	metrics := make([]string, replicas)
	if machine != nil {
		if err := machine.enter(0); err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, machine.leave()) }()
	}
	before, began := ownTime(), time.Now()
	out.times = &timeline{now: func() time.Duration { return time.Since(began) }}
	s.git.Config.Handler = out.times.git(s.git.Config.Handler)
	stop, err := out.times.queue(nats.ClientURL())
	if err != nil {
		return out, err
	}
	defer stop()
	for i := range replicas {
		r, err := s.replica(i, fmt.Sprintf("{url: %q, replicas: 1, shards: %t}", nats.ClientURL(), replicas > 1), repo, machine) // a single replica needs no shards
		if err != nil {
			return out, err
		}
		defer r.stop()
		ids[i], metrics[i] = r.id, r.metrics
	}
	ref := filepath.Join(s.bare(repo), "refs", "heads", "env", "prod")
	if err := s.until("the branch is there", 10*time.Minute, func() bool {
		_, err := os.Stat(ref)
		return err == nil
	}); err != nil {
		return out, err
	}
	out.wall = time.Since(began)
	if out.cpu, err = treeTimes(ids); err != nil {
		return out, err
	}
	time.Sleep(time.Second / 2) // the server's Git ends after it has moved the branch
	out.servers = ownTime() - before
	out.shards, err = shardsOf(s, metrics)
	return out, err
}

// natsOf starts a NATS server that keeps its files in the folder of a site.
func natsOf(s *site) (*server.Server, error) {
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(s.dir, "nats"), NoSigs: true})
	if err != nil {
		return nil, err
	}
	nats.Start()
	const wait = 20 * time.Second
	if !nats.ReadyForConnections(wait) {
		nats.Shutdown()
		return nil, errors.New("the NATS server does not start")
	}
	return nats, nil
}

// shardsOf returns the numbers of shards that services rendered, by the addresses of their metrics.
func shardsOf(s *site, metrics []string) ([]string, error) {
	var out []string
	for _, s.metrics = range metrics {
		n, err := s.metric("sluice_shards_total", `result="ok"`)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprint(n))
	}
	return out, nil
}

// ownTime returns the processor time of this process and of the children that have ended.
func ownTime() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err == nil { // it has no other errors than a wrong argument
			total += time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	return total
}

// treeTimes returns the results of treeTime in seconds.
func treeTimes(roots []int) ([]string, error) {
	var out []string
	for _, id := range roots {
		used, err := treeTime(id)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("%.1f", used.Seconds()))
	}
	return out, nil
}

// treeTime returns the processor time of a process and of all below it, as /proc has it.
func treeTime(root int) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	parents, ticks := map[int]int{}, map[int]int{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ") // the name may have blanks
		var state string
		var parent, skip, user, system, childUser, childSystem int
		if _, err := fmt.Sscan(rest, &state, &parent, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &system, &childUser, &childSystem); err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return 0, err
		}
		parents[id], ticks[id] = parent, user+system+childUser+childSystem
	}
	total := 0
	for id := range ticks {
		for at := id; at > 1; at = parents[at] {
			if at == root {
				total += ticks[id]
				break
			}
		}
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go supports
	return time.Duration(total) * tick, nil
}

// pinned is a service on one processor.
type pinned struct {
	id      int    // of its process
	metrics string // address
	stop    func()
}

// replica starts a service, pinned to one processor together with its render processes, in its part of the machine.
func (s *site) replica(i int, queue, repo string, machine *parts) (*pinned, error) {
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	metrics, err := freePort()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprint("replica-", i)
	file := filepath.Join(s.dir, name+".yaml")
	text := fmt.Sprintf("listen: %s\nmetrics: %s\ndata: %s\nsweep: 1h\npromote: 1h\ndrain: 5s\njobs: 1\nqueue: %s\nfingerprint: {env: BENCH_SECRET}\nforges:\n"+
		"  - {name: f, kind: github, api: %s, git: %s, token: {env: BENCH_TOKEN}, secrets: [{env: BENCH_SECRET}], repositories: [%s]}\n",
		listen, metrics, filepath.Join(s.dir, name), queue, s.api.URL, s.git.URL, repo)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	list := os.DevNull
	if machine != nil {
		list = machine.list(1 + i)
	}
	cmd := exec.CommandContext(s.b.ctx, "sh", "-c", `echo $$ >"$0" && exec taskset -c "$@"`, list, fmt.Sprint(i%runtime.NumCPU()), s.b.sluice, "serve", "--config", file)
	cmd.Env = append(os.Environ(), "BENCH_TOKEN="+s.token, "BENCH_SECRET="+hookSecret, "SLUICE_OFFLINE=1", "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &pinned{cmd.Process.Pid, metrics, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it has drained
		_ = log.Close()
	}}, nil
}
