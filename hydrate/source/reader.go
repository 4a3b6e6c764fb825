package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/check"
	"github.com/sluice-gitops/sluice/gitstore"
	imports "github.com/sluice-gitops/sluice/importer"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// Archives returns packed charts by their entry in sluice.lock, and requires signatures of them. *fetch.Fetcher
// implements it.
type Archives interface {
	Archive(ctx context.Context, r fetch.Ref, l fetch.Locked) ([]byte, error)
	// Verify fails unless one of the signers signed the archive.
	Verify(ctx context.Context, r fetch.Ref, l fetch.Locked, signers []signature.Signer) error
}

// Reader opens the commits of one source repository and caches the latest views. It is safe for concurrent use.
type Reader struct {
	store       *gitstore.Store
	archives    Archives
	loader      fleet.Loader
	credentials Credentials
	alone       bool
	only        []Pinned
	trust       *Trust // nil: that of each commit
	pinner      Pinner
	commits     Commits // nil: see fetcher
	mirror      Mirror  // nil: there is none

	mu    sync.Mutex
	views *lru.Cache[*View] // by the bytes of the tree's hash; with mu held, only one caller reads a tree
	loads int               // since the loader's cache was last emptied
	slow  *slowCommits
}

// Limits of the caches, for a long-running service.
const (
	maxViews = 32  // a promotion compares a handful of commits; a view of 20,000 targets takes tens of MB
	maxLoads = 256 // fleets that share a cache of decoded files
)

// NewReader returns a Reader of a store's commits. It reads repositories of other tools (spec.import) in the worker
// processes of r, if r has some. Other renderers work in the calling process, and so do imports.
func NewReader(store *gitstore.Store, archives Archives, r renderer.Renderer) *Reader {
	var importer fleet.Importer = imports.New(archives)
	if workers, ok := renderer.CallerOf(r); ok {
		importer = imports.NewIsolated(workers, archives)
	}
	views := lru.New[*View](maxViews)
	return &Reader{
		store: store, archives: archives, views: views, slow: &slowCommits{},
		loader: fleet.Loader{Cache: fleet.NewCache(), Importer: importer, Warn: check.Effects},
	}
}

// Detecting makes the reader accept a repository of Flux or Argo CD objects without sluice.yaml, and treat it as
// `sluice import --detect` prints it. trunk is its default branch; "" if that is not known. It returns the reader. Call it
// before any other method, and only for verbs that write nothing, because nobody has confirmed that the repository is a fleet.
func (r *Reader) Detecting(trunk string) *Reader {
	r.loader.Detect, r.loader.Trunk = true, trunk
	return r
}

// Assuming makes the reader take the capabilities of every cluster from c; see fleet.Loader. It returns the reader.
// Call it before any other method, and only for verbs that write nothing.
func (r *Reader) Assuming(c fleet.Capabilities) *Reader {
	r.loader.Assumed = c
	return r
}

// WritingTo makes the reader take a place in a registry as the output of every fleet; see fleet.Loader. It returns the
// reader. Call it before any other method.
func (r *Reader) WritingTo(place string) *Reader {
	r.loader.Output = place
	return r
}

// Raising returns a reader of the same commits in which clusters with an older version of Kubernetes have another one;
// see fleet.Loader. The readers share decoded files. Call it after the other methods that change a reader, and only for
// verbs that write nothing.
func (r *Reader) Raising(to fleet.Raise) *Reader {
	loader := r.loader
	loader.Raised = &to
	return &Reader{
		store: r.store, archives: r.archives, loader: loader, credentials: r.credentials, alone: r.alone, only: r.only,
		trust: r.trust, pinner: r.pinner, commits: r.commits, mirror: r.mirror, slow: r.slow, views: lru.New[*View](maxViews),
	}
}

