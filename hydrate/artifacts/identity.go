package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/internal/plainhttp"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// The public instance of Sigstore.
const (
	publicFulcio = "https://fulcio.sigstore.dev"
	publicRekor  = "https://rekor.sigstore.dev"
)

// A signed statement in the form of `cosign sign` since version 3.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://sigstore.dev/cosign/sign/v1"
	payloadType   = "application/vnd.in-toto+json"
)

// ReadIdentity reads what signatures of the fleet's identity are held against from a tree. own may have no token; then
// nothing can be signed.
func ReadIdentity(snapshot *gitstore.Snapshot, by fleet.ArtifactIdentity, own session.Identity) (*Keys, error) {
	text, err := snapshot.ReadFile(by.TrustedRoot)
	if err != nil {
		return nil, fmt.Errorf("spec.output.oci.identity.trustedRoot: %w", err)
	}
	out := &Keys{trusted: signature.Signer{
		Name: "artifacts", File: by.TrustedRoot, TrustedRoot: text, Issuer: by.Issuer, Subject: by.Subject,
	}}
	const signed = "artifacts are signed by an identity (spec.output.oci.identity), and "
	switch {
	case own.Err != nil:
		out.missing = signed + own.Err.Error()
		return out, nil //nolint:nilerr // nothing can be signed, and branches move all the same
	case own.Token == nil:
		out.missing = signed + "this run has no token: let the job request one, or set SIGSTORE_ID_TOKEN or SLUICE_SIGSTORE_TOKEN_FILE"
		return out, nil
	}
	services, err := servicesOf(own.Services)
	if err != nil {
		out.missing = signed + "the signing configuration cannot be used: " + safetext.Brief(err.Error(), 200)
		return out, nil
	}
	out.signer = &identitySigner{trusted: out.trusted, token: own.Token, services: services}
	return out, nil
}

func servicesOf(text []byte) (*root.SigningConfig, error) {
	if len(text) > 0 {
		out, err := root.NewSigningConfigFromJSON(text)
		if err != nil {
			return nil, err
		}
		for _, authority := range out.FulcioCertificateAuthorityURLs() { // which get the token
			u, err := url.Parse(authority.URL)
			if err != nil {
				return nil, err
			}
			if plainhttp.Check(u, nil) != nil {
				return nil, fmt.Errorf("the token of this run is not sent to %s over unencrypted HTTP: use https", u.Host)
			}
		}
		return out, nil
	}
	one := func(url string) []root.Service {
		return []root.Service{{URL: url, MajorAPIVersion: 1, ValidityPeriodStart: time.Unix(0, 0)}}
	}
	any1 := root.ServiceConfiguration{Selector: prototrustroot.ServiceSelector_ANY}
	return root.NewSigningConfig(root.SigningConfigMediaType02, one(publicFulcio), nil, one(publicRekor), any1, nil, any1)
}

// identitySigner signs with a short-lived certificate of Fulcio and makes bundles, as cosign 3 does: manifests that refer
// to the signed one. cosign 3 and Flux since 2.8 read them.
type identitySigner struct {
	trusted  signature.Signer
	token    func(ctx context.Context) (string, error)
	services *root.SigningConfig

	mu      sync.Mutex
	keypair *sign.EphemeralKeypair
	cert    []byte
	until   time.Time // when a new certificate is due
}

// unsigned is why nothing can be signed now. Like a registry that does not answer, it ends a run, and the next one tries
// again.
type unsigned string

func (u unsigned) Error() string { return string(u) }

// Is matches fetch.ErrUnavailable.
func (unsigned) Is(target error) bool { return target == fetch.ErrUnavailable }

// reuse is how long a certificate signs. Fulcio's are valid for ten minutes.
const reuse = 4 * time.Minute

func (s *identitySigner) attach(ctx context.Context, r Registry, _ string, manifest blob) error {
	made, err := s.bundle(ctx, manifest)
	if err != nil {
		return unsigned("artifacts cannot be signed now: " + safetext.Brief(err.Error(), 400))
	}
	if err := s.trusted.VerifyManifest(fetch.Evidence{Manifest: manifest.data, Bundles: [][]byte{made}}); err != nil {
		return unsigned(fmt.Sprintf("the signature of this run does not count for %s: %v", s.trusted, err))
	}
	layer, config := newBlob(fetch.BundleType, made), newBlob(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	text, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: fetch.BundleType,
		Config: config.Descriptor, Layers: []ocispec.Descriptor{layer.Descriptor}, Subject: &manifest.Descriptor,
		Annotations: map[string]string{
			"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": predicateType,
		},
	})
	if err != nil {
		return err
	}
	for _, b := range []blob{config, layer} {
		if err := r.Upload(ctx, b.Descriptor, b.data); err != nil {
			return err
		}
	}
	return r.Refer(ctx, newBlob(ocispec.MediaTypeImageManifest, text).Descriptor, text)
}

