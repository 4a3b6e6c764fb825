package promote_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/verify"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// TestNamesMustBeThere: a name that is written wrong is refused, and nothing moves.
func TestNamesMustBeThere(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	s.look(nil)
	s.release("two")
	tip := s.Git("rev-parse", "env/prod")
	for name, c := range map[string]struct {
		order promote.Command
		want  string
	}{
		"cluster": {
			ordered(rollout.EventRollback, "1",
				func(c *promote.Command) { c.Clusters = []string{"no-such"} }),
			`no cluster "no-such"; prod has prod-edge-1, prod-eu-1, prod-us-1`,
		},
		"another's cluster": {ordered(rollout.EventRollback, "2",
			func(c *promote.Command) { c.Clusters = []string{"dev-1"} }), "belongs to dev"},
		"similar cluster": {
			ordered(rollout.EventRollback, "6",
				func(c *promote.Command) { c.Clusters = []string{"prd-eu-1"} }),
			`no cluster "prd-eu-1", did you mean prod-eu-1?`,
		},
		"wave": {
			ordered(rollout.EventRollback, "7", func(c *promote.Command) { c.Wave = "al" }),
			`no wave "al", did you mean all?`,
		},
		"from": {
			ordered(rollout.EventPromote, "8", func(c *promote.Command) { c.From = "dve" }),
			"dve does not come before prod, did you mean dev?",
		},
		"app": {ordered(rollout.EventRollback, "3",
			func(c *promote.Command) { c.Apps = []string{"shpo"} }), `an app "shpo", did you mean shop?`},
		"app of a promotion": {
			ordered(rollout.EventPromote, "4", func(c *promote.Command) { c.Apps = []string{"shpo"} }), `an app "shpo"`,
		},
		"a short id": {ordered(rollout.EventRollback, "5", func(c *promote.Command) {
			c.Revision = s.Git("rev-parse",
				"main~1")[:2]
		}), "at least 7 digits"},
	} {
		_, refused := s.look(func(r *promote.Request) { r.DryRun = true }, c.order)
		wants(t, name, refused, c.want)
	}
	if s.Git("rev-parse", "env/prod") != tip {
		t.Error("something moved")
	}
}

// TestPartsAreJudged: policy says no to what it forbids as a whole, as an app, and not to what is beside it.
func TestPartsAreJudged(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	s.out.red[s.release("forbidden")] = true
	for name, apps := range map[string][]string{"whole": nil, "part": {"shop"}} {
		last, _ := s.look(nil, ordered(rollout.EventPromote, name, func(c *promote.Command) { c.Apps = apps }))
		wants(t, name, []string{last.Decision.WaitsFor}, "policy: red")
	}
	wants(t, "asked", s.out.asked, "prod [shop] but []")
	if strings.Contains(s.Git("ls-tree", "-r", "env/prod", "prod-eu-1/shop"),
		s.Git("rev-parse", "env/dev:dev-1/shop/configmap-shop.yaml")) {
		t.Error("it landed")
	}
}

// TestAuthorsUnknown: an approval counts only while it is known that it is nobody's own.
func TestAuthorsUnknown(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, approvers: {users: [mia], count: 1}")
	commit := s.release("one")
	s.out.authors = errors.New("the forge does not say")
	last, _ := s.look(nil, ordered(rollout.EventApprove, "a", nil))
	wants(t, "approvals", []string{last.Decision.WaitsFor}, "the forge does not say")
	s.out.authors = nil
	s.look(nil)
	wants(t, "prod", []string{s.runs()}, commit)
}

// TestApprovalOfWhatWasSeen: an approval that was written before something else was offered is not for that.
func TestApprovalOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, approvers: {users: [mia], count: 1}")
	s.release("one")
	s.look(nil)
	said := s.now
	s.now = s.now.Add(time.Minute)
	second := s.release("two")
	s.look(nil)
	_, refused := s.look(nil, ordered(rollout.EventApprove, "a", func(c *promote.Command) { c.Said = said }))
	wants(t, "a late approval", refused, "came after this was said")
	if strings.Contains(s.runs(), second) {
		t.Fatal("what nobody saw landed")
	}
	_, refused = s.look(nil, ordered(rollout.EventApprove, "b", func(c *promote.Command) { c.Said = s.now }))
	if wants(t, "prod", []string{s.runs()}, second); len(refused) > 0 {
		t.Error(refused)
	}
}

