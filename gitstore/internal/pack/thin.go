package pack

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // Git's checksum of packfiles
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// Thin writes a thin packfile, as `git pack-objects --thin` does: a delta can be against an object that is not in it.
type Thin struct {
	out   *bufio.Writer
	sum   hash.Hash
	left  int
	entry *deflater // that each object is written with
}

// NewThin begins a packfile with a number of objects.
func NewThin(to io.Writer, objects int) (*Thin, error) {
	if objects < 0 || objects > math.MaxUint32 {
		return nil, fmt.Errorf("%d objects are too many for a packfile", objects)
	}
	t := &Thin{sum: sha1.New(), left: objects, entry: deflaterOf()} //nolint:gosec // see above
	t.out = bufio.NewWriterSize(io.MultiWriter(to, t.sum), 1<<16)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(objects))
	_, err := t.out.Write(head)
	return t, err
}

// Add writes an object: a delta against base if that is shorter, and the whole object if there is no base or if one of the
// two is large.
func (t *Thin) Add(o Object, base Hash, against []byte) error {
	const most = 4 << 20 // bytes: an index of a larger base costs more than it saves
	data, kind := o.Data, kindByte(o.Kind)
	if len(against) > 0 && len(against) <= most && len(o.Data) <= most && len(o.Data) > 0 {
		if d := packfile.DiffDelta(against, o.Data); len(d) < len(o.Data)/4*3 {
			data, kind = d, refDelta
		}
	}
	t.left--
	t.entry.buf.Reset()
	writeObjectHeader(&t.entry.buf, kind, len(data))
	if kind == refDelta {
		t.entry.buf.Write(base[:])
	}
	t.entry.z.Reset(&t.entry.buf)
	_, err := t.entry.z.Write(data)
	if err = errors.Join(err, t.entry.z.Close()); err != nil {
		return err
	}
	_, err = t.out.Write(t.entry.buf.Bytes())
	return err
}

// Close writes the checksum. It does not close the file below.
func (t *Thin) Close() error {
	if t.left != 0 {
		return fmt.Errorf("%d objects of the packfile are missing", t.left)
	}
	if err := t.out.Flush(); err != nil {
		return err
	}
	if _, err := t.out.Write(t.sum.Sum(nil)); err != nil {
		return err
	}
	return t.out.Flush()
}

// ThinLimits bound what ReadThin takes from a packfile.
type ThinLimits struct {
	Objects int
	Bytes   int64 // of all objects, inflated, and of the bases of deltas, each time that one is read
}

// ReadThin reads a packfile as Thin writes it into a Writer. base returns an object that is not in it. It checks the
// packfile's checksum, and that nothing follows it. What it read is a Writer of whole objects whose names are right,
// whatever the packfile claims. It refuses deltas by offset, since Thin writes none.
func ReadThin(from io.Reader, w *Writer, limits ThinLimits, base func(Hash) (Object, error)) error {
	last := &tail{from: from}
	s := packfile.NewScanner(last)
	_, n, err := s.Header()
	if err != nil {
		return malformedPack(err)
	}
	if int64(n) > int64(limits.Objects) {
		return fmt.Errorf("the packfile has %d objects, more than %d", n, limits.Objects)
	}
	r := thinReader{scanner: s, w: w, left: limits.Bytes, base: base}
	for range n {
		if err := r.object(); err != nil {
			return err
		}
	}
	sum, err := s.Checksum()
	if err != nil {
		return malformedPack(err)
	}
	// The scanner does not tell what it read ahead. Bytes that seem to be the end of a header cannot be a checksum.
	if _, err := s.NextObjectHeader(); !errors.Is(err, io.EOF) || last.bytes != Hash(sum) {
		return errors.New("bytes follow the end of the packfile")
	}
	return nil
}

// tail is a reader that remembers the last bytes that it read.
type tail struct {
	from  io.Reader
	bytes Hash
}

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	both := append(t.bytes[:], p[:n]...)
	copy(t.bytes[:], both[len(both)-len(t.bytes):])
	return n, err
}

func malformedPack(err error) error { return fmt.Errorf("the packfile cannot be read: %w", err) }

type thinReader struct {
	scanner *packfile.Scanner
	w       *Writer
	left    int64
	base    func(Hash) (Object, error)
}

func (r *thinReader) object() error {
	h, err := r.scanner.NextObjectHeader()
	if err != nil {
		return malformedPack(err)
	}
	if h.Length > MaxObject {
		return fmt.Errorf("an object of the packfile has %d bytes: %w", h.Length, ErrTooLarge)
	}
	if r.left -= h.Length; r.left < 0 {
		return errors.New("the objects of the packfile have too many bytes")
	}
	var data bytes.Buffer
	if n, _, err := r.scanner.NextObject(&data); err != nil {
		return malformedPack(err)
	} else if n != h.Length {
		return malformedPack(io.ErrUnexpectedEOF)
	}
	switch h.Type {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject:
		_, err = r.w.Add(h.Type.String(), data.Bytes())
	case plumbing.REFDeltaObject:
		err = r.delta(Hash(h.Reference), data.Bytes())
	default:
		return fmt.Errorf("the packfile has an object of kind %s, which sluice does not write", h.Type)
	}
	return err
}

func (r *thinReader) delta(name Hash, delta []byte) error {
	size := deltaTarget(delta)
	if size > MaxObject {
		return fmt.Errorf("an object of the packfile has %d bytes: %w", size, ErrTooLarge)
	}
	if r.left -= int64(size); r.left < 0 {
		return errors.New("the objects of the packfile have too many bytes")
	}
	o, ok, err := r.w.Read(name)
	if err == nil && !ok {
		o, err = r.base(name)
	}
	if err != nil {
		return fmt.Errorf("the base of a delta: %w", err)
	}
	if r.left -= int64(len(o.Data)); r.left < 0 { // a small delta against a large base costs as much as the base
		return errors.New("the deltas of the packfile have too large bases")
	}
	data, err := packfile.PatchDelta(o.Data, delta)
	if err != nil {
		return malformedPack(err)
	}
	_, err = r.w.Add(o.Kind, data)
	return err
}

// Join makes one packfile of several that Thin wrote. A delta keeps its base, which can be in an earlier one.
func Join(packs ...[]byte) ([]byte, error) {
	const trailer = len(Hash{})
	var out bytes.Buffer
	out.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	var objects uint64
	for _, p := range packs {
		if len(p) < packHeader+trailer || !bytes.HasPrefix(p, []byte("PACK\x00\x00\x00\x02")) {
			return nil, malformedPack(io.ErrUnexpectedEOF)
		}
		objects += uint64(binary.BigEndian.Uint32(p[8:]))
		out.Write(p[packHeader : len(p)-trailer])
	}
	if objects > math.MaxUint32 {
		return nil, fmt.Errorf("%d objects are too many for a packfile", objects)
	}
	data := out.Bytes()
	binary.BigEndian.PutUint32(data[8:], uint32(objects))
	sum := sha1.Sum(data) //nolint:gosec // see above
	return append(data, sum[:]...), nil
}
