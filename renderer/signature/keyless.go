package signature

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// trustedRoot is the part of Sigstore's trusted_root.json that is used.
type trustedRoot struct {
	logs        []trustedLog
	authorities []authority
}

type trustedLog struct {
	key   crypto.PublicKey
	id    string // SHA-256 of the key, in hex
	valid validity
}

type authority struct {
	root         *x509.Certificate
	intermediate []*x509.Certificate
	valid        validity
}

// validity is a span of time; a nil end is open.
type validity struct {
	Start time.Time  `json:"start"`
	End   *time.Time `json:"end"`
}

func (v validity) has(t time.Time) bool {
	return !t.Before(v.Start) && (v.End == nil || !t.After(*v.End))
}

func readTrustedRoot(data []byte) (*trustedRoot, error) {
	type certificate struct {
		RawBytes []byte `json:"rawBytes"`
	}
	var file struct {
		MediaType string `json:"mediaType"`
		Logs      []struct {
			PublicKey struct {
				RawBytes []byte   `json:"rawBytes"`
				ValidFor validity `json:"validFor"`
			} `json:"publicKey"`
		} `json:"tlogs"`
		Authorities []struct {
			Chain struct {
				Certificates []certificate `json:"certificates"`
			} `json:"certChain"`
			ValidFor validity `json:"validFor"`
		} `json:"certificateAuthorities"`
	}
	if err := json.Unmarshal(data, &file); err != nil || !strings.HasPrefix(file.MediaType, "application/vnd.dev.sigstore.trustedroot") {
		return nil, errors.New("the trusted root is not Sigstore's trusted_root.json: take the one of `cosign trusted-root create` or of Sigstore's TUF repository")
	}
	out := &trustedRoot{}
	for _, l := range file.Logs {
		key, err := x509.ParsePKIXPublicKey(l.PublicKey.RawBytes)
		if err != nil {
			continue // a log with a kind of key that is not supported vouches for nothing here
		}
		sum := sha256.Sum256(l.PublicKey.RawBytes)
		out.logs = append(out.logs, trustedLog{key, hex.EncodeToString(sum[:]), l.PublicKey.ValidFor})
	}
	for _, a := range file.Authorities {
		one := authority{valid: a.ValidFor}
		for i, c := range a.Chain.Certificates {
			cert, err := x509.ParseCertificate(c.RawBytes)
			if err != nil {
				return nil, errors.New("the trusted root has a certificate that cannot be read")
			}
			if i == len(a.Chain.Certificates)-1 {
				one.root = cert
			} else {
				one.intermediate = append(one.intermediate, cert)
			}
		}
		if one.root != nil {
			out.authorities = append(out.authorities, one)
		}
	}
	if len(out.logs) == 0 || len(out.authorities) == 0 {
		return nil, errors.New("the trusted root has no transparency log or no certificate authority")
	}
	return out, nil
}

// keyless checks a signature by a short-lived certificate: the transparency log recorded the signature while the certificate was valid, the
// authority that issued the certificate is trusted, and the certificate names the signer's identity.
func (s Signer) keyless(c fetch.Cosign, root *trustedRoot) error {
	cert, chain, err := leaf(c)
	if err != nil {
		return err
	}
	if err := signed(cert.PublicKey, c); err != nil {
		return err
	}
	at, err := root.recorded(c, cert)
	if err != nil {
		return err
	}
	return s.vouched(cert, chain, at, root)
}

// vouched requires that a trusted authority issued a certificate for the signer's identity, and that it was valid at a time.
func (s Signer) vouched(cert *x509.Certificate, chain *x509.CertPool, at time.Time, root *trustedRoot) error {
	if err := root.issued(cert, chain, at); err != nil {
		return err
	}
	if issuer := issuerOf(cert); issuer != s.Issuer {
		return fmt.Errorf("its identity is vouched for by %q", safetext.Brief(issuer, 200))
	}
	if found := subjectsOf(cert); !slices.Contains(found, s.Subject) {
		return fmt.Errorf("it is by %q", safetext.Brief(strings.Join(found, ", "), 200))
	}
	return nil
}

// logEntry is what the log signs. Its JSON form is canonical: the keys are sorted, and the values need no escapes.
type logEntry struct {
	Body           string `json:"body"`
	IntegratedTime int64  `json:"integratedTime"`
	LogID          string `json:"logID"`
	LogIndex       int64  `json:"logIndex"`
}

