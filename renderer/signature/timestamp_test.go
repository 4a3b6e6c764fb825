package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha1"
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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/digitorus/pkcs7"
	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// stamper is a timestamp authority: a root and the certificate that signs. Its certificates are valid now, because
// package pkcs7 puts the moment into what it signs.
type stamper struct {
	t    testing.TB
	root *x509.Certificate
	leaf *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newStamper makes an authority. change, if any, makes its certificate wrong.
func newStamper(tb testing.TB, now time.Time, change func(*x509.Certificate)) *stamper {
	tb.Helper()
	s := &stamper{t: tb, key: newKey(tb)}
	issue := func(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		if err != nil {
			tb.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			tb.Fatal(err)
		}
		return cert
	}
	top := newKey(tb)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "stamps"}, NotBefore: now.AddDate(-1, 0, 0),
		NotAfter: now.AddDate(99, 0, 0),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	s.root = issue(ca, ca, top, top)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(4), Subject: pkix.Name{CommonName: "stamper"}, NotBefore: now.AddDate(0, -1, 0),
		NotAfter: now.AddDate(99, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature,
		// The usage timestamps alone, critical.
		ExtraExtensions: []pkix.Extension{{
			Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true,
			Value: []byte("\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x08"),
		}},
	}
	if change != nil {
		change(leaf)
	}
	s.leaf = issue(leaf, s.root, s.key, top)
	return s
}

// trusted is the authority in a trusted_root.json.
func (s *stamper) trusted(valid map[string]any) map[string]any {
	return map[string]any{
		"validFor": valid, "uri": "https://stamps.example.com",
		"certChain": map[string]any{"certificates": []any{
			map[string]any{"rawBytes": s.leaf.Raw},
			map[string]any{"rawBytes": s.root.Raw},
		}},
	}
}

// stamp signs a timestamp of a message. change, if any, makes it wrong.
func (s *stamper) stamp(message []byte, at time.Time, change func(*timestamp.Timestamp)) []byte {
	s.t.Helper()
	sum := sha256.Sum256(message)
	stamp := timestamp.Timestamp{
		HashAlgorithm: crypto.SHA256, HashedMessage: sum[:], Time: at,
		SerialNumber: big.NewInt(5), Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2},
	}
	if change != nil {
		change(&stamp)
	}
	out, err := stamp.CreateResponseWithOpts(s.leaf, s.key, crypto.SHA256)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// token is a timestamp that package timestamp would not make.
type token struct {
	hash    asn1.ObjectIdentifier // of the message
	digest  asn1.ObjectIdentifier // of the timestamp
	kind    asn1.ObjectIdentifier
	signers int
	weak    bool // the signature is over SHA-1, although the digest is another
}

var oidStamp = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4}

