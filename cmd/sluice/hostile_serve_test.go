package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

// hostileService is a service with two repositories: one whose merge requests are hostile, and one on the other forge
// whose merge requests are good.
type hostileService struct {
	*faultStory
	other   *faultStory
	kind    string
	traps   *traps
	service *stage.Process
	lock    sync.Mutex // of traces
	traces  bytes.Buffer
	freezes int
	usual   map[string]time.Duration // times of good work without an attack
	good    int
}

// TestHostileService runs the hostile tables against a service with a GitHub and against one with a GitLab. While
// hostile merge requests are reviewed, good ones of the same and of another repository are, and environments are
// frozen.
func TestHostileService(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it measures processes as Linux does")
	}
	t.Parallel()
	binary := build(t)
	for i, kind := range []string{"github", "gitlab"} {
		if testing.Short() && i > 0 {
			continue // make test-e2e runs it
		}
		t.Run(kind, func(t *testing.T) {
			s := newHostileService(t, binary, kind)
			s.changes()
			s.talks()
			s.webhooks()
			s.leaves()
		})
	}
	noneLeft(t, binary)
}

func newHostileService(t *testing.T, binary, kind string) *hostileService {
	t.Helper()
	others := map[string]string{"github": "gitlab", "gitlab": "github"}
	s := &hostileService{
		faultStory: newFaultStory(t, binary, kind), kind: kind, traps: newTraps(t),
		usual: map[string]time.Duration{},
	}
	s.other = &faultStory{killStory: &killStory{
		t: t, dir: t.TempDir(), binary: binary, texts: map[int]string{},
		log: s.log,
	}}
	var err error
	s.other.Stage, err = stage.New(t.Context(), stage.Options{
		Kind: others[kind], Name: "other", Dir: s.other.dir, Fleet: "../../testdata/fleet",
		Edit: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte(following), 0o600)
		},
	})
	s.must(err)
	t.Cleanup(s.other.Close)
	s.search.stage(s.other.Stage, s.other.dir, s.traps.secret)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			in = z
		}
		s.lock.Lock()
		defer s.lock.Unlock()
		_, _ = io.Copy(&s.traces, in) // what was sent before the connection broke counts
	}))
	t.Cleanup(collector.Close)
	s.metrics, err = stage.FreeAddress(t.Context())
	s.must(err)
	s.service = s.one(stage.Serving{
		Metrics: s.metrics, Sweep: "30s",
		Extra: fmt.Sprintf("tracing: %s\n", collector.URL), With: []*stage.Stage{s.other.Stage},
	})
	s.SendTo(s.service.Address)
	s.other.SendTo(s.service.Address)
	for _, m := range []*faultStory{s.faultStory, s.other} {
		m.wait("the trunk is hydrated", func() bool { return m.Ref("env/dev") != "" && m.Ref("env/staging") != "" })
	}
	s.measureGood(time.Minute)
	return s
}

// measureGood has the service review a good merge request of the attacked repository and one of another, and freeze an
// environment. It compares the times with those without an attack. same bounds the review in the attacked repository:
// one hostile merge request does not delay it, and many do, because two of a repository are reviewed at once.
func (s *hostileService) measureGood(same time.Duration) {
	s.t.Helper()
	s.good++
	var all sync.WaitGroup
	took := map[string]time.Duration{}
	var lock sync.Mutex
	measure := func(what string, do func()) {
		began := time.Now()
		do()
		lock.Lock()
		defer lock.Unlock()
		took[what] = time.Since(began)
	}
	text := fmt.Sprintf("good-%d", s.good)
	for what, m := range map[string]*faultStory{"review": s.faultStory, "review of another repository": s.other} {
		number := m.opened(1000+s.good, text)
		all.Go(func() {
			measure(what, func() {
				s.must(stage.WaitFor(s.t.Context(), 10*time.Minute, "a good merge request is reviewed",
					func() bool { return m.Status(m.Head(number), "sluice") == "success" }))
				m.reviewed(number, text)
			})
		})
	}
	s.freezes++
	verb := []string{"unfreeze", "freeze"}[s.freezes%2]
	number := 1
	if s.freezes == 1 { // the first merge request of the stage
		number = s.opened(999, "place-to-talk")
	}
	all.Go(func() {
		measure(verb, func() {
			before := s.Ref("sluice/state")
			_, err := s.Comment(number, "mia", fmt.Sprintf("/sluice %s prod-us-1%s", verb,
				map[string]string{"freeze": " --reason hostileService"}[verb]))
			s.must(err)
			s.wait("the record changes", func() bool { return s.Ref("sluice/state") != before })
		})
	})
	all.Wait()
	if s.usual["freeze"] == 0 {
		s.usual = took
		s.t.Logf("without an attack: %v", took)
		return
	}
	s.t.Logf("under attack: %v", took)
	// An unfreeze, which takes its turn as a promotion does, may wait for a sweep: it stops nothing.
	for what, bound := range map[string]time.Duration{
		"freeze": 2 * time.Second, "unfreeze": time.Minute,
		"review": same, "review of another repository": time.Minute,
	} {
		if !strict() {
			bound = max(bound, 10*time.Minute)
		}
		if most := max(bound, 4*s.usual[what]); took[what] > most {
			s.t.Errorf("under attack, %s takes %s; %s without", what, took[what], s.usual[what])
		}
	}
}

