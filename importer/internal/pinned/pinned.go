// Package pinned names commits of other repositories that an object or a kustomization pins by their whole id.
package pinned

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Whole reports whether a revision is the whole id of a commit, which is a digest of its content.
func Whole(revision string) bool { return commitID.MatchString(revision) }

// LackError means that an object needs a commit that the import does not have, and pins it by its whole id.
type LackError struct {
	URL, Commit string
	Err         error // that of an object that pins no commit; it tells how to declare the repository
}

// Error returns the text of Err.
func (e *LackError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *LackError) Unwrap() error { return e.Err }

// Lacking returns every LackError in an error, which can join several.
func Lacking(err error) []*LackError {
	switch e := err.(type) { //nolint:errorlint // the parts follow
	case nil:
		return nil
	case *LackError:
		return []*LackError{e}
	case interface{ Unwrap() []error }:
		var out []*LackError
		for _, one := range e.Unwrap() {
			out = append(out, Lacking(one)...)
		}
		return out
	}
	return Lacking(errors.Unwrap(err))
}

// Commit is a commit of another repository that an import has, or knows to be missing.
type Commit struct {
	URL, Commit string
	Dir         string // of its content in the tree
	Missing     string // why the content is missing; "" if it is there
}

// Bases are the commits that kustomizations may name by URL. It implements kustomize.Bases.
type Bases []Commit

// Find implements kustomize.Bases.
func (b Bases) Find(_, reference string) (string, bool) {
	r, ok := kustomize.ParseRemote(reference)
	if !ok || !r.Exact() {
		return "", false
	}
	n := slices.IndexFunc(b, func(c Commit) bool { return c.URL == r.URL && c.Commit == r.Ref })
	if n < 0 || b[n].Missing != "" {
		return "", false
	}
	return path.Join(b[n].Dir, r.Dir), true
}

// Unpinned implements kustomize.Bases. Its error is a *LackError for a commit that the import was not asked to have.
func (b Bases) Unpinned(reference string) error {
	r, ok := kustomize.ParseRemote(reference)
	if !ok || !r.Exact() {
		return nil
	}
	for _, c := range b {
		if c.URL == r.URL && c.Commit == r.Ref {
			return fmt.Errorf("names another repository: %s", c.Missing)
		}
	}
	return &LackError{URL: r.URL, Commit: r.Ref, Err: fmt.Errorf(
		"names commit %.7s of %s, whose content is not read here: pin the repository, or copy the directory here", r.Ref,
		r.URL)}
}
