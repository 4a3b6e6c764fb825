package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

// fault stands in front of a server.
type fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// faultStory is a story during which Git, the forge, a disk or another replica fails.
type faultStory struct {
	*killStory
	git, forge atomic.Pointer[fault] // in front of the servers; nil: nothing
}

// TestServiceInTrouble makes Git, forges, disks and other replicas fail, and people push in between. Each story has the
// same result as without the failure.
func TestServiceInTrouble(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	binary := build(t)
	var all sync.WaitGroup
	const together = 6 // whatever -parallel says: the stories mostly wait
	places := make(chan struct{}, together)
	troubles := map[string]func(*faultStory){
		"Git is slow": gitIsSlow, "Git is down": gitIsDown, "Git hangs up after a push": gitHangsUp,
		"somebody else pushes first": pushRace,
		"the forge answers 429":      forgeLimits, "the forge answers 500": forgeFails,
		"the forge answers garbage": forgeSendsGarbage, "the forge answers late": forgeIsLate,
		"deliveries in another order": reordered, "the disk is full": diskIsFull, "a replica is lost": replicaIsLost,
	}
	for i, name := range slices.Sorted(maps.Keys(troubles)) {
		kinds := []string{"github", "gitlab"}
		if os.Getenv("SLUICE_TROUBLES") != "all" { // each trouble on one forge, both forges in turn
			kinds = kinds[i%2 : i%2+1]
		}
		for _, kind := range kinds {
			all.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				t.Run(name+"/"+kind, func(t *testing.T) { troubles[name](newFaultStory(t, binary, kind)) })
			})
		}
	}
	all.Wait()
}

func newFaultStory(t *testing.T, binary, kind string) *faultStory {
	t.Helper()
	m := &faultStory{killStory: &killStory{t: t, dir: t.TempDir(), binary: binary, texts: map[int]string{}}}
	var err error
	m.log, err = os.Create(filepath.Join(m.dir, "log"))
	m.must(err)
	t.Cleanup(m.tail)
	m.Stage, err = stage.New(t.Context(), stage.Options{
		Kind: kind, Dir: m.dir, Fleet: "../../testdata/fleet", Git: wrapped(&m.git), Forge: wrapped(&m.forge),
		Sent: m.again,
		Edit: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte(following), 0o600)
		},
	})
	m.must(err)
	t.Cleanup(m.Close)
	m.search = searchCanaries(t, binary)
	m.search.stage(m.Stage, m.dir)
	return m
}

// again delivers a webhook again that the service could not store within its 0.9 s, as on a busy machine: these stories
// lose webhooks only on purpose.
func (m *faultStory) again(d stage.Delivery, status int) {
	if status == http.StatusServiceUnavailable {
		_ = m.accepted(d) // at its end, the stage gives up, and whoever waits for the effect reports it
	}
}

// accepted delivers a webhook until the service takes or refuses it.
func (m *faultStory) accepted(d stage.Delivery) (status int) {
	err := stage.WaitFor(m.t.Context(), stage.Patience, "an answer to a webhook", func() bool {
		status = m.Deliver(d)
		return status != 0 && status != http.StatusServiceUnavailable
	})
	if err != nil {
		return http.StatusServiceUnavailable
	}
	return status
}

