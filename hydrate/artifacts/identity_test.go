package artifacts_test

import (
	"context"
	"crypto/ecdsa"
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
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/hydrate/session"
)

const (
	workflow = "https://github.com/acme/fleet/.github/workflows/hydrate.yaml@refs/heads/main"
	actions  = "https://token.actions.githubusercontent.com"
)

// sigstoreServer is Fulcio and Rekor over HTTP. The log is sigstore-go's own.
type sigstoreServer struct {
	*httptest.Server
	tb        testing.TB
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
	log       *ca.VirtualSigstore
	down      atomic.Bool
	broken    atomic.Bool // the log's answers lack parts
	issued    atomic.Int32
}

func newSigstore(tb testing.TB) *sigstoreServer {
	tb.Helper()
	s := &sigstoreServer{tb: tb}
	var err error
	if s.log, err = ca.NewVirtualSigstore(); err != nil {
		tb.Fatal(err)
	}
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &s.key.PublicKey, s.key)
	if err != nil {
		tb.Fatal(err)
	}
	if s.authority, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v2/signingCert", s.fulcio)
	mux.HandleFunc("POST /api/v1/log/entries", s.rekor)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	tb.Cleanup(s.Close)
	return s
}

// token is an unsigned token: the authority of the test believes all.
func token(subject string) string {
	part := func(v any) string {
		data, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	return part(map[string]any{"alg": "none"}) + "." + part(map[string]any{"iss": actions, "sub": subject}) + ".x"
}

func (s *sigstoreServer) fulcio(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Request struct {
			Key struct {
				Content string `json:"content"`
			} `json:"publicKey"`
			Proof []byte `json:"proofOfPossession"`
		} `json:"publicKeyRequest"`
	}
	var claims struct{ Iss, Sub string }
	parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	if json.NewDecoder(r.Body).Decode(&body) != nil || json.Unmarshal(text, &claims) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	block, _ := pem.Decode([]byte(body.Request.Key.Content))
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	sum := sha256.Sum256([]byte(claims.Sub))
	if key, ok := public.(*ecdsa.PublicKey); err != nil || !ok || !ecdsa.VerifyASN1(key, sum[:], body.Request.Proof) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	issuer, _ := asn1.MarshalWithParams(claims.Iss, "utf8")
	subject, _ := url.Parse(claims.Sub)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(int64(s.issued.Add(1)) + 1), NotBefore: time.Now().Add(-time.Second), NotAfter: time.Now().Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, URIs: []*url.URL{subject},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuer}},
	}, s.authority, public, s.key)
	if err != nil {
		s.tb.Error(err)
	}
	text = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	_ = json.NewEncoder(w).Encode(map[string]any{"signedCertificateEmbeddedSct": map[string]any{"chain": map[string]any{"certificates": []string{string(text)}}}})
}

func (s *sigstoreServer) rekor(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Spec struct {
			Proposed struct {
				Envelope  string
				Verifiers [][]byte
			} `json:"proposedContent"`
		}
	}
	var envelope dsse.Envelope
	if json.NewDecoder(r.Body).Decode(&body) != nil || json.Unmarshal([]byte(body.Spec.Proposed.Envelope), &envelope) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	block, _ := pem.Decode(body.Spec.Proposed.Verifiers[0])
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.tb.Error(err)
	}
	sig, _ := base64.StdEncoding.DecodeString(envelope.Signatures[0].Sig)
	made, err := s.log.GenerateTlogEntry(cert, &envelope, sig, time.Now().Unix(), true)
	if err != nil {
		s.tb.Error(err)
		return
	}
	entry := made.TransparencyLogEntry()
	promise, err := s.log.RekorSignPayload(tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(entry.GetCanonicalizedBody()), IntegratedTime: entry.GetIntegratedTime(),
		LogIndex: entry.GetLogIndex(), LogID: hex.EncodeToString(entry.GetLogId().GetKeyId()),
	})
	if err != nil {
		s.tb.Error(err)
	}
	var hashes []string
	for _, h := range entry.GetInclusionProof().GetHashes() {
		hashes = append(hashes, hex.EncodeToString(h))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", "one")
	w.Header().Set("Location", "/api/v1/log/entries/one")
	w.WriteHeader(http.StatusCreated)
	if s.broken.Load() {
		fmt.Fprint(w, `{"one":{"body":"e30="}}`)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"one": map[string]any{
		"body": entry.GetCanonicalizedBody(), "integratedTime": entry.GetIntegratedTime(), "logIndex": entry.GetLogIndex(),
		"logID": hex.EncodeToString(entry.GetLogId().GetKeyId()),
		"verification": map[string]any{
			"signedEntryTimestamp": promise,
			"inclusionProof": map[string]any{
				"checkpoint": entry.GetInclusionProof().GetCheckpoint().GetEnvelope(), "hashes": hashes,
				"logIndex": entry.GetInclusionProof().GetLogIndex(), "treeSize": entry.GetInclusionProof().GetTreeSize(),
				"rootHash": hex.EncodeToString(entry.GetInclusionProof().GetRootHash()),
			},
		},
	}})
}

func (s *sigstoreServer) trusted() *root.TrustedRoot {
	s.tb.Helper()
	logs := s.log.RekorLogs()
	for id, l := range logs {
		l.ID, _ = hex.DecodeString(id) // it has the text
	}
	out, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{
		&root.FulcioCertificateAuthority{Root: s.authority, ValidityPeriodStart: time.Now().Add(-time.Hour)},
	}, nil, nil, logs)
	if err != nil {
		s.tb.Fatal(err)
	}
	return out
}

