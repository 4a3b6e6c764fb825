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
	"github.com/sluice-gitops/sluice/report"
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
		t.Fatalf("the error is %v\nthe output is\n%s", err, out)
	}
	return file
}

// trap kills the service at one of its requests: the process is gone when the request is there, and what it asked for
// happens or not; or it happens, and no answer arrives.
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

// killStory lets people work on merge requests while the test kills and restarts the service.
type killStory struct {
	*stage.Stage
	t       *testing.T
	dir     string
	binary  string
	address string
	metrics string
	trap    trap
	log     *os.File
	search  *canarySearch

	mu    sync.Mutex // of rng
	rng   *rand.Rand
	kills map[string]int

	texts  map[int]string // what the final head of a merge request adds
	closed []int
	merged []int
	trunk  []string // commits that merges made
	orders []order
	end    time.Time // the deadline of the last service; see eventually
}

func newKillStory(t *testing.T, binary, kind string, seed uint64) *killStory {
	t.Helper()
	s := &killStory{
		t: t, dir: t.TempDir(), binary: binary, rng: rand.New(rand.NewPCG(seed, 1)),
		kills: map[string]int{}, texts: map[int]string{},
	}
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
	s.search = searchCanaries(t, binary)
	s.search.stage(s.Stage, s.dir)
	s.address, err = stage.FreeAddress(t.Context())
	s.must(err)
	s.metrics, err = stage.FreeAddress(t.Context())
	s.must(err)
	s.SendTo("http://" + s.address)
	s.Delay(s.plan)
	return s
}

