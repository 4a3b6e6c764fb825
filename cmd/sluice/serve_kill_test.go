package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
	"github.com/sluice-gitops/sluice/bot/report"
)

// following is a fleet two of whose environments follow the trunk, so that every commit of it makes one of theirs.
const following = `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: harbour}
spec:
  trunk: main
  layers: [class, environment, region, cluster]
  environments:
    - name: dev
    - name: staging
    - name: prod
      after: [staging]
      promotion: {mode: manual}
`

// build makes the real binary.
func build(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// trap kills the service at one of its requests: the process is gone when the request is there, and what it asked for happens or
// not; or it happens, and no answer arrives.
type trap struct {
	mu     sync.Mutex
	left   int
	kind   int
	spring func()
}

// The kinds of traps.
const (
	trapNothing = iota // the request does nothing
	trapBefore         // it has its effect after the death
	trapAfter          // it has its effect before it
	trapKinds
)

func (g *trap) set(left, kind int, spring func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.kind, g.spring = left, kind, spring
}

func (g *trap) step() (kind int, spring func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left != 0 {
		return 0, nil
	}
	return g.kind, g.spring
}

func (g *trap) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, spring := g.step()
		if spring == nil {
			next.ServeHTTP(w, r)
			return
		}
		if kind != trapAfter {
			spring()
		}
		if kind != trapNothing {
			next.ServeHTTP(w, r)
		}
		if kind == trapAfter {
			spring()
		}
		panic(http.ErrAbortHandler) // the documented way to cut a connection
	})
}

// order is a command that somebody gave.
type order struct {
	number int
	id     int64 // of the comment
	text   string
}

// saga is a story that is played again and again while its hero is killed.
type saga struct {
	*stage.Stage
	t       *testing.T
	dir     string
	binary  string
	address string
	metrics string
	trap    trap
	log     *os.File

	mu    sync.Mutex // of rng
	rng   *rand.Rand
	kills map[string]int

	texts  map[int]string // what the final head of a merge request adds
	closed []int
	merged []int
	trunk  []string // commits that merges made
	orders []order
	end    time.Time // of the patience with the last service
}

func newSaga(t *testing.T, binary, kind string, seed uint64) *saga {
	t.Helper()
	s := &saga{t: t, dir: t.TempDir(), binary: binary, rng: rand.New(rand.NewPCG(seed, 1)), kills: map[string]int{}, texts: map[int]string{}}
	var err error
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.tail)
	s.Stage, err = stage.New(t.Context(), stage.Options{
		Kind: kind, Dir: s.dir, Fleet: "../../testdata/fleet", Git: s.trap.wrap, Forge: s.trap.wrap, Sent: s.again,
		Edit: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte(following), 0o600)
		},
	})
	s.must(err)
	t.Cleanup(s.Close)
	s.address, err = stage.FreeAddress(t.Context())
	s.must(err)
	s.metrics, err = stage.FreeAddress(t.Context())
	s.must(err)
	s.SendTo("http://" + s.address)
	s.Delay(s.plan)
	return s
}

