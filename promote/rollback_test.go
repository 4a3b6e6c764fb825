package promote_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// TestRollbackOfANewCluster: what was not there has nothing to go back to; emptying it would have it pruned.
func TestRollbackOfANewCluster(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	us := s.Git("show", "HEAD:clusters/prod-us-1.yaml")
	s.Git("rm", "-q", "clusters/prod-us-1.yaml")
	s.Commit("two clusters")
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.MaxDeletions = []string{"dev", "prod"}, 1000 })
	s.Write("clusters/prod-us-1.yaml", us+"\n")
	s.Commit("a new cluster")
	s.hydrateThe("dev")
	s.look(nil)
	before := s.Git("ls-tree", "-r", "--name-only", "cluster/prod-us-1")
	_, refused := s.look(nil, ordered(rollout.EventRollback, "x", func(c *promote.Command) {
		c.Clusters, c.Revision = []string{"prod-us-1"}, s.Git("rev-parse", "main~1")
	}))
	wants(t, "rollback", refused, "did not exist")
	if after := s.Git("ls-tree", "-r", "--name-only", "cluster/prod-us-1"); before == "" || after != before {
		t.Errorf("%q became %q", before, after)
	}
}

// TestRollbackHasAnAuthor, also when what it goes back to is not on the trunk that was read.
func TestRollbackHasAnAuthor(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	for _, text := range []string{"one", "two"} {
		s.release(text)
		s.look(nil)
	}
	s.look(nil, ordered(rollout.EventRollback, "r", nil))
	for _, branch := range []string{"env/prod", "cluster/prod-eu-1"} {
		if who := s.Git("log", "-1", "--format=%an <%ae>", branch); who != "A <a@example.com>" {
			t.Errorf("%s has the author %s", branch, who)
		}
	}
	s.Git("fsck", "--full", "--strict")
}

func TestRollbackOfAFrozenCluster(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	s.look(nil)
	s.look(nil, ordered(rollout.EventFreeze, "f", func(c *promote.Command) { c.Target = "prod-eu-1" }))
	_, refused := s.look(nil, ordered(rollout.EventRollback, "r",
		func(c *promote.Command) { c.Clusters = []string{"prod-eu-1"} }))
	wants(t, "rollback", refused, "prod-eu-1 is frozen")
}

// A rollback whose tree is not in the history of the branch any more ends with a halt. It does not fail in every later
// pass.
func TestUnreachableRollback(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, rollback := range map[string]string{
		"whole":      "",
		"of an app":  "  apps: [shop]\n",
		"of cluster": "  clusters: [prod-eu-1]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: auto")
			s.release("one")
			s.look(nil)
			commit := s.Git("rev-parse", "main")
			s.Git("checkout", "-q", "sluice/state")
			s.Write("environments/prod.yaml", s.Git("show", "HEAD:environments/prod.yaml")+fmt.Sprintf(
				"\nrollback:\n  to: {commit: %s}\n  tree: %s\n  from: {commit: %s}\n  by: mia\n  at: 2024-01-02T03:04:05Z\n%s", commit, strings.Repeat("1", 40), commit, rollback))
			s.Git("commit", "-q", "-am", "a rollback")
			s.Git("checkout", "-q", "main")
			env := s.Git("rev-parse", "env/prod")
			s.look(nil)
			last, _ := s.look(nil)
			if h := last.Decision.Record.Halt; h == nil || !strings.Contains(h.Reason, "by mia cannot be done") ||
				!strings.Contains(h.Reason, "sluice history prod") {
				t.Fatalf("halt %+v", h)
			}
			state := s.Git("rev-parse", "sluice/state")
			if last, _ = s.look(nil); last.Decision.Record.Rollback != nil ||
				s.Git("rev-parse", "sluice/state") != state {
				t.Errorf("the rollback does not end: %+v", last.Decision.Record.Rollback)
			}
			var text strings.Builder
			if last.WriteText(&text, "sluice"); !strings.Contains(text.String(), "cannot be done") {
				t.Errorf("status does not say it:\n%s", text.String())
			}
			if s.Git("rev-parse", "env/prod") != env {
				t.Error("the environment branch moved")
			}
		})
	}
}