func (tok token) sign(s *stamper, message []byte, at time.Time) []byte {
	type imprint struct {
		Algorithm pkix.AlgorithmIdentifier
		Sum       []byte
	}
	must := func(v any) []byte {
		out, err := asn1.Marshal(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return out
	}
	info := must(struct {
		Version int
		Policy  asn1.ObjectIdentifier
		Imprint imprint
		Serial  int
		Time    time.Time `asn1:"generalized"`
	}{1, oidStamp, imprint{pkix.AlgorithmIdentifier{Algorithm: tok.hash}, sum256(message)}, 6, at.UTC()})
	signed, err := pkcs7.NewSignedData(info)
	if err != nil {
		s.t.Fatal(err)
	}
	signed.SetContentType(tok.kind)
	signed.GetSignedData().ContentInfo.ContentType = tok.kind
	signed.SetDigestAlgorithm(tok.digest)
	for range tok.signers {
		if err := signed.AddSigner(s.leaf, s.key, pkcs7.SignerInfoConfig{}); err != nil {
			s.t.Fatal(err)
		}
	}
	if tok.weak {
		one := &signed.GetSignedData().SignerInfos[0]
		sum := sha1.Sum(attributes(s.t, one.AuthenticatedAttributes))
		if one.EncryptedDigest, err = s.key.Sign(rand.Reader, sum[:], crypto.SHA1); err != nil {
			s.t.Fatal(err)
		}
		one.DigestEncryptionAlgorithm.Algorithm = pkcs7.OIDDigestAlgorithmECDSASHA1
	}
	out, err := signed.Finish()
	if err != nil {
		s.t.Fatal(err)
	}
	return must(struct {
		Status struct{ Status int }
		Token  asn1.RawValue
	}{Token: asn1.RawValue{FullBytes: out}})
}

// attributes are signed attributes as they are signed: a set.
func attributes[T any](tb testing.TB, list []T) []byte {
	tb.Helper()
	out, err := asn1.Marshal(struct {
		List []T `asn1:"set"`
	}{list})
	if err != nil {
		tb.Fatal(err)
	}
	var outer asn1.RawValue
	if _, err := asn1.Unmarshal(out, &outer); err != nil {
		tb.Fatal(err)
	}
	return outer.Bytes
}

const secondHost = "log2.example.com"

// secondID is the id of a log of the second generation: of a note's key (c2sp.org/signed-note), not shortened.
func secondID(key ed25519.PrivateKey) []byte {
	//nolint:forcetypeassert // always
	sum := sha256.Sum256(append([]byte(secondHost+"\n\x01"), key.Public().(ed25519.PublicKey)...))
	return sum[:]
}

// secondAttempt says how a bundle with an entry of the second generation is made: each change replaces something that
// is right.
type secondAttempt struct {
	attempt
	body   func(map[string]any) // of the log's entry
	entry  func(map[string]any) // in the bundle
	stamps func(s *sigstore, signature []byte) [][]byte
	origin string // of the checkpoint
	key    ed25519.PrivateKey
	bundle func(map[string]any)
}

// at returns when the attempt is stamped.
func (a secondAttempt) at(s *sigstore) time.Time { return s.now.Add(a.signedAfter) }

// second makes a bundle as cosign 3 does without a key, with a log of the second generation.
func (s *sigstore) secondBundle(manifest string, a secondAttempt) []byte {
	s.t.Helper()
	key, der := s.certificate(a.attempt)
	payload := statementOf(manifest, cosignPredicate)
	signature, dsse := envelope(payload, func(message []byte) string { return s.by(key, message) })
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		s.t.Fatal(err)
	}
	one := map[string]any{"content": signature, "verifier": map[string]any{
		"keyDetails":      "PKIX_ECDSA_P256_SHA_256",
		"x509Certificate": map[string]any{"rawBytes": der},
	}}
	message := fmt.Appendf(nil, "DSSEv1 28 application/vnd.in-toto+json %d %s", len(payload), payload)
	body := map[string]any{
		"apiVersion": "0.0.2", "kind": "hashedrekord",
		"spec": map[string]any{"hashedRekordV002": map[string]any{"data": map[string]any{
			"algorithm": "SHA2_256",
			"digest":    sum256(message),
		}, "signature": one}},
	}
	if a.body != nil {
		a.body(body)
	}
	entry := s.loggedSecond(mustJSON(s.t, body), a)
	if a.entry != nil {
		a.entry(entry)
	}
	stamps := [][]byte{s.stamper.stamp(raw, a.at(s), nil)}
	if a.stamps != nil {
		stamps = a.stamps(s, raw)
	}
	signed := []any{}
	for _, stamp := range stamps {
		signed = append(signed, map[string]any{"signedTimestamp": stamp})
	}
	out := map[string]any{
		"mediaType": fetch.BundleType,
		"verificationMaterial": map[string]any{
			"certificate": map[string]any{"rawBytes": der}, "tlogEntries": []any{entry},
			"timestampVerificationData": map[string]any{"rfc3161Timestamps": signed},
		},
		"dsseEnvelope": dsse,
	}
	if a.bundle != nil {
		a.bundle(out)
	}
	return mustJSON(s.t, out)
}

