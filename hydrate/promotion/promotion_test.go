package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
	"github.com/sluice-gitops/sluice/hydrate/verify"
)

// outsider is the world outside of Git, as a test has it.
type outsider struct {
	asked   []string        // of policy
	red     map[string]bool // source commits that policy forbids
	authors error
	// statuses is the state of `sync` on every rendered commit; none without it. Those of failing, a source commit, are red.
	statuses, failing string
	repo              *repo
}

func (w *outsider) Statuses(_ context.Context, commit string) ([]promote.Status, error) {
	switch {
	case w.statuses == "":
		return nil, nil
	case w.failing != "" && strings.Contains(w.repo.git("log", "-1", "--format=%B", commit), "Sluice-Source: "+w.failing+"\nSluice-Environment: prod"):
		return []promote.Status{{Name: "sync", State: "failure"}}, nil
	}
	return []promote.Status{{Name: "sync", State: w.statuses}}, nil
}

func (*outsider) Check(context.Context, fleet.Environment, time.Time) []promote.CheckResult {
	return nil
}

func (w *outsider) Judge(_ context.Context, part promotion.Part) (promote.State, string) {
	w.asked = append(w.asked, fmt.Sprintf("%s %v but %v", part.Environment, part.Apps, part.Without))
	if w.red[part.Source.Hash.String()] {
		return promote.Red, "the trunk's policy says no"
	}
	return promote.Green, ""
}

func (w *outsider) Authors(context.Context, []gitstore.Commit) ([]string, error) {
	return nil, w.authors
}

// stage is a fleet with prod after dev, both with a branch, and somebody who promotes.
type stage struct {
	*repo
	out *outsider
	now time.Time
}

func newStage(t *testing.T, promotion string) *stage {
	t.Helper()
	s := &stage{demo(t), &outsider{red: map[string]bool{}}, time.Now()}
	s.out.repo = s.repo
	s.write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: harbour}\nspec:\n  trunk: main\n  layers: [class, environment, region, cluster]\n"+
		"  environments:\n    - name: dev\n    - name: prod\n      after: [dev]\n      promotion: {"+promotion+"}\n")
	s.git("rm", "-q", "clusters/staging-1.yaml", "clusters/staging-edge-1.yaml")
	s.commit("graph")
	s.hydrateThe("dev", "prod")
	return s
}

func (s *stage) adapters() promotion.Adapters {
	return promotion.Adapters{Policy: s.out, Statuses: s.out, Checks: s.out, Authors: s.out}
}

func (s *stage) hydrateThe(environments ...string) {
	s.hydrate(func(q *hydrate.Request) { q.Environments = environments })
}

