package pack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/klauspost/compress/zlib"
)

// pack reads objects of one packfile. It is safe for concurrent use until it is closed. go-git's reader is not used,
// because it keeps one position for all callers, needs the whole index in memory, and reports a truncated packfile as
// a missing object.
type pack struct {
	base  string // path without .pack and .idx
	id    int64  // identifies the pack in the cache
	index *packIndex
	size  int64 // without the checksum at the end

	mu        sync.Mutex
	file      *os.File  // nil until the first read, because a repository can have many packs
	inflaters sync.Pool // of *inflater
}

// openPack opens an index and checks that its packfile matches it and is complete. It does not read the objects. base
// is the path without a suffix.
func openPack(base string, id int64) (*pack, error) {
	index, err := openIndex(base + ".idx")
	if err != nil {
		return nil, err
	}
	p := &pack{base: base, id: id, index: index}
	file, err := os.Open(base + ".pack") //nolint:gosec // a repository's packfile
	if err == nil {
		err = errors.Join(p.check(file), file.Close())
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// check compares the packfile's header, length and checksum field with the index.
func (p *pack) check(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	p.size = info.Size() - int64(hashSize)
	if p.size < packHeader {
		return fmt.Errorf("the packfile has only %d bytes", info.Size())
	}
	var head [packHeader]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		return err
	}
	if count := binary.BigEndian.Uint32(head[8:]); string(head[:4]) != "PACK" || int64(count) != int64(p.index.count) {
		return fmt.Errorf("the packfile's header does not fit the index of %d objects", p.index.count)
	}
	var sum Hash
	if _, err := file.ReadAt(sum[:], p.size); err != nil {
		return err
	}
	want, err := p.index.packChecksum()
	if err != nil {
		return err
	}
	if sum != want {
		return errors.New("the packfile does not end with the checksum in its index: it is incomplete or another one")
	}
	return nil
}

// data opens the packfile at the first call.
func (p *pack) data() (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil {
		return p.file, nil
	}
	var err error
	p.file, err = os.Open(p.base + ".pack")
	return p.file, err
}

func (p *pack) close() error {
	err := p.index.close()
	if p.file != nil {
		err = errors.Join(err, p.file.Close())
	}
	return err
}

// Kinds of packed objects; see gitformat-pack.
const (
	offsetDelta = 6
	refDelta    = 7
)

// packedHeader describes a packed object.
type packedHeader struct {
	kind byte
	size int   // size after inflating: of the object, or of the delta
	base int64 // offset of a delta's base
}

// Limits on the deltas of one object, so that a packfile of a few kilobytes cannot take hours.
const (
	maxChain = 4096 // Git writes at most 4095
	// bytes that all deltas of a chain may produce: about two seconds. Git's chains have 50 deltas
	maxPatch = 64 * MaxObject
)

// at reads the object at an offset. known holds objects that were already read, and their kinds.
func (p *pack) at(offset int64, known *cache.BufferLRU) (Object, error) {
	type step struct {
		offset int64
		delta  []byte
	}
	var chain []step
	var o Object
	for total, patched := 0, uint64(0); ; {
		if data, ok := known.Get(p.key(offset)); ok {
			o = Object{Kind: kindName(data[len(data)-1]), Data: data[:len(data)-1]}
			break
		}
		header, data, err := p.inflate(offset)
		if err != nil {
			return Object{}, err
		}
		if header.kind != offsetDelta && header.kind != refDelta {
			o = Object{Kind: kindName(header.kind), Data: data}
			p.keep(known, offset, o)
			break
		}
		target := deltaTarget(data)
		if target > MaxObject {
			return Object{}, ErrTooLarge
		}
		if total, patched = total+len(data), patched+target; total > MaxObject || patched > maxPatch ||
			len(chain) == maxChain {
			return Object{}, ErrTooLarge
		}
		chain = append(chain, step{offset, data})
		offset = header.base
	}
	for _, c := range slices.Backward(chain) {
		data, err := packfile.PatchDelta(o.Data, c.delta)
		if err != nil {
			return Object{}, err
		}
		o.Data = data
		p.keep(known, c.offset, o)
	}
	return o, nil
}

func (p *pack) key(offset int64) int64 { return p.id<<44 | offset } // a packfile is smaller than 16 TiB

func (p *pack) keep(known *cache.BufferLRU, offset int64, o Object) {
	known.Put(p.key(offset), append(append(make([]byte, 0, len(o.Data)+1), o.Data...), kindByte(o.Kind)))
}

// deltaTarget returns the size of a delta's result; 0 if the delta does not contain it.
func deltaTarget(delta []byte) uint64 {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0
	}
	target, n := binary.Uvarint(delta[n:])
	if n <= 0 {
		return 0
	}
	return target
}

