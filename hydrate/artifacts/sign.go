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

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	sigstore "github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// Keys sign artifacts and verify signatures. Signatures have the form that cosign attached up to version 2, which
// cosign 3 and all versions of Flux read, and which needs nothing of a registry: an image under the tag
// sha256-DIGEST.sig whose layer is the signed payload.
type Keys struct {
	trusted signature.Signer // with the public key of the fleet
	signer  sigstore.Signer  // nil: there is no private key
	missing string           // why there is none
}

// ReadKeys reads the public key of the fleet from a tree. private may have no key, or another one; then nothing can be
// signed.
func ReadKeys(snapshot *gitstore.Snapshot, file string, private session.ArtifactKey) (*Keys, error) {
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
		return out, nil
	case len(private.PEM) == 0:
		out.missing = "artifacts are signed (spec.output.oci.key), and this run has no private key: set " + private.Name
		return out, nil
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(private.PEM, func(bool) ([]byte, error) { return private.Password, nil })
	if err != nil { // the text of the library may quote the key
		return nil, fmt.Errorf("%s is not a private key in PEM form, as `cosign generate-key-pair` writes it, or its password is wrong", private.Name)
	}
	if out.signer, err = sigstore.LoadSigner(key, crypto.SHA256); err != nil {
		return nil, fmt.Errorf("%s cannot sign: use a key of cosign", private.Name)
	}
	own, err := out.signer.PublicKey()
	if err != nil {
		return nil, err
	}
	if err := cryptoutils.EqualKeys(public, own); err != nil {
		out.signer, out.missing = nil, fmt.Sprintf("the private key in %s does not belong to the public key %s", private.Name, file)
	}
	return out, nil
}

// signed reports whether a registry has a signature of a manifest that counts. Only its digest is signed.
func (k *Keys) signed(ctx context.Context, r Registry, manifest []byte) (bool, error) {
	list, err := r.Signatures(ctx, digest.FromBytes(manifest).String())
	switch {
	case errors.Is(err, fetch.ErrInvalid), errors.Is(err, fetch.ErrDigest), errors.Is(err, fetch.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return k.trusted.VerifyManifest(fetch.Evidence{Manifest: manifest, Cosign: list}) == nil, nil
}

// sign attaches a signature to a manifest, unless the registry has one that counts.
func (k *Keys) sign(ctx context.Context, r Registry, repository string, manifest blob) error {
	if ok, err := k.signed(ctx, r, manifest.data); ok || err != nil {
		return err
	}
	image, err := name.NewDigest(strings.TrimPrefix(repository, "oci://") + "@" + manifest.Digest.String())
	if err != nil {
		return err
	}
	text, err := json.Marshal(payload.Cosign{Image: image})
	if err != nil {
		return err
	}
	made, err := k.signer.SignMessage(bytes.NewReader(text))
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