// look looks at promotions until nothing moves any more, with commands at first. It gives prod's statuses.
func (s *stage) look(change func(*promotion.Request), commands ...promotion.Command) (last promotion.Status, refused []string) {
	s.t.Helper()
	h := s.hydrator()
	c, err := h.Store.Resolve(s.t.Context(), "main")
	if err != nil {
		s.t.Fatal(err)
	}
	if c, _, err = h.Readable(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
	r := promotion.Request{Trunk: c, Commands: commands, Now: s.now, Adapters: s.adapters()}
	if change != nil {
		change(&r)
	}
	for range 8 {
		list, err := promotion.Look(s.t.Context(), h, r)
		if err != nil {
			s.t.Fatal(err)
		}
		moved := false
		last = list[len(list)-1]
		for _, e := range list {
			refused, moved = append(refused, e.Refused...), moved || len(e.Done) > 0
		}
		if r.Commands = nil; !moved {
			break
		}
	}
	s.now = s.now.Add(time.Minute)
	return last, refused
}

func ordered(kind promote.EventKind, id string, change func(*promotion.Command)) promotion.Command {
	c := promotion.Command{Environment: "prod", Verb: string(kind), CLI: true}
	c.Kind, c.ID, c.By, c.Reason = kind, id, "mia", "because"
	if change != nil {
		change(&c)
	}
	return c
}

// release changes the app shop, and gives the commit.
func (s *stage) release(text string) string {
	s.write("apps/shop/layers/global/values.yaml", "config:\n  motd: \""+text+"\"\n")
	s.commit(text)
	s.hydrateThe("dev")
	return s.git("rev-parse", "main")
}

func (s *stage) resolve(revision string) gitstore.Commit {
	s.t.Helper()
	c, err := s.hydrator().Store.Resolve(s.t.Context(), revision)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *stage) runs() string {
	return s.git("show", "env/prod:.sluice/environment.yaml")
}

func wants(t *testing.T, what string, got []string, part string) {
	t.Helper()
	if !strings.Contains(strings.Join(got, "\n"), part) {
		t.Errorf("%s: %q lacks %q", what, got, part)
	}
}

// TestNamesMustBeThere: a name that is written wrong is refused, and nothing moves.
func TestNamesMustBeThere(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	s.look(nil)
	s.release("two")
	tip := s.git("rev-parse", "env/prod")
	for name, c := range map[string]struct {
		order promotion.Command
		want  string
	}{
		"cluster":           {ordered(promote.EventRollback, "1", func(c *promotion.Command) { c.Clusters = []string{"no-such"} }), `no cluster "no-such"`},
		"another's cluster": {ordered(promote.EventRollback, "2", func(c *promotion.Command) { c.Clusters = []string{"dev-1"} }), "belongs to dev"},
		"app":               {ordered(promote.EventRollback, "3", func(c *promotion.Command) { c.Apps = []string{"shpo"} }), `an app "shpo"`},
		"app of a promotion": {
			ordered(promote.EventPromote, "4", func(c *promotion.Command) { c.Apps = []string{"shpo"} }), `an app "shpo"`,
		},
		"a short id": {ordered(promote.EventRollback, "5", func(c *promotion.Command) { c.Revision = s.git("rev-parse", "main~1")[:2] }), "at least 7 digits"},
	} {
		_, refused := s.look(func(r *promotion.Request) { r.DryRun = true }, c.order)
		wants(t, name, refused, c.want)
	}
	if s.git("rev-parse", "env/prod") != tip {
		t.Error("something moved")
	}
}

// TestRollbackOfANewCluster: what was not there has nothing to go back to; emptying it would have it pruned.
func TestRollbackOfANewCluster(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	us := s.git("show", "HEAD:clusters/prod-us-1.yaml")
	s.git("rm", "-q", "clusters/prod-us-1.yaml")
	s.commit("two clusters")
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.MaxDeletions = []string{"dev", "prod"}, 1000 })
	s.write("clusters/prod-us-1.yaml", us+"\n")
	s.commit("a new cluster")
	s.hydrateThe("dev")
	s.look(nil)
	before := s.git("ls-tree", "-r", "--name-only", "cluster/prod-us-1")
	_, refused := s.look(nil, ordered(promote.EventRollback, "x", func(c *promotion.Command) {
		c.Clusters, c.Revision = []string{"prod-us-1"}, s.git("rev-parse", "main~1")
	}))
	wants(t, "rollback", refused, "did not exist")
	if after := s.git("ls-tree", "-r", "--name-only", "cluster/prod-us-1"); before == "" || after != before {
		t.Errorf("%q became %q", before, after)
	}
}

// TestPartsAreJudged: policy says no to what it forbids as a whole, as an app, and not to what is beside it.
func TestPartsAreJudged(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	s.out.red[s.release("forbidden")] = true
	for name, apps := range map[string][]string{"whole": nil, "part": {"shop"}} {
		last, _ := s.look(nil, ordered(promote.EventPromote, name, func(c *promotion.Command) { c.Apps = apps }))
		wants(t, name, []string{last.Decision.WaitsFor}, "policy: red")
	}
	wants(t, "asked", s.out.asked, "prod [shop] but []")
	if strings.Contains(s.git("ls-tree", "-r", "env/prod", "prod-eu-1/shop"), s.git("rev-parse", "env/dev:dev-1/shop/configmap-shop.yaml")) {
		t.Error("it landed")
	}
}

