// Package follow moves the pins of repositories that a fleet follows: on a branch for a merge request, or on the trunk.
//
// The package is not API: it can change in every release.
package follow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
)

// trailerFollow is on commits that move a pin: the repository, the commit, and digests of sluice.lock before and after.
const trailerFollow = "Sluice-Follow"

// maxUndone is the number of the trunk's commits among which one of Sluice is looked for.
const maxUndone = 100

// Follower implements bot.Follows for one task. It reads the branches and the latest commits of the fleet once for all
// followed repositories. It is not safe for concurrent use.
type Follower struct {
	*session.Session

	signer   gitstore.Signer // nil: unsigned commits
	pushAuth func(context.Context) (gitstore.Auth, error)
	trunk    gitstore.Hash            // of refs and line
	refs     map[string]gitstore.Hash // the trunk, and branches that move pins
	line     []gitstore.Commit        // of the trunk; nil: not read yet
}

// New returns the follower of a fleet. pushAuth returns the credential that may push to the fleet's repository.
func New(s *session.Session, signer gitstore.Signer, pushAuth func(context.Context) (gitstore.Auth, error)) *Follower {
	return &Follower{Session: s, signer: signer, pushAuth: pushAuth}
}

// branches returns the trunk and the branches that move pins as they were at the first call for this tip of the trunk,
// with what Sluice has pushed since. A push compares with the present ones.
func (w *Follower) branches(ctx context.Context, trunk gitstore.Hash, target string,
	remote gitstore.Branches,
) (map[string]gitstore.Hash, error) {
	if w.refs != nil && w.trunk == trunk {
		return w.refs, nil
	}
	refs, err := remote.List(ctx, target, bot.FollowPrefix)
	if err != nil {
		return nil, err
	}
	w.trunk, w.refs, w.line = trunk, refs, nil
	return refs, nil
}

// Look implements bot.Follows.
func (w *Follower) Look(ctx context.Context, trunk gitstore.Commit, name string) (*bot.Followed, error) {
	v, err := w.Open(ctx, trunk.Tree)
	if err != nil {
		return nil, err
	}
	r, ok := v.Fleet.Repository(name)
	if !ok {
		return &bot.Followed{Stale: true}, nil
	}
	before, locked := v.Pin(r)
	newest, err := w.ResolvePin(ctx, r, before)
	if missing, ok := errors.AsType[*source.RefError](err); ok {
		return nil, &bot.PinError{Text: missing.Error()}
	}
	if err != nil {
		return nil, err
	}
	out := &bot.Followed{
		Name: name, URL: r.URL, To: pinName(newest), Commit: newest.Commit, Current: locked && before == newest,
		Target: v.Fleet.Spec.Trunk, Branch: bot.FollowPrefix + name,
	}
	if locked {
		out.From, out.Was = pinName(before), before.Commit
	}
	if !out.Current {
		if out.Back, err = w.back(ctx, r, before, locked, newest); err != nil {
			return nil, err
		}
	}
	lock := v.Lock()
	lock.SetPin(name, newest)
	if out.Lock, err = lock.Bytes(); err != nil {
		return nil, err
	}
	branches, err := w.source(ctx)
	if err != nil {
		return nil, err
	}
	refs, err := w.branches(ctx, trunk.Hash, out.Target, branches)
	if err != nil {
		return nil, err
	}
	if refs[out.Target] != trunk.Hash {
		return &bot.Followed{Stale: true}, nil
	}
	trailer, err := w.trailer(ctx, trunk, out)
	if err != nil {
		return nil, err
	}
	if r.Follow.Commit && !out.Current {
		if out.Undone, err = w.undone(ctx, trunk, out, newest); err != nil {
			return nil, err
		}
	}
	head := refs[out.Branch]
	if head.IsZero() {
		return out, nil
	}
	return out, w.branch(ctx, branches, trunk, head, trailer, out)
}

// branch reads what the branch has.
func (w *Follower) branch(ctx context.Context, branches gitstore.Branches, trunk gitstore.Commit, head gitstore.Hash,
	trailer string, out *bot.Followed,
) error {
	if err := branches.Fetch(ctx, head); err != nil {
		return err
	}
	c, err := w.Store.Commit(ctx, head)
	if err != nil {
		return err
	}
	out.Head, out.Committed = head.String(), c.Committer.When
	switch own, err := w.own(ctx, trunk, c, out.Name); {
	case err != nil:
		return err
	case own:
		have := branch.Trailer(c.Message, trailerFollow)
		out.Same, out.UpToDate = strings.HasPrefix(have, out.Name+" "+out.Commit+" "), have == trailer
		return nil
	}
	if out.By, err = w.person(ctx, trunk, c); err != nil {
		return err
	}
	base, err := w.Store.MergeBase(ctx, trunk.Hash, head)
	if errors.Is(err, gitstore.ErrUnrelated) {
		return nil
	}
	out.Merged = base == head
	return err
}

