package signature

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"math/big"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// issuance issues a certificate with the promise of a log, of which a test makes something wrong.
type issuance struct {
	serial  int64
	log     *ecdsa.PrivateKey
	id      []byte // nil: of the log's key
	at      time.Time
	key     []byte              // of the issuer, as the log saw it; nil: the true one
	promise func([]byte) []byte // in the list
	list    func([]byte) []byte // in the extension
	more    []pkix.Extension    // after the log has seen the certificate
	issuer  *x509.Certificate
	by      *ecdsa.PrivateKey // of the issuer
	leaf    *ecdsa.PrivateKey // of the certificate
	end     time.Time         // when the log promised
	t       *testing.T
	change  func(*x509.Certificate) // after the log has seen it
}

func (i issuance) marshal(v any) []byte {
	i.t.Helper()
	out, err := asn1.Marshal(v)
	if err != nil {
		i.t.Fatal(err)
	}
	return out
}

func vector(data []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(data))), data...)
}

// promised is what a log signs (RFC 6962, section 3.2): the certificate before it had a promise, and the hash of its
// issuer's key.
func promised(at uint64, issuer, body []byte) []byte {
	out := binary.BigEndian.AppendUint64([]byte{0, 0}, at) // version 1, of a certificate
	out = append(binary.BigEndian.AppendUint16(out, 1), issuer...)
	out = append(out, binary.BigEndian.AppendUint32(nil, uint32(len(body)))[1:]...)
	return append(append(out, body...), 0, 0)
}

func utf8(t *testing.T, text string) []byte {
	t.Helper()
	out, err := asn1.MarshalWithParams(text, "utf8")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (i issuance) issue() *x509.Certificate {
	i.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(i.serial), NotBefore: i.at, NotAfter: i.at.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		EmailAddresses: []string{"mia@example.com"},
	}
	create := func() *x509.Certificate {
		raw, err := x509.CreateCertificate(rand.Reader, template, i.issuer, &i.leaf.PublicKey, i.by)
		if err != nil {
			i.t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(raw)
		if err != nil {
			i.t.Fatal(err)
		}
		return cert
	}
	template.ExtraExtensions = []pkix.Extension{{
		Id:    asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8},
		Value: utf8(i.t, actions),
	}}
	if i.log == nil {
		return create()
	}
	der, err := x509.MarshalPKIXPublicKey(&i.log.PublicKey)
	if err != nil {
		i.t.Fatal(err)
	}
	id, key := i.id, i.key
	if id == nil {
		id = sum256(der)
	}
	if key == nil {
		key = i.issuer.RawSubjectPublicKeyInfo
	}
	at := uint64(i.end.UnixMilli())
	sum := sha256.Sum256(promised(at, sum256(key), create().RawTBSCertificate))
	signature, err := ecdsa.SignASN1(rand.Reader, i.log, sum[:])
	if err != nil {
		i.t.Fatal(err)
	}
	one := append([]byte{0}, id...)
	one = binary.BigEndian.AppendUint64(one, at)
	one = append(append(one, 0, 0, 4, 3), vector(signature)...)
	if i.promise != nil {
		one = i.promise(one)
	}
	list := vector(vector(one))
	if i.list != nil {
		list = i.list(list)
	}
	extension := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: i.marshal(list)}
	template.ExtraExtensions = append(append(template.ExtraExtensions, i.more...), extension)
	if i.change != nil {
		i.change(template)
	}
	return create()
}

