// Package artifacts publishes what cluster branches have as OCI artifacts: one for each commit that a run finds on a
// cluster branch, under the commit's hash, and a tag that moves with the branch. Flux (OCIRepository) and Argo CD (OCI
// sources) read them.
//
// A Publisher runs after branches have moved. It reads where the branches are, compares that with a list of what is
// published, and pushes what differs. The list is in the registry, at the tag ListTag of the fleet's own repository: it
// saves requests and proves nothing. Without it, or where it differs, two requests for each cluster tell what the
// registry has. Nothing is stored elsewhere, so an interrupted run, or one without a registry, is made good by the next
// one.
//
// An artifact never runs ahead of its branch: the moving tag is written last, from what the branch has, and the branches
// are read again afterwards. Of two publishers at the same time, the one that ends last leaves what the branches have.
// Commits that Sluice did not make, branches that somebody set back, and clusters that differ from what their
// environment records are held: their artifacts stay as they are.
//
// Equal commits of equal repositories give equal bytes: the archive has no times and no owners, and the time of
// creation is the commit's.
//
// Verify compares artifacts with branches and writes nothing.
//
// The package is not API: it can change in every release.
package artifacts

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Registry is a repository of a registry. *fetch.Registry implements it; see there for the errors.
type Registry interface {
	// Resolve returns the manifest behind a tag, or a fetch.ErrNotFound.
	Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error)
	// Manifest reads the manifest behind a tag or digest.
	Manifest(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error)
	// Blob reads a blob of at most limit bytes.
	Blob(ctx context.Context, want ocispec.Descriptor, limit int64) ([]byte, error)
	// Signatures reads the signatures that cosign attached to a manifest.
	Signatures(ctx context.Context, digest string) ([]fetch.Cosign, error)
	// Bundles reads the Sigstore bundles that refer to a manifest.
	Bundles(ctx context.Context, manifest ocispec.Descriptor) ([][]byte, error)
	// Refer stores a manifest that has another one as its subject, without a tag.
	Refer(ctx context.Context, manifest ocispec.Descriptor, data []byte) error
	// Upload stores a blob, unless the registry has it.
	Upload(ctx context.Context, blob ocispec.Descriptor, data []byte) error
	// Tag stores a manifest under a tag, which moves.
	Tag(ctx context.Context, manifest ocispec.Descriptor, data []byte, tag string) error
}

// Registries returns the repository with a name such as oci://registry.example.com/gitops/acme/eu-1.
type Registries func(name string) (Registry, error)

// Config says what is published, and where.
type Config struct {
	Hydrator   *hydrate.Hydrator // has the branches
	Fleet      *fleet.Fleet      // of the trunk: names the artifacts
	Registries Registries
	Keys       *Keys // nil: artifacts are not signed
}

// Of returns what publishes the artifacts of the fleet of a tree, which must be one of the trunk; false if that fleet
// has none. The branches are those of the session.
func Of(ctx context.Context, s *session.Session, tree gitstore.Hash) (Config, bool, error) {
	f, _, err := s.Fleet(ctx, tree)
	if err != nil || !f.Publishes() {
		return Config{}, false, err
	}
	out := Config{
		Hydrator: s.Hydrator, Fleet: f,
		Registries: func(name string) (Registry, error) { return s.Fetcher.Registry(name) },
	}
	snapshot := s.Store.Snapshot(ctx, tree)
	switch oci := f.Spec.Output.OCI; {
	case oci.Key != "":
		out.Keys, err = ReadKeys(ctx, snapshot, oci.Key, s.Runtime.ArtifactKey)
	case oci.Identity != nil:
		out.Keys, err = ReadIdentity(snapshot, *oci.Identity, s.Runtime.Identity)
	}
	return out, true, err
}
