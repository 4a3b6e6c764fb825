package gitstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// encodeTree encodes entries in Git's order. It refuses names and modes that are unsafe in a checkout.
func encodeTree(entries []Entry) ([]byte, error) {
	sorted := entries
	// most trees are those that a reader gave, with a few other hashes
	if !slices.IsSortedFunc(entries, compareEntries) {
		sorted = slices.SortedFunc(slices.Values(entries), compareEntries)
	}
	files := filesBesideFolders(sorted)
	size := 0
	for _, e := range sorted {
		size += len("100644 ") + len(e.Name) + 1 + len(e.Hash)
	}
	out := make([]byte, 0, size)
	for i, e := range sorted {
		if err := checkEntry(e); err != nil {
			return nil, err
		}
		if i > 0 && sorted[i-1].Name == e.Name || e.Mode == ModeTree && files[e.Name] {
			return nil, fmt.Errorf("the name %q appears twice in one tree", e.Name)
		}
		out = strconv.AppendUint(out, uint64(e.Mode), 8)
		out = append(out, ' ')
		out = append(out, e.Name...)
		out = append(out, 0)
		out = append(out, e.Hash[:]...)
	}
	return out, nil
}

// filesBesideFolders returns the names of those entries that are no folders, if there are both: a file and a folder of
// one name need not be neighbours in a tree.
func filesBesideFolders(entries []Entry) map[string]bool {
	folders := 0
	for _, e := range entries {
		if e.Mode == ModeTree {
			folders++
		}
	}
	if folders == 0 || folders == len(entries) {
		return nil
	}
	out := make(map[string]bool, len(entries)-folders)
	for _, e := range entries {
		if e.Mode != ModeTree {
			out[e.Name] = true
		}
	}
	return out
}

func checkEntry(e Entry) error {
	switch e.Mode {
	case ModeFile, ModeExecutable, ModeSymlink, ModeSubmodule, ModeTree:
	default:
		return fmt.Errorf("%q cannot have the mode %o in a tree", e.Name, uint32(e.Mode))
	}
	if e.Hash.IsZero() {
		return fmt.Errorf("%q has no object", e.Name)
	}
	return checkEntryName(e.Name)
}

// checkEntryName refuses names that leave the tree or that a file system could read as .git: HFS+ ignores some runes;
// NTFS ignores trailing dots and blanks, has short names, and treats the text after a colon as a stream.
func checkEntryName(name string) error {
	if plainName(name) {
		return nil
	}
	folded := strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, name))
	ntfs, _, _ := strings.Cut(folded, ":")
	ntfs = strings.TrimRight(ntfs, ". ")
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00"),
		folded == ".git", ntfs == ".git", ntfs == "git~1":
		return fmt.Errorf("%q cannot be a name in a tree", name)
	}
	return nil
}

// plainName reports whether a name has only lower-case letters, digits and hyphens, which no file system reads as
// another name.
func plainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return name != ""
}

// encodeSignature encodes a signature. It drops characters that would end a field, and clamps dates to the range that
// Git accepts.
func encodeSignature(s Signature) string {
	clean := func(text string) string {
		return strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' || r == '<' || r == '>' || r == 0x7f {
				return -1
			}
			return r
		}, text))
	}
	return fmt.Sprintf("%s <%s> %d %s", clean(s.Name), clean(s.Email), max(s.When.Unix(), 0), s.When.Format("-0700"))
}

func encodeCommit(c CommitSpec) ([]byte, error) {
	if c.Tree.IsZero() {
		return nil, errors.New("a commit needs a tree")
	}
	var head strings.Builder
	fmt.Fprintf(&head, "tree %s\n", c.Tree)
	for _, p := range c.Parents {
		fmt.Fprintf(&head, "parent %s\n", p)
	}
	fmt.Fprintf(&head, "author %s\ncommitter %s\n", encodeSignature(c.Author), encodeSignature(c.Committer))
	message := strings.ToValidUTF8(strings.ReplaceAll(c.Message, "\x00", ""), "\ufffd")
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
