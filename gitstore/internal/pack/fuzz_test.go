package pack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/cache"
)

// Reads packed objects from the bytes of a hostile packfile. A delta leads to an error or an object within the limit,
// never to a panic.
func FuzzPackedObject(f *testing.F) {
	for _, size := range []int{1, 300, 70_000} {
		data, last := deltaChain(f, size, 2)
		f.Add(data, last)
		f.Add(data, int64(packHeader))
	}
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x6f\x01"), int64(packHeader)) // a delta that is its own base
	f.Add(append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x7f\x01"), make([]byte, hashSize)...), int64(packHeader))
	dir := f.TempDir()
	index := append([]byte(indexMagic+"\x00\x00\x00\x02"), make([]byte, 256*4+indexTrailer)...) // of no object
	if err := os.WriteFile(filepath.Join(dir, "x.idx"), index, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, offset int64) {
		base := filepath.Join(dir, "x")
		if err := os.WriteFile(base+".pack", data, 0o600); err != nil {
			t.Fatal(err)
		}
		index, err := openIndex(base + ".idx")
		if err != nil {
			t.Fatal(err)
		}
		p := &pack{base: base, index: index, size: int64(len(data))}
		defer func() { _ = p.close() }()
		o, err := p.at(offset, cache.NewBufferLRU(1<<20))
		if err == nil && (len(o.Data) > MaxObject || o.Kind == "") {
			t.Fatalf("%q of %d bytes", o.Kind, len(o.Data))
		}
	})
}
