package gitstore

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// maxOther limits the bytes that one request to another repository may store. Its owner need not be that of the fleet.
const maxOther = 1 << 30

// bounded is a stream that fails beyond a number of bytes.
type bounded struct {
	io.Reader
	left, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes, the limit for another repository: split the repository, or remove large files from it", b.most)
	}
	return n, err
}

// AddRemote adds another repository as a source of missing objects. The store asks its own remote first, and never
// reads branches or history from the other one.
func (s *Store) AddRemote(address string, auth Auth) error {
	_, err := s.addOther(address, auth)
	return err
}

func (s *Store) addOther(address string, auth Auth) (endpoint, error) {
	e, err := newEndpoint(address, auth)
	if err != nil && e.ep == nil {
		return e, err
	}
	e.most = maxOther
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(s.others), func(known endpoint) bool { return known.url == e.url })
	s.others = append(others, e)
	return e, nil
}

// FetchPinned fetches a commit of another repository without its history, and without files if the server supports
// that. The store then fetches missing files from that repository, as after AddRemote.
func (s *Store) FetchPinned(ctx context.Context, address string, auth Auth, commit Hash) error {
	if s.Has(commit) {
		return s.AddRemote(address, auth) // files may still be missing
	}
	if s.supply != nil {
		return s.fromSupply(ctx, []Hash{commit})
	}
	e, err := s.addOther(address, auth)
	if err != nil {
		return err
	}
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.Has(commit) { // another fetch has added it
		return nil
	}
	return s.fetch(ctx, e, fetchRequest{objects: []Hash{commit}, depth: 1, filter: packp.FilterBlobNone()})
}

// RemoteRefs lists the branches and tags of a repository by full name, with the commit of an annotated tag below `refs/tags/NAME^{}`.
// Nothing is stored.
func RemoteRefs(ctx context.Context, address string, auth Auth) (map[string]Hash, error) {
	e, err := newEndpoint(address, auth)
	if err != nil {
		return nil, err
	}
	session, advertised, err := e.upload(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }() // it was only read
	out := refsOf(advertised)
	for name, h := range advertised.Peeled {
		out[name+"^{}"] = Hash(h)
	}
	return out, nil
}
