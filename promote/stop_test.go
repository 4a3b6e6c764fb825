package promote_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/retry"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// stuck is a world outside of Git that answers nothing: it says what it was asked for, and waits until the context
// ends.
type stuck struct {
	promote.Adapters
	asked []string
	seen  func()
}

func (w *stuck) wait(ctx context.Context, what string) {
	w.asked = append(w.asked, what)
	w.seen()
	<-ctx.Done()
}

func (w *stuck) Statuses(ctx context.Context, _ string) ([]rollout.Status, error) {
	w.wait(ctx, "statuses")
	return nil, ctx.Err()
}

func (w *stuck) Check(ctx context.Context, _ fleet.Environment, _ time.Time) []rollout.CheckResult {
	w.wait(ctx, "checks")
	return nil
}

func (w *stuck) Judge(ctx context.Context, _ promote.Part) (rollout.State, string) {
	w.wait(ctx, "policy")
	return rollout.Unknown, ""
}

// A freeze and a halt are stored before anything is asked for that may not answer: statuses, checks, policy, also of
// environments before theirs. With OnlyStop, nothing is asked for at all.
func TestStopsWaitForNothing(t *testing.T) {
	t.Parallel()
	const waits = `mode: auto, health: {commitStatuses: ["sync"]}, checks: [{name: up, http: {url: "https://example.com/"}}]`
	for name, kind := range map[string]rollout.EventKind{"freeze": rollout.EventFreeze, "halt": rollout.EventHalt} {
		for _, only := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " alone"}[only], func(t *testing.T) {
				t.Parallel()
				s := newStage(t, waits)
				s.Write("sluice.yaml", strings.Replace(s.Read("sluice.yaml"), "    - name: prod\n      after: [dev]",
					"    - name: before\n      after: [dev]\n      promotion: {"+waits+
						"}\n    - name: prod\n      after: [before]", 1))
				s.Git("commit", "-qam", "an environment before prod")
				s.release("to be promoted")
				s.hydrateThe("dev")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stored := func() bool {
					return strings.Contains(s.Git("for-each-ref", "refs/heads/"+rollout.StateBranch),
						rollout.StateBranch) && strings.Contains(s.Git("grep", "-h", "", rollout.StateBranch),
						"because")
				}
				w := &stuck{}
				early := false
				w.seen = func() { early = early || !stored(); cancel() }
				h := s.Hydrator(2)
				c, err := h.Store.Resolve(ctx, "main")
				if err != nil {
					t.Fatal(err)
				}
				list, err := promote.Run(ctx, h, promote.Request{
					Trunk: c, Now: time.Now(), Commands: []promote.Command{ordered(kind, "1", nil)}, OnlyStop: only,
					Adapters: promote.Adapters{Policy: w, Statuses: w, Checks: w},
				})
				if !stored() {
					t.Errorf("nothing is stored: %+v, %v", list, err)
				}
				if early {
					t.Errorf("it asks for %q first", w.asked[0])
				}
				i := slices.IndexFunc(list, func(st promote.Status) bool { return st.Environment == "prod" })
				switch {
				case only && (err != nil || len(w.asked) > 0 || i < 0):
					t.Errorf("%v, asks for %q, %+v", err, w.asked, list)
				case only:
					if text := list[i].Decision.WaitsFor; !strings.Contains(text, "because") &&
						kind == rollout.EventFreeze || !strings.Contains(text, "/sluice") {
						t.Errorf("it says %q", text)
					}
				case len(w.asked) == 0:
					t.Error("nothing is asked for: nothing was tested")
				}
			})
		}
	}
}

// A freeze and a halt go before commands that wait. A command that was said earlier does not end them; one that was
// said later does.
func TestEarlierCommandsEndNoStop(t *testing.T) {
	t.Parallel()
	for stop, end := range map[rollout.EventKind]rollout.EventKind{
		rollout.EventFreeze: rollout.EventUnfreeze,
		rollout.EventHalt:   rollout.EventResume,
	} {
		t.Run(string(stop), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: auto")
			at := s.now.Truncate(time.Second).Add(-time.Minute)
			said := func(when time.Time) func(*promote.Command) {
				return func(c *promote.Command) { c.Said, c.At = when, when }
			}
			s.look(nil, ordered(stop, "1", said(at)))
			commit := s.release("one")
			_, refused := s.look(nil, ordered(end, "2", said(at.Add(-time.Second))))
			wants(t, "what was said before", refused, "after this was said")
			if strings.Contains(s.runs(), commit) {
				t.Fatal("prod moves")
			}
			// of the same comment, or the same second
			if _, refused = s.look(nil, ordered(end, "3", said(at))); len(refused) > 0 {
				t.Error(refused)
			}
			s.look(nil)
			wants(t, "prod", []string{s.runs()}, commit)
		})
	}
}

