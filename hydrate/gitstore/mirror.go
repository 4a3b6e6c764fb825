package gitstore

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// newest is the ref of the commit that was fetched last: the server sends only what changed since.
const newest = "refs/sluice/source"

// recent is the depth of such a fetch in commits: the server omits known files only if it reaches the known commit.
const recent = 50

// FetchRevision fetches a revision of the remote (a hash, a branch, a tag or HEAD) and gives its commit. The history is fetched when
// it is read. ErrNoRef if the server has no such branch or tag.
func (s *Store) FetchRevision(ctx context.Context, rev string) (Commit, error) {
	s.mu.RLock()
	sources := s.sources
	s.mu.RUnlock()
	if len(sources) == 0 {
		return Commit{}, fmt.Errorf("%w: %q: the repository has no remote to fetch it from", ErrNotFound, rev)
	}
	e := sources[0]
	session, advertised, err := e.upload(ctx)
	if err != nil {
		return Commit{}, err
	}
	defer func() { _ = session.Close() }()
	refs := refsOf(advertised)
	h, err := choose(e, refs, rev)
	if err != nil {
		return Commit{}, err
	}
	if !s.Has(h) {
		if err := s.fetchTip(ctx, e, session, advertised, h); err != nil {
			return Commit{}, err
		}
	}
	c, err := s.peel(ctx, h)
	if err == nil {
		s.remember(c.Hash)
	}
	return c, err
}

// fetchTip fetches a commit with its files. If the server gives only tips of refs, it fetches the history of HEAD, which may contain
// the commit.
func (s *Store) fetchTip(ctx context.Context, e endpoint, session transport.UploadPackSession, advertised *packp.AdvRefs, h Hash) error {
	w := fetchRequest{objects: []Hash{h}, depth: 1}
	if have, err := s.ref(newest); err == nil && s.Has(have) { // otherwise the server sends more than it must
		w.have, w.depth = have, recent
	}
	if head := advertised.Head; !isTip(refsOf(advertised), h) && !givesAny(advertised.Capabilities) && head != nil {
		w = fetchRequest{objects: []Hash{Hash(*head)}, depth: everything}
	}
	if err := s.fetchBy(ctx, e, session, advertised, w); err != nil {
		return err
	}
	if !s.Has(h) {
		return e.explain(fmt.Errorf("%w: %s is on no branch that the server gives", ErrNotFound, h))
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
	return Hash{}, fmt.Errorf("%w: %s has no branch or tag %q", ErrNoRef, e.url, rev)
}

// remember notes the commit that was fetched last. If that fails, the next fetch brings more than it must, so errors do not
// matter.
func (s *Store) remember(h Hash) {
	if s.repo == nil || s.side != s.own {
		return // a user's own repository gets no refs from fetching
	}
	s.refs.Lock()
	defer s.refs.Unlock()
	file := filepath.Join(s.dir, filepath.FromSlash(newest))
	if s.disk.MkdirAll(filepath.Dir(file)) == nil {
		_ = writeFile(s.disk, file, h.String()+"\n") // see above
	}
}
