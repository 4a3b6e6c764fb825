package envelope

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid matches every error of Open about the content of a file: it is damaged, altered or not an envelope.
var ErrInvalid = errors.New("not a valid envelope")

// invalidError says what is wrong with a file.
type invalidError struct{ reason string }

func (e *invalidError) Error() string { return e.reason }

func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(format string, args ...any) error { return &invalidError{fmt.Sprintf(format, args...)} }

// Envelope is an open envelope. Its manifest agrees with its parts; nothing says who made it before Trust.Verify does.
// It is safe for concurrent use.
type Envelope struct {
	Manifest
	Digest     string   // of the manifest's bytes
	Size       int64    // of the file
	Signatures [][]byte // not verified

	raw   []byte // the manifest's bytes
	from  io.ReaderAt
	start []int64 // offsets of the parts
}

// Open reads an envelope once and checks its form, sizes and digests. An error that is not ErrInvalid is one of the
// reader. It holds the manifest and the signatures in memory, and no parts.
func Open(from io.ReaderAt, size int64) (*Envelope, error) {
	if size > MaxBytes {
		return nil, invalid("it has %d bytes, more than the %d that a file may have", size, int64(MaxBytes))
	}
	s := &scanner{from: from, size: size}
	e := &Envelope{from: from, Size: size}
	if err := e.read(s); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, invalid("it ends too early, after %d bytes: copy it again", size)
		}
		return nil, err
	}
	return e, nil
}

func (e *Envelope) read(s *scanner) error {
	found, length, err := s.peek()
	if err != nil {
		return err
	}
	if found != manifestName || length > maxManifest {
		return invalid("it does not begin with %s", manifestName)
	}
	if e.raw, err = s.member(manifestName, length); err != nil {
		return err
	}
	if e.Manifest, err = decodeManifest(e.raw); err != nil {
		return invalid("%v", err)
	}
	e.Digest = Digest(e.raw)
	if err := e.readSignatures(s); err != nil {
		return err
	}
	for _, p := range e.Parts {
		if err := s.header(p.Name, p.Size); err != nil {
			return err
		}
		e.start = append(e.start, s.at)
		if err := s.skip(p); err != nil {
			return err
		}
	}
	return s.end()
}

func (e *Envelope) readSignatures(s *scanner) error {
	for {
		found, length, err := s.peek()
		if err != nil {
			return err
		}
		if !strings.HasPrefix(found, "signatures/") {
			return nil
		}
		if len(e.Signatures) == maxSignatures {
			return invalid("it has more than %d signatures", maxSignatures)
		}
		if length > maxSignature {
			return invalid("a signature has %d bytes, more than %d", length, maxSignature)
		}
		signature, err := s.member(signatureName(len(e.Signatures)), length)
		if err != nil {
			return err
		}
		e.Signatures = append(e.Signatures, signature)
	}
}

// Has reports whether the envelope has a part.
func (e *Envelope) Has(name string) bool { return e.part(name) >= 0 }

func (e *Envelope) part(name string) int {
	return slices.IndexFunc(e.Parts, func(p Part) bool { return p.Name == name })
}

// Part reads a part. The reader fails at the end if the file has changed since Open, so a caller must not act on what
// it has read before io.EOF.
func (e *Envelope) Part(name string) (io.Reader, error) {
	i := e.part(name)
	if i < 0 {
		return nil, invalid("it has no part %s", name)
	}
	return checked(io.NewSectionReader(e.from, e.start[i], e.Parts[i].Size), e.Parts[i]), nil
}

// Read returns a part of at most a number of bytes.
func (e *Envelope) Read(name string, most int64) ([]byte, error) {
	r, err := e.Part(name)
	if err != nil {
		return nil, err
	}
	if size := e.Parts[e.part(name)].Size; size > most {
		return nil, invalid("part %s has %d bytes, more than the %d that it may have", name, size, most)
	}
	return io.ReadAll(r)
}