// TestAuthorsUnknown: an approval counts only while it is known that it is nobody's own.
func TestAuthorsUnknown(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, approvers: {users: [mia], count: 1}")
	commit := s.release("one")
	s.out.authors = errors.New("the forge does not say")
	last, _ := s.look(nil, ordered(promote.EventApprove, "a", nil))
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
	_, refused := s.look(nil, ordered(promote.EventApprove, "a", func(c *promotion.Command) { c.Said = said }))
	wants(t, "a late approval", refused, "came after this was said")
	if strings.Contains(s.runs(), second) {
		t.Fatal("what nobody saw landed")
	}
	_, refused = s.look(nil, ordered(promote.EventApprove, "b", func(c *promotion.Command) { c.Said = s.now }))
	if wants(t, "prod", []string{s.runs()}, second); len(refused) > 0 {
		t.Error(refused)
	}
}

// TestCommandTwice: what was done is not told as refused when it comes again.
func TestCommandTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [mia], count: 1}")
	s.release("one")
	s.look(nil, ordered(promote.EventPromote, "p", nil))
	approve := ordered(promote.EventApprove, "a", nil)
	s.look(nil, approve)
	if _, refused := s.look(nil, approve); len(refused) > 0 {
		t.Errorf("refused: %q", refused)
	}
}

// TestPromotionKeepsBranches: nobody else's commit is covered, and no branch that somebody deleted comes back, until somebody says so.
func TestPromotionKeepsBranches(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	s.git("branch", "-D", "cluster/prod-us-1")
	s.git("update-ref", "refs/heads/cluster/prod-eu-1", s.git("commit-tree", "-p", "cluster/prod-eu-1", "-m", "a hotfix by hand", s.git("rev-parse", "cluster/prod-edge-1^{tree}")))
	human := s.git("rev-parse", "cluster/prod-eu-1")
	s.release("next")
	last, _ := s.look(nil)
	if s.git("rev-parse", "cluster/prod-eu-1") != human {
		t.Error("a human's commit was covered")
	}
	if out := s.git("for-each-ref", "refs/heads/cluster/prod-us-1"); out != "" {
		t.Errorf("a deleted branch came back: %s", out)
	}
	wants(t, "told", []string{last.Decision.WaitsFor}, "that Sluice did not make")
	s.look(func(r *promotion.Request) { r.Overwrite, r.Recreate = true, true })
	for _, name := range []string{"prod-eu-1", "prod-us-1"} {
		if s.git("rev-parse", "cluster/"+name+"^{tree}") != s.git("rev-parse", "env/prod:"+name) {
			t.Errorf("%s is not what the environment has", name)
		}
	}
}

// TestOverwriteTakesNothing: what a human wrote into the environment's branch does not come along when somebody puts a promotion on top.
func TestOverwriteTakesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	s.git("switch", "-q", "env/prod")
	s.git("rm", "-q", "-r", "prod-us-1/monitor")
	s.git("commit", "-q", "-m", "by hand")
	s.git("switch", "-q", "main")
	s.release("next")
	last, _ := s.look(nil)
	wants(t, "told", []string{last.Decision.WaitsFor}, "was not made by Sluice")
	s.look(func(r *promotion.Request) { r.Overwrite = true })
	if got := s.git("ls-tree", "--name-only", "env/prod:prod-us-1"); !strings.Contains(got, "monitor") {
		t.Errorf("what was deleted by hand is still gone: %s", got)
	}
	h := s.hydrator()
	head, err := h.Store.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	list, err := verify.Run(t.Context(), h, head, []string{"prod"})
	if err != nil || list[0].Status != "ok" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestDeletedEnvironmentBranch(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	s.look(nil)
	s.git("branch", "-D", "env/prod")
	last, _ := s.look(nil)
	if out := s.git("for-each-ref", "refs/heads/env/prod"); out != "" {
		t.Errorf("it came back: %s", out)
	}
	wants(t, "told", []string{last.Decision.WaitsFor}, "somebody deleted env/prod")
	s.look(func(r *promotion.Request) { r.Recreate = true })
	if out := s.git("for-each-ref", "refs/heads/env/prod"); out == "" {
		t.Error("it was not made again")
	}
}

