package gitstore

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // Git's packfiles
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/klauspost/compress/zlib"
)

// Writer collects new objects in one packfile on disk, so that memory stays small whatever their number. It is safe for
// concurrent use; equal objects are written once. What it holds can be read through its Store before it is pushed. Close
// removes what was not stored.
type Writer struct {
	store *Store
	file  *os.File
	pool  sync.Pool // of *zlib.Writer

	mu      sync.Mutex
	out     *bufio.Writer
	offset  int64
	objects map[Hash]packed
	order   []Hash
	sealed  bool
}

type packed struct {
	offset int64
	crc    uint32
	kind   byte
	size   int
}

const packHeader = 12

// NewWriter starts a set of new objects.
func (s *Store) NewWriter() (*Writer, error) {
	dir := ""
	if s.dir != "" {
		if dir = filepath.Join(s.dir, "objects", "pack"); os.MkdirAll(dir, 0o750) != nil {
			dir = ""
		}
	}
	file, err := os.CreateTemp(dir, "tmp_pack_")
	if err != nil && dir != "" { // a repository that may only be read
		file, err = os.CreateTemp("", "tmp_pack_")
	}
	if err != nil {
		return nil, fmt.Errorf("start a packfile: %w", err)
	}
	w := &Writer{store: s, file: file, out: bufio.NewWriterSize(file, 1<<16), offset: packHeader, objects: map[Hash]packed{}}
	w.pool.New = func() any {
		z, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed)
		return z
	}
	if _, err := w.out.Write(make([]byte, packHeader)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	s.mu.Lock()
	s.writers = append(s.writers, w)
	s.mu.Unlock()
	return w, nil
}

// Len is the number of objects so far.
func (w *Writer) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.objects)
}

// Has says whether the object is among the new ones.
func (w *Writer) Has(h Hash) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.objects[h]
	return ok
}

// Blob adds a file's bytes.
func (w *Writer) Blob(data []byte) (Hash, error) { return w.add("blob", data) }

// Tree adds a directory. Names that a checkout must not meet and names that come twice are refused.
func (w *Writer) Tree(entries []Entry) (Hash, error) {
	data, err := encodeTree(entries)
	if err != nil {
		return Hash{}, err
	}
	return w.add("tree", data)
}

// Commit adds a commit.
func (w *Writer) Commit(c CommitSpec) (Hash, error) {
	data, err := encodeCommit(c)
	if err != nil {
		return Hash{}, err
	}
	return w.add("commit", data)
}

func kindByte(kind string) byte {
	switch kind {
	case "commit":
		return 1
	case "tree":
		return 2
	default:
		return 3
	}
}

func kindName(kind byte) string {
	return [...]string{"", "commit", "tree", "blob"}[kind]
}

// add deflates outside the lock.
func (w *Writer) add(kind string, data []byte) (Hash, error) {
	h := hashObject(kind, data)
	w.mu.Lock()
	_, known := w.objects[h]
	w.mu.Unlock()
	if known {
		return h, nil
	}
	var buf bytes.Buffer
	writeObjectHeader(&buf, kindByte(kind), len(data))
	z, _ := w.pool.Get().(*zlib.Writer)
	z.Reset(&buf)
	_, err := z.Write(data)
	if err = errors.Join(err, z.Close()); err != nil {
		return h, err
	}
	w.pool.Put(z)
	crc := crc32.ChecksumIEEE(buf.Bytes())
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.objects[h]; known {
		return h, nil
	}
	if w.sealed {
		return h, errors.New("the packfile is complete already")
	}
	if _, err := w.out.Write(buf.Bytes()); err != nil {
		return h, fmt.Errorf("write a packfile: %w", err)
	}
	w.objects[h] = packed{offset: w.offset, crc: crc, kind: kindByte(kind), size: len(data)}
	w.order = append(w.order, h)
	w.offset += int64(buf.Len())
	return h, nil
}