// Two freezes or two halts may overtake commands that were said between them, and arrive in another order: the later
// one holds.
func TestTheLaterOfTwoStopsHolds(t *testing.T) {
	t.Parallel()
	said := func(when, until time.Time) func(*promote.Command) {
		return func(c *promote.Command) { c.Said, c.At, c.Until = when, when, until }
	}
	t.Run("halt", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "mode: auto")
		at := s.now.Truncate(time.Second).Add(-time.Minute)
		s.look(nil, ordered(rollout.EventHalt, "1", said(at.Add(-time.Minute), time.Time{})))
		s.look(nil, ordered(rollout.EventHalt, "3", said(at, time.Time{})))
		commit := s.release("one")
		_, refused := s.look(nil, ordered(rollout.EventResume, "2", said(at.Add(-time.Second), time.Time{})))
		wants(t, "what was said between two halts", refused, "after this was said")
		if strings.Contains(s.runs(), commit) {
			t.Error("prod moves")
		}
		if _, refused = s.look(nil, ordered(rollout.EventResume, "4",
			said(at.Add(time.Second), time.Time{}))); len(refused) > 0 {
			t.Error(refused)
		}
	})
	t.Run("freeze", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "mode: auto")
		at := s.now.Truncate(time.Second).Add(-time.Minute)
		s.look(nil, ordered(rollout.EventFreeze, "2", said(at, time.Time{})))
		_, refused := s.look(nil, ordered(rollout.EventFreeze, "1", said(at.Add(-time.Second), s.now.Add(time.Hour))))
		wants(t, "a shorter freeze that was said earlier", refused, "after this was said")
		if _, refused = s.look(nil, ordered(rollout.EventFreeze, "3",
			said(at.Add(time.Second), s.now.Add(time.Hour)))); len(refused) > 0 {
			t.Error(refused)
		}
	})
}

// The forge's clock may be ahead of Sluice's. A freeze and a halt hold at once, and what was said before them, by the
// forge's clock, ends neither.
func TestStopsOfAForgeWhoseClockIsAhead(t *testing.T) {
	t.Parallel()
	const ahead = 10 * time.Minute
	for stop, end := range map[rollout.EventKind]rollout.EventKind{
		rollout.EventFreeze: rollout.EventUnfreeze,
		rollout.EventHalt:   rollout.EventResume,
	} {
		t.Run(string(stop), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: auto")
			start := s.now.Truncate(time.Second)
			// what is said at a second of the forge's clock, and executed at once
			at := func(second int) func(*promote.Command) {
				return func(c *promote.Command) {
					c.Said, c.At = start.Add(ahead+time.Duration(second)*time.Second),
						s.now
				}
			}
			s.look(nil, ordered(stop, "1", at(30)))
			commit := s.release("one")
			s.look(nil)
			_, refused := s.look(nil, ordered(end, "2", at(29)))
			wants(t, "what was said before", refused, "after this was said")
			s.look(nil, ordered(stop, "3", at(20))) // said before the first one, and executed after it
			_, refused = s.look(nil, ordered(end, "4", at(25)))
			wants(t, "what was said between two", refused, "after this was said")
			if strings.Contains(s.runs(), commit) {
				t.Fatal("prod moves")
			}
			if _, refused = s.look(nil, ordered(end, "5", at(31))); len(refused) > 0 {
				t.Error(refused)
			}
			s.look(nil)
			wants(t, "prod", []string{s.runs()}, commit)
		})
	}
}

// slowServer carries out a push although nobody waits for the answer any more.
type slowServer struct {
	gitstore.Branches
	interrupt func()
	pushes    int
	left      bool
}

func (b *slowServer) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move,
	o gitstore.PushOptions,
) ([]gitstore.MoveResult, error) {
	b.pushes++
	if strings.HasPrefix(moves[0].Branch, "env/") {
		b.interrupt()
		b.left = b.left || ctx.Err() != nil
	}
	return b.Branches.Push(context.WithoutCancel(ctx), w, moves, o)
}