func TestPromotionOfManyDeletions(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.git("rm", "-q", "-r", "apps/gateway", "apps/monitor", "apps/shop")
	s.commit("most of it goes by accident")
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.MaxDeletions = []string{"dev"}, 1000 })
	tip := s.git("rev-parse", "env/prod")
	last, _ := s.look(nil)
	wants(t, "told", []string{last.Decision.WaitsFor}, "objects would be removed")
	if s.git("rev-parse", "env/prod") != tip {
		t.Error("it went")
	}
	s.look(func(r *promotion.Request) { r.MaxDeletions = 1000 })
	if s.git("rev-parse", "env/prod") == tip {
		t.Error("it did not go though somebody said so")
	}
}

// TestFoxtrot: somebody merged the trunk into work of their own and pushed that: what prod runs is a second parent now.
func TestFoxtrot(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.git("checkout", "-q", "-b", "local", "HEAD~1")
	s.write("note.md", "x")
	s.commit("local work")
	s.git("merge", "-q", "-m", "Merge branch 'main' of origin", "main")
	s.git("update-ref", "refs/heads/main", "HEAD")
	s.git("checkout", "-q", "main")
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
	s.git("commit", "-q", "--amend", "-m", "rewritten")
	s.write("apps/shop/layers/global/values.yaml", "config:\n  motd: \"after\"\n")
	s.commit("after")
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.Overwrite = []string{"dev"}, true })
	commit := s.git("rev-parse", "main")
	last, _ := s.look(nil)
	wants(t, "told", []string{last.Decision.WaitsFor}, "not on the trunk")
	s.look(nil, ordered(promote.EventPromote, "p", func(c *promotion.Command) { c.Now = true }))
	wants(t, "prod", []string{s.runs()}, commit)
	wants(t, "trailer", []string{s.git("log", "-1", "--format=%B", "env/prod")}, "Sluice-Now: because")
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

// TestRollbackHasAnAuthor, also when what it goes back to is not on the trunk that was read.
func TestRollbackHasAnAuthor(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	for _, text := range []string{"one", "two"} {
		s.release(text)
		s.look(nil)
	}
	s.look(nil, ordered(promote.EventRollback, "r", nil))
	for _, branch := range []string{"env/prod", "cluster/prod-eu-1"} {
		if who := s.git("log", "-1", "--format=%an <%ae>", branch); who != "A <a@example.com>" {
			t.Errorf("%s has the author %s", branch, who)
		}
	}
	s.git("fsck", "--full", "--strict")
}

func TestRollbackOfAFrozenCluster(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	s.look(nil)
	s.look(nil, ordered(promote.EventFreeze, "f", func(c *promotion.Command) { c.Target = "prod-eu-1" }))
	_, refused := s.look(nil, ordered(promote.EventRollback, "r", func(c *promotion.Command) { c.Clusters = []string{"prod-eu-1"} }))
	wants(t, "rollback", refused, "prod-eu-1 is frozen")
}

// TestBrokenTrunk: a mistake on the trunk stops no rollback.
func TestBrokenTrunk(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	first := s.git("rev-parse", "main")
	s.release("bad release")
	s.look(nil)
	s.write("clusters/dev-1.yaml", strings.Replace(s.git("show", "HEAD:clusters/dev-1.yaml"), "class: core", "class: coer", 1))
	s.commit("a typo in a cluster of dev")
	s.look(nil, ordered(promote.EventRollback, "r", nil))
	wants(t, "prod", []string{s.runs()}, first)
}

// TestFrozenBefore: a cluster that is frozen by command in an environment before holds up nothing, as one in the registry does not.
func TestFrozenBefore(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.git("checkout", "-q", "HEAD~1", "--", "clusters")
	s.write("sluice.yaml", strings.Replace(s.git("show", "HEAD:sluice.yaml"), "    - name: prod\n      after: [dev]\n", "    - name: staging\n      after: [dev]\n      promotion: {mode: auto}\n    - name: prod\n      after: [staging]\n", 1)+"\n")
	s.commit("three environments")
	s.hydrateThe("dev", "staging", "prod")
	s.look(nil)
	s.look(nil, ordered(promote.EventFreeze, "f", func(c *promotion.Command) { c.Environment, c.Target = "staging", "staging-edge-1" }))
	s.write("apps/baseline/app.yaml", strings.Replace(s.git("show", "HEAD:apps/baseline/app.yaml"), "namespace: baseline", "namespace: base-line", 1))
	s.commit("baseline")
	s.hydrateThe("dev")
	s.look(nil)
	s.look(nil)
	wants(t, "prod", []string{s.runs()}, s.git("rev-parse", "main"))
}

