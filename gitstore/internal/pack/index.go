package pack

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"

	"golang.org/x/exp/mmap"
)

// Layout of a pack index, version 2; see gitformat-pack.
const (
	indexMagic   = "\xfftOc"
	indexVersion = 2
	indexFanout  = 8
	indexNames   = indexFanout + 256*4
	hashSize     = len(Hash{})
	indexTrailer = 2 * hashSize
)

// packIndex finds objects in a packfile by binary search in the memory-mapped index. go-git reads the whole index and
// builds a map of it: 0.5 s and 100 MB for a million objects.
type packIndex struct {
	file   *mmap.ReaderAt
	fanout [256]uint32
	count  int
	large  int // entries of the table of 64-bit offsets
}

// openIndex maps an index and checks it, except for checks that would need to read all of it.
func openIndex(name string) (*packIndex, error) {
	file, err := mmap.Open(name)
	if err != nil {
		return nil, err
	}
	x := &packIndex{file: file}
	if err := x.check(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return x, nil
}

func (x *packIndex) check() error {
	var head [indexNames]byte
	if x.file.Len() < indexNames+indexTrailer {
		return fmt.Errorf("the index has only %d bytes", x.file.Len())
	}
	if _, err := x.file.ReadAt(head[:], 0); err != nil {
		return err
	}
	if version := binary.BigEndian.Uint32(head[4:]); string(head[:4]) != indexMagic || version != indexVersion {
		return errors.New("the file is not a pack index of version 2")
	}
	last := uint32(0)
	for i := range x.fanout {
		x.fanout[i] = binary.BigEndian.Uint32(head[indexFanout+4*i:])
		if x.fanout[i] < last {
			return errors.New("the index has a fan-out table that is not sorted")
		}
		last = x.fanout[i]
	}
	x.count = int(last)
	rest := x.file.Len() - indexNames - indexTrailer - x.count*(hashSize+4+4)
	if rest < 0 || rest%8 != 0 {
		return fmt.Errorf("the index has %d bytes, which do not fit its %d objects", x.file.Len(), x.count)
	}
	x.large = rest / 8
	return nil
}

func (x *packIndex) close() error { return x.file.Close() }

// packChecksum is the checksum of the packfile that the index belongs to.
func (x *packIndex) packChecksum() (out Hash, err error) {
	_, err = x.file.ReadAt(out[:], int64(x.file.Len()-indexTrailer))
	return out, err
}

// name returns the i-th name; names are sorted.
func (x *packIndex) name(i int) (out Hash) {
	if _, err := x.file.ReadAt(out[:], int64(indexNames+i*hashSize)); err != nil {
		return Hash{} // out of range: check excludes this
	}
	return out
}

// bucket is the range of names that begin with a byte.
func (x *packIndex) bucket(first byte) (from, to int) {
	if first > 0 {
		from = int(x.fanout[first-1])
	}
	return from, int(x.fanout[first])
}

// find returns an object's offset in the packfile.
func (x *packIndex) find(h Hash) (int64, bool, error) {
	from, to := x.bucket(h[0])
	i := from + sort.Search(to-from, func(i int) bool {
		name := x.name(from + i)
		return bytes.Compare(name[:], h[:]) >= 0
	})
	if i == to || x.name(i) != h {
		return 0, false, nil
	}
	offset, err := x.offset(i)
	return offset, err == nil, err
}

func (x *packIndex) offset(i int) (int64, error) {
	var b [8]byte
	offsets := indexNames + x.count*(hashSize+4)
	if _, err := x.file.ReadAt(b[:4], int64(offsets+4*i)); err != nil {
		return 0, err
	}
	const isLarge = 1 << 31
	n := binary.BigEndian.Uint32(b[:])
	if n&isLarge == 0 {
		return int64(n), nil
	}
	at := int(n &^ isLarge)
	if at >= x.large {
		return 0, errors.New("the index has an offset outside its table")
	}
	if _, err := x.file.ReadAt(b[:], int64(offsets+4*x.count+8*at)); err != nil {
		return 0, err
	}
	//nolint:gosec // the reader checks offsets against the packfile's size
	return int64(binary.BigEndian.Uint64(b[:])), nil
}

// checksum returns the CRC-32 of the bytes that the packfile has for the i-th object.
func (x *packIndex) checksum(i int) (uint32, error) {
	var b [4]byte
	_, err := x.file.ReadAt(b[:], int64(indexNames+x.count*hashSize+4*i))
	return binary.BigEndian.Uint32(b[:]), err
}

// withPrefix lists the names that begin with hexadecimal digits, at least two.
func (x *packIndex) withPrefix(digits string) []Hash {
	first, err := hex.DecodeString(digits[:2])
	if err != nil {
		return nil
	}
	var out []Hash
	from, to := x.bucket(first[0])
	for i := from; i < to; i++ {
		if h := x.name(i); h.String()[:len(digits)] == digits {
			out = append(out, h)
		}
	}
	return out
}
