package pack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/klauspost/compress/zlib"
)

// deltaChain returns a packfile of one blob and deltas that copy it, each based on the one before, and the offset of
// the last delta.
func deltaChain(tb testing.TB, size, deltas int) ([]byte, int64) {
	tb.Helper()
	var out bytes.Buffer
	out.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	add := func(kind byte, data, base []byte) int64 {
		at := int64(out.Len())
		n := len(data)
		b := kind<<4 | byte(n&15)
		for n >>= 4; n > 0; n >>= 7 {
			out.WriteByte(b | 0x80)
			b = byte(n & 0x7f)
		}
		out.WriteByte(b)
		out.Write(base)
		z := zlib.NewWriter(&out)
		if _, err := z.Write(data); err != nil {
			tb.Fatal(err)
		}
		if err := z.Close(); err != nil {
			tb.Fatal(err)
		}
		return at
	}
	at := add(3, make([]byte, size), nil)
	delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(size)), uint64(size))
	delta = append(delta, 0xf0, byte(size), byte(size>>8), byte(size>>16)) // copy from the start
	for range deltas {
		distance := uint64(int64(out.Len()) - at)
		back := []byte{byte(distance & 0x7f)}
		for distance >>= 7; distance > 0; distance >>= 7 {
			distance--
			back = append([]byte{byte(distance&0x7f) | 0x80}, back...)
		}
		at = add(offsetDelta, delta, back)
	}
	return out.Bytes(), at
}

// A packfile of a few kilobytes must not make the reader copy gigabytes.
func TestDeltaChainsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		size, deltas int
		want         error
	}{
		"as Git writes them":       {1 << 20, 50, nil},
		"as long as Git may write": {1 << 10, 4095, nil},
		"too long":                 {1 << 10, 4097, ErrTooLarge},
		"too many bytes":           {1 << 20, 2100, ErrTooLarge},
	} {
		data, at := deltaChain(t, c.size, c.deltas)
		base := filepath.Join(t.TempDir(), "chain")
		if err := os.WriteFile(base+".pack", data, 0o600); err != nil {
			t.Fatal(err)
		}
		p := &pack{base: base, size: int64(len(data))}
		o, err := p.at(at, cache.NewBufferLRU(1<<20))
		if !errors.Is(err, c.want) || err == nil && len(o.Data) != c.size {
			t.Errorf("%s: %d bytes, %v", name, len(o.Data), err)
		}
		_ = p.file.Close() // read only
	}
}

// A size that does not fit into an int is an error, not a panic.
func TestSizeOfAPackedObject(t *testing.T) {
	t.Parallel()
	huge := []byte{0xb0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f}
	if h, err := new(pack).header(bufio.NewReader(bytes.NewReader(huge)), packHeader); err == nil {
		t.Errorf("size %d", h.size)
	}
}