// Remembering makes the reader keep imports in m between runs, if they run in worker processes. It returns the reader.
// Call it before any other method, and only for verbs that write nothing; see imports.Memory.
func (r *Reader) Remembering(m *imports.Memory) *Reader {
	if isolated, ok := r.loader.Importer.(*imports.Isolated); ok {
		isolated.Remembering(m)
	}
	return r
}

// WithCredentials makes the reader fetch other repositories that the store does not have. Otherwise it reads only
// commits that the store or its own remote has. It returns the reader. Call it before any other method.
func (r *Reader) WithCredentials(c Credentials) *Reader {
	r.credentials = c
	return r
}

// Alone makes the reader refuse content of other repositories, even if the store has it. only has commits that it reads
// all the same. It returns the reader. Call it before any other method.
func (r *Reader) Alone(only ...Pinned) *Reader {
	r.alone, r.only = true, only
	return r
}

// Trusting makes the reader hold charts against the signers of another commit, that of the trunk, instead of those of
// the commit that it reads. It returns the reader. Call it before any other method.
func (r *Reader) Trusting(t *Trust) *Reader {
	r.trust = t
	return r
}

// Pinning makes the reader take charts that sluice.lock lacks from p, if their reference is exact. It returns the
// reader. Call it before any other method, and only for verbs that write nothing: what a hydration writes depends on
// the commit alone.
func (r *Reader) Pinning(p Pinner) *Reader {
	r.pinner = p
	return r
}

// Fetching makes the reader fetch commits of other repositories that nobody declares with c. Otherwise it fetches them
// as declared ones, if it has credentials and reads them. It returns the reader. Call it before any other method.
func (r *Reader) Fetching(c Commits) *Reader {
	r.commits = c
	return r
}

// fetcher returns what fetches commits that nobody declares; nil if nothing does.
func (r *Reader) fetcher() Commits {
	if r.commits == nil && r.credentials != nil && !r.alone {
		return direct{r.store, r.credentials}
	}
	return r.commits
}

// View is the source tree of one commit.
type View struct {
	Fleet    *fleet.Fleet
	Problems fleet.Problems // only warnings

	tree     gitstore.Hash
	mounted  gitstore.Hash // the tree with the repositories that the fleet names in fleet.MountDir; tree if there are none
	contents *contents
	outages  *outages
	store    *gitstore.Store
}

// Files returns the files of the commit with the content of other repositories in fleet.MountDir.
func (v *View) Files(ctx context.Context) *gitstore.Snapshot {
	return v.store.Snapshot(ctx, v.contents.files.now().Root()).OnLack(v.outages.lacks)
}

// Trust returns the signers that charts are held against.
func (v *View) Trust() *Trust { return v.contents.trust }

// Detect returns a sluice.yaml for a repository of another tool that has none. It returns nil if the repository is
// not one.
func (r *Reader) Detect(ctx context.Context, tree gitstore.Hash) ([]byte, error) {
	return r.loader.Importer.Detect(ctx, r.store.Snapshot(ctx, tree))
}

