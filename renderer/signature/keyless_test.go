package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// sigstore is a certificate authority with a transparency log.
type sigstore struct {
	t         testing.TB
	authority *x509.Certificate
	issuing   *ecdsa.PrivateKey
	log       *ecdsa.PrivateKey
	second    ed25519.PrivateKey // of the log of the second generation
	stamper   *stamper
	now       time.Time
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func newSigstore(tb testing.TB) *sigstore {
	tb.Helper()
	s := &sigstore{t: tb, issuing: newKey(tb), log: newKey(tb), now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: s.now.AddDate(-1, 0, 0),
		NotAfter: s.now.AddDate(1, 0, 0),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &s.issuing.PublicKey, s.issuing)
	if err != nil {
		tb.Fatal(err)
	}
	if s.authority, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	if _, s.second, err = ed25519.GenerateKey(rand.Reader); err != nil {
		tb.Fatal(err)
	}
	s.stamper = newStamper(tb, s.now, nil)
	return s
}

// root is the trusted_root.json of the authorities and the logs.
func (s *sigstore) root(changes ...func(map[string]any)) []byte {
	s.t.Helper()
	key, err := x509.MarshalPKIXPublicKey(&s.log.PublicKey)
	if err != nil {
		s.t.Fatal(err)
	}
	second, err := x509.MarshalPKIXPublicKey(s.second.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	valid := map[string]any{"start": s.now.AddDate(-1, 0, 0)}
	root := map[string]any{
		"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"tlogs": []any{
			map[string]any{
				"hashAlgorithm": "SHA2_256", "logId": map[string]any{"keyId": sum256(key)},
				"publicKey": map[string]any{
					"rawBytes": key, "keyDetails": "PKIX_ECDSA_P256_SHA_256",
					"validFor": valid,
				},
			},
			map[string]any{
				"baseUrl": "https://" + secondHost, "hashAlgorithm": "SHA2_256",
				"publicKey": map[string]any{"rawBytes": second, "keyDetails": "PKIX_ED25519", "validFor": valid},
				"logId":     map[string]any{"keyId": secondID(s.second)},
			},
		},
		"certificateAuthorities": []any{map[string]any{"certChain": map[string]any{"certificates": []any{map[string]any{"rawBytes": s.authority.Raw}}}, "validFor": valid}},
		"timestampAuthorities":   []any{s.stamper.trusted(valid)},
	}
	for _, change := range changes {
		change(root)
	}
	out, err := json.Marshal(root)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// attempt says how a signature is made.
type attempt struct {
	subject, issuer string
	usage           x509.ExtKeyUsage
	signedAfter     time.Duration // since the certificate was issued, which is valid for ten minutes
	change          func(c *fetch.Cosign, entry map[string]any)
	log             *ecdsa.PrivateKey // nil: the trusted one
	// issued replaces the certificate with another one; its key signs.
	issued func() (key *ecdsa.PrivateKey, der []byte)
}

const (
	workflow = "https://github.com/acme/charts/.github/workflows/release.yaml@refs/heads/main"
	actions  = "https://token.actions.githubusercontent.com"
)

// good is an attempt that makes a signature of the workflow that counts.
func (s *sigstore) good() attempt {
	return attempt{subject: workflow, issuer: actions, usage: x509.ExtKeyUsageCodeSigning, signedAfter: time.Minute}
}

// certificate issues a certificate for a new key.
func (s *sigstore) certificate(a attempt) (key *ecdsa.PrivateKey, der []byte) {
	s.t.Helper()
	if a.issued != nil {
		return a.issued()
	}
	key = newKey(s.t)
	issuer, err := asn1.MarshalWithParams(a.issuer, "utf8")
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: s.now, NotAfter: s.now.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{a.usage},
		ExtraExtensions: []pkix.Extension{{
			Id:    asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1},
			Value: []byte(a.issuer),
		}, {Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuer}},
	}
	if strings.Contains(a.subject, "://") {
		u, err := url.Parse(a.subject)
		if err != nil {
			s.t.Fatal(err)
		}
		template.URIs = []*url.URL{u}
	} else {
		template.EmailAddresses = []string{a.subject}
	}
	der, err = x509.CreateCertificate(rand.Reader, template, s.authority, &key.PublicKey, s.issuing)
	if err != nil {
		s.t.Fatal(err)
	}
	return key, der
}