// tail shows the end of the service's log when the test failed.
func (s *saga) tail() {
	_ = s.log.Close()
	if !s.t.Failed() {
		return
	}
	data, _ := os.ReadFile(s.log.Name())
	lines := strings.Split(string(data), "\n")
	s.t.Logf("the end of the services' logs:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
}

func (s *saga) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// dice returns a number below n.
func (s *saga) dice(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// plan loses some webhooks, sends some twice and some late, so that they overtake each other.
func (s *saga) plan(stage.Delivery) []time.Duration {
	late := time.Duration(s.dice(1500)) * time.Millisecond
	switch s.dice(10) {
	case 0, 1:
		return nil
	case 2:
		return []time.Duration{0, late}
	case 3, 4:
		return []time.Duration{late}
	}
	return []time.Duration{0}
}

// again sends some of the webhooks that nobody took once more, as a person or a forge may.
func (s *saga) again(d stage.Delivery, status int) {
	if status >= 200 && status < 300 || s.dice(2) == 0 {
		return
	}
	if status = s.Deliver(d); status == http.StatusUnauthorized || status == http.StatusBadRequest {
		s.t.Errorf("the webhook %s was refused with %d", d.Event, status)
	}
}

// serve starts the service; ready says to wait until it is.
func (s *saga) serve(ready bool) *stage.Process {
	s.t.Helper()
	p, err := s.Serve(s.t.Context(), stage.Serving{Binary: s.binary, Listen: s.address, Metrics: s.metrics, Log: s.log})
	s.must(err)
	if ready {
		if err := p.Ready(s.t.Context(), stage.Patience); err != nil {
			p.Kill()
			s.t.Fatal(err)
		}
	}
	return p
}

// haunt starts the service and kills it, a number of times.
func (s *saga) haunt(kills int) error {
	for range kills {
		if s.t.Context().Err() != nil {
			return s.t.Context().Err()
		}
		if s.dice(10) == 0 {
			s.kills["with its data deleted"]++
			if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
				return err
			}
		}
		p, err := s.Serve(s.t.Context(), stage.Serving{Binary: s.binary, Listen: s.address, Metrics: s.metrics, Log: s.log})
		if err != nil {
			return err
		}
		sprung := make(chan struct{})
		lifetime := 3 * time.Second
		how := "at a time"
		if s.dice(3) == 0 {
			lifetime = time.Duration(s.dice(700)) * time.Millisecond
		} else {
			how = "at a request"
			s.trap.set(1+s.dice(60), s.dice(trapKinds), func() { p.Kill(); close(sprung) })
		}
		select {
		case <-sprung:
		case <-time.After(lifetime):
			how += " or idle"
		}
		s.trap.set(0, 0, nil)
		if p.Ended() && how == "at a time or idle" {
			return errors.New("the service ended by itself")
		}
		p.Kill()
		s.kills[how]++
	}
	return nil
}

// note adds an object to every cluster.
func note(number int, text string) func(dir string) error {
	return func(dir string) error {
		return os.WriteFile(filepath.Join(dir, fmt.Sprintf("manifests/baseline/note-%d.yaml", number)),
			fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note-%d\ndata:\n  text: %s\n", number, text), 0o600)
	}
}

// chapter is the life of one merge request.
func (s *saga) chapter(n int) {
	s.t.Helper()
	branch := fmt.Sprint("note-", n)
	text := fmt.Sprintf("first-of-%d", n)
	s.must(s.Branch(branch, text, note(n, text)))
	number, err := s.Open(branch, "ada")
	s.must(err)
	for i := range s.dice(3) {
		s.sleep(400)
		text = fmt.Sprintf("version-%d-of-%d", i, n)
		s.must(errors.Join(s.Change(branch, text, note(n, text)), s.Pushed(number)))
	}
	s.texts[number] = text
	s.command(number, n)
	if s.dice(5) < 2 {
		s.sleep(600)
		s.must(s.CloseRequest(number))
		s.closed = append(s.closed, number)
		return
	}
	head := s.Head(number)
	s.must(stage.WaitFor(s.t.Context(), stage.Patience, fmt.Sprintf("the head %s of merge request %d is reviewed", head, number), func() bool { return s.Status(head, "sluice") == "success" }))
	tip, err := s.Merge(number)
	s.must(err)
	s.merged, s.trunk = append(s.merged, number), append(s.trunk, tip)
}

// command has somebody say something to the service.
func (s *saga) command(number, n int) {
	s.t.Helper()
	text := []string{"", "/sluice status", "/sluice help", fmt.Sprintf("/sluice freeze prod-us-1 --reason chapter-%d", n), "/sluice unfreeze prod-us-1"}[s.dice(5)]
	if text == "" {
		return
	}
	id, err := s.Comment(number, "mia", text)
	s.must(err)
	s.orders = append(s.orders, order{number, id, text})
}

// sleep lets some time pass: people are no machines.
func (s *saga) sleep(most int) { time.Sleep(time.Duration(s.dice(most)) * time.Millisecond) }

// TestServiceKilledAnywhere kills the service 200 times while merge requests are opened, pushed to, commented on, closed and
// merged: at random times and at random requests, some of its webhooks lost, doubled or late, its data folder deleted now and
// then. At the end all is as if nothing had happened: nothing lost, nothing doubled.
//
// SLUICE_KILL_SEED plays the same dice, SLUICE_KILLS says how often.
func TestServiceKilledAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	seed, kills := uint64(time.Now().UnixNano()), 200
	if n, err := strconv.ParseUint(os.Getenv("SLUICE_KILL_SEED"), 10, 64); err == nil {
		seed = n
	}
	if n, err := strconv.Atoi(os.Getenv("SLUICE_KILLS")); err == nil {
		kills = n
	}
	t.Logf("SLUICE_KILL_SEED=%d SLUICE_KILLS=%d", seed, kills)
	const sagas = 4
	binary := build(t)
	var all sync.WaitGroup // at once, whatever -parallel says: most of the time they wait
	for i := range uint64(sagas) {
		kind := []string{"github", "gitlab"}[i%2]
		all.Go(func() {
			t.Run(fmt.Sprint(kind, "-", i/2), func(t *testing.T) {
				s := newSaga(t, binary, kind, seed+i)
				s.play(kills / sagas)
				s.judge()
			})
		})
	}
	all.Wait()
	if err := stage.WaitFor(t.Context(), stage.Patience, "no process is left", func() bool { return len(alive(binary)) == 0 }); err != nil {
		t.Errorf("%v: %v", err, alive(binary))
	}
}

// alive are the processes that run a binary: services, and render processes whose service is dead. Where there is no /proc there
// is no answer.
func alive(binary string) []string {
	var out []string
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && name == binary {
			out = append(out, filepath.Base(filepath.Dir(link)))
		}
	}
	return out
}

