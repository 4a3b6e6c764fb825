package app

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// FingerprintKey is the key of the fingerprints that stand for secrets: SLUICE_FINGERPRINT_KEY, or random. Without the
// variable, fingerprints of two runs cannot be compared.
func (e Environment) FingerprintKey() []byte {
	if key := e.Getenv("SLUICE_FINGERPRINT_KEY"); key != "" {
		return []byte(key)
	}
	return []byte(rand.Text())
}

// MergeBase is the commit that a change begins at: where head left base.
func (s *Session) MergeBase(ctx context.Context, base, head gitstore.Commit) (gitstore.Commit, error) {
	h, err := s.Store.MergeBase(ctx, base.Hash, head.Hash)
	if err != nil {
		return gitstore.Commit{}, fmt.Errorf("where %s left %s: %w", head.Hash.Short(), base.Hash.Short(), err)
	}
	return s.Store.Commit(ctx, h)
}

// FingerprintKey is the session's environment's.
func (s *Session) FingerprintKey() []byte { return s.env.FingerprintKey() }

// FetchCommit makes a commit readable: it is taken from here if it is here, else from the remote, by the ref that should
// hold it, or by itself where the server gives commits by their hashes.
func (s *Session) FetchCommit(ctx context.Context, commit, ref string) (gitstore.Commit, error) {
	h, err := gitstore.ParseHash(commit)
	if err != nil {
		return gitstore.Commit{}, err
	}
	if s.Store.Has(h) {
		return s.Store.Commit(ctx, h)
	}
	if ref != "" {
		if c, err := s.Store.FetchRevision(ctx, ref); err == nil && c.Hash == h {
			return c, nil
		}
	}
	c, err := s.Store.FetchRevision(ctx, commit)
	if err != nil {
		return c, fmt.Errorf("%w (%s may have moved on)", err, ref)
	}
	return c, nil
}

// FetchRef gives the commit of a ref of the remote as it is now; without a remote, or if it does not have the ref, what is here.
func (s *Session) FetchRef(ctx context.Context, ref string) (gitstore.Commit, error) {
	c, err := s.Store.FetchRevision(ctx, ref)
	if err == nil {
		return c, nil
	}
	here, second := s.Store.Resolve(ctx, ref)
	if second != nil {
		return c, err
	}
	return here, nil
}
