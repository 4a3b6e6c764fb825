package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
)

// service measures `sluice serve`: its throughput, its latency and its memory.
func (b *bench) service(sizes []int, apps, rounds int) error {
	if err := b.deliveries(5000); err != nil {
		return err
	}
	if err := b.comments(sizes, apps); err != nil {
		return fmt.Errorf("comments: %w", err)
	}
	if err := b.growth(50, rounds); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}

// deliveries sends signed webhooks, each for another merge request, over 50 connections, kills the service after the
// last answer, and starts it again. It counts the merge requests that the service then queries from GitHub: each
// accepted hint leads to one query.
func (b *bench) deliveries(n int) error {
	fmt.Printf("\n== %d deliveries over %d connections, to `sluice serve` with its own queue, each write synced\n", n,
		connexions)
	s, err := b.site("deliveries")
	if err != nil {
		return err
	}
	defer s.close()
	rate, err := syncs(s.dir)
	if err != nil {
		return err
	}
	bodies, err := s.payloads(n)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	asked := map[string]bool{}
	s.look(func(method, path string) {
		if method == http.MethodGet && strings.Contains(path, "/pulls/") {
			mu.Lock()
			defer mu.Unlock()
			asked[path] = true
		}
	})
	if err := s.start(time.Hour, "acme/*"); err != nil {
		return err
	}
	fresh, err := s.memory()
	if err != nil {
		return err
	}
	took, refused, wall := s.flood(bodies)
	accepted, err := s.metric("sluice_webhooks_total", `event="pull_request"`, `result="accepted"`)
	if err != nil {
		return err
	}
	left, err := s.metric("sluice_queue_depth")
	if err != nil {
		return err
	}
	if err := s.stop(os.Kill); err != nil {
		return err
	}
	perSecond := float64(len(took)) / wall.Seconds()
	fmt.Printf("accepted %d in %.2f s: %.0f/s; p50 %.1f ms, p99 %.1f ms, longest %.1f ms; %d bytes each; %d not accepted\n", len(took), wall.Seconds(), perSecond,
		ms(took[len(took)/2]), ms(took[len(took)*99/100]), ms(took[len(took)-1]), len(bodies[0]), refused)
	fmt.Printf("one writer that appends and syncs: %.0f/s; a delivery is three synced writes: %.2f synced writes for each of the writer's\n", rate, 3*perSecond/rate)
	began := time.Now()
	if err := s.start(time.Hour, "acme/*"); err != nil {
		return err
	}
	ready := time.Since(began)
	if err := s.idle(10 * time.Minute); err != nil {
		return err
	}
	drained := time.Since(began)
	noted, err := s.memory()
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	fmt.Printf("Go heap after collection: %.1f MiB at the start, %.1f MiB with the deliveries noted: %.0f bytes for each, for the 72 hours that replays are known\n",
		float64(fresh.heap)/(1<<20), float64(noted.heap)/(1<<20), float64(noted.heap-fresh.heap)/float64(n))
	fmt.Printf("killed (SIGKILL) after the last answer with %.0f of %.0f hints not done; ready again after %.2f s, done after %.1f s (%.0f hints/s)\n",
		left, accepted, ready.Seconds(), drained.Seconds(), left/drained.Seconds())
	fmt.Printf("lost: %d of %d (merge requests that GitHub was never asked about; to reach: 0)\n", len(took)-len(asked),
		len(took))
	return nil
}

