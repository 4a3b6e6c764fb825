package promote_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// outsider is the world outside of Git, as a test has it.
type outsider struct {
	rendered []*branch.State // of the parts that were judged
	asked    []string        // of policy
	red      map[string]bool // source commits that policy forbids
	authors  error
	// pins are those whose authors somebody asked for, with the answer.
	pins         []promote.MovedPin
	elsewhere    []string
	notElsewhere error
	// statuses is the state of `sync` on every rendered commit; none without it. Those of failing, a source commit, are
	// red.
	statuses, failing string
	repo              *hydratetest.Repo
}

func (w *outsider) Statuses(_ context.Context, commit string) ([]rollout.Status, error) {
	switch {
	case w.statuses == "":
		return nil, nil
	case w.failing != "" && strings.Contains(w.repo.Git("log", "-1", "--format=%B", commit), "Sluice-Source: "+w.failing+"\nSluice-Environment: prod"): //nolint:contextcheck // the repository has the test's
		return []rollout.Status{{Name: "sync", State: "failure"}}, nil
	}
	return []rollout.Status{{Name: "sync", State: w.statuses}}, nil
}

func (*outsider) Check(context.Context, fleet.Environment, time.Time) []rollout.CheckResult {
	return nil
}

func (w *outsider) Judge(_ context.Context, part promote.Part) (rollout.State, string) {
	w.asked = append(w.asked, fmt.Sprintf("%s %v but %v", part.Environment, part.Apps, part.Without))
	w.rendered = append(w.rendered, part.Rendered)
	if w.red[part.Source.Hash.String()] {
		return rollout.Red, "the trunk's policy says no"
	}
	return rollout.Green, ""
}

func (w *outsider) Authors(context.Context, []gitstore.Commit) ([]string, error) {
	return nil, w.authors
}

func (w *outsider) AuthorsElsewhere(_ context.Context, m promote.MovedPin) ([]string, error) {
	w.pins = append(w.pins, m)
	return w.elsewhere, w.notElsewhere
}

// stage is a fleet with prod after dev, both with a branch, and somebody who promotes.
type stage struct {
	*hydratetest.Repo
	out *outsider
	now time.Time
}

func newStage(t *testing.T, promotion string) *stage {
	t.Helper()
	s := &stage{hydratetest.Demo(t), &outsider{red: map[string]bool{}}, time.Now()}
	s.out.repo = s.Repo
	s.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: harbour}\nspec:\n  trunk: main\n  layers: [class, environment, region, cluster]\n"+
		"  environments:\n    - name: dev\n    - name: prod\n      after: [dev]\n      promotion: {"+promotion+"}\n")
	s.Git("rm", "-q", "clusters/staging-1.yaml", "clusters/staging-edge-1.yaml")
	s.Commit("graph")
	s.hydrateThe("dev", "prod")
	return s
}

func (s *stage) adapters() promote.Adapters {
	return promote.Adapters{Policy: s.out, Statuses: s.out, Checks: s.out, Authors: s.out}
}

// hydrate hydrates HEAD to all environments, unless change names some.
func (s *stage) hydrate(change func(*hydrate.Request)) {
	s.T.Helper()
	result := s.Hydrate(func(q *hydrate.Request) {
		q.Environments = nil
		if change != nil {
			change(q)
		}
	})
	if !result.OK() {
		s.T.Fatalf("%+v", result)
	}
}

func (s *stage) hydrateThe(environments ...string) {
	s.hydrate(func(q *hydrate.Request) { q.Environments = environments })
}

// look looks at promotions until nothing moves any more, with commands at first. It gives prod's statuses.
func (s *stage) look(change func(*promote.Request), commands ...promote.Command) (last promote.Status,
	refused []string,
) {
	s.T.Helper()
	h := s.Hydrator(2)
	c, err := h.Store.Resolve(s.T.Context(), "main")
	if err != nil {
		s.T.Fatal(err)
	}
	if c, _, err = h.Readable(s.T.Context(), c); err != nil {
		s.T.Fatal(err)
	}
	r := promote.Request{Trunk: c, Commands: commands, Now: s.now, Adapters: s.adapters()}
	if change != nil {
		change(&r)
	}
	for range 8 {
		list, err := promote.Look(s.T.Context(), h, r)
		if err != nil {
			s.T.Fatal(err)
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

func ordered(kind rollout.EventKind, id string, change func(*promote.Command)) promote.Command {
	c := promote.Command{Environment: "prod", Verb: string(kind), CLI: true}
	c.Kind, c.ID, c.By, c.Reason = kind, id, "mia", "because"
	if change != nil {
		change(&c)
	}
	return c
}

// release changes the app shop, and gives the commit.
func (s *stage) release(text string) string {
	s.changeShop(text)
	s.hydrateThe("dev")
	return s.Git("rev-parse", "main")
}

// changeShop commits another text of the app shop.
func (s *stage) changeShop(text string) {
	s.Write("apps/shop/layers/global/values.yaml", "config:\n  motd: \""+text+"\"\n")
	s.Commit(text)
}

// tip is the commit of the trunk.
func (s *stage) tip() gitstore.Commit {
	s.T.Helper()
	c, err := s.Hydrator(2).Store.Resolve(s.T.Context(), "main")
	if err != nil {
		s.T.Fatal(err)
	}
	return c
}

func (s *stage) runs() string {
	return s.Git("show", "env/prod:.sluice/environment.yaml")
}

func wants(t *testing.T, what string, got []string, part string) {
	t.Helper()
	if !strings.Contains(strings.Join(got, "\n"), part) {
		t.Errorf("%s: %q lacks %q", what, got, part)
	}
}

// requests is a forge's merge requests of promotions.
type requests struct {
	open   *promote.MergeRequest
	opened int
}

func (r *requests) Find(context.Context, string, string) (*promote.MergeRequest, error) {
	return r.open, nil
}

func (r *requests) Open(_ context.Context, m promote.MergeRequest) error {
	if r.open == nil {
		r.opened++
	}
	r.open = &m
	return nil
}

func (r *requests) Close(context.Context, promote.MergeRequest, string) error {
	r.open = nil
	return nil
}