// --to with a source commit restores the state that ran it alone, not a later one that ran it with exceptions. If there
// is no such state, the rollback is refused with those to choose from.
func TestRollbackToAWholeState(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	one := s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p1", nil))
	whole := s.Git("rev-parse", "env/prod^{tree}")
	s.Write("apps/gateway/layers/global/values.yaml", strings.ReplaceAll(s.Git("show",
		"HEAD:apps/gateway/layers/global/values.yaml"), "5.2", "5.3")+"\n")
	two := s.release("two")
	// one, with the shop of two
	s.look(nil, ordered(rollout.EventPromote, "shop", func(c *promote.Command) { c.Apps = []string{"shop"} }))
	mixed := s.Git("rev-parse", "env/prod")
	three := s.release("three")
	s.look(nil, ordered(rollout.EventPromote, "p3", nil))
	latest := s.Git("rev-parse", "env/prod")
	back := func(id string, change func(*promote.Command)) []string {
		_, refused := s.look(nil, ordered(rollout.EventRollback, id, change))
		return refused
	}
	if refused := back("r1", func(c *promote.Command) { c.Revision = one }); s.Git("rev-parse",
		"env/prod^{tree}") != whole {
		t.Errorf("it is not at the state that ran %s alone: %q\n%s", one[:10], refused, s.runs())
	}
	refused := back("r2", func(c *promote.Command) { c.Revision = two })
	wants(t, "a commit that ran only with exceptions", refused, "--to "+mixed[:10])
	if s.Git("rev-parse", "env/prod^{tree}") != whole {
		t.Error("something moved")
	}
	wants(t, "what runs", back("r3", func(c *promote.Command) { c.Revision = one }), "already")
	wants(t, "what never ran", back("r4", func(c *promote.Command) { c.Revision = strings.Repeat("1", 12) }),
		"never ran")
	// The shop alone ran all of two.
	if refused := back("r5", func(c *promote.Command) {
		c.Revision, c.Apps = two,
			[]string{"shop"}
	}); len(refused) > 0 {
		t.Error(refused)
	}
	wants(t, "the shop", []string{s.Git("grep", "-h", "motd", "env/prod", "--", "prod-eu-1/shop")}, "two")
	wants(t, "a commit of the branch with the tree that runs",
		back("r6", func(c *promote.Command) { c.Revision = mixed[:12] }), "already")
	if refused := back("r7", func(c *promote.Command) { c.Revision = latest[:12] }); len(refused) > 0 ||
		!strings.Contains(s.runs(), three) {
		t.Errorf("a commit of the branch: %q", refused)
	}
}

// A promotion to a commit that is older than all that runs names the rollback to it.
func TestPromotionToAnOldCommit(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual")
	one := s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p1", nil))
	s.release("two")
	s.look(nil, ordered(rollout.EventPromote, "p2", nil))
	_, refused := s.look(nil, ordered(rollout.EventPromote, "old", func(c *promote.Command) { c.Revision = one[:10] }))
	wants(t, "an old commit", refused,
		"older than all that environments run: push a newer commit to the trunk first; `/sluice rollback prod --to "+
			one[:10]+"` goes back")
	_, refused = s.look(nil, ordered(rollout.EventPromote, "short", func(c *promote.Command) { c.Revision = one[:3] }))
	wants(t, "the beginning of an id", refused, "at least 7 digits")
}

