package pack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/zlib"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// Writer collects new objects in one packfile on disk, so that memory stays small. It is safe for concurrent use and
// stores equal objects once. Close removes the packfile unless it was stored.
type Writer struct {
	disk  disk.Disk
	file  packFile
	slots chan struct{} // has one for each goroutine that compresses
	pool  sync.Pool     // of *deflater
	reads sync.Pool     // of *inflater

	mu      sync.RWMutex
	out     *bufio.Writer
	offset  int64
	objects map[Hash]packed
	order   []Hash
	trees   map[Hash][]byte // the first trees, because each is read again when its branch is written and judged
	held    int             // bytes of trees
	sealed  bool
	stored  bool // the file has its final name in a folder of objects
}

type packed struct {
	offset int64
	crc    uint32
	kind   byte
	size   int
}

const (
	packHeader = 12
	heldTrees  = 32 << 20 // bytes of trees that a Writer keeps in memory: those of 100,000 usual targets
)

var errComplete = errors.New("the packfile is already complete")

// NewWriter returns a Writer without objects, whose file is in a folder; a temporary one if dir is "".
func NewWriter(d disk.Disk, dir string) (*Writer, error) {
	file, err := d.CreateTemp(dir, disk.TempPack)
	if err != nil && dir != "" { // a repository that may only be read
		file, err = d.CreateTemp("", disk.TempPack)
	}
	if err != nil {
		return nil, err
	}
	return newWriter(d, file)
}

// NewMemoryWriter returns a Writer without objects and without a file. It cannot be stored.
func NewMemoryWriter() (*Writer, error) { return newWriter(disk.None{}, &memoryFile{}) }

func newWriter(d disk.Disk, file packFile) (*Writer, error) {
	w := &Writer{
		disk: d, file: file, out: bufio.NewWriterSize(file, 1<<16), offset: packHeader,
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)), objects: map[Hash]packed{}, trees: map[Hash][]byte{},
	}
	w.pool.New = newDeflater
	if _, err := w.out.Write(make([]byte, packHeader)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Len returns the number of objects so far.
func (w *Writer) Len() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.objects)
}

// Has reports whether the object is among the new ones.
func (w *Writer) Has(h Hash) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, ok := w.objects[h]
	return ok
}

// Hashes returns the names of the objects, in the order in which they were added.
func (w *Writer) Hashes() []Hash {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.Clone(w.order)
}

func kindByte(kind string) byte {
	switch kind {
	case "commit":
		return 1
	case "tree":
		return 2
	case "tag":
		return 4
	default:
		return 3
	}
}

func kindName(kind byte) string {
	return [...]string{"", "commit", "tree", "blob", "tag"}[kind]
}

