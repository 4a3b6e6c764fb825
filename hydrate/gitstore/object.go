package gitstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Hash names a Git object.
type Hash [20]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short is the beginning of the hash, for people.
func (h Hash) Short() string { return h.String()[:10] }

// IsZero says that the hash names nothing.
func (h Hash) IsZero() bool { return h == Hash{} }

// ParseHash reads a hash of 40 hexadecimal digits.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) {
		return h, fmt.Errorf("%q is no object name", s)
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("%q is no object name", s)
	}
	return h, nil
}

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

// FileMode is the mode as io/fs has it; a submodule is irregular.
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

// Signature is who did something, and when; the time's zone is kept.
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

var errMalformed = errors.New("the object is malformed")

func parseTree(data []byte) ([]Entry, error) {
	var out []Entry
	for len(data) > 0 {
		mode, rest, ok := bytes.Cut(data, []byte{' '})
		if !ok {
			return nil, errMalformed
		}
		name, rest, ok := bytes.Cut(rest, []byte{0})
		if !ok || len(rest) < len(Hash{}) {
			return nil, errMalformed
		}
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if err != nil {
			return nil, errMalformed
		}
		e := Entry{Name: string(name), Mode: Mode(m)}
		if e.Mode == 0o100664 { // an old way to write a file
			e.Mode = ModeFile
		}
		copy(e.Hash[:], rest)
		out = append(out, e)
		data = rest[len(Hash{}):]
	}
	return out, nil
}

// encodeTree sorts as Git does and refuses what a checkout must not meet.
func encodeTree(entries []Entry) ([]byte, error) {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	seen := make(map[string]bool, len(sorted))
	var out []byte
	for _, e := range sorted {
		if err := checkEntryName(e.Name); err != nil {
			return nil, err
		}
		if seen[e.Name] {
			return nil, fmt.Errorf("the name %q is twice in one tree", e.Name)
		}
		seen[e.Name] = true
		out = strconv.AppendUint(out, uint64(e.Mode), 8)
		out = append(out, ' ')
		out = append(out, e.Name...)
		out = append(out, 0)
		out = append(out, e.Hash[:]...)
	}
	return out, nil
}

func (e Entry) sortKey() string {
	if e.Mode == ModeTree {
		return e.Name + "/"
	}
	return e.Name
}

func checkEntryName(name string) error {
	folded := strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1 // HFS+ does not see these
		}
		return r
	}, name))
	ntfs := strings.TrimRight(folded, ". ")
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00"),
		folded == ".git", ntfs == ".git", ntfs == "git~1", strings.HasPrefix(folded, ".git:"):
		return fmt.Errorf("%q cannot be a name in a tree", name)
	}
	return nil
}

func parseCommit(h Hash, data []byte) (Commit, error) {
	c := Commit{Hash: h}
	head, message, ok := strings.Cut(string(data), "\n\n")
	if !ok {
		head = strings.TrimSuffix(string(data), "\n")
	}
	c.Message = message
	var err error
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			c.Tree, err = ParseHash(value)
		case "parent":
			var parent Hash
			parent, err = ParseHash(value)
			c.Parents = append(c.Parents, parent)
		case "author":
			c.Author, err = parseSignature(value)
		case "committer":
			c.Committer, err = parseSignature(value)
		}
		if err != nil {
			return Commit{}, fmt.Errorf("commit %s: %w", h, err)
		}
	}
	return c, nil
}

func parseSignature(s string) (Signature, error) {
	open, end := strings.IndexByte(s, '<'), strings.LastIndexByte(s, '>')
	if open < 0 || end < open {
		return Signature{}, errMalformed
	}
	out := Signature{Name: strings.TrimSpace(s[:open]), Email: s[open+1 : end]}
	seconds, zone, _ := strings.Cut(strings.TrimSpace(s[end+1:]), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return out, nil //nolint:nilerr // old commits have odd dates; they are no reason to fail
	}
	out.When = time.Unix(unix, 0).UTC()
	if offset, err := time.Parse("-0700", zone); err == nil {
		out.When = out.When.In(offset.Location())
	}
	return out, nil
}

// encodeSignature writes a signature; characters that end a field are left out.
func encodeSignature(s Signature) string {
	clean := func(text string) string {
		return strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' || r == '<' || r == '>' || r == 0x7f {
				return -1
			}
			return r
		}, text))
	}
	return fmt.Sprintf("%s <%s> %d %s", clean(s.Name), clean(s.Email), s.When.Unix(), s.When.Format("-0700"))
}

// CommitSpec is a commit to make.
type CommitSpec struct {
	Tree              Hash
	Parents           []Hash
	Author, Committer Signature
	Message           string
	Signer            Signer // nil: not signed
}

// Signer signs a commit's bytes and gives the armoured signature.
type Signer interface {
	Sign(commit []byte) (string, error)
}

func encodeCommit(c CommitSpec) ([]byte, error) {
	var head strings.Builder
	fmt.Fprintf(&head, "tree %s\n", c.Tree)
	for _, p := range c.Parents {
		fmt.Fprintf(&head, "parent %s\n", p)
	}
	fmt.Fprintf(&head, "author %s\ncommitter %s\n", encodeSignature(c.Author), encodeSignature(c.Committer))
	message := strings.ReplaceAll(c.Message, "\x00", "")
	if c.Signer == nil {
		return []byte(head.String() + "\n" + message), nil
	}
	signature, err := c.Signer.Sign([]byte(head.String() + "\n" + message))
	if err != nil {
		return nil, fmt.Errorf("sign a commit: %w", err)
	}
	folded := strings.ReplaceAll(strings.TrimSuffix(signature, "\n"), "\n", "\n ")
	return []byte(head.String() + "gpgsig " + folded + "\n\n" + message), nil
}
