package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// A record of an earlier version is read, and the failures in it become holds.
func TestOldRecords(t *testing.T) {
	t.Parallel()
	const old = `apiVersion: sluice.dev/v1alpha1
kind: PromotionRecord
environment: prod
rollback: {to: {commit: c1}, tree: t1, from: {commit: c2}, at: 2026-01-02T03:04:05Z}
failed:
  - {source: {commit: c2}, reason: red health, at: 2026-01-02T03:04:05Z}
`
	r, err := rollout.DecodeRecord("prod", []byte(old))
	if err != nil || len(r.Holds) != 1 || r.Holds[0].Cause != rollout.CauseFailed || r.Holds[0].Source.Commit != "c2" ||
		r.Rollback == nil {
		t.Fatalf("the result of DecodeRecord is %+v, the error is %v", r, err)
	}
	data, err := r.Encode()
	if err != nil || strings.Contains(string(data), "failed:\n") {
		t.Errorf("the data is %s, the error is %v", data, err)
	}
	if again, err := rollout.DecodeRecord("prod", data); err != nil || len(again.Holds) != 1 {
		t.Errorf("the again is %+v, the error is %v", again, err)
	}
}

// The error names the entry and the next step.
func TestInvalidRecords(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: sluice.dev/v1alpha1\nkind: PromotionRecord\nenvironment: prod\n"
	for name, c := range map[string]struct{ text, want string }{
		"a request without a commit": {
			"request: {source: {apps: {web: c1}}, by: mia, at: 2026-01-02T03:04:05Z}\n",
			"names no source commit",
		},
		"an app without a commit": {"request: {source: {commit: c1, apps: {web: ''}}, by: mia, at: 2026-01-02T03:04:05Z}\n", "for app web"},
		"a hold without a cause": {
			"holds: [{source: {commit: c1}, since: 2026-01-02T03:04:05Z}]\n",
			"holds[0]: cause",
		},
		"a hold without a time": {"holds: [{cause: failed, source: {commit: c1}}]\n", "since is missing"},
		"a rollback without a tree": {
			"rollback: {to: {commit: c1}, tree: '', from: {}, at: 2026-01-02T03:04:05Z}\n",
			"names no tree",
		},
		"an unknown key": {"hold: []\n", "hold"},
	} {
		_, err := rollout.DecodeRecord("prod", []byte(head+c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "`sluice repair state`") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// Resume ends a halt. It ends only holds that it names: two people who both want to end the halt do not end a hold.
func TestResume(t *testing.T) {
	t.Parallel()
	members := []string{"c0", "c1", "c2"}
	record := func() rollout.Record {
		r := rollout.NewRecord("prod")
		r.Halt = &rollout.Halt{By: "ann", Reason: "look", At: at()}
		r.Holds = []rollout.Hold{{
			Cause: rollout.CauseRolledBack, Source: rollout.Source{Commit: "c2345678"}, Tree: "t2",
			Apps: []string{"shop", "team-a/web"}, By: "ann", Since: at(),
		}}
		return r
	}
	resume := func(r rollout.Record, clusters, apps []string, named ...string) (rollout.Record, error) {
		return rollout.Apply(r, rollout.Event{
			Kind: rollout.EventResume, By: "bob", At: at(), Clusters: clusters, Apps: apps, Members: members, Named: named,
		})
	}
	r, err := resume(record(), nil, nil)
	if err != nil || r.Halt != nil || len(r.Holds) != 1 {
		t.Fatalf("the halt: %+v, %v", r, err)
	}
	if _, err := resume(r, nil, nil); err == nil || !strings.Contains(err.Error(), "resume prod --hold shop --hold team-a/web") {
		t.Errorf("a second resume: %v", err)
	}
	held := func(r rollout.Record) string {
		var out []string
		for _, h := range r.Holds {
			out = append(out, strings.Join(h.Clusters, " ")+": "+strings.Join(h.Apps, " "))
		}
		return strings.Join(out, "; ")
	}
	for name, want := range map[string]string{
		"shop": ": team-a/web", "team-a": ": shop", "c1": "c0 c2: shop team-a/web", "c234567": "", "all": "",
	} {
		next, err := resume(record(), nil, nil, name)
		if got := held(next); err != nil || got != want || next.Halt == nil {
			t.Errorf("--hold %s leaves %q (want %q), the halt %v: %v", name, got, want, next.Halt, err)
		}
	}
	for _, name := range []string{"nosuch", "c23", ""} {
		if _, err := resume(record(), nil, nil, name); err == nil || !strings.Contains(err.Error(), "no hold of prod is named") {
			t.Errorf("--hold %q: %v", name, err)
		}
	}
	r, err = resume(record(), []string{"c1"}, []string{"shop"})
	if got := held(r); err != nil || r.Halt == nil || got != "c0 c2: shop team-a/web; c1: team-a/web" {
		t.Errorf("a part leaves %q: %v", got, err)
	}
	if next, err := resume(record(), nil, nil, "all", "shop"); err != nil || len(next.Holds) > 0 {
		t.Errorf("two names of one hold leave %q: %v", held(next), err)
	}
	if _, err := resume(record(), []string{"c1"}, nil, "shop"); err == nil {
		t.Error("--hold with --cluster ends a hold")
	}
	if _, err := resume(record(), nil, []string{"nosuch"}); err == nil {
		t.Error("a scope in which nothing is held is resumed")
	}
}

// What a command ended is said.
func TestEnded(t *testing.T) {
	t.Parallel()
	before := rollout.NewRecord("prod")
	before.Halt = &rollout.Halt{By: "ann", Reason: "look", At: at()}
	before.Holds = []rollout.Hold{{
		Cause: rollout.CauseRolledBack, Source: rollout.Source{Commit: "c2345678"}, Tree: "t2",
		Apps: []string{"shop", "web"}, By: "ann", Reason: "slow", Since: at(),
	}}
	before.Freezes = []rollout.Freeze{{Target: "eu-1", From: at(), By: "mia", Reason: "fair"}}
	apply := func(e rollout.Event) string {
		t.Helper()
		e.By, e.At, e.Members = "bob", at(), []string{"eu-1"}
		next, err := rollout.Apply(before, e)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(rollout.Ended(before, next, at()), "; ")
	}
	for want, e := range map[string]rollout.Event{
		"no longer halted by ann: look": {Kind: rollout.EventResume},
		"the hold has ended on shop, web of c2345678 since 2026-03-27 10:00 UTC: it was rolled back by ann: slow": {
			Kind: rollout.EventResume, Named: []string{"c2345678"},
		},
		"a part of the hold has ended on shop, web of c2345678 since 2026-03-27 10:00 UTC: it was rolled back by ann: slow; held still: web on all of prod": {
			Kind: rollout.EventResume, Named: []string{"shop"},
		},
		"eu-1 is no longer frozen by mia: fair":           {Kind: rollout.EventUnfreeze, Target: "eu-1"},
		"eu-1 was frozen by mia: fair, which is replaced": {Kind: rollout.EventFreeze, Target: "eu-1", Reason: "longer"},
		"": {Kind: rollout.EventHalt},
	} {
		if got := apply(e); got != want {
			t.Errorf("%s: got %q, want %q", e.Kind, got, want)
		}
	}
}

// No hold ends because there are many. Instead, a partial rollback is refused.
func TestManyHolds(t *testing.T) {
	t.Parallel()
	r, at := rollout.NewRecord("prod"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 2000 {
		ask := rollout.Event{
			Kind: rollout.EventRollback, By: "mia", At: at, Source: rollout.Source{Commit: "b"},
			Tree: fmt.Sprint("t", i), To: rollout.PastState{Source: rollout.Source{Commit: "a"}, Tree: "x"},
			Clusters: []string{fmt.Sprint("c", i)},
		}
		next, err := rollout.Apply(r, ask)
		if err != nil {
			break
		}
		if r, err = rollout.Apply(next, rollout.Event{
			Kind: rollout.EventRolledBack, At: at, Tree: fmt.Sprint("t", i+1),
			Source: rollout.Source{Commit: "b"}, Clusters: ask.Clusters,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.Holds); n < 100 || n >= 2000 || r.Holds[0].Clusters[0] != "c0" {
		t.Errorf("%d holds, the first is of %v", n, r.Holds[0].Clusters)
	}
}

// A run can end after it has carried out a rollback of an app, and before it stores that. A rollback of the environment
// then takes its place in the record. What the first one took back stays held.
func TestReplacedRollbackThatIsDone(t *testing.T) {
	t.Parallel()
	back := func(by, from, tree string, apps ...string) rollout.Event {
		return rollout.Event{
			Kind: rollout.EventRollback, By: by, At: at(), Source: rollout.Source{Commit: from}, Tree: tree, Apps: apps,
			To: rollout.PastState{Source: rollout.Source{Commit: "s0"}, Tree: "t0"},
		}
	}
	for name, c := range map[string]struct {
		tree string // of the environment branch when the second rollback is requested
		want int
	}{"done": {"t2", 1}, "not done": {"t1", 0}} {
		r := rollout.NewRecord("prod")
		for _, e := range []rollout.Event{back("ann", "s1", "t1", "cart"), back("bob", "s2", c.tree)} {
			var err error
			if r, err = rollout.Apply(r, e); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.Holds) != c.want || r.Rollback == nil || r.Rollback.By != "bob" {
			t.Errorf("%s: holds %v, rollback %+v", name, r.Holds, r.Rollback)
		}
		if c.want == 1 && (len(r.Holds) != 1 || r.Holds[0].Source.Commit != "s1" || r.Holds[0].By != "ann" ||
			fmt.Sprint(r.Holds[0].Apps) != "[cart]") {
			t.Errorf("%s: the holds are %+v", name, r.Holds)
		}
	}
}
