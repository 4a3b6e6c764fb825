package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// statementOf is what cosign signs in a bundle.
func statementOf(digest, predicate string) []byte {
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`,
		strings.TrimPrefix(digest, "sha256:"), predicate)
}

// envelope signs a statement as DSSE wants it.
func envelope(payload []byte, sign func([]byte) string) (signature string, out map[string]any) {
	const kind = "application/vnd.in-toto+json"
	signature = sign(fmt.Appendf(nil, "DSSEv1 28 %s %d %s", kind, len(payload), payload))
	return signature, map[string]any{
		"payload": payload, "payloadType": kind,
		"signatures": []any{map[string]any{"sig": signature, "keyid": ""}},
	}
}

// bundleAttempt says how a bundle is made: each change replaces something that is right.
type bundleAttempt struct {
	attempt
	payload []byte               // nil: the statement of the manifest
	body    func(map[string]any) // of the log's entry
	bundle  func(map[string]any)
	entry   func(map[string]any) // in the bundle
}

// bundle makes a bundle as cosign 3 does without a key, with a log of the first generation.
func (s *sigstore) bundle(manifest string, a bundleAttempt) []byte {
	s.t.Helper()
	key, der := s.certificate(a.attempt)
	payload := a.payload
	if payload == nil {
		payload = statementOf(manifest, cosignPredicate)
	}
	signature, dsse := envelope(payload, func(message []byte) string { return s.by(key, message) })
	sum := sha256.Sum256(payload)
	body := map[string]any{"apiVersion": "0.0.1", "kind": "dsse", "spec": map[string]any{
		"envelopeHash": map[string]any{"algorithm": "sha256", "value": strings.Repeat("0", 64)},
		"payloadHash":  map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])},
		"signatures": []any{map[string]any{
			"signature": signature,
			"verifier":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		}},
	}}
	if a.body != nil {
		a.body(body)
	}
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	entry := s.logged(text, a.attempt)
	if a.entry != nil {
		a.entry(entry)
	}
	out := map[string]any{
		"mediaType": fetch.BundleType,
		"verificationMaterial": map[string]any{
			"certificate": map[string]any{"rawBytes": der},
			"tlogEntries": []any{entry},
		},
		"dsseEnvelope": dsse,
	}
	if a.bundle != nil {
		a.bundle(out)
	}
	data, err := json.Marshal(out)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// logged puts an entry into a log of six others, and returns it with the log's promise and a proof.
func (s *sigstore) logged(body []byte, a attempt) map[string]any {
	s.t.Helper()
	log := s.log
	if a.log != nil {
		log = a.log
	}
	const index = 4
	leaves := make([][]byte, 7)
	for i := range leaves {
		leaves[i] = fmt.Append(nil, i)
	}
	leaves[index] = body
	root, proof := merkle(leaves, index)
	checkpoint := fmt.Sprintf("log.example.com - 1\n%d\n%s\n", len(leaves), base64.StdEncoding.EncodeToString(root))
	signed, err := base64.StdEncoding.DecodeString(s.by(log, []byte(checkpoint)))
	if err != nil {
		s.t.Fatal(err)
	}
	id, seconds := logID(s.t, log), s.now.Add(a.signedAfter).Unix()
	promise := fmt.Sprintf(`{"body":%q,"integratedTime":%d,"logID":%q,"logIndex":70}`,
		base64.StdEncoding.EncodeToString(body), seconds, hex.EncodeToString(id))
	return map[string]any{
		"logIndex": "70", "logId": map[string]any{"keyId": id}, "kindVersion": map[string]any{
			"kind":    "dsse",
			"version": "0.0.1",
		},
		"integratedTime":   fmt.Sprint(seconds),
		"inclusionPromise": map[string]any{"signedEntryTimestamp": s.by(log, []byte(promise))},
		"inclusionProof": map[string]any{
			"logIndex": fmt.Sprint(index), "rootHash": root, "treeSize": fmt.Sprint(len(leaves)), "hashes": proof,
			"checkpoint": map[string]any{"envelope": checkpoint + "\n\u2014 log.example.com " +
				base64.StdEncoding.EncodeToString(append(id[:4:4], signed...)) + "\n"},
		},
		"canonicalizedBody": body,
	}
}

func logID(tb testing.TB, log *ecdsa.PrivateKey) []byte {
	tb.Helper()
	public, err := x509.MarshalPKIXPublicKey(&log.PublicKey)
	if err != nil {
		tb.Fatal(err)
	}
	sum := sha256.Sum256(public)
	return sum[:]
}

// merkle is the recursive definition of a log's root and of a proof in RFC 9162, sections 2.1.1 and 2.1.3.1.
func merkle(leaves [][]byte, index int) (root []byte, proof [][]byte) {
	if len(leaves) == 1 {
		sum := sha256.Sum256(append([]byte{0}, leaves[0]...))
		return sum[:], nil
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, inLeft := merkle(leaves[:k], index)
	right, inRight := merkle(leaves[k:], index-k)
	if proof = append(inLeft, right); index >= k {
		proof = append(inRight, left)
	}
	sum := sha256.Sum256(append(append([]byte{1}, left...), right...))
	return sum[:], proof
}

// at returns a map inside of the JSON of a test.
func at(m map[string]any, path ...string) map[string]any {
	for _, key := range path {
		m = m[key].(map[string]any) //nolint:forcetypeassert // made above
	}
	return m
}

// TestKeylessBundle: a bundle counts if a trusted log promised and has its entry, while a trusted authority vouched for
// the identity, and the entry, the envelope and the certificate belong together.
func TestKeylessBundle(t *testing.T) {
	t.Parallel()
	archive := []byte("the archive of a chart")
	manifest := []byte(`{"layers":[{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"` +
		digestOf(archive) + `"}]}`)
	digest := digestOf(manifest)
	s, stranger := newSigstore(t), newSigstore(t)
	good := bundleAttempt{attempt: s.good()}
	with := func(change func(*bundleAttempt)) bundleAttempt {
		a := good
		change(&a)
		return a
	}
	entry := func(change func(map[string]any)) bundleAttempt {
		return with(func(a *bundleAttempt) { a.entry = change })
	}
	body := func(change func(map[string]any)) bundleAttempt {
		return with(func(a *bundleAttempt) { a.body = func(b map[string]any) { change(at(b, "spec")) } })
	}
	whole := func(change func(map[string]any)) bundleAttempt {
		return with(func(a *bundleAttempt) { a.bundle = change })
	}
	material := func(change func(map[string]any)) bundleAttempt {
		return whole(func(b map[string]any) { change(at(b, "verificationMaterial")) })
	}
	_, other := s.certificate(good.attempt)
	otherLog := *s
	otherLog.log = newKey(t)
	for name, c := range map[string]struct {
		attempt bundleAttempt
		want    string
	}{
		"a workflow":                {good, ""},
		"an older name of the type": {whole(func(b map[string]any) { b["mediaType"] = bundleTypeOld }), ""},
		"a wrong entry, then a good": {material(func(m map[string]any) {
			m["tlogEntries"] = append([]any{map[string]any{}}, m["tlogEntries"].([]any)...)
		}), "no inclusion proof"}, //nolint:forcetypeassert // made above

		"another workflow": {with(func(a *bundleAttempt) { a.subject = workflow + "x" }), "expected SAN value"},
		"another issuer": {
			with(func(a *bundleAttempt) { a.issuer = "https://accounts.example.com" }),
			"expected issuer value",
		},
		"after it expired": {
			with(func(a *bundleAttempt) { a.signedAfter = time.Hour }),
			"integrated time outside certificate validity",
		},
		"before it was issued": {
			with(func(a *bundleAttempt) { a.signedAfter = -time.Hour }),
			"integrated time outside certificate validity",
		},
		"a server certificate": {
			with(func(a *bundleAttempt) { a.usage = x509.ExtKeyUsageServerAuth }),
			"leaf certificate verification failed",
		},

		"of another manifest": {with(func(a *bundleAttempt) {
			a.payload = statementOf(digestOf([]byte("x")),
				cosignPredicate)
		}), "does not name the chart's manifest"},
		"an attestation": {with(func(a *bundleAttempt) {
			a.payload = statementOf(digest,
				"https://slsa.dev/provenance/v1")
		}), "not that of a signature"},
		"an old statement": {with(func(a *bundleAttempt) {
			a.payload = bytes.Replace(statementOf(digest, cosignPredicate), []byte("/v1"), []byte("/v0.1"), 1)
		}), "not an in-toto statement of version 1"},
		"a changed payload": {whole(func(b map[string]any) {
			at(b, "dsseEnvelope")["payload"] = append(statementOf(digest, cosignPredicate), ' ')
		}), "does not match envelope payload hash"},
		"another payload type": {whole(func(b map[string]any) {
			at(b,
				"dsseEnvelope")["payloadType"] = "text/plain"
		}), "in-toto statement with one signature"},
		"no signature": {
			whole(func(b map[string]any) { at(b, "dsseEnvelope")["signatures"] = nil }),
			"in-toto statement with one signature",
		},
		"a signature of a blob": {whole(func(b map[string]any) {
			delete(b,
				"dsseEnvelope")
			b["messageSignature"] = map[string]any{}
		}), "in-toto statement with one signature"},
		"version 0.1": {whole(func(b map[string]any) { b["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1" }), "not that of version 0.3"},
		"a swapped certificate": {
			material(func(m map[string]any) { at(m, "certificate")["rawBytes"] = other }),
			"log certificate does not match",
		},
		"made with a key": {
			material(func(m map[string]any) { m["certificate"] = nil }),
			"made with a key",
		},
		"a broken certificate": {material(func(m map[string]any) {
			at(m,
				"certificate")["rawBytes"] = []byte("x")
		}), "malformed certificate"},
		"no entry of a log": {
			material(func(m map[string]any) { m["tlogEntries"] = nil }),
			"no entry of a transparency log",
		},
		"a log's other key": {
			with(func(a *bundleAttempt) { a.log = otherLog.log }),
			"not enough verified log entries",
		},
		"of the entry: a blob's": {with(func(a *bundleAttempt) { a.body = func(b map[string]any) { b["kind"] = "hashedrekord" } }), "its bundle cannot be read"},
		"of the entry: another payload": {body(func(spec map[string]any) {
			at(spec,
				"payloadHash")["value"] = strings.Repeat("0", 64)
		}), "does not match envelope payload hash"},
		"of the entry: another signature": {body(func(spec map[string]any) {
			spec["signatures"] = []any{map[string]any{
				"signature": "AAAA",
				"verifier":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other}),
			}}
		}), "log signature does not match"},
		"of the entry: another certificate": {body(func(spec map[string]any) {
			//nolint:forcetypeassert // made above
			spec["signatures"].([]any)[0].(map[string]any)["verifier"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other})
		}), "log certificate does not match"},

		"no promise": {entry(func(e map[string]any) { delete(e, "inclusionPromise") }), "no signed time"},
		"no time": {
			entry(func(e map[string]any) { e["integratedTime"] = "0" }),
			"not enough verified log entries",
		},
		"another time": {entry(func(e map[string]any) { e["integratedTime"] = fmt.Sprint(s.now.Add(time.Second).Unix()) }), "not enough verified log entries"},
		"another index": {
			entry(func(e map[string]any) { e["logIndex"] = "71" }),
			"not enough verified log entries",
		},
		"no inclusion proof": {entry(func(e map[string]any) { delete(e, "inclusionProof") }), "no inclusion proof"},
		"no checkpoint": {
			entry(func(e map[string]any) { delete(at(e, "inclusionProof"), "checkpoint") }),
			"missing required checkpoint",
		},
		"another root": {
			entry(func(e map[string]any) { at(e, "inclusionProof")["rootHash"] = make([]byte, 32) }),
			"failed to verify log inclusion",
		},
		//nolint:forcetypeassert // made above
		"a shorter proof": {entry(func(e map[string]any) { p := at(e, "inclusionProof"); p["hashes"] = p["hashes"].([][]byte)[1:] }), "wrong proof size"},
		"another place": {
			entry(func(e map[string]any) { at(e, "inclusionProof")["logIndex"] = "5" }),
			"failed to verify log inclusion",
		},
		// the signed root counts
		"another size": {entry(func(e map[string]any) { at(e, "inclusionProof")["treeSize"] = "8" }), ""},
		"a checkpoint of another tree": {entry(func(e map[string]any) {
			at(e, "inclusionProof")["checkpoint"] = at(s.logged([]byte("x"), good.attempt),
				"inclusionProof")["checkpoint"]
		}), "failed to verify log inclusion"},
		"a negative size": {
			entry(func(e map[string]any) { at(e, "inclusionProof")["treeSize"] = "-7" }),
			"wrong proof size",
		},
		"an entry of another": {entry(func(e map[string]any) {
			e["inclusionProof"] = s.logged([]byte("x"),
				good.attempt)["inclusionProof"]
		}), "failed to verify log inclusion"},
		"a stranger's log": {entry(func(e map[string]any) {
			e["inclusionProof"] = otherLog.logged(e["canonicalizedBody"].([]byte), good.attempt)["inclusionProof"]
		}), "failed to verify log inclusion"}, //nolint:forcetypeassert // made above
		"a changed checkpoint": {entry(func(e map[string]any) {
			c := at(e, "inclusionProof", "checkpoint")
			c["envelope"] = strings.Replace(c["envelope"].(string), "\n7\n", "\n8\n", 1)
		}), "failed to verify log inclusion"}, //nolint:forcetypeassert // made above
		"an unsigned checkpoint": {entry(func(e map[string]any) {
			c := at(e, "inclusionProof", "checkpoint")
			c["envelope"], _, _ = strings.Cut(c["envelope"].(string), "\u2014")
		}), "failed to verify log inclusion"}, //nolint:forcetypeassert // made above
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signer := Signer{
				Name: "ci", File: "keys/trusted_root.json", TrustedRoot: s.root(), Issuer: actions,
				Subject: workflow,
			}
			_, err := Verify(archive, fetch.Evidence{
				Manifest: manifest,
				Bundles:  [][]byte{s.bundle(digest, c.attempt)},
			}, []Signer{signer})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrUnsigned) ||
				!strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v; want %q", err, c.want)
			}
		})
	}
	t.Run("an authority that is not trusted, recorded by the log", func(t *testing.T) {
		t.Parallel()
		forger := *stranger
		forger.log = s.log
		signer := Signer{Name: "ci", TrustedRoot: s.root(), Issuer: actions, Subject: workflow}
		_, err := Verify(archive, fetch.Evidence{Manifest: manifest, Bundles: [][]byte{forger.bundle(digest, good)}},
			[]Signer{signer})
		if err == nil || !strings.Contains(err.Error(), "leaf certificate verification failed") {
			t.Errorf("a signature by an authority that is not trusted: %v", err)
		}
	})
}

