package follow

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// own reports whether a commit is one that Sluice makes: its parent is on the trunk, nothing but the pin of the
// followed repository differs from the parent, and the signature is Sluice's if Sluice signs. Everybody can copy names
// and trailers, so they are not enough: Sluice replaces such commits, and opens merge requests for them as itself.
func (w *Follower) own(ctx context.Context, trunk, c gitstore.Commit, name string) (bool, error) {
	have := branch.Trailer(c.Message, trailerFollow)
	if len(c.Parents) != 1 || !strings.HasPrefix(have, name+" ") {
		return false, nil
	}
	on, err := w.Store.IsAncestor(ctx, c.Parents[0], trunk.Hash)
	if err != nil || !on {
		return false, err
	}
	parent, err := w.Store.Commit(ctx, c.Parents[0])
	if err != nil {
		return false, err
	}
	f, _, err := w.Fleet(ctx, parent.Tree) // Sluice read the identity and the declaration there
	if err != nil {
		return false, err
	}
	self := branch.Committer(f.Spec.Output.Committer).At(c.Committer.When)
	for _, who := range []gitstore.Signature{c.Author, c.Committer} {
		if who.Name != self.Name || who.Email != self.Email {
			return false, nil
		}
	}
	pin, ok, err := w.pinIn(ctx, c.Tree, name)
	if err != nil || !ok {
		return false, err
	}
	if r, declared := f.Repository(name); !declared || pin.URL != r.URL || pin.Wanted != r.Wanted {
		return false, nil
	}
	if same, err := w.onlyPins(ctx, parent, c, name, pin); err != nil || !same {
		return false, err
	}
	if w.signer == nil {
		return true, nil
	}
	return gitstore.SignedBy(ctx, w.Store, c.Hash, w.signer)
}

// onlyPins reports whether a commit has the tree and the trailer that Sluice writes for a pin on top of a parent.
func (w *Follower) onlyPins(ctx context.Context, parent, c gitstore.Commit, name string, pin fetch.Pin) (bool, error) {
	before, err := w.lockFile(ctx, parent.Tree)
	if err != nil {
		return false, err
	}
	lock, err := fetch.ParseLock(before)
	if err != nil {
		return false, nil // Sluice pins nothing in a lock file that it cannot read
	}
	lock.SetPin(name, pin)
	after, err := lock.Bytes()
	if err != nil {
		return false, err
	}
	if branch.Trailer(c.Message, trailerFollow) != trailerOf(name, pin.Commit, before, after) {
		return false, nil
	}
	writer, err := w.Store.NewWriter()
	if err != nil {
		return false, err
	}
	defer func() { _ = writer.Close() }() // only the name of the tree matters
	tree, err := withFile(ctx, w.Store, writer, parent.Tree, after)
	return tree == c.Tree, err
}

// pinIn returns the pin of a repository in the lock file of a tree. A lock file that cannot be read has none.
func (w *Follower) pinIn(ctx context.Context, tree gitstore.Hash, name string) (fetch.Pin, bool, error) {
	data, err := w.lockFile(ctx, tree)
	if err != nil {
		return fetch.Pin{}, false, err
	}
	lock, err := fetch.ParseLock(data)
	if err != nil {
		return fetch.Pin{}, false, nil //nolint:nilerr // see above
	}
	pin, ok := lock.Pin(name)
	return pin, ok, nil
}

// lockFile returns the lock file of a tree; nothing if there is none.
func (w *Follower) lockFile(ctx context.Context, tree gitstore.Hash) ([]byte, error) {
	data, err := w.Store.Snapshot(ctx, tree).ReadFile(fetch.LockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// person names who made a commit that is not Sluice's, also if it claims to be.
func (w *Follower) person(ctx context.Context, trunk, c gitstore.Commit) (string, error) {
	self, err := w.committer(ctx, trunk)
	if err != nil {
		return "", err
	}
	clean := func(text string) string {
		return strings.TrimSpace(safetext.Brief(strings.NewReplacer("<", "", ">", "").Replace(text), 100))
	}
	name := cmp.Or(clean(c.Author.Name), "somebody without a name")
	if name == clean(self.Name) {
		name = "somebody who uses the name " + name
	}
	return name, nil
}

// undone reports whether a commit of Sluice on the trunk wrote the newest pin although the trunk does not have it now.
func (w *Follower) undone(ctx context.Context, trunk gitstore.Commit, f *bot.Followed, newest fetch.Pin) (bool, error) {
	if w.line == nil || w.trunk != trunk.Hash {
		line, err := promote.Line(ctx, w.Hydrator, trunk, maxUndone)
		if err != nil {
			return false, err
		}
		w.line = line
	}
	for _, c := range w.line {
		if strings.HasPrefix(branch.Trailer(c.Message, trailerFollow), f.Name+" ") { // the newest commit of Sluice
			pin, ok, err := w.pinIn(ctx, c.Tree, f.Name)
			return ok && pin == newest, err
		}
	}
	return false, nil
}
