package bot

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/companions"
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

// trustOf returns whether and how a merge request may be rendered.
func (t *task) trustOf(ctx context.Context, mr *forge.MergeRequest) (companions.Trust, error) {
	access, err := t.permissions.access(ctx, t.forge, t.place, mr.Author.Login)
	switch {
	case mr.Fork && err == nil && access >= forge.AccessWrite:
		return companions.TrustVouched, nil
	case mr.Fork: // the author need not be known
	case err != nil && !errors.Is(err, forge.ErrNotFound):
		return companions.TrustNone, err
	case access >= forge.AccessWrite, mr.Author.Bot:
		// Only people with write access push to branches of the repository itself; a bot may have no access level.
		return companions.TrustOwn, nil
	}
	self, err := t.forge.Self(ctx)
	if err != nil {
		return companions.TrustNone, err
	}
	statuses, err := t.forge.CommitStatuses(ctx, t.place.Repo(), mr.Head)
	if err != nil {
		return companions.TrustNone, err
	}
	for _, s := range statuses {
		if s.Context == trustContext && s.State == forge.Success && strings.EqualFold(s.Author.Login, self.Login) {
			return companions.TrustVouched, nil
		}
	}
	return companions.TrustNone, nil
}