// payloads returns GitHub's payloads, each for another merge request, in 50 repositories.
func (s *site) payloads(n int) ([][]byte, error) {
	var one []byte
	s.hub.SetOnEvent(func(_ string, payload []byte) { one = payload })
	defer s.hub.SetOnEvent(s.deliver)
	s.hub.AddRepository("acme/model", "")
	if _, err := s.hub.OpenPR("acme/model", fakegithub.PR{Title: "A change", Author: "ada",
		Head: "change"}); err != nil {
		return nil, err
	}
	var p map[string]any
	if err := json.Unmarshal(one, &p); err != nil {
		return nil, err
	}
	pull, _ := p["pull_request"].(map[string]any)
	repo, _ := p["repository"].(map[string]any)
	const repositories = 50
	out := make([][]byte, n)
	for i := range out {
		number := 1 + i/repositories
		p["number"], pull["number"] = number, number
		repo["full_name"] = fmt.Sprintf("acme/load-%02d", i%repositories)
		var err error
		if out[i], err = json.Marshal(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// flood sends all payloads, and returns the sorted times of the accepted ones.
func (s *site) flood(bodies [][]byte) (took []time.Duration, refused int, wall time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan int)
	start := time.Now()
	for range connexions {
		wg.Go(func() {
			for i := range work {
				r, err := s.request(s.listen, "pull_request", fmt.Sprint("flood-", i), bodies[i])
				began := time.Now()
				code := 0
				if err == nil {
					code, err = s.post(r)
				}
				one := time.Since(began)
				mu.Lock()
				if err == nil && code == http.StatusAccepted {
					took = append(took, one)
				} else {
					refused++
				}
				mu.Unlock()
			}
		})
	}
	for i := range bodies {
		work <- i
	}
	close(work)
	wg.Wait()
	wall = time.Since(start)
	slices.Sort(took)
	return took, refused, wall
}

// syncs measures how many writes per second one writer can append and sync on the disk.
func syncs(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "syncs"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	const n = 500
	line := make([]byte, 400)
	start := time.Now()
	for range n {
		if _, err := f.Write(line); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
	}
	return n / time.Since(start).Seconds(), nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// comments measures the time from a webhook to the comment, with warm mirrors, on fleets of all sizes in one service.
func (b *bench) comments(sizes []int, apps int) error {
	fmt.Printf("\n== from the webhook to the comment: one cluster's value, %d apps, previews on, real Git over HTTP\n",
		apps)
	s, err := b.site("comments")
	if err != nil {
		return err
	}
	defer s.close()
	var repos []string
	for _, n := range sizes {
		repo := fmt.Sprintf("acme/fleet-%d", n)
		src := s.work(repo)
		if err := generate(src, n, apps, globalValues); err != nil {
			return err
		}
		if err := s.add(repo, src); err != nil {
			return err
		}
		repos = append(repos, repo)
	}
	if _, err := b.rival(s.work(repos[0]), sizes[0], apps); err != nil {
		return err
	}
	start := time.Now()
	if err := s.start(time.Hour, repos...); err != nil {
		return err
	}
	if err := s.idle(10 * time.Minute); err != nil {
		return err
	}
	fmt.Printf("all fleets cloned, rendered and pushed by the service after %.1f s\n", time.Since(start).Seconds())
	took := map[string][]time.Duration{}
	const times = 7
	for i := range times { // in turn, so that other load affects all sizes
		for _, repo := range repos {
			one, err := s.comment(repo, i)
			if err != nil {
				return err
			}
			if i > 0 { // the first one warms the caches
				took[repo] = append(took[repo], one)
			}
		}
	}
	medians := map[int]time.Duration{}
	for i, repo := range repos {
		slices.Sort(took[repo])
		medians[sizes[i]] = took[repo][len(took[repo])/2]
		fmt.Printf("%4d clusters: median %.2f s, %.2f to %.2f s; %.1f × one helm template\n", sizes[i],
			medians[sizes[i]].Seconds(), took[repo][0].Seconds(),
			took[repo][len(took[repo])-1].Seconds(), ratio(medians[sizes[i]], b.helmOne))
	}
	if medians[100] > 0 && medians[1000] > 0 {
		fmt.Printf("webhook to comment, 1,000 clusters against 100: %.2f ×\n", ratio(medians[1000], medians[100]))
	}
	return nil
}

func (s *site) work(repo string) string { return filepath.Join(s.dir, "work", repo) }

// comment opens a merge request, and returns the time from its webhook to its comment.
func (s *site) comment(repo string, i int) (time.Duration, error) {
	branch := fmt.Sprintf("change-%d", i)
	if err := s.branch(repo, branch, fmt.Sprintf("apps/app-03/layers/cluster/c-%04d/values.yaml", 7+i),
		fmt.Sprintf("own: changed-%d\n", i)); err != nil {
		return 0, err
	}
	said := make(chan time.Time, 10)
	s.look(func(method, path string) {
		if method == http.MethodPost && strings.HasPrefix(path, "/repos/"+repo+"/issues/") &&
			strings.HasSuffix(path, "/comments") {
			said <- time.Now()
		}
	})
	defer s.look(nil)
	pr, err := s.hub.OpenPR(repo, fakegithub.PR{Title: "Change " + branch, Author: "ada", Head: branch})
	if err != nil {
		return 0, err
	}
	sent := s.lastSent()
	select {
	case at := <-said:
		comments := s.hub.Comments(repo, pr.Number)
		if want := fmt.Sprintf("changed-%d", i); len(comments) != 1 || !strings.Contains(comments[0].Body, want) {
			return 0, fmt.Errorf("the comment on %s!%d does not show %s: %v", repo, pr.Number, want, comments)
		}
		return at.Sub(sent), s.idle(time.Minute)
	case <-time.After(time.Minute):
		return 0, s.until("there is a comment", 0, func() bool { return false })
	}
}

// branch pushes a branch with one changed file, based on the trunk.
func (s *site) branch(repo, branch, name, text string) error {
	src := s.work(repo)
	file := filepath.Join(src, name)
	if _, err := s.b.command("", "git", "-C", src, "checkout", "-q", "-B", branch, "origin/main"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"-C", src, "add", "-A"}, {"-C", src, "commit", "-qm", branch},
		{"-C", src, "push", "-q", "origin", "HEAD:" + branch}} {
		if _, err := s.b.command("", "git", args...); err != nil {
			return err
		}
	}
	return nil
}
