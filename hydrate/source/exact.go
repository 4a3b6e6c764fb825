package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Pinner resolves references of charts that sluice.lock lacks. It is asked for exact references only. *fetch.Exact
// implements it.
type Pinner interface {
	Pin(ctx context.Context, r fetch.Ref) (fetch.Locked, error)
}

// KnownServers asks a Pinner only for charts of servers from which a trusted commit takes charts: a change must not
// choose where a request goes. It is safe for concurrent use.
type KnownServers struct {
	inner Pinner

	mu      sync.Mutex
	trusted *View           // nil: no server is known
	servers map[string]bool // of trusted; nil before it is needed
}

// NewKnownServers returns a Pinner that refuses every server before Trust names a commit.
func NewKnownServers(p Pinner) *KnownServers { return &KnownServers{inner: p} }

// Trust sets the commit whose servers are known, by its fleet or its lock.
func (k *KnownServers) Trust(v *View) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trusted, k.servers = v, nil
}

// Pin implements Pinner.
func (k *KnownServers) Pin(ctx context.Context, r fetch.Ref) (fetch.Locked, error) {
	if !k.knows(r.Server()) {
		return fetch.Locked{}, fmt.Errorf("the trunk takes no chart from %s, so a review does not ask that server",
			r.Server())
	}
	return k.inner.Pin(ctx, r)
}

func (k *KnownServers) knows(server string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.servers == nil {
		k.servers = map[string]bool{}
		if k.trusted != nil {
			refs, lock, _ := k.trusted.Remote() // apps that cannot be resolved name no server
			for _, ref := range append(refs, lock.Refs()...) {
				k.servers[ref.Server()] = true
			}
		}
	}
	return server != "" && k.servers[server]
}

// pins are the charts of one commit that a Pinner resolved.
type pins struct {
	ctx    context.Context //nolint:containedctx // of the view, as its snapshot's
	pinner Pinner          // nil: only the lock counts
	found  *found
}

type found struct {
	mu   sync.Mutex
	refs map[fetch.Ref]bool
}

func newPins(ctx context.Context, p Pinner) pins {
	return pins{ctx: ctx, pinner: p, found: &found{refs: map[fetch.Ref]bool{}}}
}

// require returns what the lock says of a chart; without an entry, what the Pinner says of an exact version.
func (c *contents) require(ref fetch.Ref) (fetch.Locked, error) {
	locked, err := c.lock.Require(ref)
	if err == nil || c.pins.pinner == nil || !ref.Exact() {
		return locked, err
	}
	locked, failed := c.pins.pinner.Pin(c.pins.ctx, ref)
	if failed != nil {
		if _, again := errors.AsType[*fetch.UnlockedError](failed); again {
			return fetch.Locked{}, failed
		}
		return fetch.Locked{}, fmt.Errorf("%w (without it, the version cannot be fetched: %w)", err, failed)
	}
	c.pins.found.mu.Lock()
	defer c.pins.found.mu.Unlock()
	c.pins.found.refs[ref] = true
	return locked, nil
}

// Unlocked returns the charts that sluice.lock lacks and whose exact version was used so far.
func (v *View) Unlocked() []fetch.Ref {
	f := v.contents.pins.found
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Keys(f.refs), func(a, b fetch.Ref) int { return cmp.Compare(a.String(), b.String()) })
}

// Locks reports whether the commit has a sluice.lock.
func (v *View) Locks() bool {
	_, err := v.contents.files.now().Stat(fetch.LockFile)
	return err == nil
}

// LockedOnly returns the view without charts that sluice.lock lacks: a target that needs one is an error.
func (v *View) LockedOnly() *View {
	out := *v
	out.contents = v.contents.locked
	return &out
}
