package source

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Pin returns the commit that the lock file pins a repository to. The second result is false if the repository is not
// locked, or if its declaration has changed since.
func (v *View) Pin(r *fleet.Repository) (fetch.Pin, bool) {
	pin, ok := v.contents.lock.Pin(r.Name)
	return pin, ok && pin.URL == r.URL && pin.Wanted == r.Wanted
}

// PinTo returns a pin of a repository at another commit. It keeps the locked branch or tag, so that Kustomize URLs with
// that name still refer to the repository.
func (v *View) PinTo(r *fleet.Repository, commit gitstore.Hash) fetch.Pin {
	before, _ := v.Pin(r) // a repository without a lock has no resolved ref
	return fetch.Pin{URL: r.URL, Wanted: r.Wanted, Resolved: cmp.Or(before.Resolved, r.Wanted), Commit: commit.String()}
}

// Lock returns a copy of the lock file's content.
func (v *View) Lock() *fetch.Lock { return v.contents.lock.Clone() }

// ResolvePin asks a repository for the commit that its declaration selects now: the tip of a branch, or the tag with
// the highest version. The pin of the same declaration stays if its tag still has its commit, and no version is higher.
func (r *Reader) ResolvePin(ctx context.Context, repository *fleet.Repository, have fetch.Pin) (fetch.Pin, error) {
	var auth gitstore.Auth
	if r.credentials != nil {
		auth = r.credentials(repository.URL)
	}
	refs, err := gitstore.RemoteRefs(ctx, repository.URL, auth)
	if err != nil {
		return fetch.Pin{}, fmt.Errorf("repository %s: %w", repository.Name, err)
	}
	if have.URL != repository.URL || have.Wanted != repository.Wanted {
		have = fetch.Pin{}
	}
	name, commit, err := newest(refs, repository.Wanted, have)
	if err != nil {
		return fetch.Pin{}, &RefError{fmt.Sprintf("%s:%d: repository %s: %s has %v", repository.File, repository.Line,
			repository.Name, repository.URL, err)}
	}
	return fetch.Pin{URL: repository.URL, Wanted: repository.Wanted, Resolved: name, Commit: commit.String()}, nil
}

// RefError is the error of ResolvePin for a repository without the wanted branch or tag. Its text has nothing of the
// remote's answer.
type RefError struct{ text string }

func (e *RefError) Error() string { return e.text }

const tagPrefix = "refs/tags/"

// newest selects a ref: the wanted ref itself or, for a pattern of tags, the tag with the highest version. The version
// of a tag is the text after its last slash. Pre-release versions count only if there is no other. Equal answers of the
// remote give equal results: of tags with equal versions, the present pin wins, then the one that tagOrder names.
func newest(refs map[string]gitstore.Hash, wanted string, have fetch.Pin) (string, gitstore.Hash, error) {
	pattern, isTag := strings.CutPrefix(wanted, tagPrefix)
	if !isTag {
		if h, ok := refs[wanted]; ok {
			return wanted, h, nil
		}
		return "", gitstore.Hash{}, fmt.Errorf("no branch %s", safetext.Brief(strings.TrimPrefix(wanted, "refs/heads/"),
			100))
	}
	if exact := tagPrefix + pattern; refs[exact] != (gitstore.Hash{}) { // an exact tag need not be a version
		return exact, tagged(refs, exact), nil
	}
	var best candidate
	for name := range refs {
		tag, ok := strings.CutPrefix(name, tagPrefix)
		if !ok || strings.HasSuffix(tag, "^{}") {
			continue
		}
		if ok, err := path.Match(pattern, tag); err != nil || !ok {
			continue // the fleet's reader reports bad patterns
		}
		v := versionOf(name)
		if v == nil {
			continue
		}
		c := candidate{name: name, version: v, pinned: name == have.Resolved &&
			tagged(refs, name).String() == have.Commit}
		if best.version == nil || tagOrder(c, best) > 0 {
			best = c
		}
	}
	if best.version == nil {
		return "", gitstore.Hash{}, fmt.Errorf("no tag with a version that matches %s", safetext.Brief(pattern, 100))
	}
	return best.name, tagged(refs, best.name), nil
}

// tagged returns the commit of a tag.
func tagged(refs map[string]gitstore.Hash, name string) gitstore.Hash {
	if peeled, ok := refs[name+"^{}"]; ok {
		return peeled
	}
	return refs[name]
}

// Higher reports whether a tag has a higher version than another. It is false if either has no version. Both are full
// ref names.
func Higher(tag, than string) bool {
	a, b := versionOf(tag), versionOf(than)
	return a != nil && b != nil && a.GreaterThan(b)
}

// versionOf returns the version that the full name of a tag ends with; nil if that is no version.
func versionOf(name string) *semver.Version {
	v, err := semver.NewVersion(path.Base(name))
	if err != nil {
		return nil
	}
	return v
}

// candidate is a tag that can be selected.
type candidate struct {
	name    string
	version *semver.Version
	pinned  bool // the lock file pins it, and it has not moved
}

// tagOrder is a total order of tags: releases, then the version, then the present pin, then the name with most
// components (v1.4.0 before the floating v1.4), then the name.
func tagOrder(a, b candidate) int {
	rank := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(rank(a.version.Prerelease() == ""), rank(b.version.Prerelease() == "")),
		a.version.Compare(b.version),
		cmp.Compare(rank(a.pinned), rank(b.pinned)),
		cmp.Compare(strings.Count(a.name, "."), strings.Count(b.name, ".")),
		cmp.Compare(a.name, b.name),
	)
}

// ReplaceLock returns a tree with another lock file. The new objects exist only in memory.
func ReplaceLock(ctx context.Context, store *gitstore.Store, tree gitstore.Hash, lock *fetch.Lock) (gitstore.Hash,
	error,
) {
	data, err := lock.Bytes()
	if err != nil {
		return tree, err
	}
	return store.Replace(ctx, tree, fetch.LockFile, data)
}
