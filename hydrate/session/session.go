// Package session opens repositories with everything that renders them: renderer, charts, policy and credentials.
//
// A Session is an open repository. It does not change: methods such as WithRemote return another Session that shares
// the clone.
//
// The package reads neither the environment nor the configuration: callers pass credentials, folders and limits as
// values. It names no forge.
//
// The package is not API: it can change in every release.
package session

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bundle/mirror"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/enforce"
	"github.com/sluice-gitops/sluice/hydrate/ocigit"
	"github.com/sluice-gitops/sluice/hydrate/ownpolicy"
	"github.com/sluice-gitops/sluice/hydrate/source"
	imports "github.com/sluice-gitops/sluice/importer"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Options select the repository and configure rendering.
type Options struct {
	Repo          string // folder or URL
	Jobs          int    // targets rendered at the same time
	RenderTimeout time.Duration
	RenderMemory  int64             // bytes of one render process
	PlainHTTP     []string          // registries to contact over HTTP
	Renderer      renderer.Renderer // shared with other sessions; nil starts render processes of its own
	Signer        gitstore.Signer   // signs rendered commits; nil: unsigned commits
	Mirror        string            // folder of the clone of a URL; "": a temporary folder
	OneListing    bool              // of a URL: the session belongs to one task; see gitstore.Options
	Isolation     worker.Mode       // of the session's own render processes; "" is worker.Degraded
	// keep imports in the cache between runs, for verbs that show something and write no branch
	Remember bool
	// start a render process at once: whoever opens the session nearly always renders something
	Renders bool
	Assumed fleet.Capabilities // of every cluster; see fleet.Loader. For verbs that write nothing
	// use exact versions of charts that sluice.lock lacks, of servers that PinFrom makes known. For verbs that write
	// nothing
	PinExact bool
	// accept a repository of another tool without sluice.yaml, for reading; see source.Reader.Detecting
	Detect bool
	// Output is a place in a registry that replaces the output of every fleet; see fleet.Loader
	Output string
}

// Runtime holds the values that a process shares between its sessions.
type Runtime struct {
	Git         gitstore.Auth      // for the source repository
	Output      OutputCredential   // for an output repository
	Hosts       HostCredentials    // for other repositories of fleets; nil: none
	Charts      *fetch.Credentials // for chart repositories and registries; nil: no credentials
	ArtifactKey ArtifactKey        // signs artifacts
	Identity    Identity           // signs artifacts without a key
	Guard       *fetch.Guard       // refuses chart downloads from internal networks; nil: no restriction
	Untrusted   bool               // the charts belong to an untrusted change; see WithoutCredentials
	Cache       string             // folder for downloaded charts and schemas
	Child       []string           // command line of a render process, without its flags
	Version     string             // of Sluice
	Build       string             // identifies the program more closely than Version
	Fingerprint []byte             // key of the fingerprints that replace secrets; nil: a random key for each session
	Offline     bool               // fetch no schemas
	Schemas     policy.Schemas     // nil: the ones from the policy, stored in Cache
	Images      Images             // nil: the session asks the registries
	KnownImages *fetch.KnownImages // nil: sessions do not share what registries answered
	Clock       func() time.Time
	Leases      ocigit.Timing // of branches in a registry
	// called when the process of a review ended unexpectedly, before the review runs again; nil: nobody is told
	Crashed func(error)
}

// ArtifactKey is a private key that signs artifacts; without PEM and KMS there is none.
type ArtifactKey struct {
	PEM, Password []byte
	KMS           string // a key of a service, as scheme://key, instead of PEM
	Name          string // of the environment variable that gives it, for messages
	Err           error  // why it cannot be read; nil if it can, or if there is none
}

// Identity says how a process signs without a key.
type Identity struct {
	// Token returns a token of OpenID Connect with the audience of Sigstore. nil: there is none.
	Token func(ctx context.Context) (string, error)
	// Services is Sigstore's signing configuration as JSON: the authorities and logs to ask. nil: the public ones.
	Services []byte
	Err      error // why Services cannot be read
}

