package signature

import (
	"bytes"
	"crypto"
	_ "crypto/sha512" // timestamps may use it
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
)

const (
	maxStamps    = 8        // of one bundle
	maxStamp     = 16 << 10 // bytes of one; those of the public instance have less than one KiB
	maxStampNest = 24       // values within values
)

// stamped returns the times of the bundle's timestamps that a trusted authority signed. Without any, it returns why.
func (r *trustedRoot) stamped(b *bundle) ([]time.Time, error) {
	signed := b.Material.Stamps.Signed
	if len(signed) == 0 {
		return nil, errors.New("its bundle has no signed time: neither the promise of a transparency log nor a timestamp (RFC 3161); logs of the second generation need one, so sign with a timestamp authority")
	}
	if len(r.stampers) == 0 {
		return nil, errors.New("its bundle has a timestamp, and the trusted root no timestamp authority: take the newest trusted_root.json of your Sigstore")
	}
	if len(signed) > maxStamps {
		return nil, fmt.Errorf("its bundle has %d timestamps, more than %d", len(signed), maxStamps)
	}
	var times []time.Time
	var first error
	for _, s := range signed {
		at, err := r.stamp(s.Response, b.Envelope.Signatures[0].Signature)
		if err == nil {
			times = append(times, at)
		} else if first == nil {
			first = err
		}
	}
	if len(times) > 0 {
		return times, nil
	}
	return nil, first
}

// stamp returns the time of a timestamp of a signature (RFC 3161, RFC 5816). A trusted authority, valid at that time, signed it.
func (r *trustedRoot) stamp(response, signature []byte) (time.Time, error) {
	// The parser of package pkcs7 also takes BER, and can take time exponential in the size of objects that overlap.
	if len(response) > maxStamp || !der(response, maxStampNest) {
		return time.Time{}, fmt.Errorf("its timestamp is not DER of at most %d bytes", maxStamp)
	}
	stamp, err := timestamp.ParseResponse(response)
	if err != nil {
		return time.Time{}, errors.New("its timestamp cannot be read, or its signature is wrong")
	}
	if !slices.Contains([]crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512}, stamp.HashAlgorithm) {
		return time.Time{}, errors.New("its timestamp does not use SHA-256, SHA-384 or SHA-512")
	}
	hash := stamp.HashAlgorithm.New()
	hash.Write(signature)
	if !bytes.Equal(hash.Sum(nil), stamp.HashedMessage) {
		return time.Time{}, errors.New("its timestamp is of another signature")
	}
	token, err := pkcs7.Parse(stamp.RawToken)
	if err != nil || !isStamp(token) {
		return time.Time{}, errors.New("its timestamp is not the signed timestamp of one authority")
	}
	for _, a := range r.stampers {
		if a.valid.has(stamp.Time) && a.stamped(token, stamp.Time) {
			return stamp.Time, nil
		}
	}
	return time.Time{}, fmt.Errorf("its timestamp of %s is not signed by a timestamp authority that the trusted root has for that time", stamp.Time.UTC().Format(time.RFC3339))
}

// der reports whether data is a sequence of DER values, each within the one that contains it.
func der(data []byte, depth int) bool {
	for len(data) > 0 {
		var value asn1.RawValue
		rest, err := asn1.Unmarshal(data, &value)
		if err != nil || depth == 0 || value.IsCompound && !der(value.Bytes, depth-1) {
			return false
		}
		data = rest
	}
	return true
}

// isStamp reports whether exactly one signer signed the token as a timestamp, with digests that are not weak: package pkcs7 also takes a signature
// over SHA-1, whatever the digest of the content is.
func isStamp(token *pkcs7.PKCS7) bool {
	if len(token.Signers) != 1 {
		return false
	}
	is := func(oid asn1.ObjectIdentifier, of ...asn1.ObjectIdentifier) bool {
		return slices.ContainsFunc(of, oid.Equal)
	}
	one := token.Signers[0]
	strong := is(one.DigestAlgorithm.Algorithm, pkcs7.OIDDigestAlgorithmSHA256, pkcs7.OIDDigestAlgorithmSHA384, pkcs7.OIDDigestAlgorithmSHA512) &&
		is(one.DigestEncryptionAlgorithm.Algorithm,
			pkcs7.OIDDigestAlgorithmECDSASHA256, pkcs7.OIDDigestAlgorithmECDSASHA384, pkcs7.OIDDigestAlgorithmECDSASHA512,
			pkcs7.OIDEncryptionAlgorithmRSASHA256, pkcs7.OIDEncryptionAlgorithmRSASHA384, pkcs7.OIDEncryptionAlgorithmRSASHA512,
			// These take the digest of the content.
			pkcs7.OIDEncryptionAlgorithmRSA, pkcs7.OIDEncryptionAlgorithmECDSAP256, pkcs7.OIDEncryptionAlgorithmECDSAP384, pkcs7.OIDEncryptionAlgorithmECDSAP521,
			pkcs7.OIDEncryptionAlgorithmEDDSA25519)
	var content asn1.ObjectIdentifier
	err := token.UnmarshalSignedAttribute(pkcs7.OIDAttributeContentType, &content)
	return strong && err == nil && content.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4}) // id-ct-TSTInfo
}

// stamped reports whether the authority signed the token, with a certificate for nothing but timestamps.
func (a authority) stamped(token *pkcs7.PKCS7, at time.Time) bool {
	own := *token
	if a.leaf != nil {
		own.Certificates = []*x509.Certificate{a.leaf}
	}
	cert := own.GetOnlySigner()
	if cert == nil || !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageTimeStamping}) || len(cert.UnknownExtKeyUsage) > 0 {
		return false
	}
	usage := asn1.ObjectIdentifier{2, 5, 29, 37}
	for _, e := range cert.Extensions {
		if e.Id.Equal(usage) && e.Critical { // RFC 3161, section 2.3
			return own.VerifyWithOpts(a.accepts(x509.NewCertPool(), x509.ExtKeyUsageTimeStamping, at)) == nil
		}
	}
	return false
}