// refer attaches a bundle where cosign 3 does: as a manifest whose subject is the chart's.
func (s *ociServer) refer(tb testing.TB, digest string, bundle []byte) {
	tb.Helper()
	blob := func(data []byte) string {
		put(tb, s, s.URL+"/v2/charts/web/blobs/uploads/1?digest="+digestOf(data), "application/octet-stream", data)
		return digestOf(data)
	}
	const kind = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": kind, "artifactType": fetch.BundleType,
		"config": map[string]any{
			"mediaType": "application/vnd.oci.empty.v1+json", "size": 2,
			"digest": blob([]byte("{}")),
		},
		"layers":  []any{map[string]any{"mediaType": fetch.BundleType, "size": len(bundle), "digest": blob(bundle)}},
		"subject": map[string]any{"mediaType": kind, "size": 1, "digest": digest},
	})
	if err != nil {
		tb.Fatal(err)
	}
	put(tb, s, s.URL+"/v2/charts/web/manifests/"+digestOf(manifest), kind, manifest)
	if s.referrers {
		return
	}
	// As cosign writes the list where the registry has none, with the type of the configuration.
	index, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
		"manifests": []any{map[string]any{
			"mediaType": kind, "size": len(manifest), "digest": digestOf(manifest),
			"artifactType": "application/vnd.oci.empty.v1+json",
		}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	put(tb, s, s.URL+"/v2/charts/web/manifests/"+strings.Replace(digest, ":", "-", 1),
		"application/vnd.oci.image.index.v1+json", index)
}