// Add adds an object and returns its name. An object of more than MaxObject bytes is an ErrTooLarge.
func (w *Writer) Add(kind string, data []byte) (Hash, error) {
	h := Sum(kind, data)
	if w.Has(h) {
		return h, nil
	}
	if len(data) > MaxObject {
		return h, fmt.Errorf("a %s of %d bytes: %w", kind, len(data), ErrTooLarge)
	}
	w.slots <- struct{}{}
	defer func() { <-w.slots }()
	d, _ := w.pool.Get().(*deflater)
	defer w.pool.Put(d)
	d.buf.Reset()
	writeObjectHeader(&d.buf, kindByte(kind), len(data))
	d.z.Reset(&d.buf)
	_, err := d.z.Write(data)
	if err = errors.Join(err, d.z.Close()); err != nil {
		return h, err
	}
	p := packed{crc: crc32.ChecksumIEEE(d.buf.Bytes()), kind: kindByte(kind), size: len(data)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.objects[h]; known {
		return h, nil
	}
	if w.sealed {
		return h, errComplete
	}
	if _, err := w.out.Write(d.buf.Bytes()); err != nil {
		return h, fmt.Errorf("write a packfile: %w", err)
	}
	w.added(h, p, d.buf.Len())
	if kind == "tree" {
		w.hold(h, data)
	}
	return h, nil
}

// addPacked adds an object as another packfile has it, also one that is too large to be read. It returns false for a
// delta, and for bytes with another checksum.
func (w *Writer) addPacked(h Hash, data []byte, crc uint32) (bool, error) {
	kind, size, header := objectHeader(data)
	if header == 0 || kind < kindByte("commit") || kind > kindByte("tag") || crc32.ChecksumIEEE(data) != crc {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.objects[h]; known {
		return true, nil
	}
	if w.sealed {
		return false, errComplete
	}
	if _, err := w.out.Write(data); err != nil {
		return false, fmt.Errorf("write a packfile: %w", err)
	}
	w.added(h, packed{crc: crc, kind: kind, size: size}, len(data))
	return true, nil
}

// added records an object whose bytes were written. The caller holds mu.
func (w *Writer) added(h Hash, p packed, length int) {
	p.offset = w.offset
	w.objects[h] = p
	w.order = append(w.order, h)
	w.offset += int64(length)
}

// hold keeps a tree in memory while there is room. The caller holds mu, and does not change data afterwards.
func (w *Writer) hold(h Hash, data []byte) {
	if w.trees != nil && w.held+len(data) <= heldTrees { // nil: the Writer is closed
		w.held += len(data)
		w.trees[h] = data
	}
}

// deflater is pooled, because allocating zlib's tables costs more than compressing most objects. A Writer limits how
// many are in use, because each has most of a megabyte, and hundreds of goroutines may wait for the file. The pool of
// an idle Writer becomes empty.
type deflater struct {
	buf bytes.Buffer
	z   *zlib.Writer
}

func newDeflater() any { return deflaterOf() }

func deflaterOf() *deflater {
	z, err := zlib.NewWriterLevel(nil, zlib.BestSpeed)
	if err != nil {
		z = zlib.NewWriter(nil) // not reached: the level is valid
	}
	return &deflater{z: z}
}

// writeObjectHeader writes a header as in gitformat-pack: the kind and the low four bits of the size, then seven bits
// per byte.
func writeObjectHeader(buf *bytes.Buffer, kind byte, size int) {
	b := kind<<4 | byte(size&0x0f)
	for size >>= 4; size > 0; size >>= 7 {
		buf.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	buf.WriteByte(b)
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

// Read returns an object of the Writer, stored or not; false if it does not have the object.
func (w *Writer) Read(h Hash) (Object, bool, error) {
	w.mu.RLock()
	tree, held := w.trees[h]
	_, ok := w.objects[h]
	w.mu.RUnlock()
	switch {
	case held:
		return Object{Kind: "tree", Data: tree}, true, nil
	case !ok:
		return Object{}, false, nil
	}
	w.mu.Lock()
	p, end := w.objects[h], w.offset
	var err error
	if !w.sealed {
		err = w.out.Flush()
	}
	w.mu.Unlock()
	var data []byte
	if err == nil {
		data, err = w.inflate(io.NewSectionReader(w.file, p.offset, end-p.offset), p.size)
	}
	if errors.Is(err, os.ErrClosed) { // the Writer was closed after the push: a repository has the object
		return Object{}, false, nil
	}
	return Object{Kind: kindName(p.kind), Data: data}, true, err
}

func (w *Writer) inflate(packed io.Reader, size int) ([]byte, error) {
	f, ok := w.reads.Get().(*inflater)
	if !ok {
		f = &inflater{in: bufio.NewReader(nil)}
	}
	defer w.reads.Put(f)
	f.in.Reset(packed)
	for {
		b, err := f.in.ReadByte()
		if err != nil {
			return nil, err
		}
		if b&0x80 == 0 { // the header's last byte
			break
		}
	}
	return f.read(size)
}

// Close removes the temporary file. Objects that were stored in a repository stay.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.trees = nil // nothing is held any more
	w.mu.Unlock()
	err := w.file.Close()
	if !w.stored {
		err = errors.Join(err, w.disk.RemoveAll(w.file.Name()))
	}
	return err
}