func wrapped(p *atomic.Pointer[fault]) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f := p.Load(); f != nil {
				(*f)(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// up starts a service and waits until the trunk is hydrated.
func (m *faultStory) up(v stage.Serving) *stage.Process {
	m.t.Helper()
	p := m.one(v)
	m.SendTo(p.Address)
	m.wait("the trunk is hydrated", func() bool { return m.Ref("env/dev") != "" && m.Ref("env/staging") != "" })
	return p
}

func (m *faultStory) one(v stage.Serving) *stage.Process {
	m.t.Helper()
	v.Binary, v.Log = m.binary, m.log
	var err error
	if v.Metrics == "" {
		v.Metrics, err = stage.FreeAddress(m.t.Context())
		m.must(err)
	}
	p, err := m.Serve(m.t.Context(), v)
	m.must(err)
	m.t.Cleanup(func() { m.search.scrape(p, v.Metrics); p.Kill() })
	m.must(p.Ready(m.t.Context(), stage.Patience))
	return p
}

func (m *faultStory) wait(what string, is func() bool) {
	m.t.Helper()
	m.must(stage.WaitFor(m.t.Context(), stage.Patience, what, is))
}

// opened opens a merge request with a note.
func (m *faultStory) opened(n int, text string) int {
	m.t.Helper()
	branch := fmt.Sprint("note-", n)
	m.must(m.Branch(branch, text, note(n, text)))
	number, err := m.Open(branch, "ada")
	m.must(err)
	return number
}

// reviewed waits until a merge request has its one comment, a green status and a preview.
func (m *faultStory) reviewed(number int, text string) {
	m.t.Helper()
	m.wait(fmt.Sprintf("merge request %d is reviewed once", number), func() bool {
		all := m.Comments(number)
		return len(all) == 1 && strings.Contains(all[0], "+  text: "+text) &&
			m.Status(m.Head(number), "sluice") == "success" && m.Ref(fmt.Sprint("sluice/preview/", number)) != ""
	})
}

// landed merges a merge request, and waits until dev and staging run it.
func (m *faultStory) landed(number int) {
	m.t.Helper()
	tip, err := m.Merge(number)
	m.must(err)
	for _, e := range []string{"dev", "staging"} {
		m.wait(e+" runs it, and says so", func() bool {
			all := m.sources("env/" + e)
			return slices.Contains(all, tip) && m.Status(tip, "sluice/"+e) == "success"
		})
		if all := m.sources("env/" + e); len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
			m.t.Errorf("%s has commits of %v", e, all)
		}
	}
}

// story takes one merge request from its opening to its rollout, and checks that it has one comment and that no commit
// is hydrated twice.
func (m *faultStory) story(n int) {
	m.t.Helper()
	text := fmt.Sprint("story-", n)
	number := m.opened(n, text)
	m.reviewed(number, text)
	m.landed(number)
	m.wait("the rollout is in the one comment", func() bool {
		all := m.Comments(number)
		return len(all) == 1 && strings.Contains(all[0], "| `dev` |")
	})
	m.wait("the preview is gone", func() bool { return m.Ref(fmt.Sprint("sluice/preview/", number)) == "" })
}

func gitIsSlow(m *faultStory) {
	m.t.Helper()
	m.git.Store(new(fault(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		time.Sleep(700 * time.Millisecond)
		next.ServeHTTP(w, r)
	})))
	m.up(stage.Serving{})
	m.story(1)
}

func gitIsDown(m *faultStory) {
	m.t.Helper()
	m.up(stage.Serving{})
	var refused atomic.Int32
	m.git.Store(new(fault(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		refused.Add(1)
		http.Error(w, "gone fishing", http.StatusBadGateway)
	})))
	number := m.opened(1, "down")
	m.wait("Git was asked", func() bool { return refused.Load() > 3 })
	if all := m.Comments(number); len(all) > 0 {
		m.t.Errorf("something was said without Git: %s", all)
	}
	m.git.Store(nil)
	m.reviewed(number, "down")
	m.git.Store(new(fault(func(http.ResponseWriter, *http.Request, http.Handler) {
		refused.Add(1)
		panic(http.ErrAbortHandler)
	})))
	was := refused.Load()
	tip, err := m.Merge(number)
	m.must(err)
	m.wait("Git was asked again", func() bool { return refused.Load() > was+2 })
	m.git.Store(nil)
	m.wait("dev runs it", func() bool { return slices.Contains(m.sources("env/dev"), tip) })
}

// gitHangsUp applies the first pushes and closes the connection before the answer.
func gitHangsUp(m *faultStory) {
	m.t.Helper()
	m.up(stage.Serving{})
	var cut atomic.Int32
	m.git.Store(new(fault(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/git-receive-pack") || cut.Add(1)%2 == 0 {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the documented way to cut a connection
	})))
	m.story(1)
	m.story(2)
	if cut.Load() < 3 {
		m.t.Errorf("only %d pushes", cut.Load())
	}
}

// pushRace pushes to env/dev after the service has read the branch and before it pushes. The foreign commit stays.
func pushRace(m *faultStory) {
	m.t.Helper()
	m.up(stage.Serving{})
	number := m.opened(1, "late")
	m.reviewed(number, "late")
	var once sync.Once
	theirs := ""
	done := make(chan struct{})
	m.git.Store(new(fault(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		if r.Method == http.MethodPost && bytes.Contains(body.Bytes(), []byte("refs/heads/env/dev")) {
			once.Do(func() {
				old := m.Ref("env/dev")
				theirs = m.GitOutput("-c", "user.name=mia", "-c", "user.email=mia@example.com", "commit-tree", "-p",
					old, "-m", "mine", m.GitOutput("rev-parse", "refs/heads/main^{tree}"))
				m.GitOutput("update-ref", "refs/heads/env/dev", theirs, old)
				close(done)
			})
		}
		r.Body, r.ContentLength = http.NoBody, int64(body.Len())
		r.Body = readCloser{&body}
		next.ServeHTTP(w, r)
	})))
	tip, err := m.Merge(number)
	m.must(err)
	m.wait("the human pushed", func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	m.wait("the refusal is reported", func() bool { return m.Status(tip, "sluice/dev") == "failure" })
	m.wait("staging runs it", func() bool { return slices.Contains(m.sources("env/staging"), tip) })
	if got := m.Ref("env/dev"); theirs == "" || got != theirs {
		m.t.Errorf("env/dev is at %s, and the human's commit is %s", got, theirs)
	}
}

