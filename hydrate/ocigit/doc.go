// Package ocigit keeps a Git repository in a repository of a registry, for fleets without a Git repository for their
// branches.
//
// The tag StateTag leads to a manifest whose configuration lists the branches, and whose layers are thin packfiles: each
// push adds one with the objects that the registry lacks, so that its cost follows the change. Of many layers the newest
// become one. Objects of deleted branches stay.
//
// A Repository is a gitstore.Branches. Registries do not compare before they move a tag: conditional requests are a
// proposal since 2021 (https://github.com/opencontainers/distribution-spec/pull/251). So a push takes a lease, which is
// another tag. It writes the lease, waits longer than any write of a lease may take, and goes on only if the tag still
// leads to its own. It keeps the lease for pushes that follow soon. It reads lease and branches again right before it
// moves StateTag, and the tag afterwards. A write that arrives later than the client waits for it can still overwrite
// another one; whoever lost then reports a conflict.
//
// The registry is untrusted: everything from it is bounded, and objects have the names that they claim. Whoever can write
// to it decides what branches have, as on a Git server.
//
// The package is not API: it can change in every release.
package ocigit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/sluice-gitops/sluice/gitstore"
)

// The tags of a repository.
const (
	StateTag = "state"
	LeaseTag = "state-lease"
)

const (
	configType = "application/vnd.sluice.branches.v1+json"
	packType   = "application/vnd.sluice.pack.v1"
	leaseType  = "application/vnd.sluice.lease.v1"
)

// Registry is a repository of a registry. *fetch.Registry implements it; see there for the errors.
type Registry interface {
	// Resolve returns the manifest behind a tag, or a fetch.ErrNotFound.
	Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error)
	// Manifest reads the manifest behind a tag or digest.
	Manifest(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error)
	// Blob reads a blob of at most limit bytes.
	Blob(ctx context.Context, want ocispec.Descriptor, limit int64) ([]byte, error)
	// Upload stores a blob, unless the registry has it.
	Upload(ctx context.Context, blob ocispec.Descriptor, data []byte) error
	// Tag stores a manifest under a tag, which moves.
	Tag(ctx context.Context, manifest ocispec.Descriptor, data []byte, tag string) error
}

// Options open a repository.
type Options struct {
	Name     string // oci://REGISTRY/PATH
	Registry Registry
	Store    *gitstore.Store // reads what Fetch fetches, and has the Writers that Push pushes; its Close ends the repository
	Cache    string          // folder for objects, which other repositories share; "": a temporary one
	Owner    string          // names the process in its leases, for people
	Timing   Timing
}

// Timing has the times of leases. The zero value means the default of each.
type Timing struct {
	// Settle is the longest time that a write of a tag may take after what it depends on was read, and how long a push
	// waits after it wrote its lease. All writers of a repository need the same. Default: 3s.
	Settle time.Duration
	// Lease is how long a lease lasts whose owner does not come back. Default: 1m.
	Lease time.Duration
	// Skew is how far clocks may be apart. A lease that ended longer ago is not waited for. Default: 10m.
	Skew time.Duration
}

func (t Timing) withDefaults() Timing {
	or := func(d *time.Duration, fallback time.Duration) {
		if *d == 0 {
			*d = fallback
		}
	}
	or(&t.Settle, 3*time.Second)
	or(&t.Lease, time.Minute)
	or(&t.Skew, 10*time.Minute)
	return t
}

// Repository is a Git repository in a registry. It is safe for concurrent use; pushes of one Repository happen one after
// the other.
type Repository struct {
	Options
	id      string // of this process, in leases
	cache   *cache
	maxPack int // bytes of a push

	pushing sync.Mutex // guards held, newest and idle
	held    lease      // of this process, if its ID is not ""
	newest  int        // sequence of the newest version that a push knew
	idle    *time.Timer
	loading sync.Mutex
	mu      sync.Mutex
	last    version // read or written
}

// Open returns a repository. It asks the registry nothing.
func Open(o Options) (*Repository, error) {
	o.Timing = o.Timing.withDefaults()
	at := ""
	if o.Cache != "" {
		at = filepath.Join(o.Cache, digest.FromString(o.Name).Encoded()[:40])
	}
	c, err := openCache(at)
	if err != nil {
		return nil, err
	}
	o.Store.Borrow(c.objects())
	return &Repository{Options: o, id: rand.Text(), cache: c, maxPack: maxPack}, nil
}

// Close gives the lease back. The repository can still be used.
func (r *Repository) Close() {
	r.pushing.Lock()
	defer r.pushing.Unlock()
	r.release()
}

// String returns the name.
func (r *Repository) String() string { return r.Name }

// blob is bytes with their description.
type blob struct {
	ocispec.Descriptor
	data []byte
}

func newBlob(mediaType string, data []byte) blob {
	return blob{content.NewDescriptorFromBytes(mediaType, data), data}
}

func newManifest(config ocispec.Descriptor, annotations map[string]string, layers ...ocispec.Descriptor) (blob, error) {
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config, Layers: layers, Annotations: annotations,
	})
	return newBlob(ocispec.MediaTypeImageManifest, data), err
}

// within adds what was asked to the error of a registry.
func within(name, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of %s: %w", what, name, err)
}