// A partial rollback right after the environment branch moved, before any pass recorded the rollout, stops that rollout
// as well.
func TestPartialRollbackRightAfterTheMove(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, waves: [{name: canary, clusters: {matchLabels: {cluster: prod-eu-1}}}, {name: rest}]")
	s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p1", nil))
	s.look(nil)
	s.Write("apps/gateway/layers/global/values.yaml", strings.ReplaceAll(s.Git("show",
		"HEAD:apps/gateway/layers/global/values.yaml"), "5.2", "5.3")+"\n")
	s.release("two")
	h := s.Hydrator(2)
	look := func(c promote.Command) { // one pass
		t.Helper()
		list, err := promote.Look(t.Context(), h, promote.Request{
			Trunk: s.tip(), Commands: []promote.Command{c},
			Now: s.now, Adapters: s.adapters(),
		})
		if err != nil || len(list[0].Refused) > 0 {
			t.Fatalf("the list is %+v, the error is %v", list, err)
		}
	}
	look(ordered(rollout.EventPromote, "p2", nil)) // it moves the environment branch
	before := s.Git("rev-parse", "cluster/prod-us-1^{tree}")
	look(ordered(rollout.EventRollback, "r", func(c *promote.Command) { c.Apps = []string{"shop"} }))
	if s.Git("rev-parse", "cluster/prod-us-1^{tree}") != before {
		t.Errorf("the rollback of shop brought the gateway:\n%s",
			s.Git("log", "-1", "--format=%B", "cluster/prod-us-1"))
	}
}

// TestBrokenTrunk: a mistake on the trunk stops no rollback.
func TestBrokenTrunk(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	first := s.Git("rev-parse", "main")
	s.release("bad release")
	s.look(nil)
	s.Write("clusters/dev-1.yaml", strings.Replace(s.Git("show", "HEAD:clusters/dev-1.yaml"), "class: core",
		"class: coer", 1))
	s.Commit("a typo in a cluster of dev")
	s.look(nil, ordered(rollout.EventRollback, "r", nil))
	wants(t, "prod", []string{s.runs()}, first)
}

// TestForgeMerges: merge commits and squashes of a promotion request are states like others, for history and rollback
// too.
func TestForgeMerges(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"merge", "squash"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: request")
			r := &requests{}
			with := func(q *promote.Request) { q.Adapters.MergeRequests = r }
			var commits []string
			for _, text := range []string{"one", "two"} {
				commits = append(commits, s.release(text))
				s.look(with)
				args := []string{
					"commit-tree", s.Git("rev-parse", r.open.Head+"^{tree}"), "-p", s.Git("rev-parse", "env/prod"), "-m",
					"Promote to prod (#7)",
				}
				if kind == "merge" {
					args = append(args[:4:4], "-p", r.open.Head, "-m", "Merge pull request #7 from acme/sluice/promote/prod")
				}
				s.Git("update-ref", "refs/heads/env/prod", s.Git(args...))
				r.open = nil
				if last, _ := s.look(with); last.Decision.WaitsFor != "" {
					t.Errorf("it waits: %s", last.Decision.WaitsFor)
				}
			}
			h := s.Hydrator(2)
			tip, err := h.Store.Resolve(t.Context(), "main")
			if err != nil {
				t.Fatal(err)
			}
			list, err := promote.ReadHistory(t.Context(), h, tip.Tree, "prod", 10)
			list = slices.DeleteFunc(list, func(e promote.HistoryEntry) bool { return e.Command != nil })
			if err != nil || list[0].Source.Commit != commits[1] || list[1].Source.Commit != commits[0] {
				t.Errorf("history %+v, %v", list, err)
			}
			_, refused := s.look(nil, ordered(rollout.EventRollback, "r",
				func(c *promote.Command) { c.Revision = commits[0] }))
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
	s.Git("checkout", "-q", "sluice/state")
	s.Write("environments/prod.yaml", "kind: SomethingNewer\n")
	s.Git("commit", "-q", "-am", "a newer Sluice")
	s.Git("checkout", "-q", "main")
	h := s.Hydrator(2)
	tip, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	_, err = promote.Look(t.Context(), h, promote.Request{Trunk: tip, Now: s.now, Adapters: s.adapters()})
	if err == nil || !strings.Contains(err.Error(), "environment prod") {
		t.Errorf("the error is %v", err)
	}
}

