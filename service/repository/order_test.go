package repository

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
)

// A command without the right is refused before anything is read or stored, and the error says that it is for lack of
// the right. Another mistake is refused with another error.
func TestOrderWithoutTheRight(t *testing.T) {
	t.Parallel()
	s, head := demo(t)
	w := &Session{
		Session: s, config: Config{Runtime: session.Runtime{Clock: time.Now}},
		repo: Repository{Place: hint.NewPlace("hub", "acme/fleet")}, pushers: map[gitstore.Hash]*session.Session{},
	}
	for text, lacks := range map[string]bool{
		"/sluice freeze prod --reason fire": true, "/sluice halt prod": true,
		"/sluice rollback prod": true, "/sluice freeze prd --reason fire": false,
	} {
		commands, problems := command.Parse(text)
		if len(commands) != 1 || len(problems) > 0 {
			t.Fatal(problems)
		}
		_, err := w.Order(t.Context(), bot.Order{
			Command: commands[0], ID: "1",
			By: bot.Person{User: forge.User{Login: "kim"}, Access: forge.AccessWrite}, Trunk: head,
		})
		if _, ok := errors.AsType[*bot.NoRightError](err); ok != lacks || !errors.Is(err, bot.ErrRefused) {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
}

// demo opens the repository of the demo fleet.
func demo(t *testing.T) (*session.Session, gitstore.Commit) {
	t.Helper()
	repo := hydratetest.Demo(t)
	r := session.Runtime{Cache: t.TempDir(), Version: "test", Offline: true, Clock: time.Now}
	s, err := session.Open(t.Context(), r, session.Options{
		Repo: repo.Dir, Jobs: 1,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, repo.Resolve("HEAD")
}
