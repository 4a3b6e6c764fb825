package index

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/sluice-gitops/sluice/gitstore"
)

// magic begins the file. Its number changes with the format or with what is read from objects.
const magic = "sluice index 1\n"

// ErrUnusable means that a file is no index that this version reads: it is damaged, or another version wrote it. The caller
// starts with new(Index).
var ErrUnusable = errors.New("the index is damaged or of another version")

// Load reads an index from a file. It returns os.ErrNotExist if there is no file, and ErrUnusable if its content cannot be used.
func Load(file string) (*Index, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the caller names it
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	body, ok := bytes.CutPrefix(data, []byte(magic))
	const sum = 4
	if !ok || len(body) < sum || crc32.Checksum(body[:len(body)-sum], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(body[len(body)-sum:]) {
		return nil, ErrUnusable
	}
	d := &decoder{data: string(body[:len(body)-sum])}
	x := d.index()
	if d.bad || len(d.data) != 0 {
		return nil, ErrUnusable
	}
	return x, nil
}

// Save writes the index beside its place and renames it, so that a reader never sees a part.
func (x *Index) Save(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".index-*")
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is gone after the rename
	err = x.encode(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

func (x *Index) encode(w io.Writer) error {
	const buffer = 1 << 20
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	out := bufio.NewWriterSize(w, buffer)
	e := &encoder{w: bufio.NewWriterSize(io.MultiWriter(out, sum), buffer)}
	if _, err := out.WriteString(magic); err != nil {
		return err
	}
	e.text(x.values)
	e.number(len(x.facts))
	for _, f := range x.facts {
		e.bytes([]byte{byte(f.kind)})
		e.text(f.text)
	}
	e.number(len(x.trees))
	for _, t := range x.trees {
		e.bytes(t.hash[:])
		e.list(t.facts)
	}
	e.number(len(x.clusters))
	for _, c := range x.clusters {
		e.text(c.name)
		e.bytes(c.state.Tree[:])
		e.text(c.state.Source)
		e.number(len(c.targets))
		for _, t := range c.targets {
			e.text(t.app)
			e.number(int(t.tree))
			e.list(t.extra)
		}
	}
	if e.err == nil {
		e.err = e.w.Flush()
	}
	if e.err != nil {
		return e.err
	}
	if _, err := out.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return err
	}
	return out.Flush()
}

// encoder writes numbers as varints, and lists as differences.
type encoder struct {
	w       *bufio.Writer
	scratch [binary.MaxVarintLen64]byte
	err     error
}

func (e *encoder) bytes(b []byte) {
	if e.err == nil {
		_, e.err = e.w.Write(b)
	}
}

func (e *encoder) number(n int) {
	e.bytes(e.scratch[:binary.PutUvarint(e.scratch[:], uint64(n))]) //nolint:gosec // counts are not negative
}

func (e *encoder) text(s string) {
	e.number(len(s))
	if e.err == nil {
		_, e.err = e.w.WriteString(s)
	}
}

func (e *encoder) list(list []uint32) {
	e.number(len(list))
	last := uint32(0)
	for _, n := range list {
		e.number(int(n - last))
		last = n
	}
}

// decoder reads what encoder wrote. Texts share the memory of the file.
type decoder struct {
	data string
	bad  bool
	apps map[string]string
	room []uint32 // where lists are put, so that there are few allocations
}

func (d *decoder) index() *Index {
	x := &Index{values: d.text()}
	x.facts = make([]fact, d.count(2))
	for i := range x.facts {
		kind := Kind(d.raw(1)[0])
		d.bad = d.bad || kind >= kinds
		x.facts[i] = fact{kind, d.text()}
	}
	x.trees = make([]tree, d.count(len(gitstore.Hash{})))
	for i := range x.trees {
		copy(x.trees[i].hash[:], d.raw(len(gitstore.Hash{})))
		x.trees[i].facts = d.list(len(x.facts))
	}
	x.clusters = make([]cluster, d.count(len(gitstore.Hash{})))
	d.apps = map[string]string{}
	for i := range x.clusters {
		c := &x.clusters[i]
		c.name = d.text()
		copy(c.state.Tree[:], d.raw(len(gitstore.Hash{})))
		c.state.Source = d.text()
		c.targets = make([]target, d.count(3))
		for j := range c.targets {
			t := &c.targets[j]
			t.app = d.text()
			t.tree = uint32(d.number(len(x.trees))) //nolint:gosec // bounded by the number of trees
			t.extra = d.list(len(x.facts))
		}
	}
	return x
}

// raw returns the next bytes. After the end it returns zeros and marks the file as bad.
func (d *decoder) raw(n int) string {
	if n > len(d.data) {
		d.bad, d.data = true, ""
		return string(make([]byte, min(n, len(gitstore.Hash{}))))
	}
	out := d.data[:n]
	d.data = d.data[n:]
	return out
}

// number reads a number below a limit.
func (d *decoder) number(limit int) int {
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		if len(d.data) == 0 {
			break
		}
		b := d.data[0]
		d.data = d.data[1:]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if n < uint64(limit) { //nolint:gosec // limits are not negative
				return int(n) //nolint:gosec // below limit
			}
			break
		}
	}
	d.bad, d.data = true, ""
	return 0
}

// count reads the number of entries that follow, each of at least so many bytes.
func (d *decoder) count(size int) int { return d.number(len(d.data)/size + 1) }

func (d *decoder) text() string {
	n := d.count(1)
	if d.bad || n > len(d.data) {
		d.bad = true
		return ""
	}
	return d.raw(n)
}

func (d *decoder) list(limit int) []uint32 {
	n := d.count(1)
	const room = 1 << 16
	if n > len(d.room) {
		d.room = make([]uint32, max(n, room))
	}
	out := d.room[:n:n]
	d.room = d.room[n:]
	last := 0
	for i := range out {
		last += d.number(limit - last)
		out[i] = uint32(last) //nolint:gosec // below limit
	}
	return out
}