// services is the signing configuration.
func (s *sigstoreServer) services() []byte {
	return fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json",
		"caUrls":[{"url":%[1]q,"majorApiVersion":1,"validFor":{"start":"2020-01-01T00:00:00Z"},"operator":"t"}],
		"rekorTlogUrls":[{"url":%[1]q,"majorApiVersion":1,"validFor":{"start":"2020-01-01T00:00:00Z"},"operator":"t"}],
		"rekorTlogConfig":{"selector":"ANY"},"tsaConfig":{"selector":"ANY"}}`, s.URL)
}

// by is what a run of a workflow signs with.
func (s *sigstoreServer) by(subject string) session.Identity {
	return session.Identity{Services: s.services(), Token: func(context.Context) (string, error) { return token(subject), nil }}
}

// Runs sign without a key, before an artifact has a tag, in registries with and without a list of referrers. A foreign
// verifier accepts the signatures.
func TestIdentity(t *testing.T) {
	t.Parallel()
	endToEnd(t)
	for name, options := range map[string][]ociregistry.Option{
		"with a list of referrers": {ociregistry.WithReferrersSupport(true)}, "without one": {ociregistry.WithReferrersSupport(false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSigstore(t)
			p := newPlace(t)
			p.server = newServer(t, options...)
			text, err := s.trusted().MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			p.Write("keys/trusted_root.json", string(text))
			p.setOCI("{repository: \"oci://" + p.server.host() + "/gitops\", identity: {issuer: \"" + actions + "\", subject: \"" + workflow +
				"\", trustedRoot: keys/trusted_root.json}}")

			commit := p.tip("cluster/dev-1")
			none := func(when string) {
				t.Helper()
				if p.digest(commit) != "" || p.digest("latest") != "" {
					t.Errorf("%s, an artifact has a tag", when)
				}
			}
			if r := p.publish(artifacts.Options{}); r.OK() || r.Waiting != 2 || !strings.Contains(r.Unfinished, "SIGSTORE_ID_TOKEN") {
				t.Errorf("without a token: %+v", r)
			}
			none("without a token")
			p.own = s.by(workflow)
			p.own.Services = []byte(strings.ReplaceAll(string(p.own.Services), s.URL, "http://fulcio.example.com"))
			if r := p.publish(artifacts.Options{}); r.OK() || !strings.Contains(r.Unfinished, "the token of this run is not sent to fulcio.example.com") {
				t.Errorf("with an authority without TLS: %+v", r)
			}
			none("with an authority without TLS")
			p.own = s.by(workflow)
			s.down.Store(true)
			if r := p.publish(artifacts.Options{}); r.OK() || r.Waiting != 2 || !strings.Contains(r.Unfinished, "artifacts cannot be signed now") {
				t.Errorf("while Fulcio is down: %+v", r)
			}
			none("while Fulcio is down")
			s.down.Store(false)
			s.broken.Store(true)
			if r := p.publish(artifacts.Options{}); r.OK() || !strings.Contains(r.Unfinished, "cannot be read") {
				t.Errorf("with half an answer of Rekor: %+v", r)
			}
			none("with half an answer of Rekor")
			s.broken.Store(false)
			p.own = s.by("https://github.com/acme/fleet/.github/workflows/other.yaml@refs/heads/main")
			if r := p.publish(artifacts.Options{}); r.OK() || !strings.Contains(r.Unfinished, "the signature of this run does not count for artifacts") {
				t.Errorf("with the token of another workflow: %+v", r)
			}
			none("with the token of another workflow")

			p.own = s.by(workflow)
			s.issued.Store(0)
			p.want(p.publish(artifacts.Options{}), "artifacts: 2 pushed")
			if n := s.issued.Load(); n != 1 {
				t.Errorf("%d certificates for one run", n)
			}
			if v := p.verify(); v.Status != artifacts.VerifyOK {
				t.Errorf("signed: %+v", v)
			}
			p.own = session.Identity{}
			if v := p.verify(); v.Status != artifacts.VerifyOK {
				t.Errorf("who verifies needs no token: %+v", v)
			}
			p.own = s.by(workflow)
			p.want(p.publish(artifacts.Options{Rebuild: true}), "artifacts: 2 present")
			p.accepted(s)
		})
	}
}

// accepted fails unless sigstore-go's verifier accepts the one bundle of dev-1's artifact.
func (p *place) accepted(s *sigstoreServer) {
	t := p.T
	t.Helper()
	registry, err := p.fetcher().Registry(p.config().Fleet.Artifact(p.cluster()))
	if err != nil {
		t.Fatal(err)
	}
	desc, data, err := registry.Manifest(t.Context(), "latest")
	if err != nil {
		t.Fatal(err)
	}
	desc.MediaType = ocispec.MediaTypeImageManifest
	bundles, err := registry.Bundles(t.Context(), desc)
	if err != nil || len(bundles) != 1 {
		t.Fatalf("%d bundles: %v", len(bundles), err)
	}
	var b bundle.Bundle
	if err := b.UnmarshalJSON(bundles[0]); err != nil {
		t.Fatal(err)
	}
	v, err := verify.NewVerifier(s.trusted(), verify.WithTransparencyLog(1), verify.WithIntegratedTimestamps(1))
	if err != nil {
		t.Fatal(err)
	}
	identity, err := verify.NewShortCertificateIdentity(actions, "", workflow, "")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if _, err := v.Verify(&b, verify.NewPolicy(verify.WithArtifactDigest("sha256", sum[:]), verify.WithCertificateIdentity(identity))); err != nil {
		t.Errorf("a foreign verifier: %v", err)
	}
}
