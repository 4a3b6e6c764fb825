package source

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Pin returns the commit that the lock file pins a repository to. The second result is false if the repository is not
// locked, or if its declaration has changed since.
func (v *View) Pin(r *fleet.Repository) (fetch.Pin, bool) {
	pin, ok := v.contents.lock.Pin(r.Name)
	return pin, ok && pin.URL == r.URL && pin.Wanted == r.Wanted
}

// Lock returns a copy of the lock file's content.
func (v *View) Lock() *fetch.Lock { return v.contents.lock.Clone() }

// ResolvePin asks a repository for the commit that its declaration selects now: the tip of a branch, or the tag with
// the highest version.
func (r *Reader) ResolvePin(ctx context.Context, repository *fleet.Repository) (fetch.Pin, error) {
	var auth gitstore.Auth
	if r.credentials != nil {
		auth = r.credentials(repository.URL)
	}
	refs, err := gitstore.RemoteRefs(ctx, repository.URL, auth)
	if err != nil {
		return fetch.Pin{}, fmt.Errorf("repository %s: %w", repository.Name, err)
	}
	name, commit, err := newest(refs, repository.Wanted)
	if err != nil {
		return fetch.Pin{}, fmt.Errorf("%s:%d: repository %s: %s has %w", repository.File, repository.Line, repository.Name, repository.URL, err)
	}
	return fetch.Pin{URL: repository.URL, Wanted: repository.Wanted, Resolved: name, Commit: commit.String()}, nil
}

const tagPrefix = "refs/tags/"

// newest selects a ref: the wanted ref itself or, for a pattern of tags, the tag with the highest version. The
// version of a tag is the text after its last slash. Pre-release versions count only if there is no other.
func newest(refs map[string]gitstore.Hash, wanted string) (string, gitstore.Hash, error) {
	pattern, isTag := strings.CutPrefix(wanted, tagPrefix)
	if !isTag {
		if h, ok := refs[wanted]; ok {
			return wanted, h, nil
		}
		return "", gitstore.Hash{}, fmt.Errorf("no branch %s", safetext.Brief(strings.TrimPrefix(wanted, "refs/heads/"), 100))
	}
	best, version := "", (*semver.Version)(nil)
	for name := range refs {
		tag, ok := strings.CutPrefix(name, tagPrefix)
		if !ok || strings.HasSuffix(tag, "^{}") {
			continue
		}
		if ok, err := path.Match(pattern, tag); err != nil || !ok {
			continue // the fleet's reader reports bad patterns
		}
		v, err := semver.NewVersion(path.Base(tag))
		switch {
		case err != nil && tag == pattern: // an exact tag need not be a version
			best, version = name, nil
		case err != nil:
		case version == nil && best == "", version != nil && higher(v, version):
			best, version = name, v
		}
	}
	if best == "" {
		return "", gitstore.Hash{}, fmt.Errorf("no tag with a version that matches %s", safetext.Brief(pattern, 100))
	}
	if peeled, ok := refs[best+"^{}"]; ok {
		return best, peeled, nil
	}
	return best, refs[best], nil
}

func higher(a, b *semver.Version) bool {
	if (a.Prerelease() == "") != (b.Prerelease() == "") {
		return a.Prerelease() == ""
	}
	return a.GreaterThan(b)
}
