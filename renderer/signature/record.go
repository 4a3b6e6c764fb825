package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
)

// record is what a log recorded of a signature.
type record struct {
	message     []byte // SHA-256 of what was signed
	payload     []byte // SHA-256 of the envelope's payload, for an entry that has it in place of the message
	signature   []byte
	certificate []byte // DER
}

// recordOf returns what a log must have recorded of a bundle. message is what its envelope signs.
func recordOf(b *bundle, message []byte, cert *x509.Certificate) record {
	return record{message: sum256(message), payload: sum256(b.Envelope.Payload), signature: b.Envelope.Signatures[0].Signature, certificate: cert.Raw}
}

func sum256(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

// about requires that an entry of a log is about a signature: the same payload, signature and certificate.
func about(body []byte, want record) error {
	got, err := readRecord(body)
	if err != nil {
		return err
	}
	switch {
	case got.payload == nil && !bytes.Equal(got.message, want.message), got.payload != nil && !bytes.Equal(got.payload, want.payload):
		return errors.New("its entry of the transparency log is about another payload")
	case !bytes.Equal(got.signature, want.signature):
		return errors.New("its entry of the transparency log is about another signature")
	case !bytes.Equal(got.certificate, want.certificate):
		return errors.New("its entry of the transparency log has another certificate")
	}
	return nil
}

// readRecord reads the body of an entry. Rekor has four kinds that can stand for a signature: of a message and of an envelope, in the
// first and the second generation.
func readRecord(body []byte) (record, error) {
	var entry struct {
		Version string          `json:"apiVersion"`
		Kind    string          `json:"kind"`
		Spec    json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(body, &entry); err != nil {
		return record{}, errors.New("its entry of the transparency log cannot be read")
	}
	read, ok := map[string]func([]byte) (record, error){
		"hashedrekord 0.0.1": readMessageV1, "rekord 0.0.1": readMessageV1, "dsse 0.0.1": readEnvelopeV1,
		"hashedrekord 0.0.2": readMessageV2, "dsse 0.0.2": readEnvelopeV2,
	}[entry.Kind+" "+entry.Version]
	if !ok {
		return record{}, fmt.Errorf("its entry of the transparency log is of the kind %.60q, which is not that of a signature", entry.Kind+" "+entry.Version)
	}
	out, err := read(entry.Spec)
	if err != nil || len(out.message)+len(out.payload) != sha256.Size {
		return record{}, fmt.Errorf("its entry of the transparency log cannot be read as %s %s, with SHA-256 and one signature", entry.Kind, entry.Version)
	}
	return out, nil
}

var errRecord = errors.New("not a record of one signature with SHA-256")

// hashV1 is a digest in an entry of the first generation.
type hashV1 struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value"`
}

func (h hashV1) sum() ([]byte, error) {
	sum, err := hex.DecodeString(h.Value)
	if err != nil || h.Algorithm != "sha256" {
		return nil, errRecord
	}
	return sum, nil
}

func readMessageV1(spec []byte) (record, error) {
	var s struct {
		Data struct {
			Hash hashV1 `json:"hash"`
		} `json:"data"`
		Signature struct {
			Content   []byte `json:"content"`
			PublicKey struct {
				Content []byte `json:"content"` // PEM
			} `json:"publicKey"`
		} `json:"signature"`
	}
	if err := json.Unmarshal(spec, &s); err != nil {
		return record{}, err
	}
	sum, err := s.Data.Hash.sum()
	return record{message: sum, signature: s.Signature.Content, certificate: inPEM(s.Signature.PublicKey.Content)}, err
}

func readEnvelopeV1(spec []byte) (record, error) {
	var s struct {
		Payload    hashV1 `json:"payloadHash"`
		Signatures []struct {
			Signature []byte `json:"signature"`
			Verifier  []byte `json:"verifier"` // PEM
		} `json:"signatures"`
	}
	if err := json.Unmarshal(spec, &s); err != nil || len(s.Signatures) != 1 {
		return record{}, errRecord
	}
	sum, err := s.Payload.sum()
	return record{payload: sum, signature: s.Signatures[0].Signature, certificate: inPEM(s.Signatures[0].Verifier)}, err
}

// inPEM returns the content of the first PEM block; nil: there is none.
func inPEM(data []byte) []byte {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	return block.Bytes
}

// hashV2 and signatureV2 are parts of entries of the second generation (dev.sigstore.rekor.v2 of sigstore/rekor-tiles).
type hashV2 struct {
	Algorithm string `json:"algorithm"`
	Digest    []byte `json:"digest"`
}

type signatureV2 struct {
	Content  []byte `json:"content"`
	Verifier struct {
		Certificate struct {
			RawBytes []byte `json:"rawBytes"`
		} `json:"x509Certificate"`
	} `json:"verifier"`
}

func readMessageV2(spec []byte) (record, error) {
	var s struct {
		Message struct {
			Data      hashV2      `json:"data"`
			Signature signatureV2 `json:"signature"`
		} `json:"hashedRekordV002"`
	}
	if err := json.Unmarshal(spec, &s); err != nil || s.Message.Data.Algorithm != algorithmV2 {
		return record{}, errRecord
	}
	return record{message: s.Message.Data.Digest, signature: s.Message.Signature.Content, certificate: s.Message.Signature.Verifier.Certificate.RawBytes}, nil
}

func readEnvelopeV2(spec []byte) (record, error) {
	var s struct {
		Envelope struct {
			Payload    hashV2        `json:"payloadHash"`
			Signatures []signatureV2 `json:"signatures"`
		} `json:"dsseV002"`
	}
	if err := json.Unmarshal(spec, &s); err != nil || s.Envelope.Payload.Algorithm != algorithmV2 || len(s.Envelope.Signatures) != 1 {
		return record{}, errRecord
	}
	one := s.Envelope.Signatures[0]
	return record{payload: s.Envelope.Payload.Digest, signature: one.Content, certificate: one.Verifier.Certificate.RawBytes}, nil
}

const algorithmV2 = "SHA2_256"