// writeObjectHeader follows gitformat-pack: the kind and the low four bits of the size, then seven bits a byte.
func writeObjectHeader(buf *bytes.Buffer, kind byte, size int) {
	b := kind<<4 | byte(size&0x0f)
	for size >>= 4; size > 0; size >>= 7 {
		buf.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	buf.WriteByte(b)
}

// read gives an object back; the store's lock is held.
func (w *Writer) read(h Hash) (object, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.objects[h]
	if !ok {
		return object{}, false, nil
	}
	if err := w.out.Flush(); err != nil {
		return object{}, true, err
	}
	section := bufio.NewReader(io.NewSectionReader(w.file, p.offset, w.offset-p.offset))
	for {
		b, err := section.ReadByte()
		if err != nil {
			return object{}, true, err
		}
		if b&0x80 == 0 {
			break
		}
	}
	z, err := zlib.NewReader(section)
	if err != nil {
		return object{}, true, err
	}
	data := make([]byte, p.size)
	_, err = io.ReadFull(z, data)
	return object{kind: kindName(p.kind), data: data}, true, err
}

// seal completes the packfile: the count in its header, the checksum at its end.
func (w *Writer) seal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sealed {
		return nil
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	header := make([]byte, 0, packHeader)
	header = append(header, "PACK"...)
	header = binary.BigEndian.AppendUint32(header, 2)
	header = binary.BigEndian.AppendUint32(header, uint32(len(w.order))) //nolint:gosec // far below four billion
	if _, err := w.file.WriteAt(header, 0); err != nil {
		return err
	}
	sum := sha1.New() //nolint:gosec // Git's packfiles
	if _, err := io.Copy(sum, io.NewSectionReader(w.file, 0, w.offset)); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(sum.Sum(nil), w.offset); err != nil {
		return err
	}
	w.sealed = true
	return nil
}

// reader is the whole packfile.
func (w *Writer) reader() io.Reader {
	return io.NewSectionReader(w.file, 0, w.offset+sha1.Size)
}

// store puts the packfile into the repository's object folder, so that its objects stay.
func (w *Writer) storePack() error {
	if err := w.seal(); err != nil {
		return fmt.Errorf("complete the packfile: %w", err)
	}
	if w.store.dir == "" || len(w.order) == 0 {
		return nil
	}
	var checksum plumbing.Hash
	if _, err := w.file.ReadAt(checksum[:], w.offset); err != nil {
		return err
	}
	base := filepath.Join(w.store.dir, "objects", "pack", "pack-"+checksum.String())
	if err := w.writeIndex(base+".idx.tmp", checksum); err != nil {
		return err
	}
	if err := w.file.Chmod(0o444); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	// Git looks for the index first: it comes last, so that a half-stored pack is never seen.
	if err := copyOrLink(w.file.Name(), base+".pack"); err != nil {
		return err
	}
	if err := os.Rename(base+".idx.tmp", base+".idx"); err != nil {
		return err
	}
	w.store.reindex()
	return nil
}

func copyOrLink(from, to string) error {
	if _, err := os.Stat(to); err == nil || os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from) //nolint:gosec // our own temporary file
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o444) //nolint:gosec // as Git's own packs
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(to+".tmp", to)
}

func (w *Writer) writeIndex(name string, checksum plumbing.Hash) error {
	index := &idxfile.Writer{}
	if err := index.OnHeader(uint32(len(w.order))); err != nil { //nolint:gosec // far below four billion
		return err
	}
	for _, h := range w.order {
		p := w.objects[h]
		index.Add(plumbing.Hash(h), uint64(p.offset), p.crc) //nolint:gosec // never negative
	}
	if err := index.OnFooter(checksum); err != nil {
		return err
	}
	table, err := index.Index()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o444) //nolint:gosec // as Git's own indexes
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	_, err = idxfile.NewEncoder(buffered).Encode(table)
	return errors.Join(err, buffered.Flush(), out.Sync(), out.Close())
}

// Close removes the temporary file. Objects that were pushed to this repository stay.
func (w *Writer) Close() error {
	w.store.mu.Lock()
	for i, other := range w.store.writers {
		if other == w {
			w.store.writers = append(w.store.writers[:i], w.store.writers[i+1:]...)
			break
		}
	}
	w.store.mu.Unlock()
	return errors.Join(w.file.Close(), os.Remove(w.file.Name()))
}
