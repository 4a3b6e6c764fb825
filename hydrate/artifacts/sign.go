package artifacts

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigstore "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin"
	"github.com/sigstore/sigstore/pkg/signature/options"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// Keys sign artifacts and verify signatures, by a key or by an identity.
type Keys struct {
	trusted signature.Signer // whose signatures count
	signer  signer           // nil: this process cannot sign
	missing string           // why it cannot
}

// signer attaches a signature to a manifest in a registry.
type signer interface {
	attach(ctx context.Context, r Registry, repository string, manifest blob) error
}

// keySigner signs with a key. Signatures have the form that cosign attached up to version 2, which cosign 3 and all
// versions of Flux read, and which needs nothing of a registry: an image under the tag sha256-DIGEST.sig whose layer is
// the signed payload.
type keySigner struct{ sigstore.Signer }

// programTime limits a call of the program of a KMS.
const programTime = time.Minute

// ReadKeys reads the public key of the fleet from a tree. private may have no key, or another one; then nothing can be
// signed. The key of a KMS is asked for its public key.
func ReadKeys(ctx context.Context, snapshot *gitstore.Snapshot, file string, private session.ArtifactKey) (*Keys, error) {
	text, err := snapshot.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("spec.output.oci.key: %w", err)
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("spec.output.oci.key: %s is not a public key in PEM form, as `cosign public-key` prints it", file)
	}
	out := &Keys{trusted: signature.Signer{Name: "artifacts", File: file, Key: text}}
	switch {
	case private.Err != nil:
		out.missing = "artifacts are signed (spec.output.oci.key), and the private key cannot be read: " + private.Err.Error()
		return out, nil //nolint:nilerr // nothing can be signed, and branches move all the same
	case private.KMS != "":
		return out, out.service(ctx, public, file, private)
	case len(private.PEM) == 0:
		out.missing = "artifacts are signed (spec.output.oci.key), and this run has no private key: set " + private.Name
		return out, nil
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(private.PEM, func(bool) ([]byte, error) { return private.Password, nil })
	if err != nil { // the text of the library may quote the key
		return nil, fmt.Errorf("%s is not a private key in PEM form, as `cosign generate-key-pair` writes it, or its password is wrong", private.Name)
	}
	loaded, err := sigstore.LoadSigner(key, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%s cannot sign: use a key of cosign", private.Name)
	}
	own, err := loaded.PublicKey()
	if err != nil {
		return nil, err
	}
	out.signer = keySigner{loaded}
	out.matches(public, own, file, private)
	return out, nil
}

// matches drops a signer whose public key is not that of the fleet.
func (k *Keys) matches(public, own crypto.PublicKey, file string, private session.ArtifactKey) {
	if err := cryptoutils.EqualKeys(public, own); err != nil {
		k.signer, k.missing = nil, fmt.Sprintf("the private key in %s does not belong to the public key %s", private.Name, file)
	}
}

// service takes the key of a KMS, through a program of sigstore's plugin protocol
// (https://github.com/sigstore/sigstore/tree/main/pkg/signature/kms/cliplugin). Without an answer nothing can be signed.
func (k *Keys) service(ctx context.Context, public crypto.PublicKey, file string, private session.ArtifactKey) error {
	scheme, _, _ := strings.Cut(private.KMS, "://")
	signer, err := kms.Get(ctx, private.KMS, crypto.SHA256)
	if _, unknown := errors.AsType[*kms.ProviderNotFoundError](err); unknown {
		k.missing = fmt.Sprintf("%s names a key of %s, and the program %s%s is not in PATH", private.Name, scheme, cliplugin.PluginBinaryPrefix,
			scheme)
		return nil
	}
	var own crypto.PublicKey
	if err == nil {
		asking, stop := context.WithTimeout(ctx, programTime)
		defer stop()
		own, err = signer.PublicKey(options.WithContext(asking))
	}
	if err != nil {
		k.missing = fmt.Sprintf("the key of %s in %s cannot be used: %v", scheme, private.Name, err)
		return ctx.Err()
	}
	k.signer = keySigner{signer}
	k.matches(public, own, file, private)
	return nil
}

// evidence reads the signatures of a manifest in the form that the signer makes.
func (k *Keys) evidence(ctx context.Context, r Registry, manifest []byte) (out fetch.Evidence, err error) {
	out.Manifest = manifest
	if len(k.trusted.Key) > 0 {
		out.Cosign, err = r.Signatures(ctx, digest.FromBytes(manifest).String())
	} else {
		out.Bundles, err = r.Bundles(ctx, newBlob(ocispec.MediaTypeImageManifest, manifest).Descriptor)
	}
	return out, err
}

// signed reports whether a registry has a signature of a manifest that counts. Only its digest is signed.
func (k *Keys) signed(ctx context.Context, r Registry, manifest []byte) (bool, error) {
	e, err := k.evidence(ctx, r, manifest)
	switch {
	case errors.Is(err, fetch.ErrInvalid), errors.Is(err, fetch.ErrDigest), errors.Is(err, fetch.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return k.trusted.VerifyManifest(e) == nil, nil
}

// sign attaches a signature to a manifest, unless the registry has one that counts.
func (k *Keys) sign(ctx context.Context, r Registry, repository string, manifest blob) error {
	if ok, err := k.signed(ctx, r, manifest.data); ok || err != nil {
		return err
	}
	return k.signer.attach(ctx, r, repository, manifest)
}

func (k keySigner) attach(ctx context.Context, r Registry, repository string, manifest blob) error {
	image, err := name.NewDigest(strings.TrimPrefix(repository, "oci://") + "@" + manifest.Digest.String())
	if err != nil {
		return err
	}
	text, err := json.Marshal(payload.Cosign{Image: image})
	if err != nil {
		return err
	}
	signing, stop := context.WithTimeout(ctx, programTime)
	defer stop()
	made, err := k.SignMessage(bytes.NewReader(text), options.WithContext(signing))
	if err != nil {
		return err
	}
	layer := newBlob(fetch.PayloadType, text)
	config, err := json.Marshal(ocispec.Image{RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}}})
	if err != nil {
		return err
	}
	layer.Annotations = map[string]string{fetch.AnnotationSignature: base64.StdEncoding.EncodeToString(made)}
	out := artifact{config: newBlob(ocispec.MediaTypeImageConfig, config), layer: layer}
	if out.manifest, err = manifestOf(out.config, nil, layer); err != nil {
		return err
	}
	return out.push(ctx, r, strings.Replace(manifest.Digest.String(), ":", "-", 1)+".sig")
}
