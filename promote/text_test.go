package promote_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// run gives prod's status after promotion.Run with a command, and the status as text.
func (s *stage) run(change func(*promote.Request), commands ...promote.Command) (promote.Status, string) {
	s.T.Helper()
	r := promote.Request{
		Trunk: s.tip(), Commands: commands, Now: s.now, Adapters: s.adapters(),
		CommandPrefix: "sluice",
	}
	if change != nil {
		change(&r)
	}
	list, err := promote.Run(s.T.Context(), s.Hydrator(2), r)
	if err != nil {
		s.T.Fatal(err)
	}
	var text strings.Builder
	last := &list[len(list)-1]
	last.WriteText(&text, "sluice")
	return *last, text.String()
}

// TestForeignCommitNamesTheNextStep: the status says once what somebody did, and has the commands to copy. They lead
// out.
func TestForeignCommitNamesTheNextStep(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	commit := s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "1", nil))
	for _, environment := range []string{"prod", "dev"} {
		s.Git("switch", "-q", "env/"+environment)
		s.Git("rm", "-q", "-r", ".sluice/inputs")
		s.Git("commit", "-q", "-m", "by hand")
		s.Git("switch", "-q", "main")
	}
	for name, c := range map[string]struct {
		kind rollout.EventKind
		next string
	}{
		"promote":  {rollout.EventPromote, "`sluice hydrate --again --local --env prod --overwrite-foreign --reason WHY`"},
		"rollback": {rollout.EventRollback, "`sluice rollback prod --overwrite-foreign`"},
	} {
		_, text := s.run(func(r *promote.Request) { r.DryRun = true }, ordered(c.kind, name, nil))
		if n := strings.Count(text, c.next); n != 1 {
			t.Errorf("%s: the status names the command %d times:\n%s", name, n, text)
		}
		if c.kind == rollout.EventPromote {
			wants(t, name, []string{text}, "what dev runs is unknown: env/dev: its commit")
		}
	}
	running, err := promote.ReadRunning(t.Context(), s.Hydrator(2), s.tip().Tree)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	running[0].WriteText(&text)
	wants(t, "dev", []string{text.String()}, "run `sluice hydrate --env dev --overwrite-foreign`")

	s.hydrate(func(q *hydrate.Request) { q.Environments, q.Overwrite = []string{"dev"}, true }) // what the texts advise
	s.look(func(r *promote.Request) { r.Overwrite = true }, ordered(rollout.EventRender, "again", nil))
	if got := s.Git("log", "-1", "--format=%B", "env/prod"); !strings.Contains(got, "Sluice-Source: "+commit) ||
		!strings.Contains(got, "Sluice-Rendered-Again: because") || !strings.Contains(got, "Sluice-Record: ") {
		t.Errorf("the commit on top of the foreign one: %s", got)
	}
	if last, text := s.run(nil); last.Foreign != "" || last.Decision.WaitsFor != "" {
		t.Errorf("afterwards:\n%s", text)
	}
}

// TestCommandsThatMoveNothingSaySo: a person sees that a command arrived.
func TestCommandsThatMoveNothingSaySo(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	commit := s.release("one")
	s.run(nil, ordered(rollout.EventPromote, "1", nil))
	nothing := "nothing to promote: prod runs " + commit[:8] + " already"
	for _, c := range []struct {
		kind rollout.EventKind
		dry  bool
		want string
	}{
		{rollout.EventPromote, false, nothing},
		{rollout.EventPromote, true, nothing},
		{rollout.EventHalt, false, "halted   by mia"},
		{rollout.EventResume, false, "no longer halted by mia: because"},
		{rollout.EventFreeze, false, "prod is frozen by mia"},
		{rollout.EventUnfreeze, false, "prod is no longer frozen by mia"},
	} {
		_, text := s.run(func(r *promote.Request) { r.DryRun = c.dry }, ordered(c.kind, string(c.kind)+"/x", nil))
		wants(t, string(c.kind), []string{text}, c.want)
	}
	s.release("two")
	last, text := s.run(func(r *promote.Request) { r.DryRun = true }, ordered(rollout.EventPromote, "2", nil))
	if last.Plan == nil || strings.Contains(text, "nothing to promote") {
		t.Errorf("something is to promote:\n%s", text)
	}
}