// inflater is pooled: its buffers cost more than most objects.
type inflater struct {
	in *bufio.Reader
	z  io.ReadCloser
}

// inflate reads the header and the content at an offset.
func (p *pack) inflate(offset int64) (packedHeader, []byte, error) {
	if offset < packHeader || offset >= p.size {
		return packedHeader{}, nil, fmt.Errorf("offset %d is outside the packfile", offset)
	}
	file, err := p.data()
	if err != nil {
		return packedHeader{}, nil, err
	}
	f, ok := p.inflaters.Get().(*inflater)
	if !ok {
		f = &inflater{in: bufio.NewReader(nil)}
	}
	defer p.inflaters.Put(f)
	f.in.Reset(io.NewSectionReader(file, offset, p.size-offset))
	header, err := p.header(f.in, offset)
	if err != nil {
		return header, nil, err
	}
	if header.size > MaxObject {
		return header, nil, ErrTooLarge
	}
	data, err := f.read(header.size)
	return header, data, err
}

// read inflates exactly size bytes and verifies zlib's checksum.
func (f *inflater) read(size int) ([]byte, error) {
	if err := f.start(); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	return data, f.rest(data)
}

// start begins to inflate what in has next.
func (f *inflater) start() error {
	var err error
	if f.z == nil {
		f.z, err = zlib.NewReader(f.in)
	} else if resetter, ok := f.z.(zlib.Resetter); ok {
		err = resetter.Reset(f.in, nil)
	}
	return err
}

// rest inflates exactly as many bytes as data has, and verifies zlib's checksum.
func (f *inflater) rest(data []byte) error {
	if _, err := io.ReadFull(f.z, data); err != nil {
		return err
	}
	var more [1]byte
	if n, err := f.z.Read(more[:]); n > 0 {
		return errors.New("an object is longer than its header says")
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// loose reads an object of its own file: its kind, a space, its size, a zero byte, and its content.
func (f *inflater) loose(file io.Reader) (Object, error) {
	const longest = 32 // bytes of a header
	f.in.Reset(file)
	if err := f.start(); err != nil {
		return Object{}, err
	}
	var buf [longest]byte
	n, end := 0, -1
	for end < 0 {
		more, err := f.z.Read(buf[n:])
		n += more
		if end = bytes.IndexByte(buf[:n], 0); end < 0 && (err != nil || n == longest) {
			return Object{}, errors.Join(errors.New("the object has no header"), err)
		}
	}
	kind, digits, _ := strings.Cut(string(buf[:end]), " ")
	size, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case err != nil || !slices.Contains([]string{"commit", "tree", "blob", "tag"}, kind):
		return Object{}, fmt.Errorf("the object has the header %q", buf[:end])
	case size > MaxObject:
		return Object{}, ErrTooLarge
	case size < uint64(n-end-1):
		return Object{}, errors.New("an object is longer than its header says")
	}
	data := make([]byte, size)
	return Object{Kind: kind, Data: data}, f.rest(data[copy(data, buf[end+1:n]):])
}

func (p *pack) header(in *bufio.Reader, offset int64) (packedHeader, error) {
	b, err := in.ReadByte()
	if err != nil {
		return packedHeader{}, err
	}
	h := packedHeader{kind: b >> 4 & 7, size: int(b & 0x0f)}
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = in.ReadByte(); err != nil {
			return h, err
		}
		const widest = 53 // more bits would not fit into an int
		if shift > widest {
			return h, errors.New("an object's size is malformed")
		}
		h.size |= int(b&0x7f) << shift
	}
	switch h.kind {
	case 1, 2, 3, 4:
		return h, nil
	case offsetDelta:
		back, err := backwards(in)
		h.base = offset - back
		return h, err
	case refDelta:
		var base Hash
		if _, err := io.ReadFull(in, base[:]); err != nil {
			return h, err
		}
		var ok bool
		if h.base, ok, err = p.index.find(base); err == nil && !ok {
			err = fmt.Errorf("the base %s of a delta is not in the packfile", base)
		}
		return h, err
	}
	return h, fmt.Errorf("kind %d does not exist", h.kind)
}

// backwards reads the distance to a delta's base.
func backwards(in io.ByteReader) (int64, error) {
	b, err := in.ReadByte()
	n := int64(b & 0x7f)
	for err == nil && b&0x80 != 0 {
		const widest = 1 << 54
		if n > widest {
			return 0, errors.New("the distance to a delta's base is malformed")
		}
		b, err = in.ReadByte()
		n = (n+1)<<7 | int64(b&0x7f)
	}
	if err == nil && n == 0 {
		err = errors.New("a delta is its own base")
	}
	return n, err
}