// trailer returns the value of trailerFollow for a pin.
func (w *Follower) trailer(ctx context.Context, trunk gitstore.Commit, f *bot.Followed) (string, error) {
	before, err := w.lockFile(ctx, trunk.Tree)
	if err != nil {
		return "", err
	}
	return trailerOf(f.Name, f.Commit, before, f.Lock), nil
}

func trailerOf(name, commit string, before, after []byte) string {
	return fmt.Sprintf("%s %s %s %s", name, commit, brief(before), brief(after))
}

func brief(data []byte) string {
	const digits = 16
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:digits]
}

// Move implements bot.Follows.
func (w *Follower) Move(ctx context.Context, trunk gitstore.Commit, f *bot.Followed) (string, error) {
	var old gitstore.Hash
	if f.Head != "" {
		var err error
		if old, err = gitstore.ParseHash(f.Head); err != nil {
			return "", err
		}
	}
	return w.write(ctx, trunk, f, f.Branch, old)
}

// Commit implements bot.Follows.
func (w *Follower) Commit(ctx context.Context, trunk gitstore.Commit, f *bot.Followed) error {
	_, err := w.write(ctx, trunk, f, f.Target, trunk.Hash)
	return err
}

// write makes the commit with the new pin and moves a branch to it.
func (w *Follower) write(ctx context.Context, trunk gitstore.Commit, f *bot.Followed, name string,
	old gitstore.Hash,
) (string, error) {
	self, err := w.committer(ctx, trunk)
	if err != nil {
		return "", err
	}
	trailer, err := w.trailer(ctx, trunk, f)
	if err != nil {
		return "", err
	}
	branches, err := w.source(ctx)
	if err != nil {
		return "", err
	}
	writer, err := w.Store.NewWriter()
	if err != nil {
		return "", err
	}
	defer func() { _ = writer.Close() }() // what matters was pushed
	tree, err := withFile(ctx, w.Store, writer, trunk.Tree, f.Lock)
	if err != nil {
		return "", err
	}
	subject := "Pin " + f.Name + " to " + report.Tag(f.To)
	body := f.URL + "\n" + strings.TrimSpace(report.Tag(f.From)+" → "+report.Tag(f.To))
	head, err := branch.Commit{
		Tree: tree, Parent: trunk.Hash, Author: self, Committer: self, Subject: subject, Body: body,
		Trailers: []gitstore.Trailer{{Key: trailerFollow, Value: trailer}}, Version: w.Runtime.Version,
		Signer: w.signer,
	}.Write(writer)
	if err != nil {
		return "", err
	}
	results, err := branches.Push(ctx, writer, []gitstore.Move{{Branch: name, Old: old, New: head}},
		gitstore.PushOptions{})
	if err != nil {
		return "", err
	}
	for _, r := range results {
		if err := r.Err(); err != nil {
			return "", err
		}
	}
	if w.refs != nil {
		w.refs[name] = head
	}
	return head.String(), nil
}

// withFile returns a tree with new content for sluice.lock.
func withFile(ctx context.Context, store *gitstore.Store, w *gitstore.Writer, tree gitstore.Hash,
	lock []byte,
) (gitstore.Hash, error) {
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return gitstore.Hash{}, err
	}
	blob, err := w.Blob(lock)
	if err != nil {
		return gitstore.Hash{}, err
	}
	entries = slices.DeleteFunc(slices.Clone(entries), func(e gitstore.Entry) bool { return e.Name == fetch.LockFile })
	return w.Tree(append(entries, gitstore.Entry{Name: fetch.LockFile, Mode: gitstore.ModeFile, Hash: blob}))
}

// committer returns the identity of Sluice's commits in a fleet, with the present time.
func (w *Follower) committer(ctx context.Context, trunk gitstore.Commit) (gitstore.Signature, error) {
	f, _, err := w.Fleet(ctx, trunk.Tree)
	if err != nil {
		return gitstore.Signature{}, err
	}
	return branch.Committer(f.Spec.Output.Committer).At(w.Runtime.Clock().UTC().Truncate(time.Second)), nil
}

// source returns the branches of the fleet's own repository, with the credential that may push there.
func (w *Follower) source(ctx context.Context) (gitstore.Branches, error) {
	auth, err := w.pushAuth(ctx)
	if err != nil {
		return nil, err
	}
	return w.Store.Remote(w.Store.RemoteURL(), auth)
}

// pinName returns the tag of a pin, or the beginning of its commit.
func pinName(p fetch.Pin) string {
	if tag, ok := strings.CutPrefix(p.Resolved, "refs/tags/"); ok {
		return tag
	}
	return fmt.Sprintf("%.10s", p.Commit)
}