// TestUnreadableBlob: a record that exists and cannot be read is no empty record. prod is halted, and stays where it
// is.
func TestUnreadableBlob(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	s.look(nil, ordered(rollout.EventHalt, "h", nil))
	s.release("next")
	tip := s.Git("rev-parse", "env/prod")
	file := filepath.Join(s.Dir, "entry")
	if err := os.WriteFile(file, []byte("100644 blob 1111111111111111111111111111111111111111\tprod.yaml\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	tree := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = s.Dir
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
	state := s.Git("rev-parse", "sluice/state")
	damaged := s.Git("commit-tree", tree("mktree", "--missing"), "-p", state, "-m", "damaged")
	s.Git("update-ref", "refs/heads/sluice/state", damaged)
	h := s.Hydrator(2)
	main, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	_, err = promote.Look(t.Context(), h, promote.Request{Trunk: main, Now: s.now, Adapters: s.adapters()})
	if err == nil || !strings.Contains(err.Error(), "environment prod") ||
		!strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("the error is %v", err)
	}
	if s.Git("rev-parse", "env/prod") != tip || s.Git("rev-parse", "sluice/state") != damaged {
		t.Error("it was promoted without its record, or the record was written again")
	}
	s.Git("update-ref", "refs/heads/sluice/state", state)
	if last, _ := s.look(nil); !strings.Contains(last.Decision.WaitsFor, "prod is halted") {
		t.Errorf("the halt is gone: %s", last.Decision.WaitsFor)
	}
}

// TestClosedRequest: a merge request that a person closed is a no until a newer commit or a command; one that was
// merged is not opened again.
func TestClosedRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: request")
	r := &requests{}
	with := func(q *promote.Request) { q.Adapters.MergeRequests = r }
	s.release("one")
	s.look(with)
	if r.opened != 1 || r.open == nil {
		t.Fatalf("%d requests were opened", r.opened)
	}
	r.open = nil // a person closes it
	for range 3 {
		last, _ := s.look(with)
		wants(t, "told", []string{last.Decision.WaitsFor},
			"was closed: prod waits for a newer commit or /sluice promote prod")
	}
	if r.opened != 1 {
		t.Fatalf("it was opened again: %d", r.opened)
	}
	second := s.release("two")
	s.look(with)
	if r.opened != 2 {
		t.Fatalf("a newer commit opened no request: %d", r.opened)
	}
	s.Git("update-ref", "refs/heads/env/prod", r.open.Head) // somebody merges it
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
	last, _ := s.look(with, ordered(rollout.EventPromote, "p", nil))
	if wants(t, "prod", []string{s.runs()}, s.Git("rev-parse", "main")); last.Decision.WaitsFor != "" {
		t.Errorf("after a command it waits for %s", last.Decision.WaitsFor)
	}
}

