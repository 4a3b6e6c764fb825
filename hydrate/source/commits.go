package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// Commits fetches commits of other repositories that nobody declares, by their ids. *KnownHosts implements it.
type Commits interface {
	// FetchCommit returns when the store has the commit. An error stays for the same commit, unless it is an
	// *AgainError.
	FetchCommit(ctx context.Context, c fleet.GitCommit) error
}

// AgainError is an error after which fetching the same commit again can help.
type AgainError struct{ Err error }

// Error returns the text of Err.
func (e *AgainError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *AgainError) Unwrap() error { return e.Err }

// ErrUnasked is a commit whose host was not asked, because it may not be.
var ErrUnasked = errors.New("a review does not ask that host")

// direct fetches what the fleet of a trusted commit names, as repositories that it declares.
type direct struct {
	store       *gitstore.Store
	credentials Credentials
}

// FetchCommit implements Commits.
func (d direct) FetchCommit(ctx context.Context, c fleet.GitCommit) error {
	h, err := gitstore.ParseHash(c.Commit)
	if err != nil {
		return err
	}
	if c.Nested {
		err = d.store.FetchPublic(ctx, c.URL, nil, h)
	} else {
		err = d.store.FetchPinned(ctx, c.URL, d.credentials(c.URL), h)
	}
	if err != nil {
		return &AgainError{err}
	}
	return nil
}

// slowCommits remembers for a while which commits could not be fetched, so that a host that does not answer delays
// neither each read of the fleet nor, for long, one of them: people halt and roll back while a host is down. It is safe
// for concurrent use.
type slowCommits struct {
	mu     sync.Mutex
	failed map[fleet.GitCommit]error
}

const (
	patience = 15 * time.Second // for the first commit that does not arrive in one read of a fleet
	pause    = time.Minute      // before the same commit is asked for again
)

// fetch fetches a commit through c within the context limited of one read, unless it failed a moment ago. ctx is the
// caller's.
func (s *slowCommits) fetch(ctx, limited context.Context, c Commits, at fleet.GitCommit) error {
	s.mu.Lock()
	err := s.failed[at]
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err = c.FetchCommit(limited, at); err == nil || ctx.Err() != nil || errors.Is(err, ErrUnasked) {
		return err // a host that becomes known is asked at once
	}
	if limited.Err() != nil {
		err = &AgainError{fmt.Errorf("the content of other repositories did not arrive in time: %w", err)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = map[fleet.GitCommit]error{}
	}
	s.failed[at] = err
	time.AfterFunc(pause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.failed, at)
	})
	return err
}

// KnownHosts fetches commits only from hosts that a trusted commit names, and with credentials only from repositories that
// the trusted commit names: a change must not choose where a request goes, nor what a credential
// reads. Each commit is fetched once. It is safe for concurrent use.
type KnownHosts struct {
	store       *gitstore.Store
	credentials Credentials // nil: there are none
	caBundle    []byte

	mu       sync.Mutex
	learning bool            // what is fetched is of the trusted commit
	trusted  *View           // nil before it was read
	walked   bool            // what kustomizations of trusted name is known
	hosts    map[string]bool // scheme, host and port
	urls     map[string]bool
	fetched  map[fleet.GitCommit]*fetching
}

type fetching struct {
	once sync.Once
	err  error
}

// maxFetched bounds the commits that one KnownHosts fetches.
const maxFetched = 200

// NewKnownHosts returns a KnownHosts that refuses every host before Trust or Learn names a commit, except that of the
// store's own remote.
func NewKnownHosts(store *gitstore.Store, credentials Credentials, caBundle []byte) *KnownHosts {
	k := &KnownHosts{
		store: store, credentials: credentials, caBundle: caBundle,
		hosts: map[string]bool{}, urls: map[string]bool{}, fetched: map[fleet.GitCommit]*fetching{},
	}
	k.know(store.RemoteURL(), false)
	return k
}

// know makes a host known, and an address for which credentials may be used, unless nested: then somebody else's content
// names it.
func (k *KnownHosts) know(address string, nested bool) {
	if host := hostOf(address); host != "" {
		k.hosts[host] = true
		if !nested {
			k.urls[address] = true
		}
	}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// Trust makes known what the fleet of a commit names.
func (k *KnownHosts) Trust(v *View) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trusted, k.walked = v, false
	for _, r := range v.Fleet.Repositories {
		k.know(r.URL, false)
	}
	for _, c := range v.Fleet.Commits() {
		k.know(c.URL, c.Nested)
	}
}

// Learn calls open, which reads the trusted commit and nothing else: all that it fetches is known.
func (k *KnownHosts) Learn(open func() (*View, error)) {
	set := func(on bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.learning = on
	}
	set(true)
	v, err := open()
	set(false)
	if err == nil { // otherwise the review reports it
		k.Trust(v)
	}
}

// FetchCommit implements Commits.
func (k *KnownHosts) FetchCommit(ctx context.Context, c fleet.GitCommit) error {
	h, err := gitstore.ParseHash(c.Commit)
	if err != nil {
		return err
	}
	k.mu.Lock()
	if k.learning {
		k.know(c.URL, c.Nested)
	}
	if !k.urls[c.URL] && k.trusted != nil && !k.walked {
		k.walked = true
		for _, address := range k.trusted.bases(ctx) {
			k.know(address, false)
		}
	}
	known, named, trusts := k.hosts[hostOf(c.URL)], k.urls[c.URL], k.trusted != nil
	f := k.fetched[c]
	many := f == nil && len(k.fetched) >= maxFetched
	if f == nil && known && !many {
		f = &fetching{}
		k.fetched[c] = f
	}
	k.mu.Unlock()
	switch {
	case !known && !trusts:
		return &AgainError{fmt.Errorf("no trusted commit was read that names %s, so %w", hostOf(c.URL), ErrUnasked)}
	case !known:
		return fmt.Errorf("the trunk takes nothing from %s, so %w", hostOf(c.URL), ErrUnasked)
	case many:
		return fmt.Errorf("%w: the change names more than %d commits of other repositories", ErrUnasked, maxFetched)
	}
	f.once.Do(func() {
		if named && !c.Nested && k.credentials != nil {
			f.err = k.store.FetchPinned(ctx, c.URL, k.credentials(c.URL), h)
		} else {
			f.err = k.store.FetchPublic(ctx, c.URL, k.caBundle, h)
		}
	})
	return f.err
}

// bases returns the addresses of the repositories that kustomizations of the commit name, whatever the ref.
func (v *View) bases(ctx context.Context) []string {
	var out []string
	snap := v.store.Snapshot(ctx, v.tree)
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := snap.Entries(dir)
		if err != nil {
			return // nothing in it becomes known
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name)
			switch {
			case e.Mode == gitstore.ModeTree:
				walk(name)
			case slices.Contains(kustomize.FileNames(), e.Name):
				data, err := snap.ReadFile(name)
				if err != nil {
					continue
				}
				for _, reference := range kustomize.References(data) {
					if r, ok := kustomize.ParseRemote(reference); ok {
						out = append(out, r.URL)
					}
				}
			}
		}
	}
	walk(".")
	return out
}