// TestApprovalInTheSecondOfALanding: what landed is no offer of the request that comes right after it, although times
// have seconds.
func TestApprovalInTheSecondOfALanding(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [mia], count: 1}")
	landing := s.now.Truncate(time.Second)
	said := func(c *promote.Command) { c.Said = landing }
	for i, name := range []string{"one", "two"} {
		want, read := s.release(name), landing.Add(time.Duration(i)*time.Second)
		s.now = read
		s.look(nil, ordered(rollout.EventPromote, "promote "+name, said))
		s.now = read
		_, refused := s.look(nil, ordered(rollout.EventApprove, "approve "+name, said))
		if wants(t, "prod", []string{s.runs()}, want); len(refused) > 0 {
			t.Error(refused)
		}
	}
}

// TestLongMerge: an author whose commit is far back in a merge cannot approve it.
func TestLongMerge(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, approvers: {users: [mia], count: 1}")
	tree := s.Git("rev-parse", "HEAD^{tree}")
	var script strings.Builder
	for i := range 300 {
		author := "ada"
		if i == 0 {
			author = "mia"
		}
		fmt.Fprintf(&script, "commit refs/heads/long\nmark :%[1]d\nauthor %[2]s <%[2]s@example.com> 1767225600 +0000\n"+
			"committer ada <ada@example.com> 1767225600 +0000\ndata 1\nx\n", i+1, author)
		if i == 0 {
			fmt.Fprintf(&script, "from %s\n", s.Git("rev-parse", "HEAD"))
		}
		script.WriteString("\n")
	}
	s.Pipe(script.String(), "fast-import", "--quiet")
	s.Git("reset", "-q", "--hard", s.Git("commit-tree", "-p", "HEAD", "-p", "long", "-m", "Merge long", tree))
	s.release("one")
	before := s.Git("for-each-ref", "refs/heads/env/prod")
	s.look(nil)
	_, refused := s.look(nil, ordered(rollout.EventApprove, "a", nil))
	wants(t, "refused", refused, "is an author of what it brings")
	if s.Git("for-each-ref", "refs/heads/env/prod") != before {
		t.Error("it was approved by an author")
	}
}

// TestCommandTwice: what was done is not told as refused when it comes again.
func TestCommandTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [mia], count: 1}")
	s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p", nil))
	approve := ordered(rollout.EventApprove, "a", nil)
	s.look(nil, approve)
	if _, refused := s.look(nil, approve); len(refused) > 0 {
		t.Errorf("refused: %q", refused)
	}
}

// TestPromotionKeepsBranches: nobody else's commit is covered, and no branch that somebody deleted comes back, until
// somebody says so.
func TestPromotionKeepsBranches(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	s.Git("branch", "-D", "cluster/prod-us-1")
	s.Git("update-ref", "refs/heads/cluster/prod-eu-1", s.Git("commit-tree", "-p", "cluster/prod-eu-1", "-m",
		"a hotfix by hand", s.Git("rev-parse", "cluster/prod-edge-1^{tree}")))
	human := s.Git("rev-parse", "cluster/prod-eu-1")
	s.release("next")
	last, _ := s.look(nil)
	if s.Git("rev-parse", "cluster/prod-eu-1") != human {
		t.Error("a human's commit was covered")
	}
	if out := s.Git("for-each-ref", "refs/heads/cluster/prod-us-1"); out != "" {
		t.Errorf("a deleted branch came back: %s", out)
	}
	wants(t, "told", []string{last.Decision.WaitsFor}, "was not made by Sluice")
	s.look(func(r *promote.Request) { r.Overwrite, r.Recreate = true, true })
	for _, name := range []string{"prod-eu-1", "prod-us-1"} {
		if s.Git("rev-parse", "cluster/"+name+"^{tree}") != s.Git("rev-parse", "env/prod:"+name) {
			t.Errorf("%s is not what the environment has", name)
		}
	}
}

// TestOverwriteTakesNothing: what a human wrote into the environment's branch does not come along when somebody puts a
// promotion on top.
func TestOverwriteTakesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	s.Git("switch", "-q", "env/prod")
	s.Git("rm", "-q", "-r", "prod-us-1/monitor")
	s.Git("commit", "-q", "-m", "by hand")
	s.Git("switch", "-q", "main")
	s.release("next")
	last, _ := s.look(nil)
	wants(t, "told", []string{last.Decision.WaitsFor}, "was not made by Sluice")
	s.look(func(r *promote.Request) { r.Overwrite = true })
	if got := s.Git("ls-tree", "--name-only", "env/prod:prod-us-1"); !strings.Contains(got, "monitor") {
		t.Errorf("what was deleted by hand is still gone: %s", got)
	}
	h := s.Hydrator(2)
	head, err := h.Store.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	list, err := verify.Run(t.Context(), h, head, []string{"prod"}, time.Now())
	if err != nil || list[0].Status != "ok" {
		t.Errorf("the list is %+v, the error is %v", list, err)
	}
}