// strict reports whether nothing else runs on this machine, as in the nightly workflow: the times of good reviews and
// of freezes are measured beside each single case then, and count.
func strict() bool { return os.Getenv("SLUICE_HOSTILE_STRICT") != "" }

// hang opens a merge request whose chart never ends, and returns its number.
func (s *hostileService) hang(m *faultStory, branch string) int {
	s.t.Helper()
	s.must(m.Branch(branch, branch, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "charts/web/templates/hang.yaml"),
			[]byte(`{{ range until 100000 }}{{ range until 100000 }}{{ $c := sha256sum "x" }}{{ end }}{{ end }}{{/* `+branch+` */}}`), 0o600)
	}))
	number, err := m.Open(branch, "ada")
	s.must(err)
	return number
}

// busy waits until workers have used some processor time more than before.
func (s *hostileService) busy(before time.Duration) {
	s.t.Helper()
	s.wait("workers are busy", func() bool { return s.used() > before+3*time.Second })
}

// whileAllHang opens more merge requests that hang than the service reviews at once, in the attacked repository and in
// the other one. Both environments must be frozen, and both trunks hydrated, before one of them ends. They take three
// minutes, so a slow machine does no harm.
func (s *hostileService) whileAllHang() {
	s.t.Helper()
	both := map[string]*faultStory{"the attacked repository": s.faultStory, "the other repository": s.other}
	talk, good, hanging := map[string]int{}, map[string]int{}, map[string][]int{}
	for name, m := range both {
		talk[name], good[name] = m.opened(1999, "talk"), m.opened(2000, "trunk")
		m.reviewed(good[name], "trunk")
	}
	before := s.used()
	for i := range 3 {
		for name, m := range both {
			hanging[name] = append(hanging[name], s.hang(m, fmt.Sprint("all-hang-", i)))
		}
	}
	s.busy(before)
	var all sync.WaitGroup
	var lock sync.Mutex
	took := map[string]time.Duration{}
	measure := func(what string, do func()) {
		began := time.Now()
		do()
		lock.Lock()
		defer lock.Unlock()
		took[what] = time.Since(began).Round(time.Millisecond)
	}
	frozen := func(m *faultStory) bool {
		return m.Ref("sluice/state") != "" && m.GitOutput("grep", "-F", "whileAllHang", "sluice/state") != ""
	}
	for name, m := range both {
		all.Go(func() {
			measure("freeze of "+name, func() {
				_, err := m.Comment(talk[name], "mia", "/sluice freeze prod --reason whileAllHang")
				s.must(err)
				m.wait("prod is frozen", func() bool { return frozen(m) })
			})
			measure("hydration of "+name, func() { m.landed(good[name]) })
		})
	}
	all.Wait()
	s.t.Logf("while 3 reviews of each repository hang: %v", took)
	for name, m := range both {
		ended := slices.DeleteFunc(slices.Clone(hanging[name]), func(n int) bool {
			return slices.Contains([]string{
				"",
				"pending",
			}, m.Status(m.Head(n), "sluice"))
		})
		if len(ended) > 0 {
			s.t.Errorf("the reviews of %v in %s ended: nothing was measured", ended, name)
		}
		for _, n := range hanging[name] {
			s.must(m.CloseRequest(n))
		}
		record := m.Ref("sluice/state")
		_, err := m.Comment(talk[name], "mia", "/sluice unfreeze prod")
		s.must(err)
		m.wait("the freeze ends", func() bool { return m.Ref("sluice/state") != record })
	}
	for what, t := range took {
		if strict() && t > 2*time.Second {
			s.t.Errorf("while reviews hang, the %s takes %s", what, t)
		}
	}
}

