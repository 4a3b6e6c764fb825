package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// A receiver is told once that a promotion waits for an approval, although the service restarts and the receiver is
// down at first, and once that it no longer does. A commit that cannot be hydrated is told too.
func TestEvents(t *testing.T) {
	const signing = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"
	s := newStory(t, "github")
	var mu sync.Mutex
	var told []string
	down := true
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		verifier, err := standardwebhooks.NewWebhook(signing)
		if err == nil {
			err = verifier.VerifyIgnoringTimestamp(body, r.Header) // the story moves the clock
		}
		if err != nil {
			t.Errorf("a webhook is not signed: %v", err)
		}
		var event struct {
			Type, Subject string
			Data          struct{ State string }
		}
		if err := json.Unmarshal(body, &event); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		told = append(told, event.Type+" "+event.Subject+" "+event.Data.State)
	}))
	t.Cleanup(receiver.Close)
	for name, text := range map[string]string{"hook": receiver.URL + "/hook", "key": signing} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.config += "events:\n  receivers:\n    - {name: hook, kind: webhook, url: {file: " + filepath.Join(s.dir, "hook") +
		"}, secret: {file: " + filepath.Join(s.dir, "key") +
		"}, environments: [\"prod\", \"\"], events: [approval, refused]}\n"
	was := func(what string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(told, what)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "work", "sluice.yaml"), []byte(gated), 0o600); err != nil {
		t.Fatal(err)
	}
	s.commit("gates")
	s.push("main")
	s.start()
	s.until("staging follows by itself", func() bool { return s.ref("env/staging") != "" })
	first := s.greet("first step")
	s.says(first, "first step")
	s.merge(first)
	s.until("staging has it", func() bool { return s.holds("cluster/staging-1", "first step") })
	for _, c := range []string{"cluster/staging-1", "cluster/staging-edge-1"} {
		s.reports(c, "success")
	}
	s.say(first, "ada", "/sluice promote prod")
	s.says(first, "approv")
	s.tasks("trunk", 2)
	s.end()
	mu.Lock()
	down = false
	mu.Unlock()
	s.start()
	s.until("the receiver is told of the approval", func() bool { return was("dev.sluice.approval prod opened") })
	s.tasks("trunk", 2)
	s.say(first, "mia", "/sluice approve prod")
	s.until("the canary has it", func() bool { return s.holds("cluster/prod-eu-1", "first step") })
	s.until("the receiver is told that it was approved", func() bool { return was("dev.sluice.approval prod ended") })
	s.run(filepath.Join(s.dir, "work"), "fetch", "-q", "origin", "main")
	s.run(filepath.Join(s.dir, "work"), "reset", "-q", "--hard", "FETCH_HEAD")
	if err := os.WriteFile(filepath.Join(s.dir, "work", "sluice.yaml"), []byte("kind: Nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.commit("a mistake")
	s.push("main")
	s.until("the receiver is told of the mistake", func() bool { return was("dev.sluice.refused  opened") })
	mu.Lock()
	defer mu.Unlock()
	for _, once := range []string{
		"dev.sluice.approval prod opened", "dev.sluice.approval prod ended", "dev.sluice.refused  opened",
	} {
		n := 0
		for _, one := range told {
			if one == once {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the receiver was told %d times %q: %q", n, once, told)
		}
	}
}
