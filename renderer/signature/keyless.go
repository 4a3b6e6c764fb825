package signature

import (
	"cmp"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

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
	signature, err := base64.StdEncoding.DecodeString(c.Signature)
	if err != nil {
		return at, errors.New("the signature is not base64")
	}
	return at, about(body, record{message: sum256(c.Payload), signature: signature, certificate: cert.Raw})
}

// issued requires that a trusted authority issued the certificate, that it was valid at a time, and that a log of certificates knows it.
func (r *trustedRoot) issued(cert *x509.Certificate, chain *x509.CertPool, at time.Time) error {
	var unlogged error
	for _, a := range r.authorities {
		if !a.valid.has(at) {
			continue
		}
		chains, err := cert.Verify(a.accepts(chain, x509.ExtKeyUsageCodeSigning, at))
		if err != nil {
			continue
		}
		for _, c := range chains {
			if len(c) < 2 { // the certificate of an authority signs nothing
				continue
			}
			err := r.logged(cert, c[1])
			if err == nil {
				return nil
			}
			unlogged = cmp.Or(unlogged, err)
		}
	}
	if unlogged != nil {
		return unlogged
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