// used is the processor time of all workers.
func (s *hostileService) used() time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go has
	ticks := 0
	for _, pid := range alive(s.binary) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid))
		if err != nil || pid == strconv.Itoa(s.service.PID()) {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		if fields := strings.Fields(rest); len(fields) > 12 {
			user, userErr := strconv.Atoi(fields[11])
			system, systemErr := strconv.Atoi(fields[12])
			s.must(errors.Join(userErr, systemErr))
			ticks += user + system
		}
	}
	return time.Duration(ticks) * tick
}

// changes opens each change as a merge request: in groups, or one by one where times count.
func (s *hostileService) changes() {
	s.t.Helper()
	type opened struct {
		hostileChange
		number int
		head   string
	}
	var group []opened
	size, same := 12, 10*time.Minute
	if strict() {
		size, same = 1, time.Minute
	}
	flush := func() {
		if len(group) == 0 {
			return
		}
		s.measureGood(same)
		for i := range group {
			c := &group[i]
			s.t.Run(c.Name, func(t *testing.T) {
				state := ""
				// Workers of merge requests have the lowest priority, and some cases take 16 s of a processor: a busy
				// machine takes long.
				err := stage.WaitFor(t.Context(), 3*stage.Patience, "it is reviewed", func() bool {
					state = s.Status(c.head, "sluice")
					return state != "" && state != "pending"
				})
				seen := strings.Join(s.Comments(c.number), "\n")
				if err != nil {
					s.showLog(t)
					t.Fatalf("%v; state %q\n%s", err, state, seen)
				}
				c.judge(t, s.traps, state != "success", seen)
				if t.Failed() {
					s.showLog(t)
				}
			})
			s.must(s.CloseRequest(c.number))
		}
		group = nil
		if peak := s.peak(); peak > 1500<<20 {
			s.t.Errorf("the service takes %d MiB", peak>>20)
		}
	}
	if !testing.Short() {
		s.whileAllHang()
	}
	before := s.used()
	hanging := s.hang(s.faultStory, "hang")
	s.busy(before)
	s.measureGood(time.Minute)
	s.must(s.CloseRequest(hanging)) // which ends its review
	all := hostileChanges(s.t)
	for i := range all {
		c := &all[i]
		// What a worker does with a change is the same on both forges, and the command line runs the odd ones.
		every := map[string]int{"github": 2, "gitlab": 8}[s.kind]
		if c.Only == "cli" || c.Run != "" || os.Getenv("SLUICE_HOSTILE") == "" && i%every != 0 || !chosen(i, c.Name) {
			continue
		}
		name := fmt.Sprintf("hostile-%d", i)
		s.must(errors.Join(s.Git(s.Work(), "fetch", "-q", "origin"),
			s.Git(s.Work(), "checkout", "-q", "-f", "-B", name, "origin/main"), s.Git(s.Work(), "clean", "-qffdx")))
		s.must(c.apply(s.t, s.traps, s.Work()))
		if err := s.Git(s.Work(), "push", "-q", "origin", "HEAD:"+name); err != nil && c.Commit != "" {
			s.t.Logf("%s: the Git server refuses the push: %v", c.Name, err)
			continue
		} else if err != nil {
			s.t.Fatal(err)
		}
		s.must(errors.Join(s.Git(s.Work(), "checkout", "-q", "-f", "--detach", "origin/main"),
			s.Git(s.Work(), "clean", "-qffdx")))
		number, err := s.Open(name, "ada")
		s.must(err)
		group = append(group, opened{*c, number, s.Head(number)})
		if len(group) == size {
			flush()
		}
	}
	flush()
}

// showLog shows the lines of the service's log that are no webhooks.
func (s *hostileService) showLog(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(s.log.Name())
	s.must(err)
	lines := slices.DeleteFunc(strings.Split(string(data), "\n"),
		func(l string) bool { return strings.Contains(l, "msg=webhook") })
	t.Log(strings.Join(lines[max(0, len(lines)-80):], "\n"))
}

// peak returns the largest memory of the service's process so far.
func (s *hostileService) peak() int64 {
	s.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.service.PID()))
	s.must(err)
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(data)
	if m == nil {
		s.t.Fatal("the kernel does not tell how much memory a process uses")
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	s.must(err)
	return n << 10
}

// leaves searches the credentials in the metrics and traces of the service, which it ends. The search of the story
// covers the rest.
func (s *hostileService) leaves() {
	s.t.Helper()
	s.search.scrape(s.service, s.metrics)
	s.must(s.service.Stop(stage.Patience))
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.traces.Len() == 0 {
		s.t.Error("no trace arrived")
	}
	s.search.look("traces", s.traces.Bytes())
}