// Images knows which images exist. *fetch.Fetcher implements it; see there for the errors.
type Images interface {
	Image(ctx context.Context, image string) error
}

// WithoutCredentials returns a Runtime that fetches charts without credentials, and does not read cached charts that
// were fetched with credentials.
func (r Runtime) WithoutCredentials() Runtime {
	r.Charts, r.Hosts, r.ArtifactKey, r.Identity, r.Untrusted = nil, nil, ArtifactKey{}, Identity{}, true
	return r
}

func (r Runtime) fetcher(plainHTTP []string) *fetch.Fetcher {
	cache := "charts"
	if r.Untrusted {
		cache = "charts-untrusted"
	}
	return fetch.New(fetch.Options{
		CacheDir: filepath.Join(r.Cache, cache), Credentials: r.Charts, UserAgent: r.UserAgent(), PlainHTTP: plainHTTP,
		Guard: r.Guard, KnownImages: r.KnownImages,
	})
}

// UserAgent is the name of Sluice in requests over HTTP.
func (r Runtime) UserAgent() string { return "sluice/" + r.Version }

// Session is an open repository with its renderer. It is not safe for concurrent use, except that sessions derived
// from one another may be used one after the other in any order.
type Session struct {
	*hydrate.Hydrator
	Store   *gitstore.Store
	Fetcher signature.Archives
	Runtime Runtime
	url     bool
	key     []byte
	plain   []string             // registries to contact over HTTP
	known   *source.KnownServers // nil without Options.PinExact
	hosts   *source.KnownHosts   // nil without Options.PinExact
	mirror  *mirror.Mirror       // what transfer bundles brought to this repository; nil for a session in a worker
	shared  *resources
	trunks  *hydrate.Hydrator // has read the trunk for this task, with the same rights; nil: Hydrator reads it

	judgeOwn ownpolicy.Judge // nil: worker processes of the renderer judge
}

// resources are shared by sessions that derive from one another.
type resources struct {
	once     sync.Once
	store    *gitstore.Store
	pool     *renderer.Pool      // nil: somebody else owns the renderer
	exceeded *ownpolicy.Exceeded // own policies of workspaces
	// for reading the source repository; a session that pushes has another credential in its runtime
	git      gitstore.Auth
	fetcher  *fetch.Fetcher // with the credentials of the runtime that opened the session
	mu       sync.Mutex
	registry map[string]leased // output repositories in registries, by name
}

// leased are branches that a session gives back.
type leased interface {
	gitstore.Branches
	Close()
}