type readCloser struct{ *bytes.Buffer }

// Close implements io.Closer.
func (readCloser) Close() error { return nil }

// sometimes returns a fault that fails one of three requests, until a number of them have failed.
func sometimes(times int32, fail func(w http.ResponseWriter, r *http.Request)) (*fault, *atomic.Int32) {
	var count, failed atomic.Int32
	return new(fault(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if count.Add(1)%3 == 0 && failed.Load() < times {
			failed.Add(1)
			fail(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})), &failed
}

func (m *faultStory) forgeFailing(times int32, fail func(w http.ResponseWriter, r *http.Request)) {
	m.t.Helper()
	m.up(stage.Serving{})
	f, failed := sometimes(times, fail)
	m.forge.Store(f)
	m.story(1)
	if n := failed.Load(); n < times/2 {
		m.t.Errorf("only %d requests failed", n)
	}
}

func forgeLimits(m *faultStory) {
	m.t.Helper()
	m.forgeFailing(6, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"message":"slow down"}`)) // the client has gone
	})
}

func forgeFails(m *faultStory) {
	m.t.Helper()
	m.forgeFailing(10, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "oops",
			http.StatusInternalServerError)
	})
}

// forgeSendsGarbage answers with the HTML page of a proxy and status 200, with half of an answer, and with bytes that
// are not HTTP.
func forgeSendsGarbage(m *faultStory) {
	m.t.Helper()
	var n atomic.Int32
	m.forgeFailing(9, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) % 3 {
		case 0:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html><body>Please log in</body></html>")) // the client has gone
		case 1:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "5000")
			_, _ = w.Write([]byte(`{"id": 12, "body": "`)) // the client has gone
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("\x00\xff{{{{")) // the client has gone
		}
	})
}

// forgeIsLate stores the comment and answers after half a minute.
func forgeIsLate(m *faultStory) {
	m.t.Helper()
	m.up(stage.Serving{})
	const late = 31 * time.Second
	var slow atomic.Int32
	m.forge.Store(new(fault(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/comments") &&
			!strings.HasSuffix(r.URL.Path, "/notes") || slow.Add(1) > 1 {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		select {
		case <-time.After(late):
		case <-r.Context().Done(): // the client has given up
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the client has gone
	})))
	m.story(1)
	if slow.Load() == 0 {
		m.t.Error("nothing was late")
	}
}

// reordered makes all changes before the service listens, and then delivers the webhooks, newest first and each twice.
// Sweeps are off.
func reordered(m *faultStory) {
	m.t.Helper()
	m.up(stage.Serving{Sweep: "10m"})
	first := m.opened(1, "early")
	m.reviewed(first, "early")
	var held []stage.Delivery
	var mu sync.Mutex
	m.Delay(func(d stage.Delivery) []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, d)
		return nil
	})
	second := m.opened(2, "two")
	m.must(errors.Join(m.Change("note-2", "more", note(2, "three")), m.Pushed(second)))
	_, err := m.Comment(second, "mia", "/sluice help")
	m.must(err)
	m.must(m.CloseRequest(first))
	third := m.opened(3, "four")
	tip, err := m.Merge(third)
	m.must(err)
	m.Delay(func(stage.Delivery) []time.Duration { return []time.Duration{0} })
	mu.Lock()
	all := slices.Clone(held)
	mu.Unlock()
	for range 2 {
		for _, d := range slices.Backward(all) {
			if code := m.accepted(d); code < 200 || code > 299 {
				m.t.Errorf("%s is answered with %d", d.Event, code)
			}
		}
	}
	m.wait("dev runs what was merged", func() bool { return slices.Contains(m.sources("env/dev"), tip) })
	m.wait("the preview of what was closed is gone", func() bool {
		return m.Ref(fmt.Sprint("sluice/preview/",
			first)) == ""
	})
	m.wait("the newest state is reviewed, and help is given once", func() bool {
		all := m.Comments(second)
		return len(all) == 2 && strings.Contains(strings.Join(all, ""), "+  text: three") &&
			strings.Contains(strings.Join(all, ""), "| `/sluice help` | `mia` |") &&
			m.Status(m.Head(second), "sluice") == "success"
	})
}

