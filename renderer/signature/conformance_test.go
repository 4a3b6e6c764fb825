package signature

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/testing/data"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// TestConformance verifies bundles that come with sigstore-go, of the public instance and of its test instance.
func TestConformance(t *testing.T) {
	t.Parallel()
	const release = "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main"
	const blob = "bc103b4a84971ef6459b294a2b98568a2bfb72cded09d4acd1e16366a401f95b"
	for name, c := range map[string]struct {
		bundle, root, issuer, subject string
		digest                        string // SHA-256 of the artifact; "": of no interest
		want                          string // "": it counts
	}{
		"public instance": {
			"sigstore.js@2.0.0-provenance.sigstore.json", "public-good.json", actions,
			release, "", "",
		},
		"another subject": {
			"sigstore.js@2.0.0-provenance.sigstore.json", "public-good.json", actions,
			release + "x", "", "SAN value",
		},
		"another issuer": {
			"sigstore.js@2.0.0-provenance.sigstore.json", "public-good.json",
			"https://accounts.example.com", release, "", "issuer value",
		},
		"another root": {
			"sigstore.js@2.0.0-provenance.sigstore.json", "scaffolding.json", actions,
			release, "", "not enough verified log entries",
		},
		"two signatures": {
			"dsse-2sigs.sigstore.json", "public-good.json", actions, release, "",
			"exactly one signature",
		},
		"another name": {
			"othername.sigstore.json", "scaffolding.json", "http://oidc.local:8080",
			"foo!oidc.local", blob, "",
		},
		"an address that is another name": {
			"othername.sigstore.json", "scaffolding.json", "http://oidc.local:8080",
			"foo@oidc.local", blob, "SAN value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := data.TrustedRoot(t, c.root).MarshalJSON()
			if err != nil {
				t.Fatalf("trusted root: %v", err)
			}
			root, err := readTrustedRoot(file)
			if err != nil {
				t.Fatalf("trusted root: %v", err)
			}
			artifact := verify.WithoutArtifactUnsafe()
			if c.digest != "" {
				sum, err := hex.DecodeString(c.digest)
				if err != nil {
					t.Fatalf("digest: %v", err)
				}
				artifact = verify.WithArtifactDigest("sha256", sum)
			}
			err = root.verify(data.Bundle(t, c.bundle), artifact, Signer{Issuer: c.issuer, Subject: c.subject})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("bundle %s with the trusted root %s: got %v, want %q", c.bundle, c.root, err, c.want)
			}
		})
	}
}

// TestVirtualSigstore verifies entities that sigstore-go's own authority makes.
func TestVirtualSigstore(t *testing.T) {
	t.Parallel()
	authority, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatalf("new authority: %v", err)
	}
	stranger, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatalf("new authority: %v", err)
	}
	const subject, issuer = "ada@example.com", "https://accounts.example.com"
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"00"}}],"predicateType":"x","predicate":{}}`)
	for name, c := range map[string]struct {
		make     func() (*ca.TestEntity, error)
		artifact func() verify.ArtifactPolicyOption
	}{
		"an envelope in a log of the first generation": {
			func() (*ca.TestEntity, error) { return authority.Attest(subject, issuer, statement) },
			verify.WithoutArtifactUnsafe,
		},
		"an envelope in a log of the second generation": {
			func() (*ca.TestEntity, error) { return authority.AttestHashedRekordV2(subject, issuer, statement) },
			verify.WithoutArtifactUnsafe,
		},
		"a message": {
			func() (*ca.TestEntity, error) { return authority.Sign(subject, issuer, []byte("message")) },
			func() verify.ArtifactPolicyOption { return verify.WithArtifact(bytes.NewReader([]byte("message"))) },
		},
	} {
		entity, err := c.make()
		if err != nil {
			t.Fatalf("%s: the error is %v", name, err)
		}
		for _, r := range []struct {
			trusted root.TrustedMaterial
			by      Signer
			good    bool
		}{
			{authority, Signer{Issuer: issuer, Subject: subject}, true},
			{authority, Signer{Issuer: issuer, Subject: "eve@example.com"}, false},
			{authority, Signer{Issuer: issuer}, false},
			{stranger, Signer{Issuer: issuer, Subject: subject}, false},
		} {
			root := &trustedRoot{TrustedMaterial: r.trusted}
			if err := root.verify(entity, c.artifact(), r.by); (err == nil) != r.good {
				t.Errorf("%s, trusted %t, for %q: got %v, want it to count: %t", name, r.trusted == authority,
					r.by.Subject, err, r.good)
			}
		}
	}
}
