package gitstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

var (
	revision = regexp.MustCompile(`^(.+?)((?:~\d{0,9}|\^\d{0,9}|\^\{commit\})*)$`)
	steps    = regexp.MustCompile(`[~^]\d*`)
)

// Resolve returns the commit of a name in the syntax of `git rev-parse`: a branch, a tag, a remote's branch, a hash
// or the beginning of one, each followed by any number of ~N and ^N. It fetches parents that a shallow clone lacks.
// It returns ErrNotFound if the name refers to no commit; the error names a similar ref, if there is one.
func (s *Store) Resolve(ctx context.Context, rev string) (Commit, error) {
	m := revision.FindStringSubmatch(rev)
	if m == nil {
		return Commit{}, notFoundRevision(rev)
	}
	h, err := s.named(m[1])
	if errors.Is(err, ErrNotFound) {
		return Commit{}, unknownName(ctx, s, m[1], rev)
	}
	if err != nil {
		return Commit{}, err
	}
	c, err := s.peel(ctx, h)
	if err != nil {
		return Commit{}, err
	}
	for _, step := range steps.FindAllString(strings.ReplaceAll(m[2], "^{commit}", ""), -1) {
		if c, err = s.step(ctx, c, step, rev); err != nil {
			return Commit{}, err
		}
	}
	return c, nil
}

func notFoundRevision(rev string) error {
	if rev == "HEAD" {
		return kindf(ErrNotFound,
			"the repository has no commit that is checked out: make the first commit, or check a branch out")
	}
	return kindf(ErrNotFound, "no commit is named %q: name a branch, a tag or a commit", rev)
}

// unknownName is notFoundRevision for a name that is no ref. It suggests a similar ref, if the refs can be read.
func unknownName(ctx context.Context, s *Store, name, rev string) error {
	if refs, err := s.RefNames(ctx); err == nil {
		if similar := nearest.Name(name, refs); similar != "" {
			return kindf(ErrNotFound, "no commit is named %q, did you mean %s?", rev, similar)
		}
	}
	return notFoundRevision(rev)
}

// step follows ~N or ^N.
func (s *Store) step(ctx context.Context, c Commit, step, rev string) (Commit, error) {
	n := 1
	if len(step) > 1 {
		n, _ = strconv.Atoi(step[1:]) // at most nine digits, by the pattern
	}
	if step[0] == '^' {
		if n == 0 {
			return c, nil
		}
		if n > len(c.Parents) {
			return Commit{}, notFoundRevision(rev)
		}
		return s.Commit(ctx, c.Parents[n-1])
	}
	for ; n > 0; n-- {
		if len(c.Parents) == 0 {
			return Commit{}, notFoundRevision(rev)
		}
		var err error
		if c, err = s.Commit(ctx, c.Parents[0]); err != nil {
			return Commit{}, err
		}
	}
	return c, nil
}

// named looks a name up in the order of git rev-parse.
func (s *Store) named(name string) (Hash, error) {
	if h, err := ParseHash(name); err == nil {
		return h, nil
	}
	if name == "@" {
		name = "HEAD"
	}
	for _, format := range []string{
		"%s", "refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s",
		"refs/remotes/%s/HEAD",
	} {
		if h, err := s.ref(fmt.Sprintf(format, name)); !errors.Is(err, ErrNotFound) {
			return h, err
		}
	}
	return s.abbreviated(name)
}

// abbreviated finds the one commit whose hash begins with name.
func (s *Store) abbreviated(name string) (Hash, error) {
	const shortest = 4 // as Git
	if len(name) < shortest || len(name) > 2*len(Hash{}) || s.own == nil ||
		strings.Trim(name, "0123456789abcdef") != "" {
		return Hash{}, ErrNotFound
	}
	var found []Hash
	for _, f := range s.folders() {
		for _, h := range f.WithPrefix(name) {
			if s.isCommit(h) && !slices.Contains(found, h) {
				found = append(found, h)
			}
		}
	}
	if len(found) != 1 {
		return Hash{}, ErrNotFound
	}
	return found[0], nil
}

func (s *Store) isCommit(h Hash) bool {
	o, err := s.readLocal(h)
	return err == nil && o.Kind == "commit"
}

// peel follows annotated tags to their commit.
func (s *Store) peel(ctx context.Context, h Hash) (Commit, error) {
	const deepest = 10
	for range deepest {
		o, err := s.read(ctx, h)
		if err != nil {
			return Commit{}, fmt.Errorf("%s: %w", h.Short(), err)
		}
		switch o.Kind {
		case "commit":
			return parseCommit(h, o.Data)
		case "tag":
			if h, err = taggedObject(o.Data); err != nil {
				return Commit{}, fmt.Errorf("tag %s: %w", h, err)
			}
		default:
			return Commit{}, fmt.Errorf("%s is a %s, not a commit", h, o.Kind)
		}
	}
	return Commit{}, fmt.Errorf("%s: %w: a tag of a tag of a tag", h, ErrMalformed)
}