// A promotion that is interrupted while the server moves a branch waits for the answer, and pushes nothing else: when
// it ends, nothing moves any more, so a freeze that interrupts it holds as soon as it is stored.
func TestInterruptedPromotionLeavesNoPush(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	commit := s.release("one")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := s.Hydrator(2)
	b := &slowServer{Branches: h.Branches, interrupt: cancel}
	h = h.WithBranches(b)
	c, err := h.Store.Resolve(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	b.interrupt = func() { before = b.pushes; cancel() }
	_, err = promote.Run(ctx, h, promote.Request{Trunk: c, Now: s.now, Adapters: s.adapters()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	if b.left {
		t.Error("it does not wait for the answer")
	}
	if wants(t, "prod", []string{s.runs()}, commit); before == 0 || b.pushes != before {
		t.Errorf("%d pushes, the interruption was at %d", b.pushes, before)
	}
}

// A process whose lease is lost gives its push up at once: another one may store a freeze.
func TestPushWithoutLeaseIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.release("one")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	h := s.Hydrator(2)
	b := &hangingServer{Branches: h.Branches, lost: func() { cancel(retry.ErrTaken) }}
	h = h.WithBranches(b)
	c, err := h.Store.Resolve(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	_, err = promote.Run(ctx, h, promote.Request{Trunk: c, Now: s.now, Adapters: s.adapters()})
	if !b.begun || !errors.Is(err, retry.ErrTaken) {
		t.Errorf("begun: %t, it ends with %v", b.begun, err)
	}
}

// hangingServer does not answer the push of an environment, during which the lease is lost.
type hangingServer struct {
	gitstore.Branches
	lost  func()
	begun bool
}

func (b *hangingServer) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move,
	o gitstore.PushOptions,
) ([]gitstore.MoveResult, error) {
	if !strings.HasPrefix(moves[0].Branch, "env/") {
		return b.Branches.Push(ctx, w, moves, o)
	}
	b.begun = true
	b.lost()
	// with the grace period, it would be the limit that ends it
	limit, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	<-limit.Done()
	return nil, context.Cause(limit)
}

// meanwhileServer does something before it moves an environment.
type meanwhileServer struct {
	gitstore.Branches
	do func()
}

func (b *meanwhileServer) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move,
	o gitstore.PushOptions,
) ([]gitstore.MoveResult, error) {
	if do := b.do; do != nil && strings.HasPrefix(moves[0].Branch, "env/") {
		b.do = nil
		do()
	}
	return b.Branches.Push(ctx, w, moves, o)
}

// A freeze that another process stores after a promotion was decided, and before its push, holds: the push compares the
// records with those that were decided on.
func TestFreezeAfterADecisionHolds(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	before := s.runs()
	s.release("one")
	h := s.Hydrator(2)
	b := &meanwhileServer{Branches: h.Branches}
	h = h.WithBranches(b)
	c, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	frozen := false
	b.do = func() {
		frozen = true
		s.look(nil, ordered(rollout.EventFreeze, "1", nil))
	}
	list, err := promote.Run(t.Context(), h, promote.Request{Trunk: c, Now: s.now, Adapters: s.adapters()})
	if err != nil || !frozen || s.runs() != before {
		t.Fatalf("frozen: %t, prod runs %s, %s before: %v", frozen, s.runs(), before, err)
	}
	if last := list[len(list)-1]; len(last.Decision.Freezes) != 1 ||
		!strings.Contains(last.Decision.WaitsFor, "frozen") {
		t.Errorf("the decision is %+v", last.Decision)
	}
}

// rewrittenTrunk does something before the second listing.
type rewrittenTrunk struct {
	gitstore.Branches
	listings int
	do       func()
}

func (b *rewrittenTrunk) List(ctx context.Context, prefixes ...string) (map[string]gitstore.Hash, error) {
	if b.listings++; b.listings == 2 {
		b.do()
	}
	return b.Branches.List(ctx, prefixes...)
}

// A commit that somebody removes from the trunk after its promotion was decided, and before its push, is not promoted.
func TestRewrittenTrunkAfterADecision(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	before := s.runs()
	s.release("one")
	h := s.Hydrator(2)
	remote, err := h.Store.Remote("file://"+s.Dir, gitstore.Auth{})
	if err != nil {
		t.Fatal(err)
	}
	b := &rewrittenTrunk{Branches: remote, do: func() { s.Git("update-ref", "refs/heads/main", "HEAD~1") }}
	c, err := h.Store.Resolve(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	list, err := promote.Run(t.Context(), h.WithSource(b), promote.Request{
		Trunk: c, Now: s.now,
		Adapters: s.adapters(),
	})
	if err != nil || b.listings < 2 || s.runs() != before {
		t.Fatalf("%d listings, prod runs %s, %s before: %v", b.listings, s.runs(), before, err)
	}
	if last := list[len(list)-1]; !strings.Contains(last.Decision.WaitsFor, "is not on the trunk") {
		t.Errorf("it waits for %q", last.Decision.WaitsFor)
	}
}