func mustJSON(tb testing.TB, v any) []byte {
	tb.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// loggedSecond puts an entry into a log of the second generation with six others, whose checkpoint a witness signed
// too.
func (s *sigstore) loggedSecond(body []byte, a secondAttempt) map[string]any {
	key, origin := s.second, secondHost
	if a.key != nil {
		key = a.key
	}
	if a.origin != "" {
		origin = a.origin
	}
	const index = 4
	leaves := make([][]byte, 7)
	for i := range leaves {
		leaves[i] = fmt.Append(nil, i)
	}
	leaves[index] = body
	root, proof := merkle(leaves, index)
	checkpoint := fmt.Sprintf("%s\n%d\n%s\n", origin, len(leaves), base64.StdEncoding.EncodeToString(root))
	id := secondID(key)
	note := func(name string, hint, signature []byte) string {
		return "\u2014 " + name + " " + base64.StdEncoding.EncodeToString(append(slices.Clone(hint), signature...)) +
			"\n"
	}
	return map[string]any{
		"logIndex": fmt.Sprint(index), "logId": map[string]any{"keyId": id},
		"kindVersion": map[string]any{"kind": "hashedrekord", "version": "0.0.2"},
		"inclusionProof": map[string]any{
			"logIndex": fmt.Sprint(index), "rootHash": root, "treeSize": fmt.Sprint(len(leaves)), "hashes": proof,
			"checkpoint": map[string]any{"envelope": checkpoint + "\n" +
				note("witness.example.com", []byte("1234"), make([]byte, 72)) +
				note(origin, id[:4], ed25519.Sign(key, []byte(checkpoint)))},
		},
		"canonicalizedBody": body,
	}
}

// onlyRoot leaves of the timestamp authority only its root certificate.
func onlyRoot(root map[string]any, s *stamper) {
	//nolint:forcetypeassert // made above
	root["timestampAuthorities"].([]any)[0].(map[string]any)["certChain"] = map[string]any{"certificates": []any{map[string]any{"rawBytes": s.root.Raw}}}
}

// ended makes a timestamp authority one that is not trusted any more when the bundles are made.
func ended(root map[string]any, s *sigstore) {
	//nolint:forcetypeassert // made above
	root["timestampAuthorities"].([]any)[0].(map[string]any)["validFor"] = map[string]any{"start": s.now.AddDate(-1, 0, 0), "end": s.now}
}

// nest returns sequences in sequences.
func nest(depth int) []byte {
	var out []byte
	for range depth {
		length := []byte{byte(len(out))}
		if len(out) > 127 {
			length = []byte{0x82, byte(len(out) >> 8), byte(len(out))}
		}
		if len(out) > 127 && len(out) < 256 {
			length = []byte{0x81, byte(len(out))}
		}
		out = append(append([]byte{0x30}, length...), out...)
	}
	return out
}

// firstGeneration replaces the entry of a bundle with one of the first generation, without the log's promise.
func firstGeneration(s *sigstore) func(map[string]any) {
	return func(b map[string]any) {
		material, dsse := at(b, "verificationMaterial"), at(b, "dsseEnvelope")
		payload := dsse["payload"].([]byte)                                //nolint:forcetypeassert // made above
		signature := dsse["signatures"].([]any)[0].(map[string]any)["sig"] //nolint:forcetypeassert // made above
		der := at(material, "certificate")["rawBytes"].([]byte)            //nolint:forcetypeassert // made above
		body := map[string]any{"apiVersion": "0.0.1", "kind": "dsse", "spec": map[string]any{
			"envelopeHash": map[string]any{"algorithm": "sha256", "value": strings.Repeat("0", 64)},
			"payloadHash":  map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(sum256(payload))},
			"signatures": []any{map[string]any{
				"signature": signature,
				"verifier":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			}},
		}}
		entry := s.logged(mustJSON(s.t, body), s.good())
		delete(entry, "inclusionPromise")
		material["tlogEntries"] = []any{entry}
	}
}

// TestOverlap: objects that reach over the end of those that contain them are not parsed by package pkcs7, whose parser
// reads them again and again.
func TestOverlap(t *testing.T) {
	t.Parallel()
	if !der(nest(maxStampNest), maxStampNest) || der(nest(maxStampNest+1), maxStampNest) {
		t.Error("the bound of the depth is wrong")
	}
	for name, data := range map[string][]byte{
		"overlap":    bytes.Repeat([]byte{0x30, 10}, 100),
		"indefinite": {0x30, 0x80, 0x05, 0x00, 0x00, 0x00},
		"long":       {0x30, 0x81, 0x02, 0x05, 0x00},
		"cut":        {0x30, 0x05, 0x05, 0x00},
	} {
		if der(data, maxStampNest) {
			t.Errorf("%s: taken for DER", name)
		}
	}
}

