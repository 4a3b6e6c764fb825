package promotion_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// stuck is a world outside of Git that answers nothing: it says what it was asked for, and waits until the context ends.
type stuck struct {
	promotion.Adapters
	asked []string
	seen  func()
}

func (w *stuck) wait(ctx context.Context, what string) {
	w.asked = append(w.asked, what)
	w.seen()
	<-ctx.Done()
}

func (w *stuck) Statuses(ctx context.Context, _ string) ([]promote.Status, error) {
	w.wait(ctx, "statuses")
	return nil, ctx.Err()
}

func (w *stuck) Check(ctx context.Context, _ fleet.Environment, _ time.Time) []promote.CheckResult {
	w.wait(ctx, "checks")
	return nil
}

func (w *stuck) Judge(ctx context.Context, _ promotion.Part) (promote.State, string) {
	w.wait(ctx, "policy")
	return promote.Unknown, ""
}

// A freeze and a halt are stored before anything is asked for that may not answer: statuses, checks, policy, also of environments before
// theirs. With OnlyStop, nothing is asked for at all.
func TestStopsWaitForNothing(t *testing.T) {
	t.Parallel()
	const waits = `mode: auto, health: {commitStatuses: ["sync"]}, checks: [{name: up, http: {url: "https://example.com/"}}]`
	for name, kind := range map[string]promote.EventKind{"freeze": promote.EventFreeze, "halt": promote.EventHalt} {
		for _, only := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " alone"}[only], func(t *testing.T) {
				t.Parallel()
				s := newStage(t, waits)
				s.Write("sluice.yaml", strings.Replace(s.Read("sluice.yaml"), "    - name: prod\n      after: [dev]", "    - name: before\n      after: [dev]\n      promotion: {"+waits+"}\n    - name: prod\n      after: [before]", 1))
				s.Git("commit", "-qam", "an environment before prod")
				s.release("to be promoted")
				s.hydrateThe("dev")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stored := func() bool {
					return strings.Contains(s.Git("for-each-ref", "refs/heads/"+promote.StateBranch), promote.StateBranch) && strings.Contains(s.Git("grep", "-h", "", promote.StateBranch), "because")
				}
				w := &stuck{}
				early := false
				w.seen = func() { early = early || !stored(); cancel() }
				h := s.Hydrator(2)
				c, err := h.Store.Resolve(ctx, "main")
				if err != nil {
					t.Fatal(err)
				}
				list, err := promotion.Run(ctx, h, promotion.Request{
					Trunk: c, Now: time.Now(), Commands: []promotion.Command{ordered(kind, "1", nil)}, OnlyStop: only,
					Adapters: promotion.Adapters{Policy: w, Statuses: w, Checks: w},
				})
				if !stored() {
					t.Errorf("nothing is stored: %+v, %v", list, err)
				}
				if early {
					t.Errorf("it asks for %q first", w.asked[0])
				}
				i := slices.IndexFunc(list, func(st promotion.Status) bool { return st.Environment == "prod" })
				switch {
				case only && (err != nil || len(w.asked) > 0 || i < 0):
					t.Errorf("%v, asks for %q, %+v", err, w.asked, list)
				case only:
					if text := list[i].Decision.WaitsFor; !strings.Contains(text, "because") && kind == promote.EventFreeze || !strings.Contains(text, "/sluice") {
						t.Errorf("it says %q", text)
					}
				case len(w.asked) == 0:
					t.Error("nothing is asked for: nothing was tested")
				}
			})
		}
	}
}