func (r *resources) close() {
	r.once.Do(func() {
		if r.pool != nil {
			r.pool.Close()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, repository := range r.registry {
			repository.Close()
		}
		_ = r.store.Close() // everything to keep has been pushed
	})
}

// Open opens a repository. Close releases it.
func Open(ctx context.Context, r Runtime, o Options, progress hydrate.Progress) (*Session, error) {
	s := &Session{Runtime: r, url: isURL(o.Repo)}
	var err error
	if s.url {
		s.Store, err = gitstore.Open(ctx, gitstore.Options{
			URL: o.Repo, CacheDir: o.Mirror, Auth: r.Git,
			OneListing: o.OneListing,
		})
	} else {
		s.Store, err = gitstore.Open(ctx, gitstore.Options{Dir: cmp.Or(o.Repo, "."), Auth: r.Git})
	}
	if err != nil {
		return nil, err
	}
	s.wire(o, s.defaultBranch(ctx, o), progress)
	return s, nil
}

// defaultBranch returns the default branch of a repository of another tool, which names none itself; "" if it is not known.
func (s *Session) defaultBranch(ctx context.Context, o Options) string {
	if !o.Detect {
		return ""
	}
	if !s.url {
		return s.Store.DefaultBranch(ctx)
	}
	remote, err := s.Store.Remote(o.Repo, s.Runtime.Git)
	if err != nil {
		return "" // reading a commit reports it, and so below
	}
	const head = "HEAD"
	refs, err := remote.List(ctx, head, "")
	if err != nil || refs[head].IsZero() {
		return ""
	}
	// several branches can be at the same commit
	for _, name := range append([]string{fleet.DefaultTrunk, "master"}, slices.Sorted(maps.Keys(refs))...) {
		if name != head && refs[name] == refs[head] {
			return name
		}
	}
	return ""
}

// OpenFolder opens a folder that need not be a repository. If it is not, the session keeps objects in memory.
func OpenFolder(ctx context.Context, r Runtime, o Options, progress hydrate.Progress) (*Session, error) {
	store, err := gitstore.Open(ctx, gitstore.Options{Dir: cmp.Or(o.Repo, "."), Auth: r.Git})
	if err != nil {
		store = gitstore.OpenMemory()
	}
	s := &Session{Runtime: r, Store: store}
	s.wire(o, s.defaultBranch(ctx, o), progress)
	return s, nil
}

// InWorker returns a session of a worker process, in which everything that the session reads comes through c. judgeOwn
// evaluates the own policies of workspaces.
func InWorker(c hydrate.Config, r Runtime, judgeOwn ownpolicy.Judge) *Session {
	return &Session{
		Hydrator: hydrate.New(c), Store: c.Store, Runtime: r, judgeOwn: judgeOwn,
		shared: &resources{store: c.Store, exceeded: ownpolicy.NewExceeded()},
	}
}

func (s *Session) wire(o Options, trunk string, progress hydrate.Progress) {
	if s.key = s.Runtime.Fingerprint; len(s.key) == 0 {
		s.key = []byte(rand.Text())
	}
	s.plain = o.PlainHTTP
	s.Fetcher = signature.Archives{Fetcher: s.Runtime.fetcher(o.PlainHTTP)}
	s.shared = &resources{
		store: s.Store, exceeded: ownpolicy.NewExceeded(), git: s.Runtime.Git, fetcher: s.Fetcher.Fetcher,
		registry: map[string]leased{},
	}
	r := o.Renderer
	if r == nil {
		s.shared.pool = NewPool(s.Runtime.Child, o)
		r = s.shared.pool
		if o.Renders || o.Remember && mayImport(s.Store.Worktree(), o.Detect) {
			s.shared.pool.Prepare()
		}
	}
	var pins source.Pinner
	var commits source.Commits
	if o.PinExact {
		s.known = source.NewKnownServers(fetch.NewExact(s.Fetcher.Fetcher))
		pins = s.known
		if !s.Runtime.Untrusted {
			s.hosts = source.NewKnownHosts(s.Store, s.credentialsFor(s.Runtime), s.Runtime.Git.CABundle)
			commits = s.hosts
		}
	}
	s.mirror = mirror.New(s.Store, s.Runtime.Clock)
	s.mirror.In(s.Store.Local())
	if address := s.Store.RemoteURL(); address != "" {
		if remote, err := s.Store.Remote(address, s.Runtime.Git); err == nil { // else everything else fails, too
			s.mirror.In(remote)
		}
	}
	var archives source.Archives = s.Fetcher
	var mirrored source.Mirror
	if !s.Runtime.Untrusted { // a stranger's change must not show what a bundle brought
		archives, mirrored = mirror.Archives{Archives: s.Fetcher, Mirror: s.mirror}, s.mirror
	}
	s.Hydrator = hydrate.New(hydrate.Config{
		Pins: pins, Commits: commits, Mirror: mirrored,
		Imports: importsOf(s.Store, &s.Runtime, &o), Store: s.Store, Branches: s.Store.Local(), Renderer: r,
		Archives: archives, Jobs: o.Jobs, Version: s.Runtime.Version, Signer: o.Signer, Progress: progress,
		Detect: o.Detect, Trunk: trunk, Assumed: o.Assumed, Output: o.Output, Credentials: s.credentialsFor(s.Runtime), Alone: s.Runtime.Untrusted,
		Gate: enforce.New(s.Store, s.key, s.EnforcedPolicy),
	})
}

// mayImport guesses from the working tree whether reading the fleet needs a worker process, which can start while the
// commit is read. The fleet itself comes from the commit.
func mayImport(worktree string, detect bool) bool {
	if worktree == "" {
		return false
	}
	name := filepath.Join(worktree, fleet.File)
	info, err := os.Lstat(name)
	if err != nil {
		return detect && errors.Is(err, fs.ErrNotExist)
	}
	if !info.Mode().IsRegular() { // a link can lead to what never ends, such as a terminal
		return false
	}
	f, err := os.Open(name) //nolint:gosec // in the working tree that the user names
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it is only read
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(f, most))
	return err == nil && bytes.Contains(text, []byte("import:"))
}

