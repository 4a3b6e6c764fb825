package envelope

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/signers"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// ErrUntrusted means that too few of the allowed signers signed an envelope, or that it is for another fleet or
// environment.
var ErrUntrusted = errors.New("the envelope is not trusted")

// Trust says whose envelopes count.
type Trust struct {
	fleet        string
	environments []string
	threshold    int
	trunk        bool
	ssh          signers.List
	keys         []trustedKey
}

type trustedKey struct {
	name string
	key  signature.Verifier
}

// trustFile is the form of the file.
type trustFile struct {
	Fleet        string      `yaml:"fleet"`
	Environments []string    `yaml:"environments"`
	Threshold    int         `yaml:"threshold"`
	Trunk        bool        `yaml:"trunk"`
	Signers      []string    `yaml:"signers"`
	Keys         []trustName `yaml:"keys"`
}

type trustName struct {
	Name string `yaml:"name"`
	PEM  string `yaml:"pem"`
}

// ParseTrust parses a file of signers:
//
//	fleet: acme
//	environments: [gov]
//	trunk: true                       # bundles bring the trunk, with home's rules; default: false
//	threshold: 2                      # so many of the names must have signed; default: 1
//	signers:                          # SSH keys, as in Git's allowed-signers file
//	  - ana@example.com ssh-ed25519 AAAA…
//	keys:                             # public keys of cosign
//	  - {name: release, pem: "-----BEGIN PUBLIC KEY-----…"}
//
// A name with several keys counts once, so that a key can be replaced without a pause.
func ParseTrust(data []byte) (*Trust, error) {
	if err := manifest.Check(data, manifest.Budget{Bytes: 1 << 20, Nodes: 10_000, Expanded: 1 << 20, Depth: 20}); err != nil {
		return nil, err
	}
	var f trustFile
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("it is not a list of signers: %w", err)
	}
	if f.Threshold == 0 {
		f.Threshold = 1
	}
	list, err := signers.ParseFor(Namespace, f.Signers)
	if err != nil {
		if bad, ok := errors.AsType[*signers.LineError](err); ok {
			return nil, fmt.Errorf("signers[%d]: %w", bad.Line, err)
		}
		return nil, fmt.Errorf("signers: %w", err)
	}
	t := &Trust{fleet: f.Fleet, environments: f.Environments, threshold: f.Threshold, trunk: f.Trunk, ssh: list}
	names := list.Names()
	for i, k := range f.Keys {
		public, err := cryptoutils.UnmarshalPEMToPublicKey([]byte(k.PEM))
		if err != nil {
			return nil, fmt.Errorf("keys[%d].pem: it is not a public key in PEM form, as `cosign public-key` prints it", i)
		}
		verifier, err := signature.LoadVerifier(public, crypto.SHA256)
		if err != nil || k.Name == "" {
			return nil, fmt.Errorf("keys[%d]: write a name, and a key of cosign", i)
		}
		t.keys = append(t.keys, trustedKey{k.Name, verifier})
		if !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	switch {
	case f.Fleet == "":
		return nil, errors.New("fleet: write the name of the fleet whose envelopes these keys sign")
	case len(f.Environments) == 0:
		return nil, errors.New("environments: list the environments whose envelopes may come here")
	case f.Threshold < 1 || f.Threshold > len(names):
		return nil, fmt.Errorf("threshold: %d of %d names can never sign: list more signers, or lower it", f.Threshold, len(names))
	}
	return t, nil
}

// TakesTrunk reports whether bundles may bring the trunk.
func (t *Trust) TakesTrunk() bool { return t.trunk }

// Signature is the verdict on one signature.
type Signature struct {
	By      string // name of the signer; "" if it does not count
	Problem string // why it does not count
}

// Verdict is what Verify found.
type Verdict struct {
	Signatures []Signature // in the order of the file
	Names      []string    // of the signers that count, each once
	Threshold  int
}

// Verify checks the signatures of an envelope against the trusted keys, which must be valid at a time. Signatures of
// unknown keys are ignored, since another site may know them. The error is an ErrUntrusted.
func (t *Trust) Verify(e *Envelope, at time.Time) (Verdict, error) {
	out := Verdict{Threshold: t.threshold}
	for _, s := range e.Signatures {
		by, err := t.signer(e.raw, s, at)
		if err != nil {
			out.Signatures = append(out.Signatures, Signature{Problem: err.Error()})
			continue
		}
		out.Signatures = append(out.Signatures, Signature{By: by})
		if !slices.Contains(out.Names, by) {
			out.Names = append(out.Names, by)
		}
	}
	switch {
	case e.Fleet != t.fleet:
		return out, fmt.Errorf("%w: it is for the fleet %s, and the file of signers is for %s", ErrUntrusted, e.Fleet, t.fleet)
	case !slices.Contains(t.environments, e.Environment):
		return out, fmt.Errorf("%w: it is for the environment %s, and the file of signers allows %s", ErrUntrusted,
			e.Environment, strings.Join(t.environments, ", "))
	case len(out.Names) < t.threshold:
		return out, fmt.Errorf("%w: %s", ErrUntrusted, out.missing())
	}
	return out, nil
}

func (v Verdict) missing() string {
	var why []string
	for i, s := range v.Signatures {
		if s.Problem != "" {
			why = append(why, fmt.Sprintf("signature %d: %s", i+1, s.Problem))
		}
	}
	text := fmt.Sprintf("%d of %d required signers signed it", len(v.Names), v.Threshold)
	if len(why) > 0 {
		text += " (" + strings.Join(why, "; ") + ")"
	}
	return text
}

// signer returns the name of the trusted signer that made a signature.
func (t *Trust) signer(message, made []byte, at time.Time) (string, error) {
	if bytes.HasPrefix(made, []byte("-----BEGIN SSH SIGNATURE-----")) {
		by, err := t.ssh.Verify(message, string(made), at)
		if err != nil {
			return "", errors.New(strings.TrimPrefix(err.Error(), signers.ErrUntrusted.Error()+": "))
		}
		return by, nil
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(made)))
	if err != nil {
		return "", errors.New("it is neither an SSH signature nor one of cosign")
	}
	for _, k := range t.keys {
		if k.key.VerifySignature(bytes.NewReader(raw), bytes.NewReader(message)) == nil {
			return k.name, nil
		}
	}
	return "", errors.New("none of the listed keys of cosign made it for this manifest")
}
