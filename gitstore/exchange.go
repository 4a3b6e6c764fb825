package gitstore

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Git's packfiles
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zlib"
)

// maxExchange bounds the bytes of all objects of a packfile for AddPack, without compression.
const maxExchange = 256 << 20

// OpenEmpty returns a store in memory without objects. Its Writers use no files.
func OpenEmpty() *Store {
	return OpenSupplied(func(context.Context, []Hash) ([]Raw, error) { return nil, ErrNotFound })
}

// Size returns the bytes that the Writer has written so far, compressed.
func (w *Writer) Size() int64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.offset
}

// Pack returns the objects as a packfile for AddPack. It completes the Writer: nothing can be added afterwards.
func (w *Writer) Pack() ([]byte, error) {
	if err := w.seal(); err != nil {
		return nil, fmt.Errorf("complete a packfile: %w", err)
	}
	return io.ReadAll(w.reader())
}

// AddPack adds the objects of a packfile that Pack returned on another machine, as they were compressed there. It trusts no name of the
// sender: it computes the hash of each object from its content. The packfile may have only blobs, and trees of regular files that are among
// these blobs, with names that Tree accepts. AddPack returns the trees with the number of their files. If it fails, it adds nothing.
func (w *Writer) AddPack(data []byte) (map[Hash]int, error) {
	r := packReader{data: data, blobs: map[Hash]bool{}, trees: map[Hash]int{}, left: maxExchange}
	if err := r.read(); err != nil {
		return nil, fmt.Errorf("read a packfile of another machine: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sealed {
		return nil, errComplete
	}
	for i := range r.found {
		f := &r.found[i]
		if _, known := w.objects[f.hash]; known {
			continue
		}
		if _, err := w.out.Write(f.bytes); err != nil {
			return nil, fmt.Errorf("write a packfile: %w", err)
		}
		w.added(f.hash, f.packed, len(f.bytes))
		if f.tree != nil {
			w.hold(f.hash, f.tree)
		}
	}
	return r.trees, nil
}

// packReader reads a packfile in memory that has neither deltas nor commits.
type packReader struct {
	data  []byte
	left  int // bytes that objects may still have
	found []foundObject
	blobs map[Hash]bool
	trees map[Hash]int // number of entries

	z    io.ReadCloser // reused, because its tables cost more than most objects
	text []byte        // reused
}

// foundObject is an object of a packReader. bytes is its place in the packfile.
type foundObject struct {
	packed
	hash  Hash
	bytes []byte
	tree  []byte // the content of a tree
}

func (r *packReader) read() error {
	body := len(r.data) - sha1.Size
	if body < packHeader || !bytes.HasPrefix(r.data, []byte("PACK\x00\x00\x00\x02")) {
		return fmt.Errorf("%w: it is no packfile", ErrDamaged)
	}
	if sum := sha1.Sum(r.data[:body]); !bytes.Equal(sum[:], r.data[body:]) { //nolint:gosec // Git's packfiles
		return fmt.Errorf("%w: its checksum is another one", ErrDamaged)
	}
	var trees [][]Entry
	n := binary.BigEndian.Uint32(r.data[8:])
	for at := packHeader; at < body; {
		f, err := r.object(r.data[at:body])
		if err != nil {
			return err
		}
		at += len(f.bytes)
		if f.kind == kindByte("tree") {
			entries, err := plainTree(r.text)
			if err != nil {
				return err
			}
			trees = append(trees, entries)
			r.trees[f.hash] = len(entries)
			f.tree = bytes.Clone(r.text)
		} else {
			r.blobs[f.hash] = true
		}
		r.found = append(r.found, f)
	}
	if len(r.found) != int(n) {
		return fmt.Errorf("%w: %d objects, %d expected", ErrDamaged, len(r.found), n)
	}
	for _, entries := range trees {
		for _, e := range entries {
			if !r.blobs[e.Hash] {
				return fmt.Errorf("%w: the file %q of a tree is missing", ErrDamaged, e.Name)
			}
		}
	}
	return nil
}

// object reads the object at the beginning of data. Its content is in r.text until the next call.
func (r *packReader) object(data []byte) (foundObject, error) {
	kind, size, header := objectHeader(data)
	if header == 0 || kind != kindByte("blob") && kind != kindByte("tree") {
		return foundObject{}, fmt.Errorf("%w: an object is neither a blob nor a tree", ErrDamaged)
	}
	if size > maxObject || size > r.left {
		return foundObject{}, fmt.Errorf("a %s of %d bytes: %w", kindName(kind), size, ErrTooLarge)
	}
	r.left -= size
	in := bytes.NewReader(data[header:]) // an io.ByteReader, so that inflating reads no byte of the next object
	if cap(r.text) < size {
		r.text = make([]byte, size, 2*size)
	}
	r.text = r.text[:size]
	if err := r.inflate(in); err != nil {
		return foundObject{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	f := foundObject{hash: hashObject(kindName(kind), r.text), bytes: data[:len(data)-in.Len()]}
	f.packed = packed{crc: crc32.ChecksumIEEE(f.bytes), kind: kind, size: size}
	return f, nil
}

// inflate fills r.text with exactly the content of a zlib stream.
func (r *packReader) inflate(in *bytes.Reader) error {
	var err error
	if reset, ok := r.z.(zlib.Resetter); ok {
		err = reset.Reset(in, nil)
	} else {
		r.z, err = zlib.NewReader(in)
	}
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(r.z, r.text); err != nil {
		return err
	}
	var more [1]byte
	if n, err := r.z.Read(more[:]); n > 0 || !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("an object is longer than its header says"), err)
	}
	return nil
}

// objectHeader reads what writeObjectHeader wrote. It returns the number of its bytes, 0 if there is no header.
func objectHeader(data []byte) (kind byte, size, length int) {
	const most = 5 // bytes: 4 + 4×7 bits of a size
	for i, b := range data[:min(most, len(data))] {
		if i == 0 {
			kind, size = b>>4&7, int(b&0x0f)
		} else {
			size |= int(b&0x7f) << (7*i - 3)
		}
		if b&0x80 == 0 {
			return kind, size, i + 1
		}
	}
	return 0, 0, 0
}

// plainTree parses a tree of regular files, in the form that encodeTree gives it.
func plainTree(data []byte) ([]Entry, error) {
	entries, err := parseTree(data)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Mode != ModeFile {
			return nil, fmt.Errorf("%w: %q is no regular file", ErrMalformed, e.Name)
		}
	}
	again, err := encodeTree(entries)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: a tree is not in Git's form", ErrMalformed)
	}
	return entries, nil
}
