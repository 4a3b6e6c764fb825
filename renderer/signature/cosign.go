package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

const maxChain = 8 // authorities that come with a signature

// checks are those of one signer: of a signature as cosign attached it up to version 2, and of a bundle about a
// manifest.
type checks struct {
	attached func(fetch.Cosign) error
	bundled  func(data []byte, manifest string) error
}

func (s Signer) cosign() (checks, error) {
	if len(s.TrustedRoot) > 0 {
		root, err := readTrustedRoot(s.TrustedRoot)
		return checks{
			attached: func(c fetch.Cosign) error { return s.keyless(c, root) },
			bundled:  func(data []byte, manifest string) error { return s.keylessBundle(data, manifest, root) },
		}, err
	}
	key, err := publicKey(s.Key)
	return checks{
		attached: func(c fetch.Cosign) error { return signed(key, c) },
		bundled:  func(data []byte, manifest string) error { return bundleBy(key, data, manifest) },
	}, err
}

func publicKey(data []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("the key is not a public key in PEM form, as `cosign public-key` prints it")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the key is not a public key in PEM form, as `cosign public-key` prints it")
	}
	return key, nil
}

// signed checks the signature of the payload by a key.
func signed(key crypto.PublicKey, c fetch.Cosign) error {
	signature, err := base64.StdEncoding.DecodeString(c.Signature)
	if err != nil || len(signature) == 0 {
		return errors.New("the signature is not base64")
	}
	if !valid(key, c.Payload, signature) {
		return errors.New("the signature is not by that key")
	}
	return nil
}

// valid checks a signature with the hash that cosign and Sigstore's logs use, SHA-256.
func valid(key crypto.PublicKey, message, signature []byte) bool {
	sum := sha256.Sum256(message)
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(k, message, signature)
	case *rsa.PublicKey:
		const least = 2048
		return k.N.BitLen() >= least && rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}

// certificates reads the certificate of a signature and the authorities that come with it.
func certificates(c fetch.Cosign) (cert *x509.Certificate, between []*x509.Certificate, err error) {
	if c.Certificate == "" {
		return nil, nil, errors.New("it has no certificate: it was made with a key")
	}
	block, _ := pem.Decode([]byte(c.Certificate))
	if block == nil {
		return nil, nil, errors.New("its certificate is not in PEM form")
	}
	if cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, nil, errors.New("its certificate cannot be read")
	}
	for rest := []byte(c.Chain); len(between) < maxChain; {
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if authority, err := x509.ParseCertificate(block.Bytes); err == nil { // what cannot be read vouches for nothing
			between = append(between, authority)
		}
	}
	return cert, between, nil
}