func TestDeletedEnvironmentBranch(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	s.look(nil)
	s.Git("branch", "-D", "env/prod")
	last, _ := s.look(nil)
	if out := s.Git("for-each-ref", "refs/heads/env/prod"); out != "" {
		t.Errorf("it came back: %s", out)
	}
	wants(t, "told", []string{last.Decision.WaitsFor}, "somebody deleted env/prod")
	s.look(func(r *promote.Request) { r.Recreate = true })
	if out := s.Git("for-each-ref", "refs/heads/env/prod"); out == "" {
		t.Error("it was not made again")
	}
}

func TestPromotionOfManyDeletions(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.Git("rm", "-q", "-r", "apps/gateway", "apps/monitor", "apps/shop")
	s.Commit("most of it goes by accident")
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.MaxDeletions = []string{"dev"}, 1000 })
	tip := s.Git("rev-parse", "env/prod")
	last, _ := s.look(nil)
	wants(t, "told", []string{last.Decision.WaitsFor}, "objects would be removed")
	if s.Git("rev-parse", "env/prod") != tip {
		t.Error("it went")
	}
	s.look(func(r *promote.Request) { r.MaxDeletions = 1000 })
	if s.Git("rev-parse", "env/prod") == tip {
		t.Error("it did not go though somebody said so")
	}
}

// TestFoxtrot: somebody merged the trunk into work of their own and pushed that: what prod runs is a second parent now.
func TestFoxtrot(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.Git("checkout", "-q", "-b", "local", "HEAD~1")
	s.Write("note.md", "x")
	s.Commit("local work")
	s.Git("merge", "-q", "-m", "Merge branch 'main' of origin", "main")
	s.Git("update-ref", "refs/heads/main", "HEAD")
	s.Git("checkout", "-q", "main")
	commit := s.release("after the pull")
	s.look(nil)
	wants(t, "prod", []string{s.runs()}, commit)
}

// TestRewrittenTrunk: what prod runs is not on the trunk any more; only --now goes on from there.
func TestRewrittenTrunk(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("old")
	s.look(nil)
	s.Git("commit", "-q", "--amend", "-m", "rewritten")
	s.Write("apps/shop/layers/global/values.yaml", "config:\n  motd: \"after\"\n")
	s.Commit("after")
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.Overwrite = []string{"dev"}, true })
	commit := s.Git("rev-parse", "main")
	last, _ := s.look(nil)
	wants(t, "told", []string{last.Decision.WaitsFor}, "not on the trunk")
	s.look(nil, ordered(rollout.EventPromote, "p", func(c *promote.Command) { c.Now = true }))
	wants(t, "prod", []string{s.runs()}, commit)
	wants(t, "trailer", []string{s.Git("log", "-1", "--format=%B", "env/prod")}, "Sluice-Now: because")
}

// TestBakeBeginsWhenSeen: dates of commits say nothing about when something began to run.
func TestBakeBeginsWhenSeen(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, bake: 24h")
	commit := s.release("fresh") // its date is of 2024
	last, _ := s.look(nil)
	wants(t, "told", []string{last.Decision.WaitsFor}, "bakes in dev")
	s.now = s.now.Add(25 * time.Hour)
	s.look(nil)
	wants(t, "prod", []string{s.runs()}, commit)
}

// TestFrozenBefore: a cluster that is frozen by command in an environment before holds up nothing, as one in the
// registry does not.
func TestFrozenBefore(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.Git("checkout", "-q", "HEAD~1", "--", "clusters")
	s.Write("sluice.yaml", strings.Replace(s.Git("show", "HEAD:sluice.yaml"), "    - name: prod\n      after: [dev]\n",
		"    - name: staging\n      after: [dev]\n      promotion: {mode: auto}\n    - name: prod\n      after: [staging]\n", 1)+"\n")
	s.Commit("three environments")
	s.hydrateThe("dev", "staging", "prod")
	s.look(nil)
	s.look(nil, ordered(rollout.EventFreeze, "f", func(c *promote.Command) {
		c.Environment, c.Target = "staging",
			"staging-edge-1"
	}))
	s.Write("apps/baseline/app.yaml", strings.Replace(s.Git("show", "HEAD:apps/baseline/app.yaml"),
		"namespace: baseline", "namespace: base-line", 1))
	s.Commit("baseline")
	s.hydrateThe("dev")
	s.look(nil)
	s.look(nil)
	wants(t, "prod", []string{s.runs()}, s.Git("rev-parse", "main"))
}
