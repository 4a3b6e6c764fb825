package promote_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/verify"
	"github.com/sluice-gitops/sluice/rollout"
)

// otherwise commits to prod's branch what another version of Sluice could have rendered of the same commit.
func (s *stage) otherwise() {
	s.T.Helper()
	message := s.Git("log", "-1", "--format=%B", "env/prod")
	s.Git("switch", "-q", "env/prod")
	for _, cluster := range []string{"prod-eu-1", "prod-us-1"} {
		file := cluster + "/shop/service-shop.yaml"
		s.Write(file, "# by another version\n"+s.Git("show", "env/prod:"+file)+"\n")
	}
	s.Git("add", "-A")
	s.Git("commit", "-q", "-m", message)
	s.Git("switch", "-q", "main")
}

// What prod runs is rendered again, in waves, although dev and the trunk have a newer commit. The commit says who and
// why, and names the version of the record.
func TestRenderWhatRunsAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, waves: [{name: canary, clusters: {matchLabels: {cluster: prod-eu-1}}, bake: 10h}, {name: rest}]")
	one := s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p", nil))
	s.now = s.now.Add(11 * time.Hour)
	s.look(nil)
	want := s.Git("rev-parse", "env/prod^{tree}")
	s.otherwise()
	s.look(nil)
	s.now = s.now.Add(11 * time.Hour)
	s.look(nil)
	if got, want := s.Git("rev-parse", "cluster/prod-us-1^{tree}"), s.Git("rev-parse", "env/prod:prod-us-1"); got != want {
		t.Fatalf("the cluster does not have what the other version rendered: %s, want %s", got, want)
	}
	s.release("two")

	before := s.Git("rev-parse", "env/prod")
	s.look(nil, ordered(rollout.EventHalt, "h", nil), ordered(rollout.EventRender, "a", nil))
	if got := s.Git("rev-parse", "env/prod"); got != before {
		t.Fatalf("env/prod was halted at %s, and moved to %s", before, got)
	}
	s.look(nil, ordered(rollout.EventResume, "r", nil)) // what was asked for comes
	if got := s.Git("rev-parse", "env/prod^{tree}"); got != want {
		t.Errorf("tree of env/prod: got %s, want that of this version, %s", got, want)
	}
	message := s.Git("log", "-1", "--format=%B", "env/prod")
	for _, part := range []string{
		"Render ", " on prod again", "Sluice-Source: " + one, "Sluice-Requested-By: mia",
		"Sluice-Rendered-Again: because", "Sluice-Record: ",
	} {
		if !strings.Contains(message, part) {
			t.Errorf("the commit lacks %q:\n%s", part, message)
		}
	}
	if strings.Contains(message, "Sluice-Promoted-From") {
		t.Errorf("the commit looks like a promotion:\n%s", message)
	}
	if got, want := s.Git("rev-parse", "cluster/prod-eu-1^{tree}"), s.Git("rev-parse", "env/prod:prod-eu-1"); got != want {
		t.Errorf("the canary has %s, want %s", got, want)
	}
	if got, other := s.Git("rev-parse", "cluster/prod-us-1^{tree}"), s.Git("rev-parse", "env/prod:prod-us-1"); got == other {
		t.Error("the rest moved without the bake of the canary")
	}
	s.now = s.now.Add(11 * time.Hour)
	s.look(nil)
	s.now = s.now.Add(11 * time.Hour)
	s.look(nil)
	list, err := verify.Run(t.Context(), s.Hydrator(2), s.tip(), []string{"prod"}, s.now)
	if err != nil || list[0].Status != verify.StatusOK {
		t.Errorf("verify: %+v, %v", list, err)
	}

	tip := s.Git("rev-parse", "env/prod")
	last, text := s.run(nil, ordered(rollout.EventRender, "twice", nil))
	if got := s.Git("rev-parse", "env/prod"); got != tip || last.Decision.Record.Request != nil ||
		!strings.Contains(text, "nothing to write: prod has what") {
		t.Errorf("a second time, env/prod is at %s, before at %s:\n%s", got, tip, text)
	}
}
