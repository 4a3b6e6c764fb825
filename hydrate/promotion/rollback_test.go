package promotion_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

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

// TestAuthorsOfWhatWasRolledBack: an app that went back brings its commits again, and their authors do not approve them.
func TestAuthorsOfWhatWasRolledBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, approvers: {users: [a@example.com, mia], count: 1}")
	for _, text := range []string{"one", "two"} {
		s.release(text)
		s.look(nil, ordered(promote.EventPromote, "p"+text, nil), ordered(promote.EventApprove, "a"+text, nil))
	}
	two := s.git("rev-parse", "main")
	wants(t, "prod", []string{s.runs()}, two)
	s.look(nil, ordered(promote.EventRollback, "r", func(c *promotion.Command) { c.Apps = []string{"shop"} }))
	wants(t, "prod after the rollback", []string{s.runs()}, "shop: ")
	_, refused := s.look(nil, ordered(promote.EventPromote, "again", nil),
		ordered(promote.EventApprove, "own", func(c *promotion.Command) { c.By = "a@example.com" }))
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
	s.look(nil, ordered(promote.EventRollback, "r", func(c *promotion.Command) { c.Clusters = []string{"prod-eu-1"} }))
	wants(t, "prod after the rollback", []string{s.runs()}, "clusters:")
	s.write("README.md", "nothing is rendered from this\n")
	s.commit("readme")
	s.hydrateThe("prod")
	if got := s.git("show", "env/prod:prod-eu-1/shop/configmap-shop.yaml"); !strings.Contains(got, "two") {
		t.Errorf("the branch says that it was rendered from the trunk's tip, and prod-eu-1 has\n%s", got)
	}
}
