package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

const (
	provenanceLayerType = "application/vnd.cncf.helm.chart.provenance.v1.prov"
	maxEvidence         = 8 << 20 // bytes of a file of evidence in the cache
)

// Bounds of evidence.
const (
	MaxProvenance = 1 << 20 // bytes of a provenance file
	MaxPayload    = 64 << 10
	MaxBundle     = 128 << 10
	MaxCosign     = 32 // signatures of one chart, and bundles
)

// Evidence is what a chart repository or registry has to show for an archive.
type Evidence struct {
	File       string   `json:"file"`       // name of the archive, which a provenance file repeats
	Provenance []byte   `json:"provenance"` // the provenance file; nil if there is none
	Manifest   []byte   `json:"manifest"`   // the OCI manifest whose chart layer is the archive; nil if there is none
	Cosign     []Cosign `json:"cosign"`
	Bundles    [][]byte `json:"bundles"` // Sigstore bundles of version 0.3 that refer to the manifest, as JSON
}

// Cosign is one signature as cosign attaches it to a manifest: a layer of the image sha256-DIGEST.sig.
type Cosign struct {
	Payload     []byte `json:"payload"`     // the layer: JSON in the form of "simple signing"
	Signature   string `json:"signature"`   // base64, of the payload
	Certificate string `json:"certificate"` // PEM; "" for a signature by a key
	Chain       string `json:"chain"`       // PEM: the authorities between the certificate and the root
	Bundle      string `json:"bundle"`      // JSON: the entry of the transparency log, with the log's promise
}

// The annotations of a layer that have the parts of a Cosign, and the media type of its payload.
const (
	AnnotationSignature   = "dev.cosignproject.cosign/signature"
	AnnotationCertificate = "dev.sigstore.cosign/certificate"
	AnnotationChain       = "dev.sigstore.cosign/chain"
	AnnotationBundle      = "dev.sigstore.cosign/bundle"
	PayloadType           = "application/vnd.dev.cosign.simplesigning.v1+json"
)

// BundleType is the media type of a Sigstore bundle, of the layer that has it, and the artifact type of the layer's
// manifest.
const BundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Evidence reads the signatures of a locked archive: its provenance file, cosign's signatures, or both. What a server
// does not have is empty. With an error, the result has what was read before: one signature is enough, and many
// registries have no bundles.
func (f *Fetcher) Evidence(ctx context.Context, r Ref, l Locked, provenance, cosign bool) (Evidence, error) {
	where, err := r.place()
	if err != nil {
		return Evidence{}, wrap(r, err)
	}
	p := prover{f}
	var out Evidence
	if where.oci == nil {
		out, err = p.evidenceHTTP(ctx, where, l, provenance)
	} else {
		out, err = p.evidenceAt(ctx, *where.oci, strings.ReplaceAll(l.Version, "+", "_"), l, provenance, cosign)
	}
	if err != nil {
		return out, wrap(r, fmt.Errorf("signatures: %w", err))
	}
	return out, nil
}

// KnownEvidence returns the signatures of an archive that KeepEvidence put into the cache, or nil.
func KnownEvidence(f *Fetcher, l Locked) *Evidence { return f.cache.evidence(l.Digest) }

// KeepEvidence puts the signatures of an archive into the cache. They prove nothing until they are checked, even if
// they come from the cache.
func KeepEvidence(f *Fetcher, l Locked, e Evidence) { f.cache.putEvidence(l.Digest, e) }

// prover reads signatures from repositories and registries.
type prover struct{ fetcher *Fetcher }