// A certificate counts if a trusted log promised to include it, as its authority would have issued it without the
// promise.
func TestLoggedCertificates(t *testing.T) {
	t.Parallel()
	s := newSigstore(t)
	log, other := newKey(t), newKey(t)
	der, err := x509.MarshalPKIXPublicKey(&log.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	strange, err := x509.MarshalPKIXPublicKey(&other.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	set := func(at int, b byte) func([]byte) []byte {
		return func(data []byte) []byte { data[at] = b; return data }
	}
	cut := func(data []byte) []byte { return data[:len(data)-1] }
	longer := func(data []byte) []byte { return append(data, 0) }
	for name, c := range map[string]struct {
		change func(*issuance)
		good   bool
	}{
		"promised": {func(*issuance) {}, true},
		"an unknown promise before it": {func(i *issuance) {
			i.list = func(l []byte) []byte {
				return vector(append(vector(append([]byte{1}, "of version 2"...)),
					l[2:]...))
			}
		}, false},
		"no promise": {func(i *issuance) { i.log = nil }, false},
		"an empty list": {
			func(i *issuance) { i.list = func([]byte) []byte { return vector(nil) } },
			false,
		},
		"no list":                      {func(i *issuance) { i.list = func([]byte) []byte { return nil } }, false},
		"a stranger's log":             {func(i *issuance) { i.log = other }, false},
		"a stranger with the log's id": {func(i *issuance) { i.log, i.id = other, sum256(der) }, false},
		"the log with a stranger's id": {func(i *issuance) { i.id = sum256(strange) }, false},
		"of another issuer":            {func(i *issuance) { i.key = strange }, false},
		"before the log was trusted":   {func(i *issuance) { i.end = s.now.AddDate(-2, 0, 0) }, false},
		"of another certificate":       {func(i *issuance) { i.change = func(c *x509.Certificate) { c.SerialNumber = big.NewInt(99) } }, false},
		"of another identity": {func(i *issuance) {
			i.change = func(c *x509.Certificate) { c.EmailAddresses = []string{"eve@example.com"} }
		}, false},
		"with one more extension": {func(i *issuance) {
			i.more = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}}}
		}, false},
		"another time":                   {func(i *issuance) { i.promise = set(40, 0xff) }, false},
		"of the end of time":             {func(i *issuance) { i.promise = set(33, 0xff) }, false},
		"of another version":             {func(i *issuance) { i.promise = set(0, 1) }, false},
		"with another hash":              {func(i *issuance) { i.promise = set(43, 2) }, false},
		"with another kind of signature": {func(i *issuance) { i.promise = set(44, 2) }, false},
		"with extensions that are long":  {func(i *issuance) { i.promise = set(41, 0xff) }, false},
		"a short promise":                {func(i *issuance) { i.promise = cut }, false},
		"a long promise":                 {func(i *issuance) { i.promise = longer }, false},
		"an empty promise":               {func(i *issuance) { i.promise = func([]byte) []byte { return nil } }, false},
		"a short list":                   {func(i *issuance) { i.list = cut }, false},
		"a long list":                    {func(i *issuance) { i.list = longer }, false},
		"a list in a list":               {func(i *issuance) { i.list = vector }, false},
	} {
		i := issuance{
			t: t, serial: 7, log: log, at: s.now, end: s.now, issuer: s.authority, by: s.issuing,
			leaf: newKey(t),
		}
		c.change(&i)
		cert := i.issue()
		for _, transparent := range []bool{true, false} {
			root := s.root(func(r map[string]any) {
				if transparent {
					r["ctlogs"] = []any{map[string]any{
						"hashAlgorithm": "SHA2_256", "logId": map[string]any{"keyId": sum256(der)},
						"publicKey": map[string]any{
							"rawBytes": der, "keyDetails": "PKIX_ECDSA_P256_SHA_256",
							"validFor": map[string]any{"start": s.now.AddDate(-1, 0, 0)},
						},
					}}
				}
			})
			if err := s.verify(i, cert, root); (err == nil) != (c.good || !transparent) {
				t.Errorf("%s, with logs: %t: %v", name, transparent, err)
			}
		}
	}
}

// verify verifies a bundle whose signature is by a certificate.
func (s *sigstore) verify(i issuance, cert *x509.Certificate, root []byte) error {
	archive := []byte("the archive of a chart")
	manifest := []byte(`{"layers":[{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"` +
		digestOf(archive) + `"}]}`)
	a := bundleAttempt{attempt: s.good()}
	a.issued = func() (*ecdsa.PrivateKey, []byte) { return i.leaf, cert.Raw }
	signer := Signer{Name: "ci", TrustedRoot: root, Issuer: actions, Subject: cert.EmailAddresses[0]}
	_, err := Verify(archive, fetch.Evidence{Manifest: manifest, Bundles: [][]byte{s.bundle(digestOf(manifest), a)}},
		[]Signer{signer})
	return err
}

// A trusted root whose logs of certificates have keys that are not supported does not trust every certificate.
func TestLogsWithUnknownKeys(t *testing.T) {
	t.Parallel()
	s := newSigstore(t)
	root := s.root(func(r map[string]any) {
		r["ctlogs"] = []any{map[string]any{"publicKey": map[string]any{"rawBytes": []byte("a new kind")}}}
	})
	i := issuance{t: t, serial: 7, at: s.now, issuer: s.authority, by: s.issuing, leaf: newKey(t)}
	if err := s.verify(i, i.issue(), root); err == nil {
		t.Error("the certificate counts")
	}
}