// recorded returns when a trusted log recorded the signature, by the log's signed promise.
func (r *trustedRoot) recorded(c fetch.Cosign, cert *x509.Certificate) (time.Time, error) {
	if c.Bundle == "" {
		return time.Time{}, errors.New("it has no entry of a transparency log with it: sign with cosign 1.0 or later, and without --tlog-upload=false")
	}
	var bundle struct {
		Promise []byte   `json:"SignedEntryTimestamp"`
		Payload logEntry `json:"Payload"`
	}
	if err := json.Unmarshal([]byte(c.Bundle), &bundle); err != nil {
		return time.Time{}, errors.New("its entry of the transparency log cannot be read")
	}
	at := time.Unix(bundle.Payload.IntegratedTime, 0)
	body, err := base64.StdEncoding.DecodeString(bundle.Payload.Body)
	if err != nil {
		return at, errors.New("its entry of the transparency log cannot be read")
	}
	canonical, err := json.Marshal(bundle.Payload)
	if err != nil {
		return at, err
	}
	if !r.promised(bundle.Payload.LogID, at, canonical, bundle.Promise) {
		return at, errors.New("its entry of the transparency log is not signed by a trusted log")
	}
	return at, about(body, c, cert)
}

func (r *trustedRoot) promised(id string, at time.Time, entry, promise []byte) bool {
	return slices.ContainsFunc(r.logs, func(l trustedLog) bool { return l.id == id && l.valid.has(at) && valid(l.key, entry, promise) })
}

// about requires that an entry of the log is about this signature: the same payload, signature and certificate.
func about(body []byte, c fetch.Cosign, cert *x509.Certificate) error {
	var entry struct {
		Kind string `json:"kind"`
		Spec struct {
			Data struct {
				Hash struct {
					Algorithm string `json:"algorithm"`
					Value     string `json:"value"`
				} `json:"hash"`
			} `json:"data"`
			Signature struct {
				Content   string `json:"content"`
				PublicKey struct {
					Content []byte `json:"content"`
				} `json:"publicKey"`
			} `json:"signature"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(body, &entry); err != nil || entry.Kind != "hashedrekord" && entry.Kind != "rekord" {
		return fmt.Errorf("its entry of the transparency log is of the kind %.40q, which is not that of a signature", entry.Kind)
	}
	sum := sha256.Sum256(c.Payload)
	block, _ := pem.Decode(entry.Spec.Signature.PublicKey.Content)
	switch {
	case entry.Spec.Data.Hash.Algorithm != "sha256" || entry.Spec.Data.Hash.Value != hex.EncodeToString(sum[:]):
		return errors.New("its entry of the transparency log is about another payload")
	case entry.Spec.Signature.Content != c.Signature:
		return errors.New("its entry of the transparency log is about another signature")
	case block == nil || !bytes.Equal(block.Bytes, cert.Raw):
		return errors.New("its entry of the transparency log has another certificate")
	}
	return nil
}

// issued requires that a trusted authority issued the certificate and that it was valid at a time.
func (r *trustedRoot) issued(cert *x509.Certificate, chain *x509.CertPool, at time.Time) error {
	for _, a := range r.authorities {
		if !a.valid.has(at) {
			continue
		}
		roots, between := x509.NewCertPool(), chain.Clone()
		roots.AddCert(a.root)
		for _, c := range a.intermediate {
			between.AddCert(c)
		}
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}})
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("its certificate was not issued by a trusted authority, or not valid at %s, when it was used", at.UTC().Format(time.RFC3339))
}

// Extensions of Sigstore's certificates.
const (
	oidIssuer      = "1.3.6.1.4.1.57264.1.8" // a UTF8String
	oidIssuerFirst = "1.3.6.1.4.1.57264.1.1" // the text as it is
)

// issuerOf returns who vouches for the identity of a certificate.
func issuerOf(cert *x509.Certificate) string {
	first := ""
	for _, e := range cert.Extensions {
		switch e.Id.String() {
		case oidIssuer:
			var text string
			if rest, err := asn1.UnmarshalWithParams(e.Value, &text, "utf8"); err != nil || len(rest) > 0 {
				return ""
			}
			return text
		case oidIssuerFirst:
			first = string(e.Value)
		}
	}
	return first
}

// subjectsOf returns the identities of a certificate: URIs and email addresses.
func subjectsOf(cert *x509.Certificate) []string {
	out := slices.Clone(cert.EmailAddresses)
	for _, u := range cert.URIs {
		out = append(out, u.String())
	}
	return out
}
