package fetch

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// publishAdvice is what helps who cannot reach a registry that artifacts are pushed to.
const publishAdvice = "the next run pushes what is missing"

// Registry is a repository of an OCI registry that can be written to. It shares connections, credentials and limits
// with its Fetcher: answers are bounded, an attempt has the Fetcher's time limit, and temporary failures are retried.
// Errors have the kinds of this package, or are context errors. It is safe for concurrent use.
type Registry struct {
	fetcher *Fetcher
	repo    *remote.Repository
	url     *url.URL
}

// Registry returns the repository with a name such as oci://registry.example.com/gitops/acme/eu-1. It asks nothing.
func (f *Fetcher) Registry(name string) (*Registry, error) {
	ref, err := parseOCI(name)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(name, ociScheme+"://") || ref.Reference != "" {
		return nil, fail(ErrInvalid, "%s is not the name of a repository: write it as oci://REGISTRY/PATH", display(name))
	}
	repo, u := f.repository(ref)
	// oras-go would ask whether the registry has an API for referrers. What is pushed here refers to nothing.
	if err := repo.SetReferrersCapability(true); err != nil {
		return nil, err
	}
	return &Registry{f, repo, u}, nil
}

// String returns the name, oci://REGISTRY/PATH.
func (r *Registry) String() string { return display(r.url.String()) }

func (r *Registry) retry(ctx context.Context, op func(context.Context) error) error {
	return r.fetcher.retryAdvising(ctx, r.url, publishAdvice, op)
}

// Resolve returns the manifest behind a tag or digest, or an ErrNotFound.
func (r *Registry) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	var out ocispec.Descriptor
	err := r.retry(ctx, func(ctx context.Context) (err error) {
		out, err = r.repo.Manifests().Resolve(ctx, reference)
		return err
	})
	return out, err
}

// Manifest reads the manifest behind a tag or digest. The digest of the descriptor is that of the bytes.
func (r *Registry) Manifest(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error) {
	var out ocispec.Descriptor
	var data []byte
	err := r.retry(ctx, func(ctx context.Context) error {
		desc, body, err := r.repo.Manifests().FetchReference(ctx, reference)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // only read
		if desc.Size > maxManifest {
			return fail(ErrInvalid, "the manifest is larger than %s", byteSize(maxManifest))
		}
		data, err = content.ReadAll(body, desc)
		out = desc
		return err
	})
	return out, data, err
}

// Blob reads a blob of at most limit bytes, and verifies its size and digest.
func (r *Registry) Blob(ctx context.Context, want ocispec.Descriptor, limit int64) ([]byte, error) {
	if want.Size < 0 || want.Size > limit {
		return nil, fail(ErrInvalid, "%s: the blob %s has %d bytes, more than the limit of %s", r, safetext.Brief(want.Digest.String(), 100), want.Size, byteSize(limit))
	}
	if _, ok := hexDigest(want.Digest.String()); !ok {
		return nil, fail(ErrInvalid, "%s: a blob is named by something else than a SHA-256 digest", r)
	}
	var data []byte
	err := r.retry(ctx, func(ctx context.Context) error {
		body, err := r.repo.Blobs().Fetch(ctx, want)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // only read
		data, err = content.ReadAll(body, want)
		return err
	})
	return data, err
}

// Signatures reads the signatures that cosign attached to a manifest, under a tag that its digest names; none if there
// are none. They prove nothing until they are checked.
func (r *Registry) Signatures(ctx context.Context, digest string) ([]Cosign, error) {
	return prover{r.fetcher}.cosign(ctx, r.repo.Reference, digest)
}

// Bundles reads the Sigstore bundles that refer to a manifest, as Evidence has them. They prove nothing until they are
// checked.
func (r *Registry) Bundles(ctx context.Context, manifest ocispec.Descriptor) ([][]byte, error) {
	return prover{r.fetcher}.bundlesOf(ctx, r.repo.Reference, manifest)
}

// Refer stores a manifest that has another one as its subject, without a tag. A registry that has no list of referrers
// gets one as a tag.
func (r *Registry) Refer(ctx context.Context, manifest ocispec.Descriptor, data []byte) error {
	return r.retry(ctx, func(ctx context.Context) error {
		repo, _ := r.fetcher.repository(r.repo.Reference) // asks the registry what it has
		repo.SkipReferrersGC = true                       // many registries allow nobody to delete
		return repo.Manifests().Push(ctx, manifest, bytes.NewReader(data))
	})
}

// Upload stores a blob, unless the registry has it. Many registries deny access to a repository that does not exist yet, so
// a denied question is no answer.
func (r *Registry) Upload(ctx context.Context, blob ocispec.Descriptor, data []byte) error {
	return r.retry(ctx, func(ctx context.Context) error {
		if there, err := r.repo.Blobs().Exists(ctx, blob); there || err != nil && !denies(err) {
			return err
		}
		return r.repo.Blobs().Push(ctx, blob, bytes.NewReader(data))
	})
}

// denies reports whether an error of the library says that access is denied.
func denies(err error) bool {
	coded, ok := errors.AsType[*errcode.ErrorResponse](err)
	return ok && (coded.StatusCode == http.StatusUnauthorized || coded.StatusCode == http.StatusForbidden)
}

// Tag stores a manifest whose blobs the registry has, under a tag, which moves.
func (r *Registry) Tag(ctx context.Context, manifest ocispec.Descriptor, data []byte, tag string) error {
	return r.retry(ctx, func(ctx context.Context) error {
		return r.repo.Manifests().PushReference(ctx, manifest, bytes.NewReader(data), tag)
	})
}