// Open reads the fleet of a tree. An invalid fleet is reported as fleet.Problems.
func (r *Reader) Open(ctx context.Context, tree gitstore.Hash) (*View, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.views.Get(string(tree[:])); ok && !v.outages.any() {
		return v, nil
	}
	if r.loads++; r.loads > maxLoads {
		r.loads, r.loader.Cache = 1, fleet.NewCache()
	}
	lost := &outages{}
	mirror := r.mirror
	if r.alone {
		mirror = nil
	}
	m := &mounts{
		mirror: mirror,
		store:  r.store, snap: r.store.Snapshot(ctx, tree).OnLack(lost.lacks),
		credentials: r.credentials, alone: r.alone, only: r.only, mounted: tree,
		exact: exactCommits{store: r.store, commits: r.fetcher(), slow: r.slow, outages: lost, mirror: mirror, left: patience},
		found: map[string]gitstore.Hash{}, missing: map[string]error{},
	}
	f, problems := r.moved(ctx, m.snap)
	if f == nil {
		loader := r.loader
		loader.Mounts = m
		f, problems = loader.Load(ctx, m.snap)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	trust := r.trust
	var err error
	if trust == nil {
		if trust, err = readTrust(m.snap, f.Spec.Charts); err != nil {
			return nil, err
		}
	}
	v := &View{Fleet: f, Problems: problems, tree: tree, mounted: m.mounted, outages: lost, store: r.store}
	v.contents, err = newContents(newExactMounts(ctx, m), r.archives, f.Repositories, newPins(ctx, r.pinner))
	if err != nil {
		return nil, err
	}
	for _, c := range []*contents{v.contents, v.contents.locked} {
		c.trust, c.demanded = trust, f.Spec.Charts.Verify
	}
	r.views.Add(string(tree[:]), v)
	return v, nil
}

// Limits of the look for a view whose fleet is that of another tree.
const (
	maxBases = 4   // the views that were used last
	maxMoved = 500 // changed files
)

// moved returns the fleet of a tree, and its warnings, from a view of a tree with the same declarations; nil if there
// is none. The caller holds mu.
func (r *Reader) moved(ctx context.Context, snap *gitstore.Snapshot) (*fleet.Fleet, fleet.Problems) {
	trees := r.views.Keys() // the one that was used last is at the end
	for _, key := range slices.Backward(trees[max(0, len(trees)-maxBases):]) {
		v, ok := r.views.Peek(key)
		if !ok || v.outages.any() {
			continue
		}
		changes, err := gitstore.FewChanges(ctx, r.store, v.tree, snap.Root(), maxMoved)
		if err != nil {
			continue // whatever it is: Load reads the tree, and reports its errors
		}
		edited, others, ok := ofFiles(changes)
		if !ok {
			continue
		}
		if f, problems := fleet.Moved(v.Fleet, snap, r.loader.Cache, edited, others); f != nil {
			return f, problems
		}
	}
	return nil, nil
}

// ofFiles divides changes into files with other content, and files that only one tree has. It returns false for changes
// of something else than a regular file, such as a link, and of modes.
func ofFiles(changes []gitstore.Change) (edited, others []string, ok bool) {
	isFile := func(m gitstore.Mode) bool { return m == gitstore.ModeFile || m == gitstore.ModeExecutable }
	for _, c := range changes {
		switch before, after := c.Old.Mode, c.New.Mode; {
		case c.Old.Hash.IsZero() && isFile(after), c.New.Hash.IsZero() && isFile(before):
			others = append(others, c.Path)
		case isFile(before) && before == after:
			edited = append(edited, c.Path)
		default:
			return nil, nil, false
		}
	}
	return edited, others, true
}

// Readable returns the newest commit on the first-parent line of tip whose fleet is valid, so that an invalid fleet
// on the trunk does not prevent a rollback. It tries 100 commits. If none is valid, it returns the error of tip.
func (r *Reader) Readable(ctx context.Context, tip gitstore.Commit) (gitstore.Commit, *fleet.Fleet, error) {
	const limit = 100
	at := tip
	var first error
	for range limit {
		v, err := r.Open(ctx, at.Tree)
		if err == nil {
			return at, v.Fleet, nil
		}
		problems, invalid := errors.AsType[fleet.Problems](err)
		if first == nil {
			first = err
		}
		if !invalid || problems.Absent() || len(at.Parents) == 0 {
			return tip, nil, first
		}
		if at, err = r.store.Commit(ctx, at.Parents[0]); err != nil {
			return tip, nil, first
		}
	}
	return tip, nil, first
}

// Touched is what a change can affect.
type Touched struct {
	// All is true if the change can affect everything. The other fields are then empty.
	All bool
	// Apps are the affected targets: cluster → apps.
	Apps map[string][]string
	// Clusters changed themselves. Each target of theirs is affected, and files that belong to no target: a cluster
	// that is no longer frozen may have some from before.
	Clusters map[string]bool
}

// Touched returns the targets that Affected returns, by cluster, and the clusters that changed themselves. It has the
// errors of Affected.
func (r *Reader) Touched(ctx context.Context, base gitstore.Hash, head *View) (*Touched, error) {
	affected, err := r.Affected(ctx, base, head)
	if err != nil {
		return nil, err
	}
	out := &Touched{Apps: map[string][]string{}, Clusters: map[string]bool{}}
	for _, a := range affected {
		out.Apps[a.Cluster] = append(out.Apps[a.Cluster], a.App)
	}
	before, err := r.Open(ctx, base)
	if err != nil {
		return nil, err
	}
	for _, name := range fleet.ChangedClusters(before.Fleet, head.Fleet) {
		out.Clusters[name] = true
	}
	return out, nil
}

// Affected returns the targets that the change from the tree base to the view can affect. It reads tree objects and
// renders nothing. If the fleet of base is invalid, it returns fleet.Problems.
func (r *Reader) Affected(ctx context.Context, base gitstore.Hash, head *View) ([]fleet.AffectedTarget, error) {
	if base == head.tree {
		return nil, nil
	}
	before, err := r.Open(ctx, base)
	if err != nil {
		return nil, err
	}
	changes, err := r.store.Changes(ctx, before.mounted, head.mounted)
	if errors.Is(err, gitstore.ErrNotFound) && ctx.Err() == nil {
		// a folder of another repository cannot be listed
		if _, own := r.store.Changes(ctx, before.tree, head.tree); own == nil {
			return fleet.Everything(before.Fleet, head.Fleet), nil
		}
	}
	// such as a folder with two files of one name; only its author can mend it
	if errors.Is(err, gitstore.ErrMalformed) {
		return nil, fleet.Problems{{
			File: ".", Severity: fleet.SeverityError,
			Message: fmt.Sprintf("Sluice cannot tell what the commit changes: %v", err),
		}}
	}
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.Path
	}
	reach := func(f *fleet.Fleet, s fleet.Source) []string {
		if f == before.Fleet {
			return before.contents.reach(s)
		}
		return head.contents.reach(s)
	}
	return fleet.Affected(before.Fleet, head.Fleet, paths, reach), nil
}

