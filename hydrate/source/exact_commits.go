package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// exactCommits reads commits of other repositories that nobody declares, for one view. It is not safe for concurrent
// use.
type exactCommits struct {
	store   *gitstore.Store
	commits Commits // nil: only repositories that the fleet declares
	slow    *slowCommits
	outages *outages
	mirror  Mirror        // nil: there is none
	left    time.Duration // for the next commit
}

// tree returns the tree of a commit. The store computes the ids of what it gets, so the commit is the one that was asked
// for.
func (e *exactCommits) tree(ctx context.Context, at fleet.GitCommit) (gitstore.Hash, error) {
	hash, err := gitstore.ParseHash(at.Commit)
	known := err == nil && (at.Nested || !e.store.Has(hash)) && mirrored(ctx, e.mirror, hash, at.Nested)
	if err == nil && !known {
		limited, end := context.WithTimeout(ctx, e.left)
		defer end()
		if err = e.slow.fetch(ctx, limited, e.commits, at); err != nil && limited.Err() != nil {
			e.left /= 2 // so that hosts that do not answer cost at most twice the time of the first
		}
	}
	var c gitstore.Commit
	if err == nil {
		c, err = e.store.Commit(ctx, hash)
	}
	if err != nil {
		if _, again := errors.AsType[*AgainError](err); again || ctx.Err() != nil {
			e.outages.note()
		}
		return gitstore.Hash{}, fmt.Errorf("commit %s cannot be fetched: %w", at, err)
	}
	return c.Tree, nil
}

// maxExact bounds the commits that the kustomizations of one view name.
const maxExact = 200

// exactMounts are the files of a view. They grow: when a kustomization names a commit of another repository by its whole
// id, the commit gets a directory in fleet.MountDir. It is safe for concurrent use.
type exactMounts struct {
	ctx   context.Context //nolint:containedctx // of the view, as its snapshot's
	store *gitstore.Store
	own   gitstore.Hash // the tree of the commit without other repositories
	files atomic.Pointer[gitstore.Snapshot]

	mu      sync.Mutex
	commits exactCommits
	trees   map[string]gitstore.Hash // in fleet.MountDir, by name
	failed  map[fleet.GitCommit]error
	named   []fleet.GitCommit // that were mounted after the fleet was read
}

// added returns the commits that kustomizations name, as far as somebody has read these.
func (e *exactMounts) added() []fleet.GitCommit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.named)
}

// newExactMounts returns the files of a tree with the repositories that m has mounted.
func newExactMounts(ctx context.Context, m *mounts) *exactMounts {
	out := &exactMounts{
		ctx: ctx, store: m.store, own: m.snap.Root(), commits: m.exact, trees: maps.Clone(m.found),
		failed: map[fleet.GitCommit]error{},
	}
	out.commits.left = patience
	out.show(m.mounted)
	return out
}

func (e *exactMounts) show(tree gitstore.Hash) {
	e.files.Store(e.store.Snapshot(e.ctx, tree).OnLack(e.commits.outages.lacks))
}

// now returns the files without what is mounted later.
func (e *exactMounts) now() *gitstore.Snapshot { return e.files.Load() }

// ReadFile implements kustomize.Tree.
func (e *exactMounts) ReadFile(name string) ([]byte, error) { return e.now().ReadFile(name) }

// Stat implements kustomize.Tree.
func (e *exactMounts) Stat(name string) (fs.FileInfo, error) { return e.now().Stat(name) }

// mount returns the directory of a commit. It fetches the commit if the store does not have it.
func (e *exactMounts) mount(c fleet.GitCommit) (string, error) {
	name := c.MountName()
	dir := path.Join(fleet.MountDir, name)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.trees[name]; ok {
		return dir, nil
	}
	err, known := e.failed[c]
	if !known {
		if err = e.add(name, c); err != nil {
			e.failed[c] = err
		}
	}
	return dir, err
}

var errUndeclared = errors.New("only declared repositories are read")

func (e *exactMounts) add(name string, c fleet.GitCommit) error {
	switch {
	case e.commits.commits == nil:
		return errUndeclared
	case !c.Valid():
		return fmt.Errorf("%s is no address that Sluice fetches from: write https://host/owner/repository without a password, or ssh://git@host/owner/repository", c)
	case len(e.failed)+len(e.trees) >= maxExact:
		return fmt.Errorf("the fleet names more than %d commits of other repositories: declare them as kind: Repository", maxExact)
	}
	tree, err := e.commits.tree(e.ctx, c)
	if err != nil {
		return err
	}
	trees := maps.Clone(e.trees)
	trees[name] = tree
	mounted, err := e.store.Graft(e.ctx, e.own, fleet.MountDir, trees)
	if errors.Is(err, fs.ErrExist) {
		return errMountDir
	}
	if err != nil {
		return err
	}
	e.trees, e.named = trees, append(e.named, c)
	e.show(mounted)
	return nil
}

// failure returns why a commit is not mounted; nil if it was not asked for, or only declared repositories are read.
func (e *exactMounts) failure(url, commit string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, nested := range []bool{false, true} {
		err := e.failed[fleet.GitCommit{URL: url, Commit: commit, Nested: nested}]
		if err != nil && !errors.Is(err, errUndeclared) {
			return fmt.Errorf("names another repository: %w", err)
		}
	}
	return nil
}
