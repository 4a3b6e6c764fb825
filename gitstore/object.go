package gitstore

import (
	"io/fs"
	"time"

	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// Hash names a Git object.
type Hash = pack.Hash

// ParseHash parses a hash of 40 hexadecimal digits.
func ParseHash(s string) (Hash, error) { return pack.ParseHash(s) }

// MaxObject is the most bytes that are read of one object, whatever its declared size.
const MaxObject = pack.MaxObject

// Raw is a Git object (blob, tree, commit or tag) as its bytes.
type Raw = pack.Object

// Sum returns the name of an object.
func Sum(kind string, data []byte) Hash { return pack.Sum(kind, data) }

// Mode is a tree entry's mode.
type Mode uint32

// The modes that Git knows.
const (
	ModeFile       Mode = 0o100644
	ModeExecutable Mode = 0o100755
	ModeSymlink    Mode = 0o120000
	ModeSubmodule  Mode = 0o160000
	ModeTree       Mode = 0o040000
)

// FileMode returns the mode in io/fs's form; a submodule is irregular.
func (m Mode) FileMode() fs.FileMode {
	switch m {
	case ModeTree:
		return fs.ModeDir | 0o755
	case ModeSymlink:
		return fs.ModeSymlink | 0o777
	case ModeSubmodule:
		return fs.ModeIrregular
	case ModeExecutable:
		return 0o755
	default:
		return 0o644
	}
}

// Entry is one name in a tree.
type Entry struct {
	Name string
	Mode Mode
	Hash Hash
}

// Signature is a person with a time, including its zone.
type Signature struct {
	Name, Email string
	When        time.Time
}

// Commit is a commit.
type Commit struct {
	Hash, Tree        Hash
	Parents           []Hash
	Author, Committer Signature
	Message           string
}

// CommitSpec describes a commit to create.
type CommitSpec struct {
	Tree              Hash
	Parents           []Hash
	Author, Committer Signature
	Message           string
	Signer            Signer // nil: not signed
}

// Signer signs a commit's bytes and returns the armoured signature. Verify returns an error if a signature is not by
// the signer's key.
type Signer interface {
	Verify(commit []byte, signature string) error
	Sign(commit []byte) (string, error)
}