// ChangedPaths returns the paths that differ between two views, those of pinned repositories included.
func (r *Reader) ChangedPaths(ctx context.Context, base, head *View) ([]string, error) {
	changes, err := r.store.Changes(ctx, base.mounted, head.mounted)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.Path
	}
	return paths, nil
}

// Readers returns the targets that read a path that differs between two views; see fleet.Readers.
func (r *Reader) Readers(base, head *View, path string, apps map[string]bool) (found map[[2]string]bool, any bool) {
	return fleet.Readers(base.Fleet, head.Fleet, path, apps, func(f *fleet.Fleet, s fleet.Source) []string {
		if f == base.Fleet {
			return base.contents.reach(s)
		}
		return head.contents.reach(s)
	})
}

// Claims returns the files of the repository that differ between two views, and who reads each. If the changes cannot
// be listed, it returns nothing.
func (r *Reader) Claims(ctx context.Context, base, head *View) (map[string]fleet.Claim, error) {
	changes, err := r.store.Changes(ctx, base.mounted, head.mounted)
	if err != nil {
		if changes, err = r.store.Changes(ctx, base.tree, head.tree); err != nil {
			return nil, err
		}
	}
	paths := make([]string, 0, len(changes))
	for _, c := range changes {
		if !strings.HasPrefix(c.Path, fleet.MountDir+"/") {
			paths = append(paths, c.Path)
		}
	}
	reach := func(f *fleet.Fleet, s fleet.Source) []string {
		if f == base.Fleet {
			return base.contents.reach(s)
		}
		return head.contents.reach(s)
	}
	claims := fleet.Claims(base.Fleet, head.Fleet, paths, reach)
	for _, p := range paths {
		claims[p] += ""
	}
	return claims, nil
}
