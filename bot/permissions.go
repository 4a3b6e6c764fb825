package bot

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/lru"
)

const (
	accessFresh = 10 * time.Minute // how long a review relies on an author's write access
	maxWriters  = 10_000
)

// permissions remember who has write access, for reviews. Commands always ask the forge. It is safe for concurrent use.
type permissions struct {
	clock   func() time.Time
	writers *lru.Cache[time.Time]
}

func newPermissions(clock func() time.Time) *permissions {
	return &permissions{clock: clock, writers: lru.New[time.Time](maxWriters)}
}

// access returns the permission of a merge request's author. Only write access is remembered, so that a new permission
// counts at once.
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

// trusted reports whether a merge request may be rendered. If its author has no write access, it also returns who
// trusted it.
func (t *task) trusted(ctx context.Context, mr *forge.MergeRequest) (ok bool, by string, err error) {
	if !mr.Fork {
		access, err := t.permissions.access(ctx, t.forge, t.place, mr.Author.Login)
		if err != nil && !errors.Is(err, forge.ErrNotFound) {
			return false, "", err
		}
		// Only people with write access push to branches of the repository itself; a bot may have no access level.
		if access >= forge.AccessWrite || mr.Author.Bot {
			return true, "", nil
		}
	} else if access, err := t.permissions.access(ctx, t.forge, t.place, mr.Author.Login); err == nil &&
		access >= forge.AccessWrite {
		return true, mr.Author.Login, nil // the head is in a fork, so no credentials are used
	}
	self, err := t.forge.Self(ctx)
	if err != nil {
		return false, "", err
	}
	statuses, err := t.forge.CommitStatuses(ctx, t.place.Repo(), mr.Head)
	if err != nil {
		return false, "", err
	}
	for _, s := range statuses {
		if s.Context == trustContext && s.State == forge.Success && strings.EqualFold(s.Author.Login, self.Login) {
			return true, s.Description, nil
		}
	}
	return false, "", nil
}
