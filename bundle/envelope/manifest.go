package envelope

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
)

// Kinds of envelopes.
const (
	Bundle  = "Bundle"
	Receipt = "Receipt"
)

// Version is the version of the format that this program reads and writes.
const Version = 1

// Limits of an envelope. Whoever brings a file wrote its numbers.
const (
	MaxBytes      = 8<<30 - 1 // of a file, and the most that a header of tar says in octal digits
	maxManifest   = 512 << 10
	maxParts      = 1024
	maxSignatures = 16
	maxSignature  = 16 << 10
)

// Manifest describes an envelope. The signatures are over its encoding.
type Manifest struct {
	Kind        string    `json:"kind"`        // Bundle or Receipt
	Version     int       `json:"version"`     // see Version
	Fleet       string    `json:"fleet"`       // metadata.name of the fleet
	Environment string    `json:"environment"` // that the envelope is about
	Sequence    int64     `json:"sequence"`    // from 1, for each environment and kind
	Previous    string    `json:"previous"`    // digest of the manifest before it; "" for the first
	Created     time.Time `json:"created"`     // in whole seconds of UTC
	Parts       []Part    `json:"parts"`       // in the order of the file
}

// Part is one member of an envelope.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hexadecimal digits
}

var (
	partName = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)
	// name matches names of fleets and environments, which become parts of the names of branches.
	name = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
)

func validName(s string) bool {
	const most = 63
	return len(s) <= most && name.MatchString(s) && !strings.Contains(s, "..") && !strings.HasSuffix(s, ".lock")
}

// Encode returns the bytes that are signed.
func (m Manifest) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}

// Digest returns the SHA-256 of an encoded manifest. It identifies the envelope without its signatures.
func Digest(manifest []byte) string {
	sum := sha256.Sum256(manifest)
	return hex.EncodeToString(sum[:])
}

// decodeManifest decodes what Encode wrote, and nothing else that means the same.
func decodeManifest(data []byte) (Manifest, error) {
	var head struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(data, &head) == nil && head.Version > Version {
		return Manifest{}, fmt.Errorf("it has version %d of the format, and this program reads version %d: use a newer sluice", head.Version, Version)
	}
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("its manifest cannot be read: %w", err)
	}
	again, err := m.Encode()
	if err != nil {
		return Manifest{}, err
	}
	if !bytes.Equal(again, data) {
		return Manifest{}, errors.New("its manifest does not have the form in which sluice writes it")
	}
	return m, nil
}

func (m Manifest) check() error {
	switch {
	case m.Kind != Bundle && m.Kind != Receipt:
		return fmt.Errorf("its kind is %.40q: want %s or %s", m.Kind, Bundle, Receipt)
	case m.Version != Version:
		return fmt.Errorf("it has version %d of the format, and this program reads version %d", m.Version, Version)
	case !validName(m.Fleet):
		return fmt.Errorf("%.40q is not the name of a fleet", m.Fleet)
	case !validName(m.Environment):
		return fmt.Errorf("%.40q is not the name of an environment", m.Environment)
	case m.Sequence < 1:
		return fmt.Errorf("its sequence is %d: numbers start at 1", m.Sequence)
	case m.Previous != "" && digest.SHA256.Validate(m.Previous) != nil:
		return errors.New("the digest of the one before it is not a SHA-256")
	case m.Previous == "" && m.Sequence > 1:
		return fmt.Errorf("it has the sequence %d and names none before it", m.Sequence)
	case m.Created.Location() != time.UTC || m.Created.Nanosecond() != 0:
		return errors.New("its time is not in whole seconds of UTC")
	case len(m.Parts) == 0 || len(m.Parts) > maxParts:
		return fmt.Errorf("it has %d parts: want 1 to %d", len(m.Parts), maxParts)
	}
	return m.checkParts()
}

func (m Manifest) checkParts() error {
	total := int64(0)
	for i, p := range m.Parts {
		switch {
		case len(p.Name) > 90 || !partName.MatchString(p.Name) || p.Name == manifestName:
			return fmt.Errorf("%.100q is not the name of a part", p.Name)
		case slices.ContainsFunc(m.Parts[:i], func(other Part) bool { return other.Name == p.Name }):
			return fmt.Errorf("it has two parts %s", p.Name)
		case p.Size < 0 || p.Size > MaxBytes:
			return fmt.Errorf("part %s has %d bytes, more than the %d that a file may have", p.Name, p.Size, int64(MaxBytes))
		case digest.SHA256.Validate(p.SHA256) != nil:
			return fmt.Errorf("the digest of part %s is not a SHA-256", p.Name)
		}
		if total += p.Size; total > MaxBytes {
			return fmt.Errorf("its parts have more than %d bytes", int64(MaxBytes))
		}
	}
	return nil
}