// importsOf returns the memory of imports. Two repositories share none, and charts of untrusted changes are not kept.
func importsOf(store *gitstore.Store, r *Runtime, o *Options) *imports.Memory {
	if !o.Remember || r.Cache == "" || r.Build == "" || r.Untrusted {
		return nil
	}
	repository := sha256.Sum256([]byte(store.Local().String() + "\x00" + store.Worktree()))
	return imports.NewMemory(filepath.Join(r.Cache, "imports"), hex.EncodeToString(repository[:]), r.Build, r.Clock)
}

// NewPool starts a pool of render processes with the limits of the options.
func NewPool(child []string, o Options) *renderer.Pool {
	return renderer.NewPool(renderer.PoolOptions{
		Command: child,
		Size:    o.Jobs, Timeout: o.RenderTimeout, MemoryLimit: o.RenderMemory, Mode: o.Isolation,
	})
}

// Close ends the session's own render processes and closes the repository, for this session and for all that derive
// from it or that it derives from. Calling it again has no effect.
func (s *Session) Close() { s.shared.close() }

// IsURL reports whether the repository is remote.
func (s *Session) IsURL() bool { return s.url }

// Place returns the name of the repository with the branches as a safe file name. Equal repositories have equal
// names.
func (s *Session) Place() string {
	sum := sha256.Sum256([]byte(s.Branches.String() + "\x00" + s.Store.Worktree()))
	return hex.EncodeToString(sum[:16])
}

// FingerprintKey is the key of the fingerprints that replace secrets. Without a configured key, fingerprints of two
// runs cannot be compared.
func (s *Session) FingerprintKey() []byte { return s.key }

// Images returns what knows which images exist.
func (s *Session) Images() Images {
	if s.Runtime.Images != nil {
		return s.Runtime.Images
	}
	return s.Fetcher.Fetcher
}

// WithBranches returns a session whose rendered branches are in b.
func (s *Session) WithBranches(b gitstore.Branches) *Session {
	out := *s
	out.Hydrator = s.Hydrator.WithBranches(b)
	if s.mirror != nil {
		s.mirror.In(b)
	}
	return &out
}

// PinFrom makes a session with Options.PinExact ask the servers of a commit for charts and other repositories, and no
// others. A commit whose fleet cannot be read has none. Call it before the session reads another commit.
func (s *Session) PinFrom(ctx context.Context, tree gitstore.Hash) {
	open := func() (*source.View, error) {
		v, err := s.Open(ctx, tree)
		if err == nil { // the review reports the error
			s.known.Trust(v)
		}
		return v, err
	}
	if s.hosts != nil {
		s.hosts.Learn(open)
	} else {
		_, _ = open() // the review reports the error
	}
}

// WithGit returns a session that uses another credential for Git.
func (s *Session) WithGit(auth gitstore.Auth) *Session {
	out := *s
	out.Runtime.Git = auth
	return &out
}

