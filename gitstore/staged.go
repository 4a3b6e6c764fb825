package gitstore

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // Git's index
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// stagedFile is an entry of Git's index.
type stagedFile struct {
	name     string // from the top of the working tree
	mode     Mode
	hash     Hash
	size     int64     // bytes that the file had when Git wrote or read it, modulo 4 GiB
	modified time.Time // of the file at that time; zero if Git did not record it
	skip     bool      // a sparse checkout omits it
	intended bool      // by `git add -N`: it is not staged yet
}

// stagedFiles reads Git's index: its entries, and their tree as Git recorded it when it last wrote the tree; zero if an entry has changed since
// then.
func stagedFiles(s *Store) ([]stagedFile, Hash, error) {
	name := filepath.Join(s.gitDir, "index")
	if info, err := os.Stat(name); err == nil && info.Size() <= maxIndex {
		data, err := os.ReadFile(name) //nolint:gosec // the user's own repository
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, Hash{}, err
		}
		if files, tree, ok := decodeIndex(data); ok {
			return files, tree, nil
		}
	}
	s.refs.Lock()
	idx, err := s.repo.Index()
	s.refs.Unlock()
	if err != nil {
		return nil, Hash{}, fmt.Errorf("read the index of %s: %w: run `git sparse-checkout reapply --no-sparse-index` if it is sparse", s.worktree, err)
	}
	return stagedOf(idx), stagedTree(idx), nil
}

// stagedOf returns the entries of an index that go-git decoded.
func stagedOf(idx *index.Index) []stagedFile {
	files := make([]stagedFile, 0, len(idx.Entries))
	for _, e := range idx.Entries {
		files = append(files, stagedFile{
			name: e.Name, mode: Mode(e.Mode), hash: Hash(e.Hash), size: int64(e.Size), modified: e.ModifiedAt, skip: e.SkipWorktree, intended: e.IntentToAdd,
		})
	}
	return files
}

// stagedTree returns the tree of an index. See "Cache tree" in gitformat-index.
func stagedTree(idx *index.Index) Hash {
	if idx.Cache == nil || len(idx.Cache.Entries) == 0 || idx.Cache.Entries[0].Path != "" {
		return Hash{}
	}
	return Hash(idx.Cache.Entries[0].Hash)
}

// Layout of an index; see gitformat-index.
const (
	indexSignature = "DIRC"
	indexBegin     = 4 + 4 + 4 // the signature, the version and the number of entries
	stagedMode     = 24        // where an entry has its mode
	stagedSize     = 36
	stagedHash     = 40
	stagedFlags    = stagedHash + hashSize
	stagedName     = stagedFlags + 2
	stagedExtended = 0x4000 // a flag: more flags follow
	stagedLength   = 0x0fff // flags with the length of the name
	stagedSkip     = 0x4000 // of the flags that follow
	stagedIntended = 0x2000
	stagedAlign    = 8
	extensionHead  = 4 + 4
	maxIndex       = 512 << 20 // bytes that are read at once; go-git's decoder reads a larger one in parts
	oldestIndex    = 2
	shortNames     = 4 // the version whose entries have only the part of a name that differs from the name before
)

// decodeIndex decodes an index. It takes less than a third of the time of go-git's decoder, which reads field by field: a hydration decodes
// thousands of entries. It also decodes an index without a checksum, which Git writes with index.skipHash, for example after
// `git config feature.manyFiles true`. ok is false for what it does not know, such as an extension that one has to know, and for damage, which
// go-git's decoder then names.
func decodeIndex(data []byte) (files []stagedFile, tree Hash, ok bool) {
	end := len(data) - hashSize
	if end < indexBegin || string(data[:4]) != indexSignature {
		return nil, Hash{}, false
	}
	version, count := binary.BigEndian.Uint32(data[4:]), int64(binary.BigEndian.Uint32(data[8:]))
	if version < oldestIndex || version > shortNames || count > int64(end/stagedName) {
		return nil, Hash{}, false
	}
	if sum := sha1.Sum(data[:end]); Hash(sum) != Hash(data[end:]) && !Hash(data[end:]).IsZero() { //nolint:gosec // Git's index
		return nil, Hash{}, false
	}
	rest, before := data[indexBegin:end], ""
	files = make([]stagedFile, count)
	for i := range files {
		decode := files[i].decode
		if version == shortNames {
			decode = func(data []byte) (int, bool) { return files[i].decodeShort(data, before) }
		}
		size, ok := decode(rest)
		if !ok {
			return nil, Hash{}, false
		}
		rest, before = rest[size:], files[i].name
	}
	tree, ok = extensions(rest)
	return files, tree, ok
}