// TestNoRequestForRecordsAlone: a newer commit that changes no manifest but of a held app opens no merge request; one
// that changes another app does, without the held app.
func TestNoRequestForRecordsAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: request")
	r := &requests{}
	with := func(q *promote.Request) { q.Adapters.MergeRequests = r }
	for _, text := range []string{"one", "two"} {
		s.release(text)
		s.look(nil, ordered(rollout.EventPromote, "p"+text, nil))
	}
	s.look(nil, ordered(rollout.EventRollback, "r", func(c *promote.Command) { c.Apps = []string{"shop"} }))
	s.Write("README.md", "nothing is rendered from this\n")
	s.Commit("readme")
	s.hydrateThe("dev")
	last, _ := s.look(with)
	if wants(t, "told", []string{last.Decision.WaitsFor}, "held back"); r.opened != 0 {
		t.Errorf("%d merge requests that change only records", r.opened)
	}
	s.Write("apps/gateway/layers/global/values.yaml", strings.ReplaceAll(s.Git("show",
		"HEAD:apps/gateway/layers/global/values.yaml"), "5.2", "5.3")+"\n")
	s.Commit("a newer gateway")
	s.hydrateThe("dev")
	if s.look(with); r.opened != 1 || r.open == nil {
		t.Fatalf("%d merge requests for the gateway", r.opened)
	}
	for path, want := range map[string]string{"prod-eu-1/gateway": "5.3", "prod-eu-1/shop": "one"} {
		if got := s.Git("grep", "-hE", "motd|5[.][23]", r.open.Head, "--", path); !strings.Contains(got, want) {
			t.Errorf("%s of the merge request has %s, want %s", path, got, want)
		}
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
	s.out.failing = s.Git("rev-parse", "main")
	s.look(nil)
	last, _ := s.look(nil)
	if len(last.Decision.Record.Holds) != 1 || last.Decision.Record.Holds[0].Cause != rollout.CauseFailed {
		t.Fatalf("holds: %+v", last.Decision.Record.Holds)
	}
	s.out.failing = ""
	s.Write("apps/gateway/layers/global/values.yaml", strings.ReplaceAll(s.Git("show",
		"HEAD:apps/gateway/layers/global/values.yaml"), "5.2", "5.3")+"\n")
	s.Commit("a newer gateway")
	s.hydrateThe("dev")
	s.look(nil)
	if got := s.Git("grep", "-h", "motd", "env/prod", "--", "prod-eu-1/shop"); !strings.Contains(got, "good") {
		t.Errorf("the shop says %s", got)
	}
	if got := s.Git("grep", "-h", "5.3", "env/prod", "--", "prod-eu-1/gateway"); got == "" {
		t.Error("the gateway did not come")
	}
	for _, name := range []string{"prod-eu-1", "prod-us-1"} {
		if got := s.Git("log", "-1", "--format=%B", "cluster/"+name); !strings.Contains(got,
			"Sluice-App-Source: shop ") {
			t.Errorf("the trailers of %s do not name the shop's commit: %s", name, got)
		}
	}
	entries, err := promote.ReadHistory(t.Context(), s.Hydrator(2), s.tip().Tree, "prod", 10)
	if err != nil || !slices.ContainsFunc(entries, func(e promote.HistoryEntry) bool {
		return e.By() == "Sluice" && strings.Contains(e.What(), "rollback: ")
	}) {
		t.Errorf("history %v, %v", entries, err)
	}
}

// TestAuthorsOfWhatWasRolledBack: an app that went back brings its commits again, and their authors do not approve
// them.
func TestAuthorsOfWhatWasRolledBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [a@example.com, mia], count: 1}")
	for _, text := range []string{"one", "two"} {
		s.release(text)
		s.look(nil, ordered(rollout.EventPromote, "p"+text, nil), ordered(rollout.EventApprove, "a"+text, nil))
	}
	two := s.Git("rev-parse", "main")
	wants(t, "prod", []string{s.runs()}, two)
	s.look(nil, ordered(rollout.EventRollback, "r", func(c *promote.Command) { c.Apps = []string{"shop"} }))
	wants(t, "prod after the rollback", []string{s.runs()}, "shop: ")
	_, refused := s.look(nil, ordered(rollout.EventPromote, "plain", nil))
	for _, want := range []string{"it would bring back what was rolled back: shop", "rolled back by mia", "--again REASON"} {
		wants(t, "a promotion without a reason", refused, want)
	}
	_, refused = s.look(nil, ordered(rollout.EventPromote, "again", func(c *promote.Command) { c.Again = "it was the node" }),
		ordered(rollout.EventApprove, "own", func(c *promote.Command) { c.By = "a@example.com" }))
	wants(t, "the author's approval", refused, "is an author of what it brings")
}

// TestHydrationAfterAPartialRollback: clusters that run an older commit than the branch names are planned as well.
func TestHydrationAfterAPartialRollback(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	for _, text := range []string{"one", "two"} {
		s.release(text)
		s.look(nil)
	}
	s.look(nil, ordered(rollout.EventRollback, "r", func(c *promote.Command) { c.Clusters = []string{"prod-eu-1"} }))
	wants(t, "prod after the rollback", []string{s.runs()}, "clusters:")
	s.Write("README.md", "nothing is rendered from this\n")
	s.Commit("readme")
	s.hydrateThe("prod")
	if got := s.Git("show", "env/prod:prod-eu-1/shop/configmap-shop.yaml"); !strings.Contains(got, "two") {
		t.Errorf("the branch says that it was rendered from the trunk's tip, and prod-eu-1 has\n%s", got)
	}
}