// WithoutCredentials returns a session that fetches charts without credentials, into a separate cache.
func (s *Session) WithoutCredentials() *Session {
	out := *s
	out.Runtime = s.Runtime.WithoutCredentials()
	out.Fetcher = signature.Archives{Fetcher: out.Runtime.fetcher(s.plain)}
	config := s.Config
	config.Archives, config.Credentials, config.Alone, config.Imports, config.Mirror = out.Fetcher, nil, true, nil, nil
	config.Pins, config.Commits, out.known, out.hosts = nil, nil, nil, nil // they would ask with credentials
	out.Hydrator, out.trunks = hydrate.New(config), nil
	return &out
}

// AddMirror makes the session, and those that share its repository, find charts and other repositories in a tree, such as one
// that a transfer bundle brings. A zero tree has none. See package mirror.
func (s *Session) AddMirror(tree gitstore.Hash) {
	if s.mirror != nil && !tree.IsZero() {
		s.mirror.With(tree)
	}
}

// FromMirror returns a session that takes charts and other repositories from the mirror of the site, and asks neither their
// servers nor for credentials.
func (s *Session) FromMirror() *Session {
	out := *s
	out.Runtime = s.Runtime.WithoutCredentials()
	config := s.Config
	config.Archives, config.Mirror, config.Commits = mirror.Archives{Mirror: s.mirror}, s.mirror, mirror.Commits{Mirror: s.mirror}
	config.Credentials, config.Imports, config.Pins = nil, nil, nil
	out.known, out.hosts, out.trunks = nil, nil, nil
	out.Hydrator = hydrate.New(config)
	return &out
}

// WithRenderer returns a session with another renderer. It does not share rendered output or fleets, except those of
// the trunk.
func (s *Session) WithRenderer(r renderer.Renderer) *Session {
	out := *s
	out.trunks = s.Hydrator
	config := s.Config
	config.Renderer = r
	out.Hydrator = hydrate.New(config)
	return &out
}

// WithPinned returns a session that reads these commits of other repositories, with credentials, although it refuses
// all others.
func (s *Session) WithPinned(only []source.Pinned, credentials source.Credentials) *Session {
	if len(only) == 0 {
		return s
	}
	out, config := *s, s.Config
	config.Only, config.Credentials = only, credentials
	out.Hydrator = hydrate.New(config)
	return &out
}

// Trunks returns the hydrator that has read the trunk in this task.
func (s *Session) Trunks() *hydrate.Hydrator { return cmp.Or(s.trunks, s.Hydrator) }

// WithRemote returns a session whose rendered branches are in another repository: the output repository of the
// commit's fleet, the remote with a name, or the remote that a URL was cloned from. It writes only commits that the
// trunk of the source's remote contains.
func (s *Session) WithRemote(ctx context.Context, commit gitstore.Commit, remote string) (*Session, error) {
	f, _, err := s.Fleet(ctx, commit.Tree)
	// the caller that reads the fleet reports its problems
	if _, broken := errors.AsType[fleet.Problems](err); err != nil && !broken {
		return nil, err
	}
	if f != nil && f.OutputRegistry() != "" {
		return s.withRegistry(f.OutputRegistry(), remote)
	}
	auth, address := s.Runtime.Git, remote
	switch {
	case f != nil && f.Spec.Output.Repository != "":
		address = f.Spec.Output.Repository
		if auth, err = s.Runtime.outputAuth(address, s.Store.RemoteURL()); err != nil {
			return nil, err
		}
	case s.url:
		address = s.Store.RemoteURL()
	}
	branches, err := s.Store.Remote(address, auth)
	if err != nil {
		return nil, err
	}
	out := s.WithBranches(branches)
	if f == nil || f.Spec.Output.Repository == "" {
		return out.WithSource(branches), nil
	}
	source, err := s.SourceRemote(remote)
	if err != nil {
		return nil, err
	}
	return out.WithSource(source), nil
}