// TestForgeMerges: merge commits and squashes of a promotion request are states like others, for history and rollback too.
func TestForgeMerges(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"merge", "squash"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: auto, approvers: {users: [mia], count: 1}")
			var commits []string
			for i, text := range []string{"one", "two"} {
				commits = append(commits, s.release(text))
				before := s.git("rev-parse", "env/prod")
				s.look(nil)
				s.look(nil, ordered(promote.EventApprove, fmt.Sprint("a", i), nil))
				args := []string{"commit-tree", s.git("rev-parse", "env/prod^{tree}"), "-p", before, "-m", "Promote to prod (#7)"}
				if kind == "merge" {
					args = append(args[:4:4], "-p", s.git("rev-parse", "env/prod"), "-m", "Merge pull request #7 from acme/sluice/promote/prod")
				}
				s.git("update-ref", "refs/heads/env/prod", s.git(args...))
				if last, _ := s.look(nil); last.Decision.WaitsFor != "" {
					t.Errorf("it waits: %s", last.Decision.WaitsFor)
				}
			}
			h := s.hydrator()
			tip, err := h.Store.Resolve(t.Context(), "main")
			if err != nil {
				t.Fatal(err)
			}
			list, err := promotion.ReadHistory(t.Context(), h, tip.Tree, "prod", 10)
			if err != nil || list[0].Source.Commit != commits[1] || list[1].Source.Commit != commits[0] {
				t.Errorf("history %+v, %v", list, err)
			}
			_, refused := s.look(nil, ordered(promote.EventRollback, "r", func(c *promotion.Command) { c.Revision = commits[0] }))
			if wants(t, "prod", []string{s.runs()}, commits[0]); len(refused) > 0 {
				t.Error(refused)
			}
		})
	}
}

// TestUnreadableRecord stops its own environment alone.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	s.git("checkout", "-q", "sluice/state")
	s.write("environments/prod.yaml", "kind: SomethingNewer\n")
	s.git("commit", "-q", "-am", "a newer Sluice")
	s.git("checkout", "-q", "main")
	h := s.hydrator()
	tip, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	_, err = promotion.Look(t.Context(), h, promotion.Request{Trunk: tip, Now: s.now, Adapters: s.adapters()})
	if err == nil || !strings.Contains(err.Error(), "environment prod") {
		t.Errorf("%v", err)
	}
}