// FuzzStamp: whatever a registry serves as a timestamp ends in an error or in a trusted authority's time, soon.
func FuzzStamp(f *testing.F) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s := newStamper(f, now, nil)
	authority := &root.SigstoreTimestampingAuthority{Leaf: s.leaf, Root: s.root}
	f.Add([]byte{0x30, 0x00}, []byte("signature"))
	f.Add(nest(maxStampNest), []byte("signature"))
	f.Add(s.stamp([]byte("signature"), now, nil), []byte("signature"))
	f.Fuzz(func(t *testing.T, response, signature []byte) {
		if boundStamp(response) != nil {
			return
		}
		at, err := authority.Verify(response, signature)
		if err == nil && (!at.Time.Equal(now) || string(signature) != "signature") {
			t.Errorf("a timestamp of %v of the signature %q passes", at.Time, signature)
		}
	})
}

// TestSecondGeneration: a bundle with an entry of Rekor 2 counts if a trusted log has the entry, a trusted authority
// stamped the signature while the certificate was valid, and all belongs together.
func TestSecondGeneration(t *testing.T) {
	t.Parallel()
	archive := []byte("the archive of a chart")
	manifest := []byte(`{"layers":[{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"` +
		digestOf(archive) + `"}]}`)
	digest := digestOf(manifest)
	s, stranger := newSigstore(t), newSigstore(t)
	with := func(change func(*secondAttempt)) secondAttempt {
		a := secondAttempt{attempt: s.good()}
		change(&a)
		return a
	}
	entry := func(change func(map[string]any)) secondAttempt {
		return with(func(a *secondAttempt) { a.entry = change })
	}
	proof := func(change func(map[string]any)) secondAttempt {
		return entry(func(e map[string]any) { change(at(e, "inclusionProof")) })
	}
	envelope := func(change func(map[string]any)) secondAttempt {
		return with(func(a *secondAttempt) {
			a.body = func(b map[string]any) {
				change(at(b, "spec",
					"hashedRekordV002"))
			}
		})
	}
	stamps := func(make func(s *sigstore, signature []byte) [][]byte) secondAttempt {
		return with(func(a *secondAttempt) { a.stamps = make })
	}
	stamped := func(change func(*timestamp.Timestamp)) secondAttempt {
		return stamps(func(s *sigstore, signature []byte) [][]byte {
			return [][]byte{s.stamper.stamp(signature, s.now.Add(time.Minute), change)}
		})
	}
	other := func(change func(*token)) secondAttempt {
		return stamps(func(s *sigstore, signature []byte) [][]byte {
			tok := token{
				hash: pkcs7.OIDDigestAlgorithmSHA256, digest: pkcs7.OIDDigestAlgorithmSHA256, kind: oidStamp,
				signers: 1,
			}
			change(&tok)
			return [][]byte{tok.sign(s.stamper, signature, s.now.Add(time.Minute))}
		})
	}
	hashed := func(by crypto.Hash) secondAttempt {
		return stamps(func(s *sigstore, signature []byte) [][]byte {
			hash := by.New()
			hash.Write(signature)
			return [][]byte{s.stamper.stamp(signature, s.now.Add(time.Minute),
				func(st *timestamp.Timestamp) { st.HashAlgorithm, st.HashedMessage = by, hash.Sum(nil) })}
		})
	}
	of := func(by *stamper, after time.Duration) secondAttempt {
		return stamps(func(s *sigstore, signature []byte) [][]byte {
			return [][]byte{by.stamp(signature, s.now.Add(after), nil)}
		})
	}
	raw := func(change func([]byte) []byte) secondAttempt {
		return stamps(func(s *sigstore, signature []byte) [][]byte {
			return [][]byte{change(s.stamper.stamp(signature, s.now.Add(time.Minute), nil))}
		})
	}
	_, another := s.certificate(s.good())
	for name, c := range map[string]struct {
		attempt secondAttempt
		root    func(map[string]any)
		want    string
	}{
		"an envelope": {with(func(*secondAttempt) {}), nil, ""},
		"a timestamp with its certificate": {
			stamped(func(st *timestamp.Timestamp) { st.AddTSACertificate = true }),
			nil, "",
		},
		"an authority that brings its own": {
			stamped(func(st *timestamp.Timestamp) { st.AddTSACertificate = true }),
			func(r map[string]any) { onlyRoot(r, s.stamper) }, "",
		},
		"a timestamp with SHA-512": {hashed(crypto.SHA512), nil, ""},
		"a timestamp of a stranger and a good": {stamps(func(s *sigstore, signature []byte) [][]byte {
			at := s.now.Add(time.Minute)
			return [][]byte{stranger.stamper.stamp(signature, at, nil), s.stamper.stamp(signature, at, nil)}
		}), nil, ""},
		"a wrong entry, then a good": {with(func(a *secondAttempt) {
			a.bundle = func(b map[string]any) {
				m := at(b, "verificationMaterial")
				//nolint:forcetypeassert // made above
				m["tlogEntries"] = append([]any{map[string]any{}}, m["tlogEntries"].([]any)...)
			}
		}), nil, "no inclusion proof"},
		"an entry of the first generation without a promise, with a timestamp": {with(func(a *secondAttempt) { a.bundle = firstGeneration(s) }), nil, ""},

		"another workflow": {
			with(func(a *secondAttempt) { a.subject = workflow + "x" }), nil,
			"expected SAN value",
		},
		"after it expired": {
			with(func(a *secondAttempt) { a.signedAfter = time.Hour }), nil,
			"leaf certificate verification failed",
		},
		"before it was issued": {
			with(func(a *secondAttempt) { a.signedAfter = -time.Hour }), nil,
			"leaf certificate verification failed",
		},
		"two timestamps of one authority, of which the first counts": {stamps(func(s *sigstore,
			signature []byte,
		) [][]byte {
			return [][]byte{
				s.stamper.stamp(signature, s.now.Add(time.Minute), nil),
				s.stamper.stamp(signature, s.now.Add(time.Hour), nil),
			}
		}), nil, ""},
		"two timestamps of one authority, the first after it expired": {stamps(func(s *sigstore,
			signature []byte,
		) [][]byte {
			return [][]byte{
				s.stamper.stamp(signature, s.now.Add(time.Hour), nil),
				s.stamper.stamp(signature, s.now.Add(time.Minute), nil),
			}
		}), nil, "leaf certificate verification failed"},

		"no timestamp": {stamps(func(*sigstore, []byte) [][]byte { return nil }), nil, "no signed time"},
		"a time that nobody signed": {with(func(a *secondAttempt) {
			a.stamps = func(*sigstore, []byte) [][]byte { return nil }
			a.entry = func(e map[string]any) { e["integratedTime"] = fmt.Sprint(s.now.Add(time.Minute).Unix()) }
		}), nil, "no signed time"},
		"no authority in the root": {
			with(func(*secondAttempt) {}),
			func(r map[string]any) { delete(r, "timestampAuthorities") }, "no timestamp authority",
		},
		"a stranger's timestamp": {of(stranger.stamper, time.Minute), nil, "threshold not met"},
		"an authority of the past": {
			with(func(*secondAttempt) {}), func(r map[string]any) { ended(r, s) },
			"threshold not met",
		},
		"another's validity": {with(func(*secondAttempt) {}), func(r map[string]any) {
			ended(r, s)
			//nolint:forcetypeassert // made above
			r["timestampAuthorities"] = append(r["timestampAuthorities"].([]any), map[string]any{"validFor": map[string]any{"start": s.now.AddDate(-1, 0, 0)}})
		}, "missing cert chain"},
		"of another signature": {stamps(func(s *sigstore, _ []byte) [][]byte {
			return [][]byte{s.stamper.stamp([]byte("x"), s.now.Add(time.Minute), nil)}
		}), nil, "hashed messages don't match"},
		"a timestamp with SHA-1": {
			other(func(tok *token) { tok.hash = pkcs7.OIDDigestAlgorithmSHA1 }),
			nil, "weak hash algorithm",
		},
		"a timestamp signed with SHA-1": {
			other(func(tok *token) { tok.digest = pkcs7.OIDDigestAlgorithmSHA1 }),
			nil, "not the signed timestamp of one authority",
		},
		"a timestamp whose signature has SHA-1": {
			other(func(tok *token) { tok.weak = true }), nil,
			"not the signed timestamp of one authority",
		},
		"another content": {
			other(func(tok *token) { tok.kind = pkcs7.OIDData }), nil,
			"not the signed timestamp of one authority",
		},
		"two signers": {
			other(func(tok *token) { tok.signers = 2 }), nil,
			"not the signed timestamp of one authority",
		},
		"no signer": {
			other(func(tok *token) { tok.signers = 0 }), nil,
			"not the signed timestamp of one authority",
		},
		"a token that is as it should be": {other(func(*token) {}), nil, ""},
		"a broken timestamp": {
			raw(func(b []byte) []byte { return b[:len(b)-9] }), nil,
			"is not DER",
		},
		"an empty timestamp": {raw(func([]byte) []byte { return nil }), nil, "cannot be read"},
		"a large timestamp": {raw(func([]byte) []byte {
			return bytes.Repeat([]byte{5, 0},
				maxStamp)
		}), nil, "is not DER"},
		"a deep timestamp": {raw(func([]byte) []byte { return nest(200) }), nil, "is not DER"},
		"another time": {raw(func(b []byte) []byte {
			return bytes.Replace(b, []byte("20260304050707Z"), []byte("20260304050807Z"), 1)
		}), nil, "threshold not met"},
		"nine timestamps": {stamps(func(s *sigstore, signature []byte) [][]byte {
			return slices.Repeat([][]byte{s.stamper.stamp(signature, s.now.Add(time.Minute), nil)}, 9)
		}), nil, "more than 8"},

		"another log's key": {
			with(func(a *secondAttempt) { a.key = stranger.second }), nil,
			"not enough verified log entries",
		},
		"another log's name": {
			with(func(a *secondAttempt) { a.origin = "log3.example.com" }), nil,
			"failed to verify log inclusion",
		},
		//nolint:forcetypeassert // made above
		"a log without a name": {with(func(*secondAttempt) {}), func(r map[string]any) { delete(r["tlogs"].([]any)[1].(map[string]any), "baseUrl") }, "without baseUrl"},
		"a log of the past": {with(func(*secondAttempt) {}), func(r map[string]any) {
			//nolint:forcetypeassert // made above
			at(r["tlogs"].([]any)[1].(map[string]any), "publicKey")["validFor"] = map[string]any{"start": s.now.AddDate(-1, 0, 0), "end": s.now}
		}, "not enough verified log entries"},
		// Only the checkpoint's size counts, and it is signed; the entry's own place is what the proof is computed
		// with.
		"another size": {proof(func(p map[string]any) { p["treeSize"] = "1" }), nil, ""},
		"a log's other id": {entry(func(e map[string]any) {
			at(e,
				"logId")["keyId"] = secondID(stranger.second)
		}), nil, "not enough verified log entries"},
		"no proof": {
			entry(func(e map[string]any) { delete(e, "inclusionProof") }), nil,
			"no inclusion proof",
		},
		"a proof without checkpoint": {
			proof(func(p map[string]any) { delete(p, "checkpoint") }), nil,
			"missing required checkpoint",
		},
		//nolint:forcetypeassert // made above
		"a truncated proof": {proof(func(p map[string]any) { p["hashes"] = p["hashes"].([][]byte)[1:] }), nil, "wrong proof size"},
		"another place": {
			entry(func(e map[string]any) { e["logIndex"] = "5" }), nil,
			"failed to verify log inclusion",
		},
		"a checkpoint of a witness": {proof(func(p map[string]any) {
			c := at(p, "checkpoint")
			c["envelope"] = strings.Replace(c["envelope"].(string), "\u2014 "+secondHost, "-", 1)
		}), nil, "failed to verify log inclusion"}, //nolint:forcetypeassert // made above
		"the entry of another bundle": {entry(func(e map[string]any) {
			e["canonicalizedBody"] = s.loggedSecond([]byte(`{"apiVersion":"0.0.2","kind":"dsse"}`),
				secondAttempt{})["canonicalizedBody"]
		}), nil, "its bundle cannot be read"},

		"of the entry: another payload": {envelope(func(e map[string]any) {
			at(e, "data")["digest"] = make([]byte,
				32)
		}), nil, "failed to verify log inclusion"},
		"of the entry: no payload": {
			envelope(func(e map[string]any) { delete(e, "data") }), nil,
			"missing digest",
		},
		"of the entry: another algorithm": {envelope(func(e map[string]any) {
			at(e,
				"data")["algorithm"] = "SHA2_512"
		}), nil, "failed to verify log inclusion"},
		"of the entry: another signature": {envelope(func(e map[string]any) {
			at(e,
				"signature")["content"] = []byte("x")
		}), nil, "failed to verify log inclusion"},
		"of the entry: no signature": {
			envelope(func(e map[string]any) { delete(e, "signature") }), nil,
			"missing signature",
		},
		"of the entry: another certificate": {envelope(func(e map[string]any) {
			at(e, "signature", "verifier",
				"x509Certificate")["rawBytes"] = another
		}), nil, "failed to verify log inclusion"},
		"of the entry: a key": {envelope(func(e map[string]any) {
			at(e, "signature")["verifier"] = map[string]any{"publicKey": map[string]any{"rawBytes": another}}
		}), nil, "failed to verify log inclusion"},
		"of the entry: an unknown version": {with(func(a *secondAttempt) { a.body = func(b map[string]any) { b["apiVersion"] = "0.0.3" } }), nil, "its bundle cannot be read"},
		"of the entry: the kind dsse, which Rekor 2 has no longer": {with(func(a *secondAttempt) {
			a.body = func(b map[string]any) {
				b["kind"], b["spec"] = "dsse",
					map[string]any{"dsseV002": map[string]any{"payloadHash": map[string]any{
						"algorithm": "SHA2_256",
						"digest":    make([]byte, 32),
					}, "signatures": []any{}}}
			}
		}), nil, "its bundle cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changes []func(map[string]any)
			if c.root != nil {
				changes = append(changes, c.root)
			}
			signer := Signer{
				Name: "ci", File: "keys/trusted_root.json", TrustedRoot: s.root(changes...),
				Issuer: actions, Subject: workflow,
			}
			_, err := Verify(archive, fetch.Evidence{
				Manifest: manifest,
				Bundles:  [][]byte{s.secondBundle(digest, c.attempt)},
			}, []Signer{signer})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrUnsigned) ||
				!strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v; want %q", err, c.want)
			}
		})
	}
	for name, change := range map[string]func(*x509.Certificate){
		"a certificate for code": func(c *x509.Certificate) {
			c.ExtraExtensions = nil
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
		},
		"a certificate for timestamps and code": func(c *x509.Certificate) {
			c.ExtraExtensions[0].Value = []byte("\x30\x14\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x08\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x03")
		},
		"a usage that is not critical":    func(c *x509.Certificate) { c.ExtraExtensions[0].Critical = false },
		"a certificate that begins later": func(c *x509.Certificate) { c.NotBefore = s.now.Add(time.Hour) },
	} {
		t.Run("an authority with "+name, func(t *testing.T) {
			t.Parallel()
			wrong := *s
			wrong.t, wrong.stamper = t, newStamper(t, s.now, change)
			signer := Signer{Name: "ci", TrustedRoot: wrong.root(), Issuer: actions, Subject: workflow}
			_, err := Verify(archive, fetch.Evidence{
				Manifest: manifest,
				Bundles:  [][]byte{wrong.secondBundle(digest, secondAttempt{attempt: s.good()})},
			}, []Signer{signer})
			if err == nil || !strings.Contains(err.Error(), "failed to verify timestamps") &&
				!strings.Contains(err.Error(), "its signature is wrong") {
				t.Errorf("a timestamp of an authority with %s: %v", name, err)
			}
		})
	}
}
