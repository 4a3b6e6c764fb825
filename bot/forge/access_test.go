package forge_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// people answers from a table and counts the questions.
type people struct {
	access map[string]forge.Access
	asked  int
	err    error
}

func (p *people) Self(context.Context) (forge.User, error) { return forge.User{}, nil }

func (p *people) InTeam(context.Context, forge.Repository, string, string) (bool, error) {
	return false, nil
}

func (p *people) Access(_ context.Context, repo forge.Repository, login string) (forge.Access, error) {
	p.asked++
	return p.access[repo.Path+" "+login], p.err
}

func TestAccessCache(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &people{access: map[string]forge.Access{"a/b ada": forge.AccessWrite}}
	c, err := forge.NewAccessCache(p, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, repo, login string, want forge.Access, asked int) {
		t.Helper()
		got, err := c.Access(t.Context(), forge.Repository{Path: repo}, login)
		if got != want || !errors.Is(err, p.err) || p.asked != asked {
			t.Errorf("%s: %v, %v, %d questions; want %v, %d questions", what, got, err, p.asked, want, asked)
		}
	}
	check("first", "a/b", "ada", forge.AccessWrite, 1)
	p.access["a/b ada"] = forge.AccessNone
	now = now.Add(10*time.Minute - time.Second)
	check("remembered, whatever the case", "A/b", "Ada", forge.AccessWrite, 1)
	check("another repository", "a/c", "ada", forge.AccessNone, 2)
	now = now.Add(time.Second)
	check("ten minutes later", "a/b", "ada", forge.AccessNone, 3)
	p.access["a/b ada"] = forge.AccessAdmin
	c.Forget(forge.Repository{Path: "a/x"})
	check("another repository is forgotten", "a/b", "ada", forge.AccessNone, 3)
	c.Forget(forge.Repository{Path: "a/B"})
	check("forgotten", "a/b", "ada", forge.AccessAdmin, 4)
	c.Forget(forge.Repository{})
	p.err = forge.ErrUnavailable
	check("the forge fails", "a/b", "ada", forge.AccessAdmin, 5)
	p.err = nil
	check("the failure is not remembered", "a/b", "ada", forge.AccessAdmin, 6)
}

func TestQuotaShare(t *testing.T) {
	for q, want := range map[forge.Quota]float64{
		{}: 1, {Limit: 5000, Remaining: 5000}: 1, {Limit: 5000, Remaining: 1250}: 0.25, {Limit: 10, Remaining: -3}: 0, {Limit: 10, Remaining: 30}: 1,
	} {
		if got := q.Share(); got != want {
			t.Errorf("%+v: %v, want %v", q, got, want)
		}
	}
}