// evidenceHTTP reads the provenance file beside an archive.
func (p prover) evidenceHTTP(ctx context.Context, where place, l Locked, provenance bool) (Evidence, error) {
	if !provenance {
		return Evidence{}, nil
	}
	a, err := p.fetcher.opts.Credentials.forRepo(where.repo, p.fetcher.base)
	if err != nil {
		return Evidence{}, err
	}
	entries, err := p.fetcher.versions(ctx, where, a)
	if err != nil {
		return Evidence{}, err
	}
	for _, e := range entries {
		if e.Version != l.Version || len(e.URLs) == 0 || len(e.URLs[0]) > 8*maxRefPart {
			continue
		}
		if rest, ok := strings.CutPrefix(e.URLs[0], ociScheme+"://"); ok {
			name, err := parseOCI(ociScheme + "://" + rest)
			if err != nil {
				return Evidence{}, err
			}
			return p.evidenceAt(ctx, name, name.Reference, l, true, false)
		}
		u, err := archiveURL(where.repo, e.URLs[0])
		if err != nil {
			return Evidence{}, err
		}
		out := Evidence{File: path.Base(u.Path)}
		out.Provenance, err = p.fetcher.get(ctx, request{url: provenanceURL(u), access: a, limit: MaxProvenance})
		if errors.Is(err, ErrNotFound) {
			return out, nil
		}
		return out, err
	}
	return Evidence{}, fail(ErrNotFound, "the locked version %s is no longer in the repository's index",
		safetext.Brief(l.Version, 60))
}

// provenanceURL is where Helm looks for the provenance of an archive.
func provenanceURL(archive *url.URL) *url.URL {
	u := *archive
	u.Path += ".prov"
	if u.RawPath != "" {
		u.RawPath += ".prov"
	}
	return &u
}

// evidenceAt reads the signatures of the chart behind a tag, which must still be the locked one.
func (p prover) evidenceAt(ctx context.Context, name registry.Reference, tag string, l Locked, provenance,
	cosign bool,
) (Evidence, error) {
	name.Reference = ""
	manifest, data, err := chartManifest(ctx, p.fetcher, name, tag)
	if err != nil {
		return Evidence{}, err
	}
	layer, err := chartLayer(manifest, name, tag)
	if err != nil {
		return Evidence{}, err
	}
	if layer != l.Digest {
		return Evidence{}, fail(ErrDigest,
			"%s:%s has the archive %s now, not the locked %s, so its signatures are about another one: run `sluice deps lock` if the change is wanted",
			displayOCI(name), safetext.Brief(tag, maxTag), layer, l.Digest)
	}
	out := Evidence{File: path.Base(name.Repository) + "-" + l.Version + ".tgz", Manifest: data}
	if provenance {
		if out.Provenance, err = p.provenanceLayer(ctx, name, manifest); err != nil {
			return out, err
		}
	}
	if !cosign {
		return out, nil
	}
	if out.Cosign, err = p.cosign(ctx, name, digestOf(data)); err != nil {
		return out, err
	}
	out.Bundles, err = p.bundles(ctx, name, manifest.MediaType, data)
	return out, err
}

func (p prover) provenanceLayer(ctx context.Context, name registry.Reference, manifest ocispec.Manifest) ([]byte,
	error,
) {
	for _, layer := range manifest.Layers {
		if layer.MediaType == provenanceLayerType {
			return p.small(ctx, name, layer, MaxProvenance)
		}
	}
	return nil, nil
}

// cosign reads the signatures that cosign attached to a manifest: the layers of an image whose tag is the manifest's
// digest.
func (p prover) cosign(ctx context.Context, name registry.Reference, digest string) ([]Cosign, error) {
	manifest, _, err := readManifest(ctx, p.fetcher, name, strings.Replace(digest, ":", "-", 1)+".sig")
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Cosign
	for _, layer := range manifest.Layers {
		if layer.MediaType != PayloadType || len(out) == MaxCosign {
			continue
		}
		payload, err := p.small(ctx, name, layer, MaxPayload)
		if err != nil {
			return nil, err
		}
		note := layer.Annotations
		out = append(out, Cosign{
			Payload: payload, Signature: note[AnnotationSignature], Certificate: note[AnnotationCertificate],
			Chain: note[AnnotationChain], Bundle: note[AnnotationBundle],
		})
	}
	return out, nil
}

// bundles reads the bundles that cosign 3 attached to a manifest: manifests that refer to it as their subject.
func (p prover) bundles(ctx context.Context, name registry.Reference, mediaType string, manifest []byte) ([][]byte,
	error,
) {
	return p.bundlesOf(ctx, name, content.NewDescriptorFromBytes(mediaType, manifest))
}

