package signature

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// bundle is the part of a Sigstore bundle of version 0.3 that is used (dev.sigstore.bundle.v1.Bundle of sigstore/protobuf-specs, in the
// JSON form of protocol buffers).
type bundle struct {
	MediaType string `json:"mediaType"`
	Material  struct {
		Certificate struct {
			RawBytes []byte `json:"rawBytes"`
		} `json:"certificate"`
		Entries []bundleEntry `json:"tlogEntries"`
		Stamps  struct {
			Signed []struct {
				Response []byte `json:"signedTimestamp"`
			} `json:"rfc3161Timestamps"`
		} `json:"timestampVerificationData"`
	} `json:"verificationMaterial"`
	Envelope *struct {
		Type       string `json:"payloadType"`
		Payload    []byte `json:"payload"`
		Signatures []struct {
			Signature []byte `json:"sig"`
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

// bundleEntry is the entry of a transparency log.
type bundleEntry struct {
	Index json.Number `json:"logIndex"`
	Log   struct {
		ID []byte `json:"keyId"`
	} `json:"logId"`
	Time    json.Number `json:"integratedTime"` // seconds; absent in logs of the second generation
	Promise struct {
		Signature []byte `json:"signedEntryTimestamp"`
	} `json:"inclusionPromise"`
	Proof *inclusionProof `json:"inclusionProof"`
	Body  []byte          `json:"canonicalizedBody"`
}

const (
	bundleTypeOld   = "application/vnd.dev.sigstore.bundle+json;version=0.3" // of version 0.3 too
	statementType   = "application/vnd.in-toto+json"
	statementV1     = "https://in-toto.io/Statement/v1"
	cosignPredicate = "https://sigstore.dev/cosign/sign/v1"
	maxEntries      = 8 // of one bundle
)

// readBundle reads a bundle with a signature of a manifest. It returns the bundle and the signed message. Nothing is verified.
func readBundle(data []byte, manifest string) (*bundle, []byte, error) {
	b := &bundle{}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, nil, errors.New("its bundle cannot be read")
	}
	if b.MediaType != fetch.BundleType && b.MediaType != bundleTypeOld {
		return nil, nil, fmt.Errorf("its bundle has the media type %.80q, not that of version 0.3", b.MediaType)
	}
	e := b.Envelope
	if e == nil || e.Type != statementType || len(e.Signatures) != 1 {
		return nil, nil, errors.New("its bundle does not have an in-toto statement with one signature, as `cosign sign` makes it")
	}
	// The pre-authentication encoding of DSSE: what is signed.
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.Type), e.Type, len(e.Payload), e.Payload)
	return b, message, states(e.Payload, manifest)
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

// bundleBy checks a bundle of a signature by a key. Its entries of transparency logs prove nothing more and are not read.
func bundleBy(key crypto.PublicKey, data []byte, manifest string) error {
	b, message, err := readBundle(data, manifest)
	if err != nil {
		return err
	}
	if !valid(key, message, b.Envelope.Signatures[0].Signature) {
		return errors.New("the signature is not by that key")
	}
	return nil
}

// keylessBundle checks a bundle of a signature by a short-lived certificate, as keyless does. In addition, a signed state of the log must
// contain the entry.
func (s Signer) keylessBundle(data []byte, manifest string, root *trustedRoot) error {
	b, message, err := readBundle(data, manifest)
	if err != nil {
		return err
	}
	if len(b.Material.Certificate.RawBytes) == 0 {
		return errors.New("its bundle has no certificate: it was made with a key")
	}
	cert, err := x509.ParseCertificate(b.Material.Certificate.RawBytes)
	if err != nil {
		return errors.New("its certificate cannot be read")
	}
	if !valid(cert.PublicKey, message, b.Envelope.Signatures[0].Signature) {
		return errors.New("the signature is not by the key of its certificate")
	}
	times, err := root.recordedBundle(b, message, cert)
	if err != nil {
		return err
	}
	for _, at := range times {
		if err := s.vouched(cert, x509.NewCertPool(), at, root); err != nil {
			return err
		}
	}
	return nil
}

// recordedBundle returns when the signature was made, at least one time: a trusted log recorded it then, or a trusted authority signed a
// timestamp of it. A log must have it in either case. One of the entries must prove it; the error is that of the first one.
func (r *trustedRoot) recordedBundle(b *bundle, message []byte, cert *x509.Certificate) ([]time.Time, error) {
	stamps, unstamped := r.stamped(b)
	var first error
	for i := range b.Material.Entries[:min(len(b.Material.Entries), maxEntries)] {
		times, err := r.entry(&b.Material.Entries[i], stamps, unstamped)
		if err == nil {
			err = about(b.Material.Entries[i].Body, recordOf(b, message, cert))
		}
		if err == nil {
			return times, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = errors.New("its bundle has no entry of a transparency log: sign without --tlog-upload=false")
	}
	return nil, first
}

// entry checks that a trusted log has the entry, and returns the times that are signed: the log's promise, in logs of the first
// generation, and the timestamps. Without either it returns unstamped. The time in an entry without a promise is not signed by anybody.
func (r *trustedRoot) entry(e *bundleEntry, stamps []time.Time, unstamped error) ([]time.Time, error) {
	id, times := hex.EncodeToString(e.Log.ID), stamps
	if len(e.Promise.Signature) > 0 {
		at, err := r.promise(e, id)
		if err != nil {
			return nil, err
		}
		times = append([]time.Time{at}, stamps...)
	}
	if len(times) == 0 {
		return nil, unstamped
	}
	return times, r.included(e, id, times[0])
}

// promise returns when a trusted log promised to include the entry.
func (r *trustedRoot) promise(e *bundleEntry, id string) (time.Time, error) {
	seconds, err := e.Time.Int64()
	index, wrong := e.Index.Int64()
	if err != nil || wrong != nil || seconds <= 0 {
		return time.Time{}, errors.New("its entry of the transparency log cannot be read")
	}
	at := time.Unix(seconds, 0)
	canonical, err := json.Marshal(logEntry{Body: base64.StdEncoding.EncodeToString(e.Body), IntegratedTime: seconds, LogID: id, LogIndex: index})
	if err != nil {
		return at, err
	}
	if !r.promised(id, at, canonical, e.Promise.Signature) {
		return at, errors.New("its entry of the transparency log is not signed by a trusted log")
	}
	return at, nil
}
