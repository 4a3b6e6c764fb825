package promotion_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// run gives prod's status after promotion.Run with a command, and the status as text.
func (s *stage) run(change func(*promotion.Request), commands ...promotion.Command) (promotion.Status, string) {
	s.T.Helper()
	r := promotion.Request{Trunk: s.tip(), Commands: commands, Now: s.now, Adapters: s.adapters(), CommandPrefix: "sluice"}
	if change != nil {
		change(&r)
	}
	list, err := promotion.Run(s.T.Context(), s.Hydrator(2), r)
	if err != nil {
		s.T.Fatal(err)
	}
	var text strings.Builder
	last := &list[len(list)-1]
	last.WriteText(&text, "sluice")
	return *last, text.String()
}

// TestForeignCommitNamesTheNextStep: the status says once what somebody did, and has the commands to copy. They lead out.
func TestForeignCommitNamesTheNextStep(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	commit := s.release("one")
	s.look(nil, ordered(promote.EventPromote, "1", nil))
	for _, environment := range []string{"prod", "dev"} {
		s.Git("switch", "-q", "env/"+environment)
		s.Git("rm", "-q", "-r", ".sluice/inputs")
		s.Git("commit", "-q", "-m", "by hand")
		s.Git("switch", "-q", "main")
	}
	for name, c := range map[string]promote.EventKind{"promote": promote.EventPromote, "rollback": promote.EventRollback} {
		_, text := s.run(func(r *promotion.Request) { r.DryRun = true }, ordered(c, name, nil))
		if n := strings.Count(text, "`sluice hydrate --env prod --commit "+commit[:10]+" --overwrite-foreign`"); n != 1 {
			t.Errorf("%s: the status names the command %d times:\n%s", name, n, text)
		}
		if c == promote.EventPromote {
			wants(t, name, []string{text}, "what dev runs is unknown: env/dev: its commit")
		}
	}
	running, err := promotion.ReadRunning(t.Context(), s.Hydrator(2), s.tip().Tree)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	running[0].WriteText(&text)
	wants(t, "dev", []string{text.String()}, "run `sluice hydrate --env dev --overwrite-foreign`")

	for _, environment := range []string{"dev", "prod"} { // what the texts advise
		s.hydrate(func(q *hydrate.Request) { q.Environments, q.Overwrite = []string{environment}, true })
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
	s.run(nil, ordered(promote.EventPromote, "1", nil))
	nothing := "nothing to promote: prod runs " + commit[:8] + " already"
	for _, c := range []struct {
		kind promote.EventKind
		dry  bool
		want string
	}{
		{promote.EventPromote, false, nothing},
		{promote.EventPromote, true, nothing},
		{promote.EventHalt, false, "halted   by mia"},
		{promote.EventResume, false, "resumed; no branch had to move"},
		{promote.EventFreeze, false, "prod is frozen by mia"},
		{promote.EventUnfreeze, false, "the freeze has ended"},
	} {
		_, text := s.run(func(r *promotion.Request) { r.DryRun = c.dry }, ordered(c.kind, string(c.kind)+"/x", nil))
		wants(t, string(c.kind), []string{text}, c.want)
	}
	s.release("two")
	last, text := s.run(func(r *promotion.Request) { r.DryRun = true }, ordered(promote.EventPromote, "2", nil))
	if last.Plan == nil || strings.Contains(text, "nothing to promote") {
		t.Errorf("something is to promote:\n%s", text)
	}
}
