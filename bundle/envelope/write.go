package envelope

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	manifestName = "manifest.json"
	block        = 512 // bytes of a header, and the unit of members
)

func signatureName(i int) string { return fmt.Sprintf("signatures/%d.sig", i+1) }

// Content is a part to write. Data is read twice.
type Content struct {
	Name string
	Data *io.SectionReader
}

// Text returns a part from memory.
func Text(name string, data []byte) Content {
	return Content{name, io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))}
}

// Seal returns the encoded manifest of parts: m with their names, sizes and digests, and with its kind's version.
func Seal(m Manifest, parts []Content) ([]byte, error) {
	m.Version, m.Parts, m.Created = Version, nil, m.Created.UTC().Truncate(time.Second)
	for _, p := range parts {
		sum := sha256.New()
		if _, err := io.Copy(sum, section(p.Data)); err != nil {
			return nil, fmt.Errorf("part %s: %w", p.Name, err)
		}
		m.Parts = append(m.Parts, Part{Name: p.Name, Size: p.Data.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))})
	}
	return m.Encode()
}

// section returns a reader of the whole section, whatever was read of it.
func section(s *io.SectionReader) io.Reader { return io.NewSectionReader(s, 0, s.Size()) }

// Write signs an encoded manifest of Seal and writes the envelope. Keys that sign reproducibly (Ed25519, RSA) make
// equal files of equal content.
func Write(to io.Writer, manifest []byte, parts []Content, by ...Signer) error {
	if len(by) == 0 || len(by) > maxSignatures {
		return fmt.Errorf("%d keys sign: want 1 to %d", len(by), maxSignatures)
	}
	signatures := make([][]byte, len(by))
	for i, s := range by {
		text, err := s.Sign(manifest)
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		if len(text) > maxSignature {
			return errors.New("sign: the signature is too large")
		}
		signatures[i] = []byte(text)
	}
	return write(to, manifest, parts, signatures)
}

func write(to io.Writer, manifest []byte, parts []Content, signatures [][]byte) error {
	m, err := decodeManifest(manifest)
	if err != nil {
		return err
	}
	if len(m.Parts) != len(parts) {
		return fmt.Errorf("the manifest lists %d parts, and there are %d", len(m.Parts), len(parts))
	}
	archive := tar.NewWriter(to)
	if err := add(archive, manifestName, bytes.NewReader(manifest), int64(len(manifest))); err != nil {
		return err
	}
	for i, s := range signatures {
		if err := add(archive, signatureName(i), bytes.NewReader(s), int64(len(s))); err != nil {
			return err
		}
	}
	for i, p := range parts {
		want := m.Parts[i]
		if want.Name != p.Name {
			return fmt.Errorf("part %d is %s, and the manifest lists %s", i+1, p.Name, want.Name)
		}
		if err := add(archive, p.Name, checked(section(p.Data), want), want.Size); err != nil {
			return err
		}
	}
	return archive.Close()
}

func add(archive *tar.Writer, name string, from io.Reader, size int64) error {
	if err := archive.WriteHeader(header(name, size)); err != nil {
		return err
	}
	_, err := io.Copy(archive, from)
	return err
}

func header(name string, size int64) *tar.Header {
	return &tar.Header{
		Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0),
	}
}

// headerBlock returns the bytes of a header.
func headerBlock(name string, size int64) ([]byte, error) {
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(header(name, size)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
