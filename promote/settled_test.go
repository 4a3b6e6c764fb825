package promote_test

import (
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// An environment is settled once it runs what comes to it and nothing waits, is held or frozen. Then a look asks nobody
// outside Git.
func TestSettled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		promotion string
		do        func(s *stage)
		settled   bool
	}{
		"promoted":           {"mode: auto", func(s *stage) { s.release("one"); s.look(nil) }, true},
		"never promoted yet": {"mode: auto", func(*stage) {}, true},
		"with health": {
			"mode: auto, health: {commitStatuses: [x]}",
			func(s *stage) { s.release("one"); s.look(nil) }, false,
		},
		"bakes upstream": {"mode: auto, bake: 1h", func(s *stage) { s.release("one"); s.look(nil) }, false},
		"bakes in a wave": {
			"mode: auto, waves: [{name: all, bake: 1h}]",
			func(s *stage) { s.release("one"); s.look(nil) }, false,
		},
		"waits for a window": {
			"mode: auto, windows: [{from: \"00:00\", to: \"00:01\", timeZone: UTC, days: [" +
				time.Now().Add(72*time.Hour).UTC().Format("Mon") + "]}]", func(s *stage) { s.release("one"); s.look(nil) },
			false,
		},
		"a person promotes": {"mode: manual", func(s *stage) { s.release("one"); s.look(nil) }, false},
		"frozen": {
			"mode: auto", func(s *stage) { s.look(nil, ordered(rollout.EventFreeze, "1", nil)) },
			false,
		},
		"halted": {
			"mode: auto", func(s *stage) { s.look(nil, ordered(rollout.EventHalt, "1", nil)) },
			false,
		},
		"rolled back": {"mode: auto", func(s *stage) {
			s.release("one")
			s.look(nil)
			s.look(nil, ordered(rollout.EventRollback, "1", nil))
		}, false},
		"somebody's commit": {"mode: auto", func(s *stage) {
			s.Git("update-ref", "refs/heads/env/prod", s.Git("commit-tree", "-m", "by hand", "-p", "env/prod",
				"env/prod^{tree}"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, c.promotion)
			c.do(s)
			last, _ := s.look(nil)
			if got := last.Settled(); got != c.settled {
				t.Errorf("settled: %t, want %t: %+v", got, c.settled, last)
			}
			if !c.settled {
				return
			}
			again, _ := s.look(func(r *promote.Request) { r.Adapters = promote.Adapters{} })
			if !again.Settled() {
				t.Errorf("without a forge: %+v", again)
			}
		})
	}
}