// tail shows the end of the service's log when the test failed.
func (s *killStory) tail() {
	_ = s.log.Close()
	if !s.t.Failed() {
		return
	}
	data, _ := os.ReadFile(s.log.Name())
	lines := strings.Split(string(data), "\n")
	s.t.Logf("the end of the services' logs:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
}

func (s *killStory) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// dice returns a number below n.
func (s *killStory) random(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// plan loses some webhooks, sends some twice and some late, so that they overtake each other.
func (s *killStory) plan(stage.Delivery) []time.Duration {
	late := time.Duration(s.random(1500)) * time.Millisecond
	switch s.random(10) {
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
func (s *killStory) again(d stage.Delivery, status int) {
	if status >= 200 && status < 300 || s.random(2) == 0 {
		return
	}
	if status = s.Deliver(d); status == http.StatusUnauthorized || status == http.StatusBadRequest {
		s.t.Errorf("the webhook %s was refused with %d", d.Event, status)
	}
}

// serve starts the service; ready says to wait until it is.
func (s *killStory) serve(ready bool) *stage.Process {
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

// killRepeatedly starts and kills the service a number of times: after a random time, or at a random request.
func (s *killStory) killRepeatedly(kills int) error {
	for range kills {
		if s.t.Context().Err() != nil {
			return s.t.Context().Err()
		}
		if s.random(10) == 0 {
			s.kills["with its data deleted"]++
			if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
				return err
			}
		}
		p, err := s.Serve(s.t.Context(), stage.Serving{
			Binary: s.binary, Listen: s.address, Metrics: s.metrics,
			Log: s.log,
		})
		if err != nil {
			return err
		}
		sprung := make(chan struct{})
		lifetime := 3 * time.Second
		how := "at a time"
		if s.random(3) == 0 {
			lifetime = time.Duration(s.random(700)) * time.Millisecond
		} else {
			how = "at a request"
			s.trap.set(1+s.random(60), s.random(trapKinds), func() { p.Kill(); close(sprung) })
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
			fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note-%d\ndata:\n  text: %s\n", number,
				text), 0o600)
	}
}

// chapter is the life of one merge request.
func (s *killStory) mergeRequest(n int) {
	s.t.Helper()
	branch := fmt.Sprint("note-", n)
	text := fmt.Sprintf("first-of-%d", n)
	s.must(s.Branch(branch, text, note(n, text)))
	number, err := s.Open(branch, "ada")
	s.must(err)
	for i := range s.random(3) {
		s.sleep(400)
		text = fmt.Sprintf("version-%d-of-%d", i, n)
		s.must(errors.Join(s.Change(branch, text, note(n, text)), s.Pushed(number)))
	}
	s.texts[number] = text
	s.command(number, n)
	if s.random(5) < 2 {
		s.sleep(600)
		s.must(s.CloseRequest(number))
		s.closed = append(s.closed, number)
		return
	}
	head := s.Head(number)
	s.must(stage.WaitFor(s.t.Context(), stage.Patience, fmt.Sprintf("the head %s of merge request %d is reviewed", head,
		number), func() bool { return s.Status(head, "sluice") == "success" }))
	tip, err := s.Merge(number)
	s.must(err)
	s.merged, s.trunk = append(s.merged, number), append(s.trunk, tip)
}

// command has somebody say something to the service.
func (s *killStory) command(number, n int) {
	s.t.Helper()
	text := []string{
		"", "/sluice status", "/sluice help", fmt.Sprintf("/sluice freeze prod-us-1 --reason note-%d", n),
		"/sluice unfreeze prod-us-1",
	}[s.random(5)]
	if text == "" {
		return
	}
	id, err := s.Comment(number, "mia", text)
	s.must(err)
	s.orders = append(s.orders, order{number, id, text})
}

// sleep waits a random time below most milliseconds, so that steps of people and of the service overlap.
func (s *killStory) sleep(most int) { time.Sleep(time.Duration(s.random(most)) * time.Millisecond) }

// TestServiceKilledAnywhere kills the service 200 times while merge requests are opened, pushed to, commented on,
// closed and merged: at random times and at random requests, some of its webhooks lost, doubled or late, its data
// folder deleted now and then. Afterwards branches, comments and records equal those of a run without kills: nothing is
// lost or done twice.
//
// SLUICE_KILL_SEED seeds the random choices, which are the same for each commit and others each night. SLUICE_KILLS
// sets the number of kills.
func TestServiceKilledAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	seed, kills := uint64(1), killCount(t)
	if n, err := strconv.ParseUint(os.Getenv("SLUICE_KILL_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("SLUICE_KILL_SEED=%d SLUICE_KILLS=%d", seed, kills)
	stories := uint64(4)
	if kills < 100 { // what a story costs besides its kills would take most of the time
		stories = 2
	}
	binary := build(t)
	var all sync.WaitGroup // all at the same time, whatever -parallel says: the stories mostly wait
	for i := range stories {
		kind := []string{"github", "gitlab"}[i%2]
		all.Go(func() {
			t.Run(fmt.Sprint(kind, "-", i/2), func(t *testing.T) {
				s := newKillStory(t, binary, kind, seed+i)
				s.play(kills / int(stories))
				s.checkAll()
			})
		})
	}
	all.Wait()
	if err := stage.WaitFor(t.Context(), stage.Patience, "no process is left",
		func() bool { return len(alive(binary)) == 0 }); err != nil {
		t.Errorf("the error is %v: alive is %v", err, alive(binary))
	}
}

// killCount returns SLUICE_KILLS, which make test-e2e sets.
func killCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SLUICE_KILLS")
	if text == "" {
		return 200
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 {
		t.Fatalf("SLUICE_KILLS=%q is no number of kills above 1", text)
	}
	return n
}

// alive lists the processes that run a binary: services, and render processes whose service is dead. It finds none on a
// system without /proc.
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

func (s *killStory) play(kills int) {
	s.t.Helper()
	s.begin()
	began := time.Now()
	killed := make(chan error, 1)
	var last *stage.Process
	go func() {
		err := s.killRepeatedly(kills)
		if err == nil { // the last service finishes the work
			last, err = s.Serve(s.t.Context(), stage.Serving{
				Binary: s.binary, Listen: s.address, Metrics: s.metrics,
				Log: s.log,
			})
		}
		killed <- err
	}()
	over := false
	for n := 1; !over || len(s.merged) < 2; n++ {
		s.mergeRequest(n)
		select {
		case err := <-killed:
			s.must(err)
			over = true
		default:
		}
	}
	s.t.Cleanup(func() { s.search.scrape(last, s.metrics); last.Kill() })
	s.t.Logf("%d kills %v in %.0f s; %d merge requests, %d merged, %d closed, %d commands", kills, s.kills,
		time.Since(began).Seconds(), len(s.texts), len(s.merged), len(s.closed), len(s.orders))
}

// begin waits until the service has hydrated the first commit. Only later commits of the trunk are compared.
func (s *killStory) begin() {
	s.t.Helper()
	first := s.serve(true)
	s.must(stage.WaitFor(s.t.Context(), stage.Patience, "dev and staging are there",
		func() bool { return s.Ref("env/dev") != "" && s.Ref("env/staging") != "" }))
	s.trunk = []string{s.Ref("main")}
	first.Kill()
}

// eventually waits for work of the last service. All calls share one deadline.
func (s *killStory) eventually(what string, is func() bool) {
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

func (s *killStory) checkAll() {
	s.t.Helper()
	began := time.Now()
	s.checkBranches()
	s.checkComments()
	s.checkOrders()
	s.checkRest()
	s.t.Logf("checked in %.0f s", time.Since(began).Seconds())
}

// sources lists the source commits of an environment branch's commits, oldest first.
func (s *killStory) sources(branch string) []string {
	return strings.Fields(s.GitOutput("log", "--reverse", "--first-parent",
		"--format=%(trailers:key=Sluice-Source,valueonly)", "refs/heads/"+branch))
}

// checkBranches compares the branches with those of a run without kills.
func (s *killStory) checkBranches() {
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
	want := s.reference()
	got := s.Refs()
	for name, hash := range want {
		if got[name] != hash {
			s.t.Errorf("%s is at %s, and reference at %s", name, got[name], hash)
		}
	}
	if len(want) < 6 {
		s.t.Errorf("the reference run has only %v", want)
	}
	for _, number := range slices.Concat(s.closed, s.merged) {
		preview := fmt.Sprintf("sluice/preview/%d", number)
		s.eventually(preview+" is gone", func() bool { return s.Ref(preview) == "" })
	}
	if out, err := exec.CommandContext(s.t.Context(), "git", "-C", s.Bare(), "fsck",
		"--strict").CombinedOutput(); err != nil {
		s.t.Errorf("the repository is not whole: %v\n%s", err, out)
	}
}

// reference hydrates each commit of the trunk with `sluice hydrate`, in order, and returns the branches of dev and
// staging.
func (s *killStory) reference() map[string]string {
	s.t.Helper()
	box := &sandbox{t: s.t, dir: s.t.TempDir(), binary: s.binary}
	box.run(box.dir, "git", "clone", "-q", "--no-local", "-b", "main", s.Bare(), "src")
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

// checkComments checks that each merge request has one review, of its last head.
func (s *killStory) checkComments() {
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
		if slices.Contains(s.closed, number) { // perhaps before the service reviewed it
			if all := reviews(number); len(all) > 1 {
				s.t.Errorf("%d reviews of merge request %d", len(all), number)
			}
			continue
		}
		all := reviews(number)
		if len(all) != 1 || !strings.Contains(all[0], "+  text: "+text) {
			s.t.Errorf("%d reviews of merge request %d, and the change is %s:\n%s", len(all), number, text,
				strings.Join(all, "\n====\n"))
			continue
		}
		s.eventually(fmt.Sprintf("the rollout of merge request %d is reported", number), func() bool {
			all := reviews(number)
			return len(all) == 1 && strings.Contains(all[0], "<!-- sluice-rollout -->") &&
				regexp.MustCompile("(?m)^\\| `dev` .*runs").MatchString(all[0])
		})
	}
}

// checkOrders checks that each command has one outcome and one effect.
func (s *killStory) checkOrders() {
	s.t.Helper()
	for _, o := range s.orders {
		row := fmt.Sprintf("| `%s` | `mia` |", o.text)
		count := func() int { return strings.Count(strings.Join(s.Comments(o.number), "\n"), row) }
		s.eventually(fmt.Sprintf("%q on merge request %d has an outcome", o.text, o.number),
			func() bool { return count() > 0 })
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
		n := len(regexp.MustCompile(fmt.Sprintf(`(?m)^ *- "?f:acme/fleet/%d/%d/0"?$`, o.number,
			o.id)).FindAllString(record, -1))
		freeze, unfreeze := strings.HasPrefix(o.text, "/sluice freeze"), strings.HasPrefix(o.text, "/sluice unfreeze")
		// a freeze whose webhook was lost is refused once a later one of the cluster is recorded
		refused := regexp.MustCompile(regexp.QuoteMeta(fmt.Sprintf("| `%s` | `mia` |", o.text)) +
			`[^\n]*came after this was said`)
		overtaken := n == 0 && refused.MatchString(strings.Join(s.Comments(o.number), "\n")) && s.freezesAfter(record, o)
		// unfreezing a cluster that is not frozen records nothing
		if freeze && n != 1 && !overtaken || unfreeze && n > 1 {
			s.t.Errorf("%q on merge request %d is %d times in the record\n%s", o.text, o.number, n, record)
		}
	}
}

// freezesAfter reports whether a record has a freeze whose comment is later than an order's.
func (s *killStory) freezesAfter(record string, o order) bool {
	return slices.ContainsFunc(s.orders, func(other order) bool {
		return other.id > o.id && strings.HasPrefix(other.text, "/sluice freeze") &&
			strings.Contains(record, fmt.Sprintf("f:acme/fleet/%d/%d/0", other.number, other.id))
	})
}

// checkRest checks that the queue is empty and no hint is parked.
func (s *killStory) checkRest() {
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