// withRegistry returns a session whose rendered branches are in a repository of a registry. Sessions that derive from one
// another share it, and read it with the credentials of the first one.
func (s *Session) withRegistry(name, remote string) (*Session, error) {
	source, err := s.SourceRemote(remote)
	if err != nil {
		return nil, err
	}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	known := s.shared.registry[name]
	if known == nil {
		registry, err := s.shared.fetcher.Registry(name)
		if err != nil {
			return nil, err
		}
		cache := ""
		if s.Runtime.Cache != "" {
			cache = filepath.Join(s.Runtime.Cache, "registries")
		}
		host, _ := os.Hostname() // only for people
		if known, err = ocigit.Open(ocigit.Options{
			Name: name, Registry: registry, Store: s.Store, Cache: cache, Owner: fmt.Sprintf("%s, process %d", host, os.Getpid()),
			Timing: s.Runtime.Leases,
		}); err != nil {
			return nil, err
		}
		s.shared.registry[name] = known
	}
	return s.WithBranches(known).WithSource(source), nil
}

// WithSource returns a session that reads the trunk from a remote.
func (s *Session) WithSource(remote gitstore.Branches) *Session {
	out := *s
	out.Hydrator = s.Hydrator.WithSource(remote)
	return &out
}

// SourceRemote returns the repository whose trunk counts: the one that a URL names, a remote by name, or the local
// repository if it does not have that remote.
func (s *Session) SourceRemote(name string) (gitstore.Branches, error) {
	if s.url {
		name = s.Store.RemoteURL()
	}
	branches, err := s.Store.Remote(name, s.Runtime.Git)
	if errors.Is(err, gitstore.ErrNoRemote) {
		return s.Store.Local(), nil
	}
	return branches, err
}

// Commit returns the commit to work on: a revision, or HEAD.
func (s *Session) Commit(ctx context.Context, rev string) (gitstore.Commit, error) {
	if s.url {
		return s.Store.FetchRevision(ctx, cmp.Or(rev, "HEAD"))
	}
	return s.Store.Resolve(ctx, cmp.Or(rev, "HEAD"))
}

// MergeBase returns the commit at which head left base.
func (s *Session) MergeBase(ctx context.Context, base, head gitstore.Commit) (gitstore.Commit, error) {
	h, err := s.Store.MergeBase(ctx, base.Hash, head.Hash)
	if err != nil {
		return gitstore.Commit{}, fmt.Errorf("merge base of %s and %s: %w", base.Hash.Short(), head.Hash.Short(), err)
	}
	return s.Store.Commit(ctx, h)
}

// FetchCommit returns a commit. If the clone does not have it, FetchCommit fetches ref, then the commit by its hash.
func (s *Session) FetchCommit(ctx context.Context, commit, ref string) (gitstore.Commit, error) {
	h, err := gitstore.ParseHash(commit)
	if err != nil {
		return gitstore.Commit{}, err
	}
	if s.Store.Has(h) {
		return s.Store.Commit(ctx, h)
	}
	if ref != "" {
		if c, err := s.Store.FetchRevision(ctx, ref); err == nil && c.Hash == h {
			return c, nil
		}
	}
	c, err := s.Store.FetchRevision(ctx, commit)
	if err != nil {
		return c, fmt.Errorf("%w (%s may have moved on)", err, ref)
	}
	return c, nil
}

// FetchRef returns the commit that a ref of the remote has now. Without a remote, or if the remote does not have the
// ref, it returns the commit of the local ref.
func (s *Session) FetchRef(ctx context.Context, ref string) (gitstore.Commit, error) {
	c, err := s.Store.FetchRevision(ctx, ref)
	if err == nil {
		return c, nil
	}
	local, second := s.Store.Resolve(ctx, ref)
	if second != nil {
		return c, err
	}
	return local, nil
}

func isURL(repo string) bool {
	return strings.Contains(repo, "://") || strings.Contains(repo, "@") && strings.Contains(repo, ":")
}