// bundle makes a bundle with a signature of a manifest.
func (s *identitySigner) bundle(ctx context.Context, manifest blob) (out []byte, err error) {
	defer func() { // the library takes for granted that a log's answer is whole
		if recover() != nil {
			out, err = nil, errors.New("the transparency log gave an answer that cannot be read")
		}
	}()
	ctx, stop := context.WithTimeout(ctx, programTime)
	defer stop()
	keypair, cert, err := s.certificate(ctx)
	if err != nil {
		return nil, err
	}
	type subject struct {
		Digest map[string]string `json:"digest"`
	}
	statement, err := json.Marshal(struct {
		Type      string    `json:"_type"`
		Subject   []subject `json:"subject"`
		Predicate string    `json:"predicateType"`
		Empty     struct{}  `json:"predicate"`
	}{statementType, []subject{{map[string]string{"sha256": manifest.Digest.Encoded()}}}, predicateType, struct{}{}})
	if err != nil {
		return nil, err
	}
	options := sign.BundleOptions{Context: ctx, CertificateProvider: cert}
	if err := s.witnesses(&options); err != nil {
		return nil, err
	}
	made, err := sign.Bundle(&sign.DSSEData{Data: statement, PayloadType: payloadType}, keypair, options)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(made)
}

// witnesses sets the transparency logs and the timestamp authorities.
func (s *identitySigner) witnesses(o *sign.BundleOptions) error {
	logs, err := root.SelectServices(s.services.RekorLogURLs(), s.services.RekorLogURLsConfig(), sign.RekorAPIVersions, now())
	if err != nil {
		return fmt.Errorf("transparency logs: %w", err)
	}
	for _, l := range logs {
		o.TransparencyLogs = append(o.TransparencyLogs, sign.NewRekor(&sign.RekorOptions{BaseURL: l.URL, Version: l.MajorAPIVersion}))
	}
	if len(s.services.TimestampAuthorityURLs()) == 0 {
		return nil
	}
	stamps, err := root.SelectServices(s.services.TimestampAuthorityURLs(), s.services.TimestampAuthorityURLsConfig(),
		sign.TimestampAuthorityAPIVersions, now())
	if err != nil {
		return fmt.Errorf("timestamp authorities: %w", err)
	}
	for _, t := range stamps {
		o.TimestampAuthorities = append(o.TimestampAuthorities, sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: t.URL}))
	}
	return nil
}

// issued is a certificate that Fulcio has issued.
type issued []byte

// GetCertificate implements sign.CertificateProvider.
func (i issued) GetCertificate(context.Context, sign.Keypair, *sign.CertificateProviderOptions) ([]byte, error) {
	return i, nil
}

// certificate returns a key pair and its certificate, the same for several signatures.
func (s *identitySigner) certificate(ctx context.Context) (*sign.EphemeralKeypair, issued, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now().Before(s.until) {
		return s.keypair, s.cert, nil
	}
	token, err := s.token(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the token of this run: %w", err)
	}
	authority, err := root.SelectService(s.services.FulcioCertificateAuthorityURLs(), sign.FulcioAPIVersions, now())
	if err != nil {
		return nil, nil, fmt.Errorf("certificate authorities: %w", err)
	}
	keypair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return nil, nil, err
	}
	began := now()
	cert, err := sign.NewFulcio(&sign.FulcioOptions{BaseURL: authority.URL}).GetCertificate(ctx, keypair, &sign.CertificateProviderOptions{IDToken: token})
	if err != nil {
		return nil, nil, err
	}
	s.keypair, s.cert, s.until = keypair, cert, began.Add(reuse)
	return keypair, cert, nil
}

// now is the time of the machine, by which authorities judge certificates, too.
func now() time.Time { return time.Now() } //nolint:forbidigo // see above