// checked returns a reader that fails at the end of a part with another size or digest.
func checked(from io.Reader, want Part) io.Reader {
	return &checkedReader{from: from, want: want, sum: sha256.New()}
}

type checkedReader struct {
	from io.Reader
	want Part
	sum  hash.Hash
	read int64
}

func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.sum.Write(p[:n])
	c.read += int64(n)
	if errors.Is(err, io.EOF) {
		if c.read != c.want.Size {
			return n, io.ErrUnexpectedEOF
		}
		if hex.EncodeToString(c.sum.Sum(nil)) != c.want.SHA256 {
			return n, invalid("part %s does not have the digest that the manifest names: the file is damaged or altered", c.want.Name)
		}
	}
	return n, err
}

// scanner walks over the members of a file.
type scanner struct {
	from     io.ReaderAt
	size, at int64
}

func (s *scanner) bytes(n int64) ([]byte, error) {
	if n > s.size-s.at {
		return nil, io.ErrUnexpectedEOF
	}
	out := make([]byte, n)
	if n == 0 {
		return out, nil
	}
	if read, err := s.from.ReadAt(out, s.at); err != nil && int64(read) < n {
		return nil, err
	}
	s.at += n
	return out, nil
}

// peek returns what the next header says, unchecked: header compares the whole block.
func (s *scanner) peek() (name string, size int64, err error) {
	head, err := s.bytes(block)
	if err != nil {
		return "", 0, err
	}
	s.at -= block
	text, _, _ := bytes.Cut(head[:100], []byte{0})
	size, err = strconv.ParseInt(strings.TrimRight(string(head[124:136]), " \x00"), 8, 64)
	if err != nil || size < 0 {
		return string(text), 0, invalid("after %d bytes, there is no member that sluice writes", s.at)
	}
	return string(text), size, nil
}

// header reads a header, which must be exactly the one of a plain file.
func (s *scanner) header(name string, size int64) error {
	want, err := headerBlock(name, size)
	if err != nil {
		return err
	}
	got, err := s.bytes(block)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return invalid("%s; want %s with %d bytes, as the manifest says", describe(got), name, size)
	}
	return nil
}

// describe says what a header that is not the expected one seems to be.
func describe(head []byte) string {
	if bytes.Equal(head, make([]byte, block)) {
		return "the archive ends early"
	}
	h, err := tar.NewReader(bytes.NewReader(head)).Next()
	if err != nil || h.Typeflag != tar.TypeReg {
		return "a member is not a plain file"
	}
	return fmt.Sprintf("a member is %.100q with %d bytes, mode %o", h.Name, h.Size, h.Mode)
}

// member reads a small member.
func (s *scanner) member(name string, size int64) ([]byte, error) {
	if err := s.header(name, size); err != nil {
		return nil, err
	}
	data, err := s.bytes(size)
	if err != nil {
		return nil, err
	}
	return data, s.padding(name, size)
}

// skip reads a part and compares its digest.
func (s *scanner) skip(p Part) error {
	if p.Size > s.size-s.at {
		return io.ErrUnexpectedEOF
	}
	if _, err := io.Copy(io.Discard, checked(io.NewSectionReader(s.from, s.at, p.Size), p)); err != nil {
		return err
	}
	s.at += p.Size
	return s.padding(p.Name, p.Size)
}

// padding reads the zeros up to the next block.
func (s *scanner) padding(name string, size int64) error {
	rest, err := s.bytes((block - size%block) % block)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(rest, func(b byte) bool { return b != 0 }) {
		return invalid("bytes follow %s that belong to no member", name)
	}
	return nil
}

// end reads the end of the archive, two blocks of zeros, and of the file.
func (s *scanner) end() error {
	last, err := s.bytes(2 * block)
	if err != nil {
		return err
	}
	if !bytes.Equal(last[:block], make([]byte, block)) {
		return invalid("%s, after the last part that the manifest lists", describe(last[:block]))
	}
	if !bytes.Equal(last, make([]byte, 2*block)) || s.at != s.size {
		return invalid("bytes follow the end of the archive")
	}
	return nil
}