// sign makes a signature as `cosign sign` does without a key.
func (s *sigstore) sign(manifest string, a attempt) fetch.Cosign {
	s.t.Helper()
	key, der := s.certificate(a)
	payload := []byte(`{"critical":{"identity":{"docker-reference":"example.com/web"},"image":{"docker-manifest-digest":"` + manifest + `"},"type":"cosign container image signature"},"optional":null}`)
	c := fetch.Cosign{
		Payload: payload, Signature: s.by(key, payload),
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}
	sum := sha256.Sum256(payload)
	entry := map[string]any{
		"apiVersion": "0.0.1", "kind": "hashedrekord",
		"spec": map[string]any{
			"data": map[string]any{"hash": map[string]any{
				"algorithm": "sha256",
				"value":     hex.EncodeToString(sum[:]),
			}},
			"signature": map[string]any{
				"content":   c.Signature,
				"publicKey": map[string]any{"content": []byte(c.Certificate)},
			},
		},
	}
	if a.change != nil {
		a.change(&c, entry)
	}
	body, err := json.Marshal(entry)
	if err != nil {
		s.t.Fatal(err)
	}
	log := s.log
	if a.log != nil {
		log = a.log
	}
	// The canonical form, written by hand: RFC 8785 sorts the keys and has no spaces.
	payloadText := fmt.Sprintf(`{"body":%q,"integratedTime":%d,"logID":%q,"logIndex":7}`,
		base64.StdEncoding.EncodeToString(body), s.now.Add(a.signedAfter).Unix(), hex.EncodeToString(logID(s.t, log)))
	if c.Bundle == "" {
		c.Bundle = fmt.Sprintf(`{"SignedEntryTimestamp":%q,"Payload":%s}`, s.by(log, []byte(payloadText)), payloadText)
	}
	return c
}

func (s *sigstore) by(key *ecdsa.PrivateKey, message []byte) string {
	s.t.Helper()
	sum := sha256.Sum256(message)
	out, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		s.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(out)
}

