package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// keyless checks a signature by a short-lived certificate, as cosign attached it up to version 2.
func (s Signer) keyless(c fetch.Cosign, root *trustedRoot) error {
	a, err := readAttached(c)
	if err != nil {
		return err
	}
	return root.verify(a, verify.WithArtifact(bytes.NewReader(c.Payload)), s)
}

// attached is a signature as cosign attached it up to version 2, in the form of sigstore-go. Of the proofs of a log it
// has only the promise, so it is an entity of version 0.1.
type attached struct {
	verify.BaseSignedEntity
	payload, signature []byte
	certificate        attachedCertificate
	entry              *tlog.Entry
}

// attachedCertificate is a certificate with the authorities between it and the root, which cosign attached beside it.
type attachedCertificate struct {
	verify.VerificationContent
	between []*x509.Certificate
}

// Intermediates returns the authorities. They are not trusted.
func (c attachedCertificate) Intermediates() []*x509.Certificate { return c.between }

// HasInclusionPromise is true: an entry without a promise has no signed time.
func (a *attached) HasInclusionPromise() bool { return true }

// Version returns the version of bundles whose entries need no inclusion proof.
func (a *attached) Version() (string, error) { return "v0.1", nil }

// SignatureContent returns the signature of the payload.
func (a *attached) SignatureContent() (verify.SignatureContent, error) {
	sum := sha256.Sum256(a.payload)
	return bundle.NewMessageSignature(sum[:], "sha256", a.signature), nil
}

// VerificationContent returns the certificate.
func (a *attached) VerificationContent() (verify.VerificationContent, error) {
	return a.certificate, nil
}

// Timestamps returns none: those of signatures in this form are not supported.
func (a *attached) Timestamps() ([][]byte, error) { return nil, nil }

// TlogEntries returns the entry of the transparency log.
func (a *attached) TlogEntries() ([]*tlog.Entry, error) { return []*tlog.Entry{a.entry}, nil }

// readAttached reads a signature. Nothing is verified.
func readAttached(c fetch.Cosign) (*attached, error) {
	cert, between, err := certificates(c)
	if err != nil {
		return nil, err
	}
	signature, err := base64.StdEncoding.DecodeString(c.Signature)
	if err != nil || len(signature) == 0 {
		return nil, errors.New("the signature is not base64")
	}
	entry, err := readEntry(c.Bundle)
	if err != nil {
		return nil, err
	}
	return &attached{
		payload: c.Payload, signature: signature, entry: entry,
		certificate: attachedCertificate{bundle.NewCertificate(cert), between},
	}, nil
}

// readEntry reads what cosign attached of a transparency log: an entry with the log's promise.
func readEntry(text string) (*tlog.Entry, error) {
	if text == "" {
		return nil, errors.New("it has no entry of a transparency log with it: " +
			"sign with cosign 1.0 or later, and without --tlog-upload=false")
	}
	var e struct {
		Promise []byte `json:"SignedEntryTimestamp"`
		Payload struct {
			Body           []byte `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogID          string `json:"logID"`
			LogIndex       int64  `json:"logIndex"`
		} `json:"Payload"`
	}
	var body struct {
		Version string `json:"apiVersion"`
		Kind    string `json:"kind"`
	}
	const unreadable = "its entry of the transparency log cannot be read"
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return nil, errors.New(unreadable)
	}
	id, err := hex.DecodeString(e.Payload.LogID)
	if err != nil || json.Unmarshal(e.Payload.Body, &body) != nil {
		return nil, errors.New(unreadable)
	}
	entry, err := tlog.ParseTransparencyLogEntry(&protorekor.TransparencyLogEntry{
		LogIndex:          e.Payload.LogIndex,
		LogId:             &protocommon.LogId{KeyId: id},
		KindVersion:       &protorekor.KindVersion{Kind: body.Kind, Version: body.Version},
		IntegratedTime:    e.Payload.IntegratedTime,
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: e.Promise},
		CanonicalizedBody: e.Payload.Body,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", unreadable, brief(err))
	}
	return entry, nil
}
