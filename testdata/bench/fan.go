package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// fan measures the first hydration of a large fleet by one `sluice serve` on one processor, and by two that share a NATS server, each on its
// own processor, in turn. taskset(1) pins them. The forge, Git and NATS run in this process, on all processors: they have one of their own
// beside one replica, and none beside two on a machine with two, so their time is shown.
func (b *bench) fan(clusters, apps int) error {
	const rounds = 3
	if _, err := exec.LookPath("taskset"); err != nil {
		fmt.Println("\n== replicas: left out, there is no taskset(1) here")
		return nil //nolint:nilerr // only this part cannot be measured here
	}
	fmt.Printf("\n== %d targets rendered and pushed by `sluice serve`, each process on one processor\n", clusters*apps)
	least := map[int]time.Duration{}
	for range rounds {
		for _, replicas := range []int{1, 2} {
			f, err := b.replicas(clusters, apps, replicas)
			if err != nil {
				return fmt.Errorf("%d replicas: %w", replicas, err)
			}
			fmt.Printf("%d process(es): %.1f s from the start to the branch on the server; processor time %s s, and %.1f s of forge, Git server and NATS; shards rendered: %s\n",
				replicas, f.wall.Seconds(), strings.Join(f.cpu, " and "), f.servers.Seconds(), strings.Join(f.shards, " and "))
			if least[replicas] == 0 || f.wall < least[replicas] {
				least[replicas] = f.wall
			}
		}
	}
	fmt.Printf("two against one: %.2f × (to reach: 1.8), least of %d\n", ratio(least[1], least[2]), rounds)
	return nil
}

// fanned is the cost of a hydration by several replicas.
type fanned struct {
	wall    time.Duration
	cpu     []string      // seconds of each replica with its render processes
	shards  []string      // that each replica rendered
	servers time.Duration // processor time of this process and of Git's
}

// replicas hydrates a fleet that has no rendered branches.
func (b *bench) replicas(clusters, apps, replicas int) (out fanned, err error) {
	name := fmt.Sprintf("replicas-%d", replicas)
	s, err := b.site(name)
	if err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(s.dir) }()
	defer s.close()
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(s.dir, "nats"), NoSigs: true})
	if err != nil {
		return out, err
	}
	nats.Start()
	defer func() { nats.Shutdown(); nats.WaitForShutdown() }()
	const wait = 20 * time.Second
	if !nats.ReadyForConnections(wait) {
		return out, fmt.Errorf("the NATS server does not start")
	}
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
	before, began := ownTime(), time.Now()
	for i := range replicas {
		r, err := s.replica(i, fmt.Sprintf("{url: %q, replicas: 1, shards: %t}", nats.ClientURL(), replicas > 1), repo) // a single replica needs no shards
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
	for _, id := range ids {
		used, err := treeTime(id)
		if err != nil {
			return out, err
		}
		out.cpu = append(out.cpu, fmt.Sprintf("%.1f", used.Seconds()))
	}
	time.Sleep(time.Second / 2) // the server's Git ends after it has moved the branch
	out.servers = ownTime() - before
	for _, s.metrics = range metrics {
		n, err := s.metric("sluice_shards_total", `result="ok"`)
		if err != nil {
			return out, err
		}
		out.shards = append(out.shards, fmt.Sprint(n))
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

// replica starts a service, pinned to one processor together with its render processes.
func (s *site) replica(i int, queue, repo string) (*pinned, error) {
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
	cmd := exec.CommandContext(s.b.ctx, "taskset", "-c", fmt.Sprint(i), s.b.sluice, "serve", "--config", file)
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