func (s *saga) play(kills int) {
	s.t.Helper()
	s.begin()
	began := time.Now()
	haunted := make(chan error, 1)
	var last *stage.Process
	go func() {
		err := s.haunt(kills)
		if err == nil { // what is not done yet is done by one that lives
			last, err = s.Serve(s.t.Context(), stage.Serving{Binary: s.binary, Listen: s.address, Metrics: s.metrics, Log: s.log})
		}
		haunted <- err
	}()
	over := false
	for n := 1; !over || len(s.merged) < 2; n++ {
		s.chapter(n)
		select {
		case err := <-haunted:
			s.must(err)
			over = true
		default:
		}
	}
	s.t.Cleanup(last.Kill)
	s.t.Logf("%d kills %v in %.0f s; %d merge requests, %d merged, %d closed, %d commands", kills, s.kills, time.Since(began).Seconds(), len(s.texts), len(s.merged), len(s.closed), len(s.orders))
}

// begin lets the service hydrate the first commit in peace: what the trunk was before there were branches is nobody's.
func (s *saga) begin() {
	s.t.Helper()
	first := s.serve(true)
	s.must(stage.WaitFor(s.t.Context(), stage.Patience, "dev and staging are there", func() bool { return s.Ref("env/dev") != "" && s.Ref("env/staging") != "" }))
	s.trunk = []string{s.Ref("main")}
	first.Kill()
}

// eventually waits for what the last service still has to do.
func (s *saga) eventually(what string, is func() bool) {
	s.t.Helper()
	if s.end.IsZero() {
		s.end = time.Now().Add(stage.Patience)
	}
	began := time.Now()
	defer func() {
		if took := time.Since(began); took > time.Second {
			s.t.Logf("%s: after %.1f s", what, took.Seconds())
		}
	}()
	if err := stage.WaitFor(s.t.Context(), max(time.Until(s.end), 100*time.Millisecond), what, is); err != nil {
		s.t.Error(err)
	}
}

func (s *saga) judge() {
	s.t.Helper()
	began := time.Now()
	s.judgeBranches()
	s.judgeComments()
	s.judgeOrders()
	s.judgeRest()
	s.t.Logf("judged in %.0f s", time.Since(began).Seconds())
}

// sources are the source commits of an environment branch's commits, oldest first.
func (s *saga) sources(branch string) []string {
	return strings.Fields(s.GitOutput("log", "--reverse", "--first-parent", "--format=%(trailers:key=Sluice-Source,valueonly)", "refs/heads/"+branch))
}

// judgeBranches holds the branches against those of runs that nobody disturbed.
func (s *saga) judgeBranches() {
	s.t.Helper()
	for _, branch := range []string{"env/dev", "env/staging"} {
		s.eventually(branch+" runs the trunk", func() bool {
			all := s.sources(branch)
			return len(all) > 0 && all[len(all)-1] == s.trunk[len(s.trunk)-1]
		})
		if got := s.sources(branch); !slices.Equal(got, s.trunk) {
			s.t.Errorf("%s has commits of\n%v, and the trunk is\n%v", branch, got, s.trunk)
		}
	}
	want := s.undisturbed()
	got := s.Refs()
	for name, hash := range want {
		if got[name] != hash {
			s.t.Errorf("%s is at %s, and undisturbed at %s", name, got[name], hash)
		}
	}
	if len(want) < 6 {
		s.t.Errorf("an undisturbed run has only %v", want)
	}
	for _, number := range slices.Concat(s.closed, s.merged) {
		preview := fmt.Sprintf("sluice/preview/%d", number)
		s.eventually(preview+" is gone", func() bool { return s.Ref(preview) == "" })
	}
	if out, err := exec.CommandContext(s.t.Context(), "git", "-C", s.Bare(), "fsck", "--strict").CombinedOutput(); err != nil {
		s.t.Errorf("the repository is not whole: %v\n%s", err, out)
	}
}

