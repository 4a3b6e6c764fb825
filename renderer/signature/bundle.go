package signature

import (
	"crypto"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

const (
	bundleTypeOld   = "application/vnd.dev.sigstore.bundle+json;version=0.3" // of version 0.3 too
	statementV1     = "https://in-toto.io/Statement/v1"
	cosignPredicate = "https://sigstore.dev/cosign/sign/v1"
	maxEntries      = 8 // of one bundle
)

// readBundle reads a Sigstore bundle of version 0.3 with a signature of a manifest. Nothing is verified.
func readBundle(data []byte, manifest string) (*protobundle.Bundle, error) {
	b := &protobundle.Bundle{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, b); err != nil {
		return nil, errors.New("its bundle cannot be read")
	}
	if b.GetMediaType() != fetch.BundleType && b.GetMediaType() != bundleTypeOld {
		return nil, fmt.Errorf("its bundle has the media type %.80q, not that of version 0.3", b.GetMediaType())
	}
	e := b.GetDsseEnvelope()
	if e.GetPayloadType() != bundle.IntotoMediaType || len(e.GetSignatures()) != 1 {
		return nil, errors.New("its bundle does not have an in-toto statement with one signature, as `cosign sign` makes it")
	}
	return b, states(e.GetPayload(), manifest)
}

// states requires that a statement is a signature of a manifest. An attestation about the manifest is none.
func states(payload []byte, manifest string) error {
	var s struct {
		Type     string `json:"_type"`
		Subjects []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		Predicate string `json:"predicateType"`
	}
	if err := json.Unmarshal(payload, &s); err != nil || s.Type != statementV1 {
		return errors.New("the signed statement is not an in-toto statement of version 1")
	}
	if s.Predicate != cosignPredicate {
		return fmt.Errorf("the signed statement has the type %.80q, not that of a signature", s.Predicate)
	}
	for _, subject := range s.Subjects {
		if "sha256:"+subject.Digest["sha256"] == manifest {
			return nil
		}
	}
	return fmt.Errorf("the signed statement does not name the chart's manifest %s", manifest)
}

// bundleBy checks a bundle of a signature by a key. Its entries of transparency logs prove nothing more and are not
// verified.
func bundleBy(key crypto.PublicKey, data []byte, manifest string) error {
	b, err := readBundle(data, manifest)
	if err != nil {
		return err
	}
	e := b.GetDsseEnvelope()
	if !valid(key, dsse.PAE(e.GetPayloadType(), e.GetPayload()), e.GetSignatures()[0].GetSig()) {
		return errors.New("the signature is not by that key")
	}
	return nil
}

// keylessBundle checks a bundle of a signature by a short-lived certificate.
func (s Signer) keylessBundle(data []byte, manifest string, root *trustedRoot) error {
	read, err := readBundle(data, manifest)
	if err != nil {
		return err
	}
	material := read.GetVerificationMaterial()
	entries := material.GetTlogEntries()
	switch {
	case material.GetCertificate() == nil:
		return errors.New("its bundle has no certificate: it was made with a key")
	case len(entries) == 0:
		return errors.New("its bundle has no entry of a transparency log: sign without --tlog-upload=false")
	case len(entries) > maxEntries:
		return fmt.Errorf("its bundle has %d entries of transparency logs, more than %d", len(entries), maxEntries)
	}
	timed := len(material.GetTimestampVerificationData().GetRfc3161Timestamps()) > 0
	for _, e := range entries {
		if e.GetInclusionProof() == nil {
			return errors.New("its entry of the transparency log has no inclusion proof")
		}
		timed = timed || len(e.GetInclusionPromise().GetSignedEntryTimestamp()) > 0
	}
	if !timed {
		return errors.New("its bundle has no signed time: neither the promise of a transparency log nor a timestamp (RFC 3161); " +
			"logs of the second generation need one, so sign with a timestamp authority")
	}
	if err := root.boundStamps(material); err != nil {
		return err
	}
	digest, err := hex.DecodeString(strings.TrimPrefix(manifest, "sha256:"))
	if err != nil {
		return err
	}
	b, err := bundle.NewBundle(read)
	if err != nil {
		return fmt.Errorf("its bundle cannot be read: %w", brief(err))
	}
	return root.verify(b, verify.WithArtifactDigest("sha256", digest), s)
}
