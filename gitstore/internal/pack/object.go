package pack

import (
	"crypto/sha1" //nolint:gosec // Git's object names
	"encoding/hex"
	"fmt"
	"strconv"
)

// MaxObject is the most bytes that are read of one object, whatever its declared size.
const MaxObject = 32 << 20

// Hash names a Git object.
type Hash [20]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short returns the first digits of the hash, for messages.
func (h Hash) Short() string { return h.String()[:10] }

// IsZero reports whether the hash is zero, which names no object.
func (h Hash) IsZero() bool { return h == Hash{} }

// ParseHash parses a hash of 40 hexadecimal digits.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) {
		return h, fmt.Errorf("%q is not an object name", s)
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("%q is not an object name", s)
	}
	return h, nil
}

// Object is a Git object (blob, tree, commit or tag) as its bytes.
type Object struct {
	Kind string
	Data []byte
}

// Sum returns the name of an object.
func Sum(kind string, data []byte) Hash {
	var head [32]byte
	h := sha1.New() //nolint:gosec // Git's object names
	// A hash returns no error.
	_, _ = h.Write(append(strconv.AppendInt(append(append(head[:0], kind...), ' '), int64(len(data)), 10), 0))
	_, _ = h.Write(data)
	return Hash(h.Sum(head[:0]))
}
