// Package mirror reads and writes what transfer bundles brought to a site from outside of the fleet's own repository:
// packed charts, and commits of other repositories.
//
// A site keeps it on the branches sluice/mirror/<environment>, whose trees have
//
//	charts/<SHA-256>.tgz               a packed chart
//	charts/<SHA-256>.signatures.json   its signatures, as package fetch keeps them
//	commits/<id>/commit                the bytes of a commit of another repository
//	commits/<id>/tree                  its tree
//	public/<id>/…                      the same of a commit that anybody may read
//
// Nothing of it is believed: a chart counts only if it has the digest that the caller asks for, a commit only if its
// bytes and its tree have the id, and signatures are verified by who uses them. So whoever can push to the branch can
// withhold content, and not change it.
//
// The package is not API: it can change in every release.
package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Prefix begins the names of the branches.
const Prefix = "sluice/mirror/"

// Branch returns the branch of an environment.
func Branch(environment string) string { return Prefix + environment }

// Mirror finds charts and commits by their digests. It is safe for concurrent use.
type Mirror struct {
	store *gitstore.Store
	clock func() time.Time

	mu     sync.Mutex
	places []gitstore.Branches
	trees  []gitstore.Hash // given, or of the branches
	given  []gitstore.Hash
	listed time.Time
}

// fresh is how long the branches of the places are believed to be where they were.
const fresh = 30 * time.Second

// maxBranches limits the branches of a repository that are read: whoever may push can make any number.
const maxBranches = 100

// New returns a mirror without content. The store is the one in which commits become readable. Without a clock, branches
// are listed once.
func New(store *gitstore.Store, clock func() time.Time) *Mirror {
	if clock == nil {
		clock = func() time.Time { return time.Unix(0, 0) }
	}
	return &Mirror{store: store, clock: clock}
}

// In adds the branches of a repository. They are listed when something is looked for.
func (m *Mirror) In(b gitstore.Branches) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.places, func(known gitstore.Branches) bool { return known.String() == b.String() }) {
		return
	}
	m.places, m.listed = append([]gitstore.Branches{b}, m.places...), time.Time{}
}

// With adds a tree that is in no branch.
func (m *Mirror) With(tree gitstore.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.given, m.listed = append(m.given, tree), time.Time{}
}

// roots returns the trees to look in.
func (m *Mirror) roots(ctx context.Context) ([]gitstore.Hash, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	if !m.listed.IsZero() && now.Sub(m.listed) < fresh {
		return m.trees, nil
	}
	trees := slices.Clone(m.given)
	var errs []error
	for _, place := range m.places {
		more, err := m.treesOf(ctx, place)
		trees = append(trees, more...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	if ctx.Err() == nil { // a repository that cannot be read is not asked again for each file
		m.trees, m.listed = trees, now
	}
	return trees, errors.Join(errs...)
}

// treesOf returns the trees of the branches of a repository. It fetches them at once.
func (m *Mirror) treesOf(ctx context.Context, place gitstore.Branches) (out []gitstore.Hash, err error) {
	refs, err := place.List(ctx, Prefix)
	if err != nil {
		return nil, err
	}
	var tips []gitstore.Hash
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if len(tips) < maxBranches && !slices.Contains(tips, refs[name]) {
			tips = append(tips, refs[name])
		}
	}
	if err := place.Fetch(ctx, tips...); err != nil {
		return nil, err
	}
	for _, tip := range tips {
		c, failed := m.store.Commit(ctx, tip)
		if failed != nil { // the other branches count
			err = errors.Join(err, failed)
			continue
		}
		out = append(out, c.Tree)
	}
	return out, err
}

// find returns the entry at a path of two or three names. A tree that cannot be read hides no other.
func (m *Mirror) find(ctx context.Context, names ...string) (gitstore.Entry, bool, error) {
	roots, failed := m.roots(ctx)
	for _, root := range roots {
		e, ok, err := find(ctx, m.store, root, names...)
		if ok {
			return e, true, nil
		}
		failed = errors.Join(failed, err)
	}
	return gitstore.Entry{}, false, failed
}

func find(ctx context.Context, store *gitstore.Store, tree gitstore.Hash, names ...string) (gitstore.Entry, bool, error) {
	at := gitstore.Entry{Mode: gitstore.ModeTree, Hash: tree}
	for _, name := range names {
		if at.Mode != gitstore.ModeTree {
			return at, false, nil
		}
		list, err := store.Tree(ctx, at.Hash)
		if err != nil {
			return at, false, err
		}
		found := false
		for _, e := range list {
			if e.Name == name {
				at, found = e, true
				break
			}
		}
		if !found {
			return at, false, nil
		}
	}
	return at, true, nil
}

// hexOf returns the digits of a digest "sha256:…"; false for another digest.
func hexOf(digest string) (string, bool) {
	digits, ok := strings.CutPrefix(digest, "sha256:")
	raw, err := hex.DecodeString(digits)
	return digits, ok && err == nil && len(raw) == sha256.Size && digits == strings.ToLower(digits)
}

// Chart returns the packed chart with a digest; nil if the mirror has none.
func (m *Mirror) Chart(ctx context.Context, digest string) ([]byte, error) {
	digits, ok := hexOf(digest)
	if !ok {
		return nil, nil
	}
	e, ok, err := m.find(ctx, "charts", ChartFile(digits))
	if err != nil || !ok || e.Mode != gitstore.ModeFile {
		return nil, err
	}
	data, err := m.store.Blob(ctx, e.Hash)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digits {
		return nil, nil // it is as if it were not there
	}
	return data, nil
}

// Evidence returns the signatures of the chart with a digest, not verified; nil if the mirror has none.
func (m *Mirror) Evidence(ctx context.Context, digest string) (*fetch.Evidence, error) {
	digits, ok := hexOf(digest)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	e, ok, err := m.find(ctx, "charts", SignaturesFile(digits))
	if err != nil || !ok || e.Mode != gitstore.ModeFile {
		return nil, err
	}
	data, err := m.store.Blob(ctx, e.Hash)
	if err != nil {
		return nil, err
	}
	var out fetch.Evidence
	if json.Unmarshal(data, &out) != nil {
		return nil, nil //nolint:nilnil,nilerr // it is as if it were not there
	}
	return &out, nil
}

// Commit makes a commit of another repository readable in the store, and returns true, if the mirror has it with its
// tree. With public, it looks only for one that anybody may read. It implements source.Mirror.
func (m *Mirror) Commit(ctx context.Context, commit gitstore.Hash, public bool) (bool, error) {
	var failed error
	for _, dir := range []string{dirPublic, dirCommits} {
		if public && dir != dirPublic {
			break
		}
		raw, ok, err := m.find(ctx, dir, commit.String(), "commit")
		failed = errors.Join(failed, err)
		if !ok || raw.Mode != gitstore.ModeFile {
			continue
		}
		data, err := m.store.Blob(ctx, raw.Hash)
		if err != nil {
			return false, err
		}
		tree, ok, err := m.find(ctx, dir, commit.String(), "tree")
		if err != nil || !ok {
			return false, err
		}
		if want, err := TreeOf(ctx, m.store, commit, data); err == nil && want == tree.Hash {
			return true, nil
		}
	}
	return false, failed
}
