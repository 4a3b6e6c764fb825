// Package app wires Sluice together: it alone chooses adapters, and turns the environment into options.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// ChildCommand is the hidden verb that a render process runs.
const ChildCommand = "render-child"

// Environment is what the process was given.
type Environment struct {
	Getenv     func(string) string
	Home       string
	Executable string // this binary, for render processes
	Untrusted  bool   // what is rendered comes from somebody who may not write: charts are fetched without credentials
}

// Options are the flags that every rendering verb has.
type Options struct {
	Repo          string // folder or URL
	Jobs          int
	RenderTimeout time.Duration
	RenderMemory  int64 // bytes
	PlainHTTP     []string
	Renderer      renderer.Renderer // shared with others; nil: the session's own
}

// Session is an open repository with all that renders it. Close frees it.
type Session struct {
	*hydrate.Hydrator
	Store   *gitstore.Store
	Fetcher *fetch.Fetcher
	pool    *renderer.Pool
	env     Environment
	url     bool
}

// Open opens a repository.
func Open(ctx context.Context, env Environment, o Options, progress hydrate.Progress) (*Session, error) {
	s := &Session{env: env, url: isURL(o.Repo)}
	var err error
	if s.url {
		s.Store, err = gitstore.Open(ctx, gitstore.Options{URL: o.Repo, CacheDir: env.Getenv("SLUICE_MIRROR_DIR"), Auth: env.auth()})
	} else {
		s.Store, err = gitstore.Open(ctx, gitstore.Options{Dir: cmp.Or(o.Repo, "."), Auth: env.auth()})
	}
	if err != nil {
		return nil, err
	}
	s.wire(o, progress)
	return s, nil
}

// OpenFolder opens a folder that need not be a repository.
func OpenFolder(ctx context.Context, env Environment, o Options, progress hydrate.Progress) (*Session, error) {
	store, err := gitstore.Open(ctx, gitstore.Options{Dir: cmp.Or(o.Repo, "."), Auth: env.auth()})
	if err != nil {
		store = gitstore.OpenMemory()
	}
	s := &Session{env: env, Store: store}
	s.wire(o, progress)
	return s, nil
}

func (s *Session) wire(o Options, progress hydrate.Progress) {
	home := s.env.Home
	kind, credentials := "charts", fetch.NewCredentials(s.env.Getenv, fetch.DefaultCredentialFiles(s.env.Getenv, home))
	if s.env.Untrusted { // nor what was fetched with credentials before
		kind, credentials = "charts-untrusted", nil
	}
	s.Fetcher = fetch.New(fetch.Options{
		CacheDir:    s.env.cache(kind),
		Credentials: credentials,
		UserAgent:   "sluice/" + Version(),
		PlainHTTP:   o.PlainHTTP,
	})
	r := o.Renderer
	if r == nil {
		s.pool = newPool(s.env, o)
		r = s.pool
	}
	s.Hydrator = hydrate.New(hydrate.Config{
		Store: s.Store, Branches: s.Store.Local(), Renderer: r, Archives: s.Fetcher, Jobs: o.Jobs, Version: Version(), Progress: progress,
	})
}

func newPool(env Environment, o Options) *renderer.Pool {
	return renderer.NewPool(renderer.PoolOptions{
		Command: []string{env.Executable, ChildCommand, fmt.Sprintf("--memory=%d", o.RenderMemory)},
		Size:    o.Jobs, Timeout: o.RenderTimeout, MemoryLimit: o.RenderMemory,
	})
}

// cache is the folder for one kind of what is fetched from elsewhere.
func (e Environment) cache(kind string) string {
	base := cmp.Or(e.Getenv("XDG_CACHE_HOME"), filepath.Join(e.Home, ".cache"))
	return filepath.Join(cmp.Or(e.Getenv("SLUICE_CACHE_DIR"), filepath.Join(base, "sluice")), kind)
}

// Commit finds the commit to work on: rev, or HEAD.
func (s *Session) Commit(ctx context.Context, rev string) (gitstore.Commit, error) {
	if s.url {
		return s.Store.FetchRevision(ctx, cmp.Or(rev, "HEAD"))
	}
	return s.Store.Resolve(ctx, cmp.Or(rev, "HEAD"))
}

// UseRemote makes another repository the place of the branches: the fleet's output repository, or the one that this
// one came from.
func (s *Session) UseRemote(ctx context.Context, commit gitstore.Commit, remote string) error {
	f, _, err := s.Fleet(ctx, commit.Tree)
	if _, broken := errors.AsType[fleet.Problems](err); err != nil && !broken { // what is wrong is told by whoever reads the fleet
		return err
	}
	auth := s.env.auth()
	address := remote
	switch {
	case f != nil && f.Spec.Output.Repository != "":
		address = f.Spec.Output.Repository
		if auth, err = s.env.outputAuth(address, s.Store.RemoteURL()); err != nil {
			return err
		}
	case s.url:
		address = s.Store.RemoteURL()
	}
	branches, err := s.Store.Remote(address, auth)
	if err != nil {
		return err
	}
	s.Branches = branches
	return nil
}

// UseSigner signs rendered commits with the key in a file: a private one, or the public half of one that an SSH agent holds.
func (s *Session) UseSigner(file string) (err error) {
	s.Signer, err = s.env.signer(file)
	return err
}

func (e Environment) signer(file string) (gitstore.Signer, error) {
	key, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	if strings.HasSuffix(file, ".pub") { // the private key stays in the agent
		return gitstore.NewAgentSigner(e.Getenv("SSH_AUTH_SOCK"), key)
	}
	return gitstore.NewSigner(key, e.Getenv("SLUICE_SIGNING_PASSPHRASE"))
}

// oneAtATime is a signer that several repositories share.
type oneAtATime struct {
	mu     sync.Mutex
	signer gitstore.Signer
}

// Sign implements gitstore.Signer.
func (o *oneAtATime) Sign(commit []byte) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.signer.Sign(commit)
}

// Close ends render processes and closes the repository.
func (s *Session) Close() {
	if s.pool != nil {
		s.pool.Close()
	}
	_ = s.Store.Close()
}

// IsURL says that the repository is a remote one.
func (s *Session) IsURL() bool { return s.url }

func isURL(repo string) bool {
	return strings.Contains(repo, "://") || strings.Contains(repo, "@") && strings.Contains(repo, ":")
}

func (e Environment) auth() gitstore.Auth { return e.authFrom("SLUICE_GIT_") }

func (e Environment) authFrom(prefix string) gitstore.Auth {
	a := gitstore.Auth{
		User: e.Getenv(prefix + "USERNAME"), Password: e.Getenv(prefix + "PASSWORD"), Token: e.Getenv(prefix + "TOKEN"),
		SSHKeyFile: e.Getenv("SLUICE_SSH_KEY"), SSHKeyPassphrase: e.Getenv("SLUICE_SSH_PASSPHRASE"),
		SSHAgent: e.Getenv("SSH_AUTH_SOCK"),
	}
	if file := e.Getenv("SLUICE_CA_FILE"); file != "" {
		a.CABundle, _ = os.ReadFile(file) //nolint:gosec // the user names it; without it the server's certificate is refused, and says so
	}
	if known := e.Getenv("SSH_KNOWN_HOSTS"); known != "" {
		a.KnownHostsFiles = filepath.SplitList(known)
	} else if file := filepath.Join(e.Home, ".ssh", "known_hosts"); exists(file) {
		a.KnownHostsFiles = []string{file}
	}
	return a
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Version is the version that the binary was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