// decode decodes the entry at the beginning of data, and returns its length.
func (f *stagedFile) decode(data []byte) (length int, ok bool) {
	begin, named, ok := f.decodeHead(data)
	if !ok {
		return 0, false
	}
	name, _, ended := bytes.Cut(data[begin:], []byte{0})
	length = (begin + len(name) + stagedAlign) / stagedAlign * stagedAlign
	f.name = string(name)
	return length, ended && length <= len(data) && min(len(name), stagedLength) == named
}

// decodeShort decodes an entry with the number of bytes to remove from the end of the name before, and the rest of the name.
func (f *stagedFile) decodeShort(data []byte, before string) (length int, ok bool) {
	begin, named, ok := f.decodeHead(data)
	if !ok {
		return 0, false
	}
	in := bytes.NewReader(data[begin:])
	remove, err := indexNumber(in)
	if err != nil || remove > len(before) {
		return 0, false
	}
	begin = len(data) - in.Len()
	name, _, ended := bytes.Cut(data[begin:], []byte{0})
	f.name = before[:len(before)-remove] + string(name)
	return begin + len(name) + 1, ended && min(len(f.name), stagedLength) == named
}

// indexNumber reads a number as a distance in a packfile is written: 7 bits a byte, the first are the highest, and no number has two forms.
func indexNumber(in io.ByteReader) (int, error) {
	b, err := in.ReadByte()
	n := int(b & 0x7f)
	for err == nil && b&0x80 != 0 {
		if n > maxIndex {
			return 0, errors.New("the number is too large")
		}
		b, err = in.ReadByte()
		n = (n+1)<<7 | int(b&0x7f)
	}
	return n, err
}

// decodeHead decodes what all versions have before a name. It returns where the name begins, and its length as the flags have it, which end at
// stagedLength.
func (f *stagedFile) decodeHead(data []byte) (begin, named int, ok bool) {
	if len(data) < stagedName {
		return 0, 0, false
	}
	if at := binary.BigEndian.Uint64(data[8:]); at != 0 {
		f.modified = time.Unix(int64(at>>32), int64(at&0xffffffff))
	}
	f.mode = Mode(binary.BigEndian.Uint32(data[stagedMode:]))
	f.size = int64(binary.BigEndian.Uint32(data[stagedSize:]))
	f.hash = Hash(data[stagedHash:stagedFlags])
	flags := binary.BigEndian.Uint16(data[stagedFlags:])
	begin, named = stagedName, int(flags&stagedLength)
	if flags&stagedExtended == 0 {
		return begin, named, true
	}
	if begin += 2; len(data) < begin {
		return 0, 0, false
	}
	more := binary.BigEndian.Uint16(data[stagedName:])
	f.skip, f.intended = more&stagedSkip != 0, more&stagedIntended != 0
	return begin, named, true
}

// extensions returns the tree in the extensions of an index; false if one is not optional.
func extensions(data []byte) (tree Hash, ok bool) {
	for len(data) > 0 {
		if len(data) < extensionHead || data[0] < 'A' || data[0] > 'Z' {
			return Hash{}, false
		}
		size := int64(binary.BigEndian.Uint32(data[4:]))
		if size > int64(len(data)-extensionHead) {
			return Hash{}, false
		}
		content := data[extensionHead : extensionHead+size]
		if string(data[:4]) == "TREE" {
			tree = cachedTree(content)
		}
		data = data[extensionHead+size:]
	}
	return tree, true
}

// cachedTree returns the tree of the whole index from the extension of trees, which has it first: an empty path, a zero byte, the number of
// entries, a space, the number of trees below it, a newline, and the hash. The number of entries is -1 if one has changed.
func cachedTree(data []byte) Hash {
	head, hash, ok := bytes.Cut(data, []byte{'\n'})
	entries, _, spaced := strings.Cut(string(head), " ")
	if !ok || !spaced || len(entries) < 2 || entries[0] != 0 || entries[1] == '-' || len(hash) < hashSize {
		return Hash{}
	}
	return Hash(hash[:hashSize])
}
