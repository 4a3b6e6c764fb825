package promote_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/verify"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// damage gives prod's branch the record that earlier versions wrote after a rollback of an app: it names no commit for
// the app.
func (s *stage) damage() {
	s.T.Helper()
	record := s.Git("show", "env/prod:.sluice/environment.yaml")
	s.Git("switch", "-q", "env/prod")
	s.Write(".sluice/environment.yaml", strings.Replace(record, "environment: prod",
		"apps:\n  shop: \"\"\nenvironment: prod", 1)+"\n")
	s.Git("add", "-A")
	s.Git("commit", "-q", "-m", s.Git("log", "-1", "--format=%B", "env/prod"))
	s.Git("switch", "-q", "main")
}

// A branch whose record names no commit for an app is repaired by the next command of any kind that moves it, and by
// automatic promotion. verify says so before that.
func TestDamagedRecordIsRepaired(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, repair := range map[string]func(s *stage){
		"promote": func(s *stage) { s.look(nil, ordered(rollout.EventPromote, "p", nil)) },
		"promote of an app": func(s *stage) {
			s.look(nil, ordered(rollout.EventPromote, "p", func(c *promote.Command) { c.Apps = []string{"shop"} }))
		},
		"promote of another app": func(s *stage) {
			s.look(nil, ordered(rollout.EventPromote, "p", func(c *promote.Command) { c.Apps = []string{"gateway"} }))
		},
		"rollback": func(s *stage) { s.look(nil, ordered(rollout.EventRollback, "r", nil)) },
		"rollback of an app": func(s *stage) {
			s.look(nil, ordered(rollout.EventRollback, "r", func(c *promote.Command) { c.Apps = []string{"gateway"} }))
		},
		"rollback of a cluster": func(s *stage) {
			s.look(nil, ordered(rollout.EventRollback, "r",
				func(c *promote.Command) { c.Clusters = []string{"prod-eu-1"} }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: manual")
			for _, text := range []string{"one", "two"} {
				s.Write("apps/gateway/layers/global/values.yaml", strings.ReplaceAll(s.Git("show",
					"HEAD:apps/gateway/layers/global/values.yaml"), "5.2", "5.3")+"\n# "+text+"\n")
				s.release(text)
				s.look(nil, ordered(rollout.EventPromote, text, nil))
			}
			s.release("three")
			s.damage()
			check := func() verify.Verification {
				t.Helper()
				h := s.Hydrator(2)
				list, err := verify.Run(t.Context(), h, s.tip(), []string{"prod"}, s.now)
				if err != nil {
					t.Fatal(err)
				}
				return list[0]
			}
			if v := check(); v.Status != verify.StatusFailed || !strings.Contains(v.Reason, "sluice promote prod") {
				t.Fatalf("verify of the damaged branch: %+v", v)
			}
			repair(s)
			if text := s.runs(); strings.Contains(text, `""`) {
				t.Fatalf("the record is still damaged:\n%s", text)
			}
			if v := check(); v.Status != verify.StatusOK {
				t.Errorf("verify after the repair: %+v", v)
			}
			s.release("four")
			s.look(nil, ordered(rollout.EventPromote, "later", func(c *promote.Command) { c.Again = "it is mended" }))
			wants(t, "a later promotion", []string{s.Git("grep", "-h", "motd", "env/prod", "--", "prod-eu-1/shop")},
				"four")
		})
	}
}

// A commit that the remote's trunk does not have is not promoted, also where this clone takes it for the trunk.
func TestUnmergedSourceIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	upstream := t.TempDir()
	s.Git("init", "-q", "--bare", "-b", "main", upstream)
	s.Git("push", "-q", upstream, "main")
	tip := s.Git("rev-parse", "env/prod")
	commit := s.release("not pushed")
	look := func() promote.Status {
		t.Helper()
		config := s.Hydrator(2).Config
		remote, err := config.Store.Remote(upstream, gitstore.Auth{})
		if err != nil {
			t.Fatal(err)
		}
		config.Source = remote
		var last promote.Status
		for range 3 {
			list, err := promote.Look(t.Context(), hydrate.New(config),
				promote.Request{Trunk: s.tip(), Now: s.now, Adapters: s.adapters()})
			if err != nil {
				t.Fatal(err)
			}
			last = list[0]
		}
		return last
	}
	wants(t, "gate", []string{look().Decision.WaitsFor}, commit[:10]+" is not on the trunk main")
	if s.Git("rev-parse", "env/prod") != tip {
		t.Fatal("an unmerged commit was promoted")
	}
	s.Git("push", "-q", upstream, "main")
	look()
	wants(t, "prod", []string{s.runs()}, commit)
}
