package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bomb opens a merge request whose chart renders for a very long time.
func (s *story) bomb(branch string) int {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", branch, "origin/main")
	templates, err := filepath.Glob(filepath.Join(work, "charts", "*", "templates"))
	if err != nil || len(templates) == 0 {
		s.t.Fatalf("templates: %v, %v", templates, err)
	}
	loop := "{{- range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"
	for _, dir := range templates {
		if err := os.WriteFile(filepath.Join(dir, "bomb.yaml"), []byte(loop+"{{/* "+branch+" */}}"),
			0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.commit("bomb")
	s.push(branch)
	return s.open(branch, "ada")
}

// Reviews of merge requests hang in all workers, and questions about them wait. Commands on environments still run,
// and the trunk is hydrated, before the first review ends. `go test -v` shows the times; a command should take at
// most 2 s.
func TestHostileReviewsDelayNothing(t *testing.T) {
	s := newStory(t, "github")
	s.setFleet("main", chats())
	s.reload("drain: 5s", "drain: 5s\nworkers: 2\njobs: 2")
	s.start()
	s.until("staging is hydrated", func() bool { return s.ref("env/staging") != "" })
	good := s.greet("step")
	s.says(good, "step")
	first := s.ref("env/staging")
	s.merge(good)
	s.until("staging runs it", func() bool { return s.ref("env/staging") != first })
	var hostile []int
	for i := range 3 {
		hostile = append(hostile, s.bomb(fmt.Sprint("bomb-", i)))
	}
	s.until("a hostile review runs", func() bool { return s.metric("sluice_queue_in_flight", "") >= 1 })
	for _, n := range hostile {
		s.say(n, "mia", "/sluice diff")
		s.say(n, "mia", "/sluice explain shop prod-us-1")
	}
	took := map[string]time.Duration{}
	measure := func(name string, do func(), is func() bool) {
		t.Helper()
		began := time.Now()
		do()
		s.until(name, is)
		took[name] = time.Since(began).Round(time.Millisecond)
	}
	command := func(name, text, outcome string) {
		t.Helper()
		measure(name, func() { s.say(hostile[0], "mia", text) },
			func() bool { return strings.Contains(s.all(hostile[0]), outcome) })
	}
	command("freeze", "/sluice freeze prod --reason fire", "--reason fire")
	command("unfreeze", "/sluice unfreeze prod", "/sluice unfreeze prod")
	command("halt", "/sluice halt staging --reason smoke", "--reason smoke")
	command("rollback", "/sluice rollback staging --reason ashes", "--reason ashes")
	before := s.ref("env/dev")
	s.branch("next", "CHF")
	measure("trunk", func() { s.push("main") }, func() bool { return s.ref("env/dev") != before })
	ended := slices.DeleteFunc(hostile, func(n int) bool {
		return s.status(s.head(n), "sluice") == "" &&
			len(s.comments(n)) <= 1
	})
	if len(ended) > 0 {
		t.Errorf("the reviews of the merge requests %v ended: nothing was measured", ended)
	}
	t.Logf("beside 3 hostile reviews and 6 questions: %v", took)
}

// A person with write access freezes an environment while the hydration of its repository waits for a chart, and while
// strangers fill the partition of commands. The hydration is interrupted and begins again, and only for people with the
// right.
func TestStopsInterruptHydrations(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		let := make(chan struct{})
		address, heard := s.chartServer(let)
		defer close(let)
		n := s.gatedStep()
		s.grantRead("zoe")
		s.useChartOf("main", address)
		s.until("the hydration waits", func() bool { return heard() != "" })
		asked := func() int { return strings.Count(heard(), "GET") }
		s.say(n, "zoe", "/sluice freeze prod --reason mine")
		for range 3 {
			s.say(n, "zoe", "/sluice help")
		}
		time.Sleep(time.Second) // for an interruption that must not come
		if got := asked(); got != 1 {
			t.Errorf("somebody without the right interrupts the hydration: %d requests", got)
		}
		s.say(n, "mia", "/sluice freeze prod --reason fire")
		s.until("a freeze does not wait for the hydration", func() bool {
			return strings.Contains(s.promotionRecord(),
				"fire")
		})
		s.until("the hydration begins again", func() bool { return asked() > 1 })
		if strings.Contains(s.promotionRecord(), "mine") {
			t.Error("zoe freezes prod")
		}
	})
}

// A merge request is reviewed while the review of another one of the same repository hangs, although that one keeps a
// process for renderings busy until its time is over. `go test -v` shows the time; without the other one it is about
// the same.
func TestGoodReviewBesideHostileOne(t *testing.T) {
	s := newStory(t, "github")
	s.setFleet("main", chats())
	s.reload("drain: 5s", "drain: 5s\njobs: 2")
	s.start()
	s.until("staging is hydrated", func() bool { return s.ref("env/staging") != "" })
	review := func(text string) time.Duration {
		t.Helper()
		began := time.Now()
		s.says(s.greet(text), text)
		return time.Since(began)
	}
	alone := review("step")
	hostile := s.bomb("bomb")
	s.until("the hostile review renders", func() bool { return s.metric("sluice_queue_in_flight", "") >= 1 })
	beside := []time.Duration{review("edge"), review("door")} // one after another: the first leaves room for the second
	if len(s.comments(hostile)) > 0 || s.status(s.head(hostile), "sluice") != "" {
		t.Error("the hostile review ended: nothing was measured")
	}
	t.Logf("alone %s, beside a hostile review %s", alone, beside)
}

// The service does not connect to a chart repository on an internal network that a merge request names, and the
// comment does not reveal whether something listens there.
func TestInternalNetworksAreUnreachable(t *testing.T) {
	s := newStory(t, "github")
	s.reload("network: {allow: [127.0.0.1]}\n", "")
	address, heard := s.chartServer(nil)
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.useChartOf("lure", address)
	n := s.open("lure", "ada")
	s.until("the review fails", func() bool { return strings.HasPrefix(s.status(s.head(n), "sluice"), "fail") })
	s.says(n, "network")
	if heard() != "" {
		t.Errorf("the service asked %s for %s", address, heard())
	}
}
