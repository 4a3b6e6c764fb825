package main

import (
	"errors"
	"fmt"
	"maps"
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

// replicas measures the first hydration of many repositories by one `sluice serve`, by two and by four that share a
// NATS server, in turn. Each is on one processor, or on an equal share of one if the machine has too few: see parts.
// The forge, Git and NATS run in this process, in a part of their own.
func (b *bench) replicas(repositories int) error {
	goals := map[int]float64{2: 1.8, 4: 3.2}
	if _, err := exec.LookPath("taskset"); err != nil {
		fmt.Println("\n== replicas: left out, there is no taskset(1) here")
		return nil
	}
	fmt.Printf("\n== %d repositories rendered and pushed by `sluice serve`\n", repositories)
	sizes := []int{1, 2, 4}
	machine, err := newParts(slices.Max(sizes) + 1)
	if err == nil {
		defer func() { _ = machine.close() }()
		fmt.Printf("each process, and the forge, Git and NATS together, have %.2f of a processor (control groups)\n",
			machine.share)
	} else {
		machine, sizes = nil, slices.DeleteFunc(sizes, func(n int) bool { return n > runtime.NumCPU() })
		fmt.Printf("each process has a processor; forge, Git and NATS run beside them: there are no control groups to write (%v)\n", err)
	}
	walls := map[int]time.Duration{}
	for _, n := range sizes {
		r, err := b.replicated(repositories, n, machine)
		if err != nil {
			return fmt.Errorf("%d replicas: %w", n, err)
		}
		walls[n] = r.wall
		fmt.Printf("%d process(es): %.1f s from the start to the last branch on the server; processor time %s s, and %.1f s of forge, Git server and NATS\n",
			n, r.wall.Seconds(), strings.Join(r.cpu, " and "), r.servers.Seconds())
	}
	for _, n := range sizes[1:] {
		fmt.Printf("%d against one: %.2f × (to reach: %.1f)\n", n, ratio(walls[1], walls[n]), goals[n])
	}
	return nil
}

// replicated is the cost of the first hydrations by several replicas.
type replicated struct {
	wall    time.Duration
	cpu     []string      // seconds of each replica with its render processes
	servers time.Duration // processor time of this process and of Git's
}

// replicated hydrates repositories that have no rendered branches, with n replicas.
func (b *bench) replicated(repositories, n int, machine *parts) (out replicated, err error) {
	const clusters, apps = 10, 3
	s, err := b.site(fmt.Sprintf("replicas-%d", n))
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
	missing := map[string]bool{} // files of branches
	for i := range repositories {
		repo := fmt.Sprintf("acme/fleet-%d", i)
		if err := generate(s.work(repo), clusters, apps, globalValues); err != nil {
			return out, err
		}
		if err := s.add(repo, s.work(repo)); err != nil {
			return out, err
		}
		missing[filepath.Join(s.bare(repo), "refs", "heads", "env", "prod")] = true
	}
	if machine != nil {
		if err := machine.enter(0); err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, machine.leave()) }()
	}
	before, began := ownTime(), time.Now()
	ids := make([]int, n)
	for i := range n {
		r, err := s.replica(i, fmt.Sprintf("{url: %q, replicas: 1}", nats.ClientURL()), machine)
		if err != nil {
			return out, err
		}
		defer r.stop()
		ids[i] = r.id
	}
	if err := s.until("all branches are there", time.Hour, func() bool {
		maps.DeleteFunc(missing, func(file string, _ bool) bool {
			_, err := os.Stat(file)
			return err == nil
		})
		return len(missing) == 0
	}); err != nil {
		return out, err
	}
	out.wall = time.Since(began)
	if out.cpu, err = treeTimes(ids); err != nil {
		return out, err
	}
	time.Sleep(time.Second / 2) // the server's Git ends after it has moved the branch
	out.servers = ownTime() - before
	return out, nil
}

// natsOf starts a NATS server that keeps its files in the folder of a site.
func natsOf(s *site) (*server.Server, error) {
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: filepath.Join(s.dir, "nats"), NoSigs: true})
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
		if _, err := fmt.Sscan(rest, &state, &parent, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip,
			&user, &system, &childUser, &childSystem); err != nil {
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
	id   int // of its process
	stop func()
}

// replica starts a service, pinned to one processor together with its render processes, in its part of the machine.
func (s *site) replica(i int, queue string, machine *parts) (*pinned, error) {
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprint("replica-", i)
	file := filepath.Join(s.dir, name+".yaml")
	text := fmt.Sprintf("listen: %s\ndata: %s\nsweep: 1h\npromote: 1h\ndrain: 5s\njobs: 1\nqueue: %s\nfingerprint: {env: BENCH_SECRET}\nforges:\n"+
		"  - {name: f, kind: github, api: %s, git: %s, token: {env: BENCH_TOKEN}, secrets: [{env: BENCH_SECRET}], repositories: [acme/*]}\n",
		listen, filepath.Join(s.dir, name), queue, s.api.URL, s.git.URL)
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
	cmd := exec.CommandContext(s.b.ctx, "sh", "-c", `echo $$ >"$0" && exec taskset -c "$@"`, list,
		fmt.Sprint(i%runtime.NumCPU()), s.b.sluice, "serve", "--config", file)
	cmd.Env = append(os.Environ(), "BENCH_TOKEN="+s.token, "BENCH_SECRET="+hookSecret, "SLUICE_OFFLINE=1",
		"GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &pinned{cmd.Process.Pid, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it has drained
		_ = log.Close()
	}}, nil
}
