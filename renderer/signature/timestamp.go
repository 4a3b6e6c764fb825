package signature

import (
	"cmp"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
)

const (
	maxStamps    = 8        // of one bundle
	maxStamp     = 16 << 10 // bytes of one; those of the public instance have less than one KiB
	maxStampNest = 24       // values within values
)

// boundStamps removes the timestamps of a bundle (RFC 3161) that are not safe to parse or weak; sigstore-go verifies
// the others. If none is left, the error is why the first one was removed.
func (r *trustedRoot) boundStamps(material *protobundle.VerificationMaterial) error {
	stamps := material.GetTimestampVerificationData()
	if len(stamps.GetRfc3161Timestamps()) == 0 {
		return nil
	}
	if n := len(stamps.GetRfc3161Timestamps()); n > maxStamps {
		return fmt.Errorf("its bundle has %d timestamps, more than %d", n, maxStamps)
	}
	if len(r.TimestampingAuthorities()) == 0 {
		return errors.New("its bundle has a timestamp, and the trusted root no timestamp authority: " +
			"take the newest trusted_root.json of your Sigstore")
	}
	var first error
	stamps.Rfc3161Timestamps = slices.DeleteFunc(stamps.Rfc3161Timestamps,
		func(s *protocommon.RFC3161SignedTimestamp) bool {
			err := boundStamp(s.GetSignedTimestamp())
			first = cmp.Or(first, err)
			return err != nil
		})
	if len(stamps.Rfc3161Timestamps) > 0 {
		return nil
	}
	return first
}

// boundStamp requires that a timestamp is safe to parse, and not weak.
func boundStamp(response []byte) error {
	// The parser of package pkcs7 also takes BER, and can take time exponential in the size of objects that overlap.
	if len(response) > maxStamp || !der(response, maxStampNest) {
		return fmt.Errorf("its timestamp is not DER of at most %d bytes", maxStamp)
	}
	stamp, err := timestamp.ParseResponse(response)
	if err != nil {
		return errors.New("its timestamp cannot be read, or its signature is wrong")
	}
	token, err := pkcs7.Parse(stamp.RawToken)
	if err != nil || !isStamp(token) {
		return errors.New("its timestamp is not the signed timestamp of one authority")
	}
	return nil
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

// isStamp reports whether exactly one signer signed the token as a timestamp, with digests that are not weak: package
// pkcs7 also takes a signature over SHA-1, whatever the digest of the content is.
func isStamp(token *pkcs7.PKCS7) bool {
	if len(token.Signers) != 1 {
		return false
	}
	is := func(oid asn1.ObjectIdentifier, of ...asn1.ObjectIdentifier) bool {
		return slices.ContainsFunc(of, oid.Equal)
	}
	one := token.Signers[0]
	strong := is(one.DigestAlgorithm.Algorithm, pkcs7.OIDDigestAlgorithmSHA256, pkcs7.OIDDigestAlgorithmSHA384,
		pkcs7.OIDDigestAlgorithmSHA512) &&
		is(one.DigestEncryptionAlgorithm.Algorithm,
			pkcs7.OIDDigestAlgorithmECDSASHA256, pkcs7.OIDDigestAlgorithmECDSASHA384,
			pkcs7.OIDDigestAlgorithmECDSASHA512,
			pkcs7.OIDEncryptionAlgorithmRSASHA256, pkcs7.OIDEncryptionAlgorithmRSASHA384,
			pkcs7.OIDEncryptionAlgorithmRSASHA512,
			// These take the digest of the content.
			pkcs7.OIDEncryptionAlgorithmRSA, pkcs7.OIDEncryptionAlgorithmECDSAP256,
			pkcs7.OIDEncryptionAlgorithmECDSAP384, pkcs7.OIDEncryptionAlgorithmECDSAP521,
			pkcs7.OIDEncryptionAlgorithmEDDSA25519)
	var content asn1.ObjectIdentifier
	err := token.UnmarshalSignedAttribute(pkcs7.OIDAttributeContentType, &content)
	// id-ct-TSTInfo
	return strong && err == nil && content.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4})
}
