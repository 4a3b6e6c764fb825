package bot

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
)

const (
	accessFresh = 10 * time.Minute // how long a review relies on an author's write access
	maxWriters  = 10_000
)

// permissions remember who has write access, for reviews. Commands always ask the forge. It is safe for concurrent use.
type permissions struct {
	clock   func() time.Time
	writers *lru.Cache[string, time.Time]
}

func newPermissions(clock func() time.Time) *permissions {
	writers, err := lru.New[string, time.Time](maxWriters)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &permissions{clock: clock, writers: writers}
}

// access returns the permission of a merge request's author. Only write access is remembered, so that a new permission counts at once.
func (w *permissions) access(ctx context.Context, f Forge, p hint.Place, login string) (forge.Access, error) {
	key := p.String() + " " + login
	now := w.clock()
	if at, ok := w.writers.Get(key); ok && now.Sub(at) >= 0 && now.Sub(at) < accessFresh {
		return forge.AccessWrite, nil
	}
	access, err := f.Access(ctx, p.Repo(), login)
	if err == nil && access >= forge.AccessWrite {
		w.writers.Add(key, now)
	} else {
		w.writers.Remove(key)
	}
	return access, err
}

// ForgetAccess makes reviews ask the forge for permissions again: a webhook announced another membership.
func (b *Bot) ForgetAccess() { b.permissions.writers.Purge() }