// TestKeyless: an identity counts if a trusted authority vouched for it at the time at which a trusted log recorded the
// signature, and not otherwise.
func TestKeyless(t *testing.T) {
	t.Parallel()
	archive := []byte("the archive of a chart")
	manifest := []byte(`{"layers":[{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"` +
		digestOf(archive) + `"}]}`)
	s, stranger := newSigstore(t), newSigstore(t)
	good := s.good()
	with := func(change func(*attempt)) attempt {
		a := good
		change(&a)
		return a
	}
	spec := func(entry map[string]any, key string) map[string]any {
		return entry["spec"].(map[string]any)[key].(map[string]any) //nolint:forcetypeassert // made above
	}
	for name, c := range map[string]struct {
		attempt attempt
		by      *sigstore
		want    string
	}{
		"a workflow":       {good, s, ""},
		"another workflow": {with(func(a *attempt) { a.subject = workflow + "x" }), s, "expected SAN value"},
		"another issuer": {
			with(func(a *attempt) { a.issuer = "https://accounts.example.com" }), s,
			"expected issuer value",
		},
		"another authority": {good, stranger, "not enough verified log entries"},
		"another log":       {with(func(a *attempt) { a.log = newKey(t) }), s, "not enough verified log entries"},
		"after it expired": {
			with(func(a *attempt) { a.signedAfter = time.Hour }), s,
			"integrated time outside certificate validity",
		},
		"before it was issued": {
			with(func(a *attempt) { a.signedAfter = -time.Hour }), s,
			"integrated time outside certificate validity",
		},
		"before the log began": {
			with(func(a *attempt) { a.signedAfter = -3 * 365 * 24 * time.Hour }), s,
			"not enough verified log entries",
		},
		"a server certificate": {
			with(func(a *attempt) { a.usage = x509.ExtKeyUsageServerAuth }), s,
			"leaf certificate verification failed",
		},
		"no entry of a log": {with(func(a *attempt) {
			a.change = func(c *fetch.Cosign, _ map[string]any) {
				c.Bundle = " "
			}
		}), s, "cannot be read"},
		"another payload": {with(func(a *attempt) {
			a.change = func(_ *fetch.Cosign, e map[string]any) {
				spec(e, "data")["hash"] = map[string]any{"algorithm": "sha256", "value": strings.Repeat("00", 32)}
			}
		}), s, "verifying signature"},
		"another signature": {with(func(a *attempt) {
			a.change = func(_ *fetch.Cosign, e map[string]any) { spec(e, "signature")["content"] = "AAAA" }
		}), s, "verifying signature"},
		"another certificate": {with(func(a *attempt) {
			a.change = func(_ *fetch.Cosign, e map[string]any) {
				spec(e, "signature")["publicKey"] = map[string]any{"content": []byte("x")}
			}
		}), s, "invalid public key"},
		"an envelope without a payload": {with(func(a *attempt) {
			a.change = func(c *fetch.Cosign, e map[string]any) {
				e["kind"], e["spec"] = "dsse", map[string]any{
					"payloadHash": map[string]any{"algorithm": "sha256", "value": ""},
					"signatures":  []any{map[string]any{"signature": c.Signature, "verifier": []byte(c.Certificate)}},
				}
			}
		}), s, "cannot be read"},
		"an attestation": {with(func(a *attempt) {
			a.change = func(_ *fetch.Cosign, e map[string]any) {
				e["kind"] = "intoto"
			}
		}), s, "cannot be read"},
		"signed without a name": {with(func(a *attempt) {
			a.change = func(c *fetch.Cosign, _ map[string]any) {
				c.Certificate = ""
			}
		}), s, "made with a key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signer := Signer{
				Name: "ci", File: "keys/trusted_root.json", TrustedRoot: s.root(), Issuer: actions,
				Subject: workflow,
			}
			_, err := Verify(archive, fetch.Evidence{
				Manifest: manifest,
				Cosign:   []fetch.Cosign{c.by.sign(digestOf(manifest), c.attempt)},
			}, []Signer{signer})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrUnsigned) ||
				!strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v; want %q", err, c.want)
			}
		})
	}
	t.Run("an authority that is not trusted, recorded by the log", func(t *testing.T) {
		t.Parallel()
		other := *stranger
		other.log = s.log
		signer := Signer{Name: "ci", TrustedRoot: s.root(), Issuer: actions, Subject: workflow}
		_, err := Verify(archive, fetch.Evidence{
			Manifest: manifest,
			Cosign:   []fetch.Cosign{other.sign(digestOf(manifest), good)},
		}, []Signer{signer})
		if err == nil || !strings.Contains(err.Error(), "leaf certificate verification failed") {
			t.Errorf("a signature by an authority that is not trusted: %v", err)
		}
	})
	t.Run("an email address", func(t *testing.T) {
		t.Parallel()
		signer := Signer{
			Name: "ada", TrustedRoot: s.root(), Issuer: "https://accounts.example.com",
			Subject: "ada@example.com",
		}
		made := s.sign(digestOf(manifest), with(func(a *attempt) {
			a.subject, a.issuer = signer.Subject,
				signer.Issuer
		}))
		if by, err := Verify(archive, fetch.Evidence{
			Manifest: manifest,
			Cosign:   []fetch.Cosign{{Signature: "x"}, made},
		}, []Signer{signer}); err != nil || by.Name != "ada" {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestManifestBindsTheArchive: a signature of a manifest is one of the archive only if the manifest has that archive,
// and no other chart.
func TestManifestBindsTheArchive(t *testing.T) {
	t.Parallel()
	archive := []byte("the archive of a chart")
	layer := func(data string) string {
		return `{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"` +
			digestOf([]byte(data)) + `"}`
	}
	for manifest, ok := range map[string]bool{
		`{"layers":[` + layer(string(archive)) + `]}`:                    true,
		`{"layers":[` + layer("x") + `]}`:                                false,
		`{"layers":[` + layer("x") + `,` + layer(string(archive)) + `]}`: false,
		`{"layers":[]}`: false,
		`layers`:        false,
		`{"config":{"digest":"` + digestOf(archive) + `"},"layers":null}`: false,
	} {
		if err := contains([]byte(manifest), archive); (err == nil) != ok {
			t.Errorf("%s: the error is %v", manifest, err)
		}
	}
}

func TestKeysThatCannotBeRead(t *testing.T) {
	t.Parallel()
	archive := []byte("the archive of a chart")
	manifest := []byte(`{"layers":[{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"` +
		digestOf(archive) + `"}]}`)
	e := fetch.Evidence{File: "web-1.0.0.tgz", Provenance: []byte("x"), Manifest: manifest, Cosign: []fetch.Cosign{{}}}
	for want, s := range map[string]Signer{
		"has no OpenPGP key": {Name: "a", Keyring: []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")},
		"not a public key in PEM form": {
			Name: "b",
			Key:  []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
		},
		"not Sigstore's trusted_root.json": {Name: "c", TrustedRoot: []byte("{}")},
		"no transparency log or no certificate": {
			Name:        "d",
			TrustedRoot: []byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`),
		},
	} {
		if _, err := Verify(archive, e, []Signer{s}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want %q", err, want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"critical":{}}`), "AAAA", "-----BEGIN CERTIFICATE-----\n", "{}",
		[]byte("-----BEGIN PGP SIGNED MESSAGE-----\n"), []byte(`{"layers":[]}`))
	public, err := x509.MarshalPKIXPublicKey(&newKey(f).PublicKey)
	if err != nil {
		f.Fatal(err)
	}
	root, key := newSigstore(f).root(), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	signers := []Signer{
		{Name: "a", Keyring: []byte("x")},
		{Name: "b", Key: key},
		{Name: "c", TrustedRoot: root, Issuer: actions, Subject: workflow},
	}
	manifest := []byte(`{"layers":[{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"` +
		digestOf([]byte("archive")) + `"}]}`)
	statement := base64.StdEncoding.EncodeToString(statementOf(digestOf(manifest), cosignPredicate))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"tlogEntries":[{"integratedTime":"1","inclusionProof":{}}]},"dsseEnvelope":{"payloadType":"application/vnd.in-toto+json","payload":"`+statement+`","signatures":[{"sig":"AAAA"}]}}`),
		"AAAA", "", "{}", []byte(nil), manifest)
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"tlogEntries":[{"canonicalizedBody":"e30=","inclusionProof":{}}],"timestampVerificationData":{"rfc3161Timestamps":[{"signedTimestamp":"MAA="}]}},"dsseEnvelope":{"payloadType":"application/vnd.in-toto+json","payload":"`+statement+`","signatures":[{"sig":"AAAA"}]}}`),
		"AAAA", "", "{}", []byte(nil), manifest)
	f.Fuzz(func(t *testing.T, payload []byte, signature, certificate, bundle string, provenance, manifest []byte) {
		e := fetch.Evidence{
			File: "web-1.0.0.tgz", Provenance: provenance, Manifest: manifest,
			Cosign: []fetch.Cosign{{
				Payload: payload, Signature: signature, Certificate: certificate,
				Chain: certificate, Bundle: bundle,
			}}, Bundles: [][]byte{[]byte(bundle), payload},
		}
		if by, err := Verify([]byte("archive"), e, signers); err == nil {
			t.Errorf("%s passes", by)
		}
	})
}

func sum256(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}
