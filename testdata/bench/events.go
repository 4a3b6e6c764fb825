package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
)

// Kinds of events with their results.
const (
	opened  = "merge request opened → comment"
	updated = "push to a merge request → comment"
	merged  = "merge → environment branch"
	pushed  = "push to a trunk → environment branch"
)

// installation is a service with many repositories of different sizes.
type installation struct {
	*site
	places map[fleetSize][]*place
	random *rand.Rand
	pid    atomic.Int64 // of the service
	// bytes of memory since the phase began: of the service with its children, and of the children then
	peak, peakChildren atomic.Int64
	running            sync.WaitGroup
	failed             chan error

	mu       sync.Mutex
	awaiting map[string]*awaited        // by repository
	took     map[string][]time.Duration // by kind of event, and by kind and size
}

// place is a repository. One event at a time is under way in it, and at most one of its merge requests is open.
type place struct {
	path   string
	size   fleetSize
	busy   bool
	serial int    // of its latest change
	number int    // of its open merge request; 0 is none
	branch string // and its branch
	file   string // and what it changes
}

// awaited is the result of an event.
type awaited struct {
	sent time.Time // when the forge sent the latest webhook of the event
	done func() bool
	at   chan time.Duration // from the webhook to the result
}

func newInstallation(s *site) *installation {
	i := &installation{
		site: s, places: map[fleetSize][]*place{}, random: rand.New(rand.NewPCG(1, 1)), failed: make(chan error, 1),
		awaiting: map[string]*awaited{}, took: map[string][]time.Duration{},
	}
	s.hub.SetOnEvent(i.announce)
	s.look(i.answered)
	return i
}

// begin starts the service, which sweeps all repositories and checks their promotions then.
func (i *installation) begin(every time.Duration) error {
	if err := i.start(every, "acme/*"); err != nil {
		return err
	}
	i.pid.Store(int64(i.server.Process.Pid))
	return nil
}

// settled waits until the service has swept all repositories, checked their promotions, and has nothing left to do.
func (i *installation) settled() error {
	all := 0
	for _, places := range i.places {
		all += len(places)
	}
	const most = 30 * time.Minute
	if err := i.until("all trunks were looked at", most, func() bool {
		n, err := i.metric("sluice_task_seconds_count", `kind="trunk"`)
		return err == nil && int(n) >= all
	}); err != nil {
		return err
	}
	return i.idle(most)
}

// found writes the repositories, at least two of each size.
func (i *installation) found(n int) error {
	serial := 0
	for _, size := range fleetSizes() {
		for range max(2, n*size.share/1000) {
			p := &place{path: fmt.Sprintf("acme/r-%04d", serial), size: size}
			files := fleetFiles(size.clusters, size.apps, globalValues)
			// no two repositories render the same
			files["layers/global/values.yaml"] = fmt.Sprintf("home: %q\n", p.path)
			if err := i.writeBare(i.bare(p.path), files); err != nil {
				return err
			}
			i.adopt(p.path)
			i.places[size] = append(i.places[size], p)
			serial++
		}
	}
	return nil
}

// writeBare creates a bare repository whose branch main has files, in one pack.
func (i *installation) writeBare(dir string, files map[string]string) error {
	if err := (repositories{i.b}).git("", "init", "-q", "--bare", "--template=", "-b", "main", dir); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString("[http]\n\treceivepack = true\n[uploadpack]\n\tallowAnySHA1InWant = true\n[fastimport]\n\tunpackLimit = 20\n"); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return i.commit(dir, "main", "", files)
}

// commit adds a commit to a branch of a bare repository, on top of another branch.
func (i *installation) commit(dir, branch, parent string, files map[string]string) error {
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter ada <ada@example.com> %d +0000\ndata 6\nchange\n", branch,
		time.Now().Unix())
	if parent != "" {
		fmt.Fprintf(&in, "from refs/heads/%s^0\n", parent)
	}
	for name, text := range files {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
	}
	cmd := exec.CommandContext(i.b.ctx, "git", "-C", dir, "fast-import", "--quiet")
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git fast-import in %s: %w: %s", dir, err, out)
	}
	return nil
}

// announce sends a webhook, and notes when.
func (i *installation) announce(event string, payload []byte) {
	if event == "pull_request" || event == "push" { // comments of the service itself are events too
		var p struct {
			Repository struct {
				Name string `json:"full_name"`
			} `json:"repository"`
		}
		if json.Unmarshal(payload, &p) == nil {
			i.mu.Lock()
			if a := i.awaiting[p.Repository.Name]; a != nil {
				a.sent = time.Now()
			}
			i.mu.Unlock()
		}
	}
	i.deliver(event, payload)
}

// answered looks for the result of an event after each request that can bring it.
func (i *installation) answered(method, path string) {
	if method == http.MethodGet {
		return
	}
	path = strings.TrimPrefix(strings.TrimPrefix(path, "/repos"), "/")
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 3 {
		return
	}
	repo := parts[0] + "/" + strings.TrimSuffix(parts[1], ".git")
	i.mu.Lock()
	a := i.awaiting[repo]
	i.mu.Unlock()
	if a == nil {
		return
	}
	if now := time.Now(); a.done() {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.awaiting[repo] == a {
			delete(i.awaiting, repo)
			a.at <- now.Sub(a.sent)
		}
	}
}