// undisturbed hydrates each commit of the trunk by command, one after the other, and gives the branches of dev and staging.
func (s *saga) undisturbed() map[string]string {
	s.t.Helper()
	box := &sandbox{t: s.t, dir: s.t.TempDir(), binary: s.binary}
	box.run(box.dir, "git", "clone", "-q", "-b", "main", s.Bare(), "src")
	box.run(box.dir, "git", "init", "-q", "--bare", "-b", "main", "plain.git")
	src := filepath.Join(box.dir, "src")
	box.run(src, "git", "remote", "set-url", "origin", filepath.Join(box.dir, "plain.git"))
	for _, commit := range s.trunk {
		box.run(src, "git", "checkout", "-q", commit)
		box.run(src, "git", "push", "-q", "-f", "origin", commit+":refs/heads/main")
		box.run(src, s.binary, "hydrate", "--push", "-q")
	}
	return box.refs(filepath.Join(box.dir, "plain.git"))
}

// judgeComments counts the reviews.
func (s *saga) judgeComments() {
	s.t.Helper()
	reviews := func(number int) (out []string) {
		for _, body := range s.Comments(number) {
			if info, ok := report.ParseMarker(body); ok && info.ID == "" {
				out = append(out, body)
			}
		}
		return out
	}
	for number, text := range s.texts {
		if slices.Contains(s.closed, number) { // perhaps before anybody looked
			if all := reviews(number); len(all) > 1 {
				s.t.Errorf("%d reviews of merge request %d", len(all), number)
			}
			continue
		}
		all := reviews(number)
		if len(all) != 1 || !strings.Contains(all[0], "+  text: "+text) {
			s.t.Errorf("%d reviews of merge request %d, and the change is %s:\n%s", len(all), number, text, strings.Join(all, "\n====\n"))
			continue
		}
		s.eventually(fmt.Sprintf("the rollout of merge request %d has been told", number), func() bool {
			all := reviews(number)
			return len(all) == 1 && strings.Contains(all[0], "<!-- sluice-rollout -->") && regexp.MustCompile("(?m)^\\| `dev` .*runs").MatchString(all[0])
		})
	}
}

// judgeOrders: each command has one outcome, and one effect.
func (s *saga) judgeOrders() {
	s.t.Helper()
	for _, o := range s.orders {
		row := fmt.Sprintf("| `%s` | `mia` |", o.text)
		count := func() int { return strings.Count(strings.Join(s.Comments(o.number), "\n"), row) }
		s.eventually(fmt.Sprintf("%q on merge request %d has an outcome", o.text, o.number), func() bool { return count() > 0 })
		if n := count(); n > 1 {
			s.t.Errorf("%q on merge request %d has %d outcomes", o.text, o.number, n)
		}
		answers := 0
		for _, body := range s.Comments(o.number) {
			if info, ok := report.ParseMarker(body); !ok || strings.HasPrefix(info.ID, "answer/") {
				answers++
			}
		}
		want := 0
		if o.text == "/sluice status" || o.text == "/sluice help" {
			want = 1
		}
		if answers != want {
			s.t.Errorf("%q on merge request %d has %d answers, not %d", o.text, o.number, answers, want)
		}
	}
	record := s.GitOutput("show", "refs/heads/sluice/state:environments/prod.yaml")
	for _, o := range s.orders {
		n := len(regexp.MustCompile(fmt.Sprintf(`(?m)^ *- "?f:acme/fleet/%d/%d/0"?$`, o.number, o.id)).FindAllString(record, -1))
		freeze, unfreeze := strings.HasPrefix(o.text, "/sluice freeze"), strings.HasPrefix(o.text, "/sluice unfreeze")
		if freeze && n != 1 || unfreeze && n > 1 { // what is not frozen is not unfrozen
			s.t.Errorf("%q on merge request %d is %d times in the record\n%s", o.text, o.number, n, record)
		}
	}
}

// judgeRest: nothing waits any more, and nothing was given up.
func (s *saga) judgeRest() {
	s.t.Helper()
	metric := func(name string) string {
		resp, err := http.Get("http://" + s.metrics + "/metrics") //nolint:noctx // a moment
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		var out strings.Builder
		if err := resp.Write(&out); err != nil {
			return err.Error()
		}
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)`).FindStringSubmatch(out.String())
		if m == nil {
			return "missing"
		}
		return m[1]
	}
	s.eventually("the queue is empty", func() bool { return metric("sluice_queue_depth") == "0" })
	if n := metric("sluice_queue_parked"); n != "0" {
		s.t.Errorf("%s hints are parked", n)
	}
}
