// Package signature checks who signed a chart archive: Helm's provenance files, through Helm's own package, and
// cosign's signatures of charts in OCI registries, by a key or by an identity that a certificate of Sigstore names.
//
// Evidence comes from where the chart comes from, and proves nothing by itself. Signer is what the fleet trusts. Verify
// reads no network and no clock. A certificate is judged at the time at which the signature was made. A transparency
// log or a timestamp authority signed that time, and it is part of the evidence, so that Verify needs no network
// either.
//
// cosign's signatures come in two forms: as it attached them up to version 2, and as bundles of version 0.3, with logs
// of the first generation (Rekor, which promises a time) and of the second (Rekor tiles, which need a timestamp of RFC
// 3161 beside them). sigstore-go verifies certificates, logs and timestamps of both; what a registry serves is bounded
// here before sigstore-go reads it.
//
// Not supported: timestamps of signatures in the old form.
//
// The package is not API: it can change in every release.
package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Signer is somebody whose signature on a chart counts. Exactly one of Keyring, Key and TrustedRoot is set.
type Signer struct {
	Name        string
	File        string // of the key, for messages
	Keyring     []byte // OpenPGP public keys, binary or armoured, for Helm's provenance files
	Key         []byte // a public key in PEM form, for cosign
	TrustedRoot []byte // Sigstore's trusted_root.json, for cosign without a key
	Issuer      string // of the identity, such as https://token.actions.githubusercontent.com
	Subject     string // the identity: a URI or an email address
}

// Provenance reports whether the signer signs provenance files. Others sign with cosign.
func (s Signer) Provenance() bool { return len(s.Keyring) > 0 }

// String names the signer and the key.
func (s Signer) String() string {
	switch {
	case s.Provenance():
		return fmt.Sprintf("%s (provenance file, keyring %s)", s.Name, s.File)
	case len(s.Key) > 0:
		return fmt.Sprintf("%s (cosign, key %s)", s.Name, s.File)
	}
	return fmt.Sprintf("%s (cosign, %s by %s)", s.Name, s.Subject, s.Issuer)
}

// Digest identifies what the signer trusts: it changes with the key.
func (s Signer) Digest() string {
	sum := sha256.New()
	for _, part := range [][]byte{s.Keyring, s.Key, s.TrustedRoot, []byte(s.Issuer), []byte(s.Subject)} {
		fmt.Fprintf(sum, "%d\n%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ErrUnsigned means that no accepted signer has signed the archive.
var ErrUnsigned = errors.New("not signed by an accepted signer")

// Verify checks that one of the signers signed the archive, and returns it. An error wraps ErrUnsigned and says for
// each signer why not.
func Verify(archive []byte, e fetch.Evidence, signers []Signer) (Signer, error) {
	var reasons []string
	for _, s := range signers {
		err := s.verify(archive, e)
		if err == nil {
			return s, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", s, err))
	}
	return Signer{}, fmt.Errorf("%w: %s", ErrUnsigned, strings.Join(reasons, "; "))
}

func (s Signer) verify(archive []byte, e fetch.Evidence) error {
	if s.Provenance() {
		return s.verifyProvenance(archive, e)
	}
	if len(e.Manifest) == 0 {
		return errors.New("cosign signs charts in OCI registries, and this one comes from a chart repository")
	}
	if err := contains(e.Manifest, archive); err != nil {
		return err
	}
	return s.VerifyManifest(e)
}

// VerifyManifest checks that the signer signed the manifest of the evidence with cosign, whatever the manifest is of.
// It is for signers with a key or an identity. The error says why no signature counts.
func (s Signer) VerifyManifest(e fetch.Evidence) error {
	digest := digestOf(e.Manifest)
	checks, err := s.cosign()
	if err != nil {
		return err
	}
	var found []error
	for _, c := range e.Cosign[:min(len(e.Cosign), fetch.MaxCosign)] {
		err := checks.attached(c)
		if err == nil {
			err = names(c.Payload, digest)
		}
		found = append(found, err)
	}
	for _, b := range e.Bundles[:min(len(e.Bundles), fetch.MaxCosign)] {
		found = append(found, checks.bundled(b, digest))
	}
	switch {
	case len(found) == 0:
		return fmt.Errorf("the registry has no signature of the manifest %s: no tag %s.sig, and no Sigstore bundle that refers to the manifest", digest, strings.Replace(digest, ":", "-", 1))
	case slices.Contains(found, nil):
		return nil
	case len(found) == 1:
		return found[0]
	}
	return fmt.Errorf("none of %d signatures counts, the first because %w", len(found), found[0])
}

// isChart reports whether a layer of an OCI manifest with this media type is a chart's archive.
func isChart(mediaType string) bool {
	return mediaType == "application/vnd.cncf.helm.chart.content.v1.tar+gzip" || mediaType == "application/tar+gzip"
}

// contains requires that a manifest has the archive as its chart, and no other one.
func contains(manifest, archive []byte) error {
	var m struct {
		Layers []struct {
			MediaType string `json:"mediaType"`
			Digest    string `json:"digest"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		return errors.New("the chart's manifest is not JSON")
	}
	var charts []string
	for _, l := range m.Layers {
		if isChart(l.MediaType) {
			charts = append(charts, l.Digest)
		}
	}
	if len(charts) != 1 || charts[0] != digestOf(archive) {
		return errors.New("the chart's manifest does not have the locked archive as its only chart")
	}
	return nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// names requires that a payload signs a manifest.
func names(payload []byte, manifest string) error {
	var p struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return errors.New("the signed payload is not JSON")
	}
	if p.Critical.Type != "cosign container image signature" &&
		p.Critical.Type != "https://sigstore.dev/cosign/sign/v1" {
		return fmt.Errorf("the signed payload has the type %.60q, not that of a signature", p.Critical.Type)
	}
	if p.Critical.Image.Digest != manifest {
		return fmt.Errorf("it signs %.80q, not the manifest %s", p.Critical.Image.Digest, manifest)
	}
	return nil
}