// TestSignatureBesideAttestations: what else refers to a chart, such as a large SBOM, does not hide the signature.
func TestSignatureBesideAttestations(t *testing.T) {
	t.Parallel()
	release := cosignKey(t)
	s := newOCI(t, ociregistry.WithReferrersSupport(true))
	s.referrers = true
	s.push(t, packChart(t, "attested"))
	digest := s.manifestOf(t)
	for _, bundle := range [][]byte{
		bytes.Repeat([]byte("x"), fetch.MaxBundle+1),
		release.bundle(t, statementOf(digest, "https://slsa.dev/provenance/v1")),
		release.bundle(t, statementOf(digest, cosignPredicate)),
	} {
		s.refer(t, digest, bundle)
	}
	checkVerify(t, Archives{fetch.New(fetch.Options{})}, fetch.Ref{Chart: s.chart(), Version: "1.0.0"},
		[]Signer{release.Signer}, "")
}

// bundle makes a bundle as `cosign sign --key` does.
func (c cosigner) bundle(tb testing.TB, payload []byte) []byte {
	tb.Helper()
	_, dsse := envelope(payload, func(message []byte) string { return c.sign(tb, message) })
	data, err := json.Marshal(map[string]any{
		"mediaType": fetch.BundleType, "verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "x"}},
		"dsseEnvelope": dsse,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// TestBundlesOfRegistries: a registry has bundles by its list of referrers, or by a tag that stands for it.
func TestBundlesOfRegistries(t *testing.T) {
	t.Parallel()
	release, stranger := cosignKey(t), cosignKey(t)
	for name, c := range map[string]struct {
		bundle func(digest string) []byte
		want   string
	}{
		"signed": {func(digest string) []byte {
			return release.bundle(t,
				statementOf(digest, cosignPredicate))
		}, ""},
		"by another key": {func(digest string) []byte {
			return stranger.bundle(t,
				statementOf(digest, cosignPredicate))
		}, "not by that key"},
		"of another manifest": {func(string) []byte {
			return release.bundle(t,
				statementOf(digestOf([]byte("x")), cosignPredicate))
		}, "does not name the chart's manifest"},
		"an attestation of the same signer": {func(digest string) []byte {
			return release.bundle(t,
				statementOf(digest, "https://spdx.dev/Document"))
		}, "not that of a signature"},
		"no bundle": {func(string) []byte { return []byte("x") }, "cannot be read"},
	} {
		for _, referrers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, list of referrers %t", name, referrers), func(t *testing.T) {
				t.Parallel()
				s := newOCI(t, ociregistry.WithReferrersSupport(referrers))
				s.referrers = referrers
				s.push(t, packChart(t, name))
				digest := s.manifestOf(t)
				s.refer(t, digest, c.bundle(digest))
				checkVerify(t, Archives{fetch.New(fetch.Options{CacheDir: t.TempDir()})},
					fetch.Ref{Chart: s.chart(), Version: "1.0.0"}, []Signer{release.Signer}, c.want)
			})
		}
	}
}
