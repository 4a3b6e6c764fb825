package gitstore

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrMalformed means that an object has the right hash but is not a valid object. Its author is at fault, and a
// retry does not help.
var ErrMalformed error = malformedError{}

type malformedError struct{}

// Error implements error.
func (malformedError) Error() string { return "the object is malformed" }

// Malformed lets packages that do not import this one recognise the error.
func (malformedError) Malformed() bool { return true }

// parseTree decodes an untrusted tree. It checks names and order, and maps modes to canonical ones.
func parseTree(data []byte) ([]Entry, error) {
	const shortest = 28 // bytes of an entry: a mode, a name of one byte and a hash
	out := make([]Entry, 0, len(data)/(shortest+len(Hash{})/2))
	text := string(data) // shared by all names: a tree of thousands of folders has as many of them
	for text != "" {
		mode, rest, ok := strings.Cut(text, " ")
		if !ok {
			return nil, ErrMalformed
		}
		name, rest, ok := strings.Cut(rest, "\x00")
		if !ok || len(rest) < len(Hash{}) {
			return nil, ErrMalformed
		}
		m, err := parseMode(mode)
		if err != nil {
			return nil, err
		}
		e := Entry{Name: name, Mode: m, Hash: Hash([]byte(rest[:len(Hash{})]))}
		if e.Name == "" || e.Name == "." || e.Name == ".." || strings.Contains(e.Name, "/") {
			return nil, fmt.Errorf("%w: the name %q", ErrMalformed, e.Name)
		}
		if n := len(out); n > 0 && compareEntries(out[n-1], e) >= 0 {
			return nil, fmt.Errorf("%w: %q stands twice or in the wrong place", ErrMalformed, e.Name)
		}
		out = append(out, e)
		text = rest[len(Hash{}):]
	}
	return out, nil
}

// parseMode maps modes of old tools to those that Git writes today.
func parseMode(text string) (Mode, error) {
	switch text { // as Git writes it
	case "100644":
		return ModeFile, nil
	case "40000":
		return ModeTree, nil
	}
	m, err := strconv.ParseUint(text, 8, 32)
	if err != nil {
		return 0, ErrMalformed
	}
	switch Mode(m) & 0o170000 {
	case 0o100000:
		if m&0o100 != 0 {
			return ModeExecutable, nil
		}
		return ModeFile, nil
	case ModeTree, ModeSymlink, ModeSubmodule:
		return Mode(m) & 0o170000, nil
	}
	return 0, fmt.Errorf("%w: the mode %o", ErrMalformed, m)
}

// parseCommit reads the headers in Git's order and ignores repeated ones, so that Sluice and Git see the same tree in
// a hostile commit.
func parseCommit(h Hash, data []byte) (Commit, error) {
	head, message, ok := strings.Cut(string(data), "\n\n")
	if !ok {
		head = strings.TrimSuffix(string(data), "\n")
	}
	c := Commit{Hash: h, Message: strings.ToValidUTF8(message, "\ufffd")}
	lines := strings.Split(head, "\n")
	next := func(key string) (string, bool) {
		if len(lines) == 0 {
			return "", false
		}
		value, ok := strings.CutPrefix(lines[0], key+" ")
		if ok {
			lines = lines[1:]
		}
		return value, ok
	}
	tree, ok := next("tree")
	if !ok {
		return Commit{}, fmt.Errorf("commit %s: %w", h, ErrMalformed)
	}
	var err error
	if c.Tree, err = ParseHash(tree); err != nil {
		return Commit{}, fmt.Errorf("commit %s: %w", h, err)
	}
	for value, ok := next("parent"); ok; value, ok = next("parent") {
		parent, err := ParseHash(value)
		if err != nil {
			return Commit{}, fmt.Errorf("commit %s: %w", h, err)
		}
		c.Parents = append(c.Parents, parent)
	}
	for key, into := range map[string]*Signature{"author": &c.Author, "committer": &c.Committer} {
		if *into, err = firstSignature(lines, key); err != nil {
			return Commit{}, fmt.Errorf("commit %s: %w", h, err)
		}
	}
	return c, nil
}

func firstSignature(lines []string, key string) (Signature, error) {
	for _, line := range lines {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			return parseSignature(strings.ToValidUTF8(value, "\ufffd"))
		}
	}
	return Signature{}, ErrMalformed
}

func parseSignature(s string) (Signature, error) {
	open, end := strings.IndexByte(s, '<'), strings.LastIndexByte(s, '>')
	if open < 0 || end < open {
		return Signature{}, ErrMalformed
	}
	out := Signature{Name: strings.TrimSpace(s[:open]), Email: s[open+1 : end]}
	seconds, zone, _ := strings.Cut(strings.TrimSpace(s[end+1:]), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return out, nil //nolint:nilerr // some old commits have invalid dates; they can be read all the same
	}
	out.When = time.Unix(unix, 0).UTC()
	if offset, err := time.Parse("-0700", zone); err == nil {
		out.When = out.When.In(offset.Location())
	}
	return out, nil
}

// taggedObject returns the object that an annotated tag points to.
func taggedObject(data []byte) (Hash, error) {
	line, _, _ := bytes.Cut(data, []byte{'\n'})
	name, ok := bytes.CutPrefix(line, []byte("object "))
	if !ok {
		return Hash{}, ErrMalformed
	}
	return ParseHash(string(name))
}
