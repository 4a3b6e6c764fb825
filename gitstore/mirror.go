package gitstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// newest is the ref of the commit that was fetched last, so that the server sends only newer objects.
const newest = "refs/sluice/source"

// recent is the depth of such a fetch in commits. The server omits known files only if this depth reaches the known
// commit.
const recent = 50

// FetchRevision fetches a revision of the remote (a hash, a branch, a tag or HEAD) and returns its commit. History is
// fetched when it is read. It returns ErrNoRef if the server has no such branch or tag. Other refs that the caller is
// about to read are fetched by the same request, if the server has them and gives all of them.
func (s *Store) FetchRevision(ctx context.Context, rev string, also ...string) (Commit, error) {
	c, _, err := fetchNamed(ctx, s, rev, also...)
	if err != nil && len(also) > 0 && ctx.Err() == nil {
		c, _, err = fetchNamed(ctx, s, rev) // the reader of the others reports what is wrong with them
	}
	return c, err
}

// FetchTrunk fetches the commit of the remote's HEAD, asks trunk for the name of a branch by that commit, and fetches
// and returns the commit of that branch. Both are as one listing of the remote's refs has them. It returns the commit
// of HEAD if trunk returns "" or if there is no such branch, and ErrNoRef if there is no HEAD.
func FetchTrunk(ctx context.Context, s *Store, trunk func(ctx context.Context, head Commit) string) (Commit, error) {
	head, refs, err := fetchNamed(ctx, s, "HEAD")
	if err != nil {
		return head, err
	}
	name := trunk(ctx, head)
	if name == "" {
		return head, nil
	}
	h, ok := refs[heads+name]
	switch {
	case !ok || h == head.Hash:
		return head, nil
	case s.Has(h):
		c, err := s.peel(ctx, h)
		if err == nil {
			s.remember(c.Hash)
		}
		return c, err
	}
	tip, _, err := fetchNamed(ctx, s, heads+name) // the session of the listing has been used
	if errors.Is(err, ErrNoRef) {
		return head, nil // it was deleted meanwhile
	}
	return tip, err
}

// fetchNamed fetches a revision of the remote and other refs, and returns the commit of the revision with the refs that
// the remote listed. It lists them unless the store has all that it needs by an earlier listing of the task.
func fetchNamed(ctx context.Context, s *Store, rev string, also ...string) (Commit, map[string]Hash, error) {
	s.mu.RLock()
	sources := s.sources
	s.mu.RUnlock()
	if len(sources) == 0 {
		return Commit{}, nil, fmt.Errorf("%w: %q: the repository has no remote to fetch it from", ErrNotFound, rev)
	}
	e := sources[0]
	known, turn := s.listed.of(e.url)
	if h, err := choose(e, known, rev); known != nil && err == nil &&
		len(s.missing(append(tips(e, known, also), h))) == 0 {
		c, err := s.peel(ctx, h)
		return c, known, err
	}
	session, advertised, err := e.upload(ctx)
	if err != nil {
		return Commit{}, nil, err
	}
	defer func() { _ = session.Close() }() // every answer that counts has been read
	refs := refsOf(advertised)
	s.listed.keep(e.url, refs, turn)
	h, err := choose(e, refs, rev)
	if err != nil {
		return Commit{}, nil, err
	}
	if missing := s.missing(append(tips(e, refs, also), h)); len(missing) > 0 {
		if err := s.fetchTips(ctx, e, session, advertised, missing); err != nil {
			return Commit{}, nil, err
		}
	}
	c, err := s.peel(ctx, h)
	if err == nil {
		s.remember(c.Hash)
	}
	return c, refs, err
}

// tips returns the commits of those names that are refs.
func tips(e endpoint, refs map[string]Hash, names []string) []Hash {
	var out []Hash
	for _, name := range names {
		if h, err := choose(e, refs, name); err == nil && isTip(refs, h) {
			out = append(out, h)
		}
	}
	return out
}

// fetchTips fetches commits with their files. If the server provides only tips of refs, it fetches the history of HEAD,
// which may contain the one that is none.
func (s *Store) fetchTips(ctx context.Context, e endpoint, session transport.UploadPackSession,
	advertised *packp.AdvRefs, wanted []Hash,
) error {
	w := fetchRequest{objects: wanted, depth: 1}
	if have, err := s.ref(newest); err == nil && s.Has(have) { // otherwise the server sends more than needed
		w.have, w.depth = have, recent
	}
	refs := refsOf(advertised)
	notTip := slices.ContainsFunc(wanted, func(h Hash) bool { return !isTip(refs, h) })
	if head := advertised.Head; notTip && !givesAny(advertised.Capabilities) && head != nil {
		w = fetchRequest{objects: []Hash{Hash(*head)}, depth: everything}
	}
	if err := s.fetchBy(ctx, e, session, advertised, w); err != nil {
		return err
	}
	if missing := s.missing(wanted); len(missing) > 0 {
		return e.explain(fmt.Errorf("%w: %s is on no branch that the server gives", ErrNotFound, missing[0]))
	}
	return nil
}

func choose(e endpoint, refs map[string]Hash, rev string) (Hash, error) {
	if h, err := ParseHash(rev); err == nil {
		return h, nil
	}
	for _, name := range []string{rev, heads + rev, "refs/tags/" + rev} {
		if h, ok := refs[name]; ok && (name == "HEAD" || strings.HasPrefix(name, "refs/")) {
			return h, nil
		}
	}
	if rev == "HEAD" {
		return Hash{}, kindf(ErrNoRef, "%s: the default branch has no commit", e.url)
	}
	return Hash{}, kindf(ErrNoRef, "%s has no branch or tag %q", e.url, rev)
}

// remember records the commit that was fetched last. It ignores errors: without the record, the next fetch is only
// larger.
func (s *Store) remember(h Hash) {
	if s.repo == nil || s.side != s.own {
		return // fetching must not create refs in a user's own repository
	}
	s.refs.Lock()
	defer s.refs.Unlock()
	file := filepath.Join(s.dir, filepath.FromSlash(newest))
	if s.disk.MkdirAll(filepath.Dir(file)) == nil {
		_ = disk.WriteFile(s.disk, file, h.String()+"\n") // errors do not matter, see above
	}
}
