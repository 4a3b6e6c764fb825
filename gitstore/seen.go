package gitstore

import (
	"errors"
	"path/filepath"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// seenRef returns the ref of a mirror that stores the last accepted tip of a branch. Each output repository has its
// own refs.
func seenRef(b Branches, branch string) string {
	return "refs/sluice/seen/" + pack.Sum("blob", []byte(b.String())).String() + "/" + branch
}

// Seen returns the tip of a branch that NoteSeen recorded last. It returns the zero Hash if there is none, or if the
// store is not a mirror.
func (s *Store) Seen(b Branches, branch string) (Hash, error) {
	h, err := s.ref(seenRef(b, branch))
	if errors.Is(err, ErrNotFound) {
		return Hash{}, nil
	}
	return h, err
}

// NoteSeen records a tip of a branch in a mirror if the recorded tip is still old; otherwise another process has
// recorded a newer one. In a store that is not a mirror it does nothing.
func (s *Store) NoteSeen(b Branches, branch string, old, tip Hash) error {
	if s.repo == nil || s.side != s.own || old == tip {
		return nil // a user's own repository gets no such refs
	}
	known, err := s.Seen(b, branch)
	if err != nil || known != old {
		return err
	}
	s.refs.Lock()
	defer s.refs.Unlock()
	file := filepath.Join(s.dir, filepath.FromSlash(seenRef(b, branch)))
	if err := s.disk.MkdirAll(filepath.Dir(file)); err != nil {
		return err
	}
	return disk.WriteFile(s.disk, file, tip.String()+"\n")
}