// play sends the events from first up to end at random times, gap apart on average.
func (i *installation) play(first, end int, gap time.Duration) error {
	kinds := []string{opened, pushed, updated, updated, merged} // the mix of an hour
	next := time.Now()
	for n := first; n < end; n++ {
		next = next.Add(time.Duration(i.random.ExpFloat64() * float64(gap)))
		select {
		case <-i.b.ctx.Done():
			return i.b.ctx.Err()
		case err := <-i.failed:
			return err
		case <-time.After(time.Until(next)):
		}
		kind := kinds[n%len(kinds)]
		p := i.choose(kind)
		if p == nil { // all are at work
			return fmt.Errorf("event %d: no repository is free for: %s", n, kind)
		}
		i.running.Go(func() {
			if err := i.one(p, kind, n); err != nil {
				select {
				case i.failed <- err:
				default: // one error is enough
				}
			}
		})
	}
	i.running.Wait()
	select {
	case err := <-i.failed:
		return err
	default:
		return nil
	}
}

// choose returns a repository in which a kind of event can happen, and marks it as busy. It waits for one if it must.
func (i *installation) choose(kind string) *place {
	for range 3000 {
		if p := i.free(kind); p != nil {
			return p
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func (i *installation) free(kind string) *place {
	i.mu.Lock()
	defer i.mu.Unlock()
	sizes := fleetSizes()
	lot := i.random.IntN(100)
	first := slices.IndexFunc(sizes, func(s fleetSize) bool { lot -= s.weight; return lot < 0 })
	for n := range sizes {
		size := sizes[(first+n)%len(sizes)]
		var fit []*place
		for _, p := range i.places[size] {
			if !p.busy && (kind == pushed || (p.number == 0) == (kind == opened)) {
				fit = append(fit, p)
			}
		}
		if len(fit) > 0 {
			p := fit[i.random.IntN(len(fit))]
			p.busy = true
			return p
		}
	}
	return nil
}

// one lets an event happen, and waits for its result.
func (i *installation) one(p *place, kind string, n int) error {
	text := fmt.Sprintf("changed-%d", n)
	act, done, err := i.event(p, kind, text)
	if err != nil {
		return err
	}
	a := &awaited{sent: time.Now(), done: done, at: make(chan time.Duration, 1)}
	i.mu.Lock()
	i.awaiting[p.path] = a
	i.mu.Unlock()
	if err := act(); err != nil {
		return fmt.Errorf("%s, %s: %w", p.path, kind, err)
	}
	const most = 10 * time.Minute // on a machine that others use
	select {
	case took := <-a.at:
		i.mu.Lock()
		defer i.mu.Unlock()
		p.busy = false
		i.took[kind] = append(i.took[kind], took)
		i.took[kind+p.size.String()] = append(i.took[kind+p.size.String()], took)
		return nil
	case <-time.After(most):
		return i.until(fmt.Sprintf("%s in %s", kind, p.path), 0, func() bool { return false })
	}
}

// event prepares an event: act lets it happen, and done reports whether its result is there.
func (i *installation) event(p *place, kind, text string) (act func() error, done func() bool, err error) {
	bare := i.bare(p.path)
	commented := func() bool {
		for _, c := range i.hub.Comments(p.path, p.number) {
			if strings.Contains(c.Body, text) {
				return true
			}
		}
		return false
	}
	environment := filepath.Join(bare, "refs", "heads", "env", "prod")
	before, _ := os.ReadFile(environment)
	moved := func() bool {
		now, err := os.ReadFile(environment)
		return err == nil && !bytes.Equal(now, before)
	}
	switch kind {
	case opened:
		p.serial++
		p.number, p.branch = len(i.hub.PRs(p.path))+1, text
		p.file = fmt.Sprintf("apps/app-01/layers/cluster/c-%04d/values.yaml", p.serial%p.size.clusters)
		if p.serial%3 == 0 { // of all clusters
			p.file = "apps/app-02/layers/global/values.yaml"
		}
		return func() error {
			_, err := i.hub.OpenPR(p.path, fakegithub.PR{Title: text, Author: "ada", Head: text})
			return err
		}, commented, i.commit(bare, p.branch, "main", p.change(text))
	case updated:
		return func() error {
			_, err := i.hub.PushPR(p.path, p.number)
			return err
		}, commented, i.commit(bare, p.branch, p.branch, p.change(text))
	case merged:
		return func() error {
			_, err := i.hub.MergePR(p.path, p.number, "ada")
			p.number = 0
			return err
		}, moved, nil
	}
	tip, err := i.b.output("", "git", "-C", bare, "rev-parse", "main")
	if err != nil {
		return nil, nil, err
	}
	p.serial++
	file := fmt.Sprintf("apps/app-00/layers/cluster/c-%04d/values.yaml", p.serial%p.size.clusters)
	return func() error { return i.hub.Pushed(p.path, "main", strings.TrimSpace(tip), "ada") }, moved,
		i.commit(bare, "main", "main", map[string]string{file: "own: " + text + "\n"})
}

// change returns the content of what the open merge request changes.
func (p *place) change(text string) map[string]string {
	if strings.Contains(p.file, "/global/") {
		return map[string]string{p.file: globalValues + "extra: " + text + "\n"}
	}
	return map[string]string{p.file: "own: " + text + "\n"}
}
