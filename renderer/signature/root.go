package signature

import (
	"errors"
	"fmt"
	"strings"

	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// trustedRoot is Sigstore's trusted_root.json: what sigstore-go trusts.
type trustedRoot struct {
	root.TrustedMaterial
	// transparent means that the file has logs of certificates, although their keys may not be supported.
	transparent bool
}

func readTrustedRoot(data []byte) (*trustedRoot, error) {
	file := &prototrustroot.TrustedRoot{}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, file)
	if err != nil || !strings.HasPrefix(file.GetMediaType(), "application/vnd.dev.sigstore.trustedroot") {
		return nil, errors.New("the trusted root is not Sigstore's trusted_root.json: " +
			"take the one of `cosign trusted-root create` or of Sigstore's TUF repository")
	}
	out := &trustedRoot{transparent: len(file.GetCtlogs()) > 0}
	file.MediaType = root.TrustedRootMediaType01 // the one that sigstore-go knows; the form is the same in all
	file.Tlogs, file.Ctlogs = supported(file.GetTlogs()), supported(file.GetCtlogs())
	if len(file.GetTlogs()) == 0 || len(file.GetCertificateAuthorities()) == 0 {
		return nil, errors.New("the trusted root has no transparency log or no certificate authority")
	}
	if out.TrustedMaterial, err = root.NewTrustedRootFromProtobuf(file); err != nil {
		return nil, fmt.Errorf("the trusted root cannot be used: %w", brief(err))
	}
	return out, nil
}

// supported leaves out the logs that sigstore-go does not support, such as those with a new kind of key. They vouch for
// nothing here.
func supported(logs []*prototrustroot.TransparencyLogInstance) []*prototrustroot.TransparencyLogInstance {
	var out []*prototrustroot.TransparencyLogInstance
	for _, l := range logs {
		if _, err := root.ParseTransparencyLogs([]*prototrustroot.TransparencyLogInstance{l}); err == nil {
			out = append(out, l)
		}
	}
	return out
}

// verify requires that an entity is signed with a certificate for the signer's identity that a trusted authority
// issued; that a trusted log has the entity; that the certificate was valid at each time at which the log or a trusted
// timestamp authority signed that it exists, at least one; and, if the trusted root has logs of certificates, that one
// of them promised to include the certificate.
func (r *trustedRoot) verify(entity verify.SignedEntity, artifact verify.ArtifactPolicyOption, by Signer) error {
	identity, err := verify.NewShortCertificateIdentity(by.Issuer, "", by.Subject, "")
	if err != nil {
		return brief(err)
	}
	stamps, _, err := verify.VerifySignedTimestamp(entity, r)
	if err != nil {
		return brief(err)
	}
	options := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)}
	if r.transparent {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	v, err := verify.NewVerifier(rootAt{r, stamps}, options...)
	if err != nil {
		return brief(err)
	}
	if _, err := v.Verify(entity, verify.NewPolicy(artifact, verify.WithCertificateIdentity(identity))); err != nil {
		return fmt.Errorf("it does not verify with the trusted root: %w", brief(err))
	}
	return nil
}

// rootAt is a trusted root with only the transparency logs that are valid at some times. sigstore-go compares the
// validity of a log with the time that the log promised, but not with timestamps.
type rootAt struct {
	*trustedRoot
	times []*root.Timestamp
}

// RekorLogs returns the logs that are valid at all of the times.
func (r rootAt) RekorLogs() map[string]*root.TransparencyLog {
	out := map[string]*root.TransparencyLog{}
	for id, log := range r.trustedRoot.RekorLogs() {
		valid := true
		for _, t := range r.times {
			valid = valid && !t.Time.Before(log.ValidityPeriodStart) &&
				(log.ValidityPeriodEnd.IsZero() || !t.Time.After(log.ValidityPeriodEnd))
		}
		if valid {
			out[id] = log
		}
	}
	return out
}

// brief shortens an error of sigstore-go, which may quote what a registry serves.
func brief(err error) error { return errors.New(safetext.Brief(err.Error(), 400)) }
