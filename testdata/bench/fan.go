package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// fan measures the first hydration of a large fleet by one `sluice serve` on one processor, and by two that share a
// NATS server, each on its own processor. taskset(1) pins them; the forge, Git and NATS run in this process.
func (b *bench) fan(clusters, apps int) error {
	if _, err := exec.LookPath("taskset"); err != nil {
		fmt.Println("\n== replicas: left out, there is no taskset(1) here")
		return nil //nolint:nilerr // only this part cannot be measured here
	}
	fmt.Printf("\n== %d targets rendered and pushed by `sluice serve`, each process on one processor\n", clusters*apps)
	var took [2]time.Duration
	for i, replicas := range []int{1, 2} {
		var shards string
		var err error
		if took[i], shards, err = b.replicas(clusters, apps, replicas); err != nil {
			return fmt.Errorf("%d replicas: %w", replicas, err)
		}
		fmt.Printf("%d process(es): %.1f s from the start to the branch on the server; shards rendered: %s\n", replicas, took[i].Seconds(), shards)
	}
	fmt.Printf("two against one: %.2f × (to reach: 1.8)\n", ratio(took[0], took[1]))
	return nil
}

// replicas hydrates a fleet that has no rendered branches.
func (b *bench) replicas(clusters, apps, replicas int) (time.Duration, string, error) {
	name := fmt.Sprintf("replicas-%d", replicas)
	s, err := b.site(name)
	if err != nil {
		return 0, "", err
	}
	defer s.close()
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(s.dir, "nats"), NoSigs: true})
	if err != nil {
		return 0, "", err
	}
	nats.Start()
	defer func() { nats.Shutdown(); nats.WaitForShutdown() }()
	const wait = 20 * time.Second
	if !nats.ReadyForConnections(wait) {
		return 0, "", fmt.Errorf("the NATS server does not start")
	}
	const repo = "acme/large"
	src := s.work(repo)
	if err := generate(src, clusters, apps, globalValues); err != nil {
		return 0, "", err
	}
	if err := s.add(repo, src); err != nil {
		return 0, "", err
	}
	metrics := make([]string, replicas)
	began := time.Now()
	for i := range replicas {
		stop, address, err := s.replica(i, fmt.Sprintf("{url: %q, replicas: 1, shards: %t}", nats.ClientURL(), replicas > 1), repo) // a single replica needs no shards
		if err != nil {
			return 0, "", err
		}
		defer stop()
		metrics[i] = address
	}
	ref := filepath.Join(s.bare(repo), "refs", "heads", "env", "prod")
	if err := s.until("the branch is there", 10*time.Minute, func() bool {
		_, err := os.Stat(ref)
		return err == nil
	}); err != nil {
		return 0, "", err
	}
	took := time.Since(began)
	var shards []string
	for _, s.metrics = range metrics {
		n, err := s.metric("sluice_shards_total", `result="ok"`)
		if err != nil {
			return 0, "", err
		}
		shards = append(shards, fmt.Sprint(n))
	}
	return took, strings.Join(shards, " and "), nil
}

// replica starts a service, pinned to one processor together with its render processes. It returns the address of its metrics.
func (s *site) replica(i int, queue, repo string) (stop func(), metrics string, err error) {
	listen, err := freePort()
	if err != nil {
		return nil, "", err
	}
	if metrics, err = freePort(); err != nil {
		return nil, "", err
	}
	name := fmt.Sprint("replica-", i)
	file := filepath.Join(s.dir, name+".yaml")
	text := fmt.Sprintf("listen: %s\nmetrics: %s\ndata: %s\nsweep: 1h\npromote: 1h\ndrain: 5s\njobs: 1\nqueue: %s\nfingerprint: {env: BENCH_SECRET}\nforges:\n"+
		"  - {name: f, kind: github, api: %s, git: %s, token: {env: BENCH_TOKEN}, secrets: [{env: BENCH_SECRET}], repositories: [%s]}\n",
		listen, metrics, filepath.Join(s.dir, name), queue, s.api.URL, s.git.URL, repo)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(s.b.ctx, "taskset", "-c", fmt.Sprint(i), s.b.sluice, "serve", "--config", file)
	cmd.Env = append(os.Environ(), "BENCH_TOKEN="+s.token, "BENCH_SECRET="+hookSecret, "SLUICE_OFFLINE=1", "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it has drained
		_ = log.Close()
	}, metrics, nil
}