func (p prover) bundlesOf(ctx context.Context, name registry.Reference, subject ocispec.Descriptor) ([][]byte, error) {
	repo, u := p.fetcher.repository(name)
	var referrers []ocispec.Descriptor
	add := func(page []ocispec.Descriptor) error { //nolint:unparam // the library wants an error
		page = slices.DeleteFunc(page, func(r ocispec.Descriptor) bool { return !mayBeBundle(r) })
		referrers = append(referrers, page[:min(len(page), MaxCosign-len(referrers))]...)
		return nil
	}
	err := p.fetcher.retry(ctx, u, func(ctx context.Context) error {
		referrers = nil
		err := repo.Referrers(ctx, subject, "", add)
		coded, ok := errors.AsType[*errcode.ErrorResponse](err)
		if !ok || !lacksReferrers(coded.StatusCode) {
			return err
		}
		if err := repo.SetReferrersCapability(false); err != nil {
			return err
		}
		referrers = nil
		return repo.Referrers(ctx, subject, "", add) // cosign then keeps the list as a tag
	})
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, r := range referrers {
		found, _, err := readManifest(ctx, p.fetcher, name, r.Digest.String())
		if errors.Is(err, ErrNotFound) {
			continue // a list that is a tag can name manifests that were removed
		}
		if err != nil {
			return nil, err
		}
		for _, layer := range found.Layers {
			if layer.MediaType != BundleType || layer.Size > MaxBundle || len(out) == MaxCosign {
				continue // a large one is an attestation, such as an SBOM
			}
			data, err := p.small(ctx, name, layer, MaxBundle)
			if err != nil {
				return nil, err
			}
			out = append(out, data)
		}
	}
	return out, nil
}

// mayBeBundle reports whether a referrer can be a bundle that can be read. cosign listed its bundles with the type of
// their empty configuration where a registry keeps the list as a tag (https://github.com/sigstore/cosign/issues/4422).
func mayBeBundle(r ocispec.Descriptor) bool {
	_, named := hexDigest(r.Digest.String())
	return named && (r.ArtifactType == BundleType || r.ArtifactType == ocispec.MediaTypeEmptyJSON ||
		r.ArtifactType == "")
}

// lacksReferrers reports whether a registry refuses a list of referrers because it has no such list. The specification
// wants 404, which the library handles.
func lacksReferrers(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusMethodNotAllowed ||
		status == http.StatusNotAcceptable || status == http.StatusNotImplemented
}

// small downloads a layer of at most limit bytes and checks its digest.
func (p prover) small(ctx context.Context, name registry.Reference, layer ocispec.Descriptor, limit int64) ([]byte,
	error,
) {
	digest := layer.Digest.String()
	if _, ok := hexDigest(digest); !ok || layer.Size > limit {
		return nil, fail(ErrInvalid, "%s has a signature that is larger than %s, or is not named by a SHA-256 digest",
			displayOCI(name), byteSize(limit))
	}
	data, err := p.fetcher.blob(ctx, name, digest)
	if err == nil && digestOf(data) != digest {
		err = fail(ErrDigest, "the registry's answer has not the digest %s that was asked for", digest)
	}
	return data, err
}

func (c cache) evidencePath(digest string) string {
	hex, ok := hexDigest(digest)
	if !ok || c.dir == "" {
		return ""
	}
	return filepath.Join(c.dir, "signatures", hex+".json")
}

// evidence returns what was kept of an archive's signatures, or nil.
func (c cache) evidence(digest string) *Evidence {
	name := c.evidencePath(digest)
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxEvidence {
		return nil
	}
	data, err := os.ReadFile(name) //nolint:gosec // the name is made of hex digits
	if err != nil {
		return nil
	}
	out := &Evidence{}
	if json.Unmarshal(data, out) != nil {
		return nil
	}
	return out
}

// putEvidence keeps signatures. Like put, it drops errors.
func (c cache) putEvidence(digest string, e Evidence) {
	name := c.evidencePath(digest)
	data, err := json.Marshal(e)
	if name == "" || err != nil || len(data) > maxEvidence || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return
	}
	c.place(name, data)
}
