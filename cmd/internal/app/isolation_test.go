package app_test

import (
	"fmt"
	"os"
	"path/filepath"
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
		if err := os.WriteFile(filepath.Join(dir, "bomb.yaml"), []byte(loop+"{{/* "+branch+" */}}"), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.commit("bomb")
	s.push(branch)
	return s.open(branch, "ada")
}

// TestHostileReviewsDelayNothing: while reviews of merge requests hang in as many workers as there are, a command is executed and the
// trunk is hydrated.
func TestHostileReviewsDelayNothing(t *testing.T) {
	s := newStory(t, "github")
	s.fleet(gated)
	s.reload("drain: 5s", "drain: 5s\nworkers: 2\njobs: 2")
	s.start()
	s.until("staging is hydrated", func() bool { return s.ref("env/staging") != "" })
	good := s.greet("step")
	s.says(good, "step")
	var hostile []int
	for i := range 3 {
		hostile = append(hostile, s.bomb(fmt.Sprint("bomb-", i)))
	}
	s.until("a hostile review runs", func() bool { return metric(t, s.hooks.URL, "sluice_queue_in_flight", "") >= 1 })
	began := time.Now()
	s.say(good, "mia", "/sluice freeze prod --reason fire")
	s.until("the freeze is recorded", func() bool { return strings.Contains(s.state(), "fire") })
	freeze := time.Since(began)
	before := s.ref("env/dev")
	began = time.Now()
	s.branch("next", "CHF")
	s.push("main")
	s.until("the trunk is hydrated", func() bool { return s.ref("env/dev") != before })
	trunk := time.Since(began)
	for _, n := range hostile {
		if state := s.status(s.head(n), "sluice"); state == "success" {
			t.Errorf("merge request %d did not hang: %s", n, state)
		}
	}
	t.Logf("beside %d hostile reviews: a freeze took %s, the trunk %s", len(hostile), freeze.Round(time.Millisecond), trunk.Round(time.Millisecond))
	const deadline = time.Minute // a review hangs for longer; the usual time is below 2 s
	if freeze > deadline || trunk > deadline {
		t.Errorf("a freeze took %s and the trunk %s, expected at most %s", freeze, trunk, deadline)
	}
}

// TestInternalNetworksAreUnreachable: the service does not connect to a chart repository that a merge request names on an internal
// network, and the comment does not tell what listens there.
func TestInternalNetworksAreUnreachable(t *testing.T) {
	s := newStory(t, "github")
	s.reload("network: {allow: [127.0.0.1]}\n", "")
	address, heard := s.stranger()
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.lure("lure", address)
	n := s.open("lure", "ada")
	s.until("the review fails", func() bool { return strings.HasPrefix(s.status(s.head(n), "sluice"), "fail") })
	s.says(n, "network")
	if heard() != "" {
		t.Errorf("the service asked %s for %s", address, heard())
	}
}
