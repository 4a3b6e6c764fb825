package gitstore

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// Supply reads objects for a store without a repository. It returns one object for each hash, in order.
type Supply func(ctx context.Context, hashes []Hash) ([]Raw, error)

// OpenSupplied returns a store in memory that gets missing objects from supply. The store checks the hash of each
// object, so a supplier cannot replace content. It uses no files, not even for Writers.
func OpenSupplied(supply Supply) *Store {
	s := newStore()
	s.supply, s.disk = supply, disk.None{}
	return s
}

// fromSupply adds missing objects to the store.
func (s *Store) fromSupply(ctx context.Context, hashes []Hash) error {
	missing := s.missing(hashes)
	if len(missing) == 0 {
		return nil
	}
	found, err := s.supply(ctx, missing)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotFound, missing[0], err)
	}
	if len(found) != len(missing) {
		return fmt.Errorf("%w: %d objects were supplied, %d expected", ErrDamaged, len(found), len(missing))
	}
	for i, raw := range found {
		if pack.Sum(raw.Kind, raw.Data) != missing[i] {
			return fmt.Errorf("%w: %s was supplied with other content", ErrDamaged, missing[i])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, raw := range found {
		s.overlay[missing[i]] = raw
	}
	return nil
}

// ReadRaw reads objects, and fetches missing ones. It fails if they have more than limit bytes together.
func (s *Store) ReadRaw(ctx context.Context, hashes []Hash, limit int) ([]Raw, error) {
	if err := s.Ensure(ctx, hashes...); err != nil {
		return nil, err
	}
	out := make([]Raw, len(hashes))
	for i, h := range hashes {
		o, err := s.read(ctx, h)
		if err != nil {
			return nil, err
		}
		if limit -= len(o.Data); limit < 0 {
			return nil, fmt.Errorf("%d objects: %w", len(hashes), ErrTooLarge)
		}
		out[i] = o
	}
	return out, nil
}