// TestUnreadableBlob: a record that exists and cannot be read is no empty record. prod is halted, and stays where it is.
func TestUnreadableBlob(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	s.look(nil, ordered(promote.EventHalt, "h", nil))
	s.release("next")
	tip := s.git("rev-parse", "env/prod")
	file := filepath.Join(s.dir, "entry")
	if err := os.WriteFile(file, []byte("100644 blob 1111111111111111111111111111111111111111\tprod.yaml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = s.dir
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close() //nolint:errcheck // it is only read
		cmd.Stdin = in
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	dir := tree("mktree", "--missing")
	if err := os.WriteFile(file, []byte("040000 tree "+dir+"\tenvironments\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	state := s.git("rev-parse", "sluice/state")
	damaged := s.git("commit-tree", tree("mktree", "--missing"), "-p", state, "-m", "damaged")
	s.git("update-ref", "refs/heads/sluice/state", damaged)
	h := s.hydrator()
	main, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	_, err = promotion.Look(t.Context(), h, promotion.Request{Trunk: main, Now: s.now, Adapters: s.adapters()})
	if err == nil || !strings.Contains(err.Error(), "environment prod") || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
	if s.git("rev-parse", "env/prod") != tip || s.git("rev-parse", "sluice/state") != damaged {
		t.Error("it was promoted without its record, or the record was written again")
	}
	s.git("update-ref", "refs/heads/sluice/state", state)
	if last, _ := s.look(nil); !strings.Contains(last.Decision.WaitsFor, "prod is halted") {
		t.Errorf("the halt is gone: %s", last.Decision.WaitsFor)
	}
}

// requests is a forge's merge requests of promotions.
type requests struct {
	open   *promotion.MergeRequest
	opened int
}

func (r *requests) Find(context.Context, string, string) (*promotion.MergeRequest, error) {
	return r.open, nil
}

func (r *requests) Open(_ context.Context, m promotion.MergeRequest) error {
	if r.open == nil {
		r.opened++
	}
	r.open = &m
	return nil
}

func (r *requests) Close(context.Context, promotion.MergeRequest, string) error {
	r.open = nil
	return nil
}

// TestClosedRequest: a merge request that a person closed is a no until a newer commit or a command; one that was merged is not
// opened again.
func TestClosedRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: request")
	r := &requests{}
	with := func(q *promotion.Request) { q.Adapters.MergeRequests = r }
	s.release("one")
	s.look(with)
	if r.opened != 1 || r.open == nil {
		t.Fatalf("%d requests were opened", r.opened)
	}
	r.open = nil // a person closes it
	for range 3 {
		last, _ := s.look(with)
		wants(t, "told", []string{last.Decision.WaitsFor}, "was closed: prod waits for a newer commit or /sluice promote prod")
	}
	if r.opened != 1 {
		t.Fatalf("it was opened again: %d", r.opened)
	}
	second := s.release("two")
	s.look(with)
	if r.opened != 2 {
		t.Fatalf("a newer commit opened no request: %d", r.opened)
	}
	s.git("update-ref", "refs/heads/env/prod", r.open.Head) // somebody merges it
	r.open = nil
	for range 3 {
		s.look(with)
	}
	wants(t, "prod", []string{s.runs()}, second)
	if r.opened != 2 {
		t.Errorf("a merged request was opened again: %d", r.opened)
	}
	s.release("three")
	s.look(with)
	r.open = nil
	s.look(with)
	last, _ := s.look(with, ordered(promote.EventPromote, "p", nil))
	if wants(t, "prod", []string{s.runs()}, s.git("rev-parse", "main")); last.Decision.WaitsFor != "" {
		t.Errorf("after a command it waits for %s", last.Decision.WaitsFor)
	}
}

// TestAutomaticRollbackIsHeld: what failed does not come back with an unrelated commit.
func TestAutomaticRollbackIsHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, onFailure: rollback, health: {commitStatuses: [sync]}")
	s.out.statuses = "success"
	s.release("good")
	s.look(nil)
	s.release("bad")
	s.out.failing = s.git("rev-parse", "main")
	s.look(nil)
	last, _ := s.look(nil)
	if len(last.Decision.Record.Holds) != 1 || last.Decision.Record.Holds[0].Cause != promote.CauseFailed {
		t.Fatalf("holds: %+v", last.Decision.Record.Holds)
	}
	s.out.failing = ""
	s.write("apps/gateway/layers/global/values.yaml", strings.ReplaceAll(s.git("show", "HEAD:apps/gateway/layers/global/values.yaml"), "5.2", "5.3")+"\n")
	s.commit("a newer gateway")
	s.hydrateThe("dev")
	s.look(nil)
	if got := s.git("grep", "-h", "motd", "env/prod", "--", "prod-eu-1/shop"); !strings.Contains(got, "good") {
		t.Errorf("the shop says %s", got)
	}
	if got := s.git("grep", "-h", "5.3", "env/prod", "--", "prod-eu-1/gateway"); got == "" {
		t.Error("the gateway did not come")
	}
	for _, name := range []string{"prod-eu-1", "prod-us-1"} {
		if got := s.git("log", "-1", "--format=%B", "cluster/"+name); !strings.Contains(got, "Sluice-App-Source: shop ") {
			t.Errorf("the trailers of %s do not name the shop's commit: %s", name, got)
		}
	}
	entries, err := promotion.ReadHistory(t.Context(), s.hydrator(), s.resolve("main").Tree, "prod", 10)
	if err != nil || !slices.ContainsFunc(entries, func(e promotion.HistoryEntry) bool {
		return e.By() == "Sluice" && strings.Contains(e.What(), "rollback: ")
	}) {
		t.Errorf("history %v, %v", entries, err)
	}
}