// diskIsFull forbids the process to make files larger, as a full disk does (prlimit --fsize: writes fail with EFBIG,
// not ENOSPC). The service then answers webhooks with 503. Its NATS server cannot recover from that, so the process
// ends, and its supervisor starts it again. When there is room, the forge delivers the refused webhooks again, and the
// service does all of the work.
func diskIsFull(m *faultStory) {
	m.t.Helper()
	if _, err := exec.LookPath("prlimit"); err != nil {
		m.t.Skip("there is no prlimit here, which takes a running process its disk")
	}
	p := m.up(stage.Serving{Sweep: "10m"})
	number := m.opened(1, "before")
	m.reviewed(number, "before")
	var held []stage.Delivery
	var mu sync.Mutex
	m.Delay(func(d stage.Delivery) []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, d)
		return nil
	})
	out, err := exec.CommandContext(m.t.Context(), "prlimit", "--pid", strconv.Itoa(p.PID()),
		"--fsize=1").CombinedOutput()
	if err != nil {
		m.t.Fatalf("prlimit: %v\n%s", err, out)
	}
	m.must(errors.Join(m.Change("note-1", "more", note(1, "during")), m.Pushed(number)))
	_, err = m.Comment(number, "mia", "/sluice help")
	m.must(err)
	mu.Lock()
	list := slices.Clone(held)
	mu.Unlock()
	refused := 0
	m.wait("the process ends", func() bool {
		for _, d := range list {
			switch code := m.Deliver(d); code {
			case http.StatusServiceUnavailable:
				refused++
			case 0: // it is ending
			default:
				m.t.Errorf("%s is answered with %d on a full disk", d.Event, code)
			}
		}
		return p.Ended()
	})
	if p.Err() == nil {
		m.t.Error("it ended with status 0: nobody would start it again")
	}
	if refused < len(list) || len(list) < 2 {
		m.t.Errorf("%d answers of 503 to %d webhooks", refused, len(list))
	}
	m.Delay(func(stage.Delivery) []time.Duration { return []time.Duration{0} })
	m.SendTo(m.one(stage.Serving{Sweep: "10m"}).Address)
	for _, d := range list {
		if code := m.accepted(d); code < 200 || code > 299 {
			m.t.Errorf("%s is answered with %d when there is room", d.Event, code)
		}
	}
	m.wait("all of it is done", func() bool {
		all := m.Comments(number)
		return len(all) == 2 && stage.ContainsAll(strings.Join(all, "\n"), "+  text: during",
			"| `/sluice help` | `mia` |")
	})
	m.landed(number)
}

// replicaIsLost: two replicas share a NATS server. One is killed in the middle of its work, and the other goes on.
func replicaIsLost(m *faultStory) {
	m.t.Helper()
	nats, err := server.NewServer(&server.Options{
		ServerName: "one", Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: filepath.Join(m.dir, "nats"), SyncAlways: true,
	})
	m.must(err)
	nats.Start()
	m.t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	if !nats.ReadyForConnections(stage.Patience) {
		m.t.Fatal("NATS does not start")
	}
	extra := fmt.Sprintf("queue: {url: %q, replicas: 1}\n", nats.ClientURL())
	var victim *stage.Process
	killed := make(chan struct{})
	door := trap{}
	api := httptest.NewServer(door.wrap(m.API()))
	m.t.Cleanup(api.Close)
	victim = m.up(stage.Serving{Name: "first", Extra: extra, API: api.URL})
	other := m.one(stage.Serving{Name: "second", Extra: extra})
	door.set(15, trapAfter, func() { victim.Kill(); close(killed) })
	var numbers []int
	for n := 1; ; n++ { // until the first of them has something to do
		text := fmt.Sprint("text-", n)
		number := m.opened(n, text)
		numbers = append(numbers, number)
		m.texts[number] = text
		err := stage.WaitFor(m.t.Context(), 3*time.Second, "a replica is killed", func() bool { return victim.Ended() })
		if err == nil {
			break
		}
		if n > 20 {
			m.t.Fatal("the first replica has nothing to do")
		}
	}
	<-killed
	m.SendTo(other.Address)
	numbers = append(numbers, m.opened(100, "afterwards"))
	m.texts[numbers[len(numbers)-1]] = "afterwards"
	for _, number := range numbers {
		m.reviewed(number, m.texts[number])
	}
	m.landed(numbers[0])
}
