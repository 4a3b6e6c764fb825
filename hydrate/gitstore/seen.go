package gitstore

import (
	"errors"
	"path/filepath"
)

// seenRef is the ref of a mirror that keeps the last tip of a branch that was accepted. Each place of branches has its own.
func seenRef(b Branches, branch string) string {
	return "refs/sluice/seen/" + hashObject("blob", []byte(b.String())).String() + "/" + branch
}

// Seen returns the tip of a branch that NoteSeen noted last. It is the zero Hash if nothing was noted, and in a store that is no mirror.
func (s *Store) Seen(b Branches, branch string) (Hash, error) {
	h, err := s.ref(seenRef(b, branch))
	if errors.Is(err, ErrNotFound) {
		return Hash{}, nil
	}
	return h, err
}

// NoteSeen notes a tip of a branch in a mirror, if the noted one is still old; otherwise another process has noted a newer one. A store
// that is no mirror notes nothing.
func (s *Store) NoteSeen(b Branches, branch string, old, tip Hash) error {
	if s.repo == nil || s.side != s.own || old == tip {
		return nil // a user's own repository gets no refs from fetching
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
	return writeFile(s.disk, file, tip.String()+"\n")
}
