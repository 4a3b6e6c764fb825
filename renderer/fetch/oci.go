package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/Masterminds/semver/v3"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	chartConfigType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	legacyLayerType = "application/tar+gzip"

	maxManifest = 4 << 20
	maxTagPages = 1000
	maxTags     = 200_000
	// Pages of a list of signatures. A registry that does not filter the list by type shows the other referrers of the
	// chart too.
	maxReferrerPages = 100
	maxTag           = 128 // the distribution specification's limit
)

// repository is a client for one OCI name. All share the connections and tokens of f.registry.
func (f *Fetcher) repository(name registry.Reference) (*remote.Repository, *url.URL) {
	name.Reference = ""
	repo := &remote.Repository{
		Client: f.registry, Reference: name, PlainHTTP: f.plain(name.Registry),
		MaxMetadataBytes: maxManifest, TagListMaxPages: maxTagPages, ReferrerListMaxPages: maxReferrerPages,
	}
	u := &url.URL{Scheme: ociScheme, Host: name.Registry, Path: "/" + name.Repository}
	return repo, u
}

func (f *Fetcher) resolveOCI(ctx context.Context, name registry.Reference, want wanted) (Locked, error) {
	if want.manifest != "" {
		return lockManifest(ctx, f, name, want.text, want.manifest)
	}
	if want.exact {
		locked, err := f.resolveExact(ctx, name, want)
		if err == nil || !errors.Is(err, ErrNotFound) {
			return locked, err
		}
	}
	tags, err := f.tags(ctx, name)
	if err != nil {
		return Locked{}, err
	}
	// Helm sees only tags that are strict versions; a leading `v` counts only where none of those fits.
	var strict, prefixed []string
	for _, tag := range tags {
		version := strings.ReplaceAll(tag, "_", "+")
		if _, err := semver.StrictNewVersion(version); err == nil {
			strict = append(strict, version)
		} else if _, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v")); err == nil {
			prefixed = append(prefixed, version)
		}
	}
	for _, versions := range [][]string{strict, prefixed} {
		if i, ok := want.pick(versions); ok {
			return f.lockTag(ctx, name, versions[i])
		}
	}
	return Locked{}, want.none(append(strict, prefixed...))
}

// resolveExact asks for one tag instead of listing all: the version as written, then with or without `v`.
func (f *Fetcher) resolveExact(ctx context.Context, name registry.Reference, want wanted) (Locked, error) {
	other := strings.TrimPrefix(want.text, "v")
	if other == want.text {
		other = "v" + want.text
	}
	locked, err := f.lockTag(ctx, name, want.text)
	if errors.Is(err, ErrNotFound) {
		locked, err = f.lockTag(ctx, name, other)
	}
	return locked, err
}

// lockTag locks what the version's tag means now.
func (f *Fetcher) lockTag(ctx context.Context, name registry.Reference, version string) (Locked, error) {
	return lockManifest(ctx, f, name, version, strings.ReplaceAll(version, "+", "_"))
}

// lockManifest locks the chart of the manifest behind a tag (or digest), and proves that the archive can be had.
func lockManifest(ctx context.Context, f *Fetcher, name registry.Reference, version, tag string) (Locked, error) {
	digest, err := layerOf(ctx, f, name, tag)
	if err != nil {
		return Locked{}, err
	}
	_, err = f.byDigest(ctx, digest, func(ctx context.Context) ([]byte, error) { return f.blob(ctx, name, digest) })
	return Locked{Version: version, Digest: digest}, err
}

// tags lists the tags that are not longer than maxTag.
func (f *Fetcher) tags(ctx context.Context, name registry.Reference) ([]string, error) {
	repo, u := f.repository(name)
	var all []string
	err := f.retry(ctx, u, func(ctx context.Context) error {
		all = nil
		return repo.Tags(ctx, "", func(page []string) error {
			for _, tag := range page {
				if len(tag) <= maxTag {
					all = append(all, tag)
				}
			}
			if len(all) > maxTags {
				return fail(ErrInvalid, "the registry lists more than %d tags: ask for an exact version, which needs no list", maxTags)
			}
			return nil
		})
	})
	return all, err
}

// layerOf reads the manifest behind a tag (or digest) and returns the digest of its chart layer.
func layerOf(ctx context.Context, f *Fetcher, name registry.Reference, tag string) (string, error) {
	manifest, _, err := chartManifest(ctx, f, name, tag)
	if err != nil {
		return "", err
	}
	return chartLayer(manifest, name, tag)
}

// chartManifest reads the manifest of a chart behind a tag (or digest), with its bytes.
func chartManifest(ctx context.Context, f *Fetcher, name registry.Reference, tag string) (ocispec.Manifest, []byte,
	error,
) {
	manifest, data, err := readManifest(ctx, f, name, tag)
	if err == nil && manifest.Config.MediaType != chartConfigType {
		err = fail(ErrInvalid, "%s:%s is not a Helm chart but %q: check the name", displayOCI(name),
			safetext.Brief(tag, maxTag), safetext.Brief(manifest.Config.MediaType, 100))
	}
	return manifest, data, err
}

// readManifest reads a manifest and its bytes, whose digest has been checked.
func readManifest(ctx context.Context, f *Fetcher, name registry.Reference, tag string) (manifest ocispec.Manifest,
	data []byte, err error,
) {
	repo, u := f.repository(name)
	err = f.retry(ctx, u, func(ctx context.Context) error {
		desc, body, err := repo.Manifests().FetchReference(ctx, tag)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // only read
		if desc.Size > maxManifest {
			return fail(ErrInvalid, "the manifest is larger than %s", byteSize(maxManifest))
		}
		if data, err = content.ReadAll(body, desc); err != nil {
			return err
		}
		manifest = ocispec.Manifest{}
		if json.Unmarshal(data, &manifest) != nil {
			return fail(ErrInvalid, "the manifest is not one")
		}
		return nil
	})
	return manifest, data, err
}

// chartLayer returns the digest of the chart's archive.
func chartLayer(manifest ocispec.Manifest, name registry.Reference, tag string) (string, error) {
	var digests []string
	for _, l := range manifest.Layers {
		if l.MediaType == chartLayerType || l.MediaType == legacyLayerType {
			digests = append(digests, l.Digest.String())
		}
	}
	if len(digests) != 1 {
		return "", fail(ErrInvalid, "%s:%s has %d chart layers, not one: the chart must be pushed again",
			displayOCI(name), safetext.Brief(tag, maxTag), len(digests))
	}
	if _, ok := hexDigest(digests[0]); !ok {
		return "", fail(ErrInvalid, "%s:%s names its layer by something else than a SHA-256 digest", displayOCI(name),
			safetext.Brief(tag, maxTag))
	}
	return digests[0], nil
}

func displayOCI(name registry.Reference) string {
	return display(ociScheme + "://" + name.Registry + "/" + name.Repository)
}

// blob downloads a layer; the caller verifies it.
func (f *Fetcher) blob(ctx context.Context, name registry.Reference, digest string) ([]byte, error) {
	repo, u := f.repository(name)
	var data []byte
	err := f.retry(ctx, u, func(ctx context.Context) error {
		desc, body, err := repo.Blobs().FetchReference(ctx, digest)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // only read
		data, err = readBounded(body, desc.Size, f.opts.MaxArchive)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		err = fail(ErrNotFound, "%s no longer has the archive %s: ask for it to be put back, or remove the entry from %s and run `sluice deps lock`",
			display(u.String()), digest, LockFile)
	}
	return data, err
}
