package pack

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// randomIndex returns objects of a packfile, some of them behind its first 2 and 4 GiB.
func randomIndex(n int) ([]Hash, map[Hash]packed) {
	random := rand.New(rand.NewPCG(1, 2))
	order, objects, at := make([]Hash, n), map[Hash]packed{}, int64(packHeader)
	for i := range order {
		h := Hash(sha1.Sum(binary.BigEndian.AppendUint64(nil, random.Uint64())))
		if i%3 == 0 {
			h[0], h[1] = 7, 7 // many begin alike
		}
		order[i], objects[h] = h, packed{offset: at, crc: random.Uint32()}
		at += 1 + random.Int64N(6<<30/int64(n))
	}
	return order, objects
}

func goGitIndex(tb testing.TB, order []Hash, objects map[Hash]packed, checksum Hash) []byte {
	tb.Helper()
	w := &idxfile.Writer{}
	if err := w.OnHeader(uint32(len(order))); err != nil {
		tb.Fatal(err)
	}
	for _, h := range order {
		w.Add(plumbing.Hash(h), uint64(objects[h].offset), objects[h].crc)
	}
	if err := w.OnFooter(plumbing.Hash(checksum)); err != nil {
		tb.Fatal(err)
	}
	table, err := w.Index()
	if err != nil {
		tb.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := idxfile.NewEncoder(&out).Encode(table); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// An index is the one that go-git encodes.
func TestEncodeIndex(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 300, 3000} {
		order, objects := randomIndex(n)
		checksum := Hash{1, 2, 3}
		if got, want := encodeIndex(order, objects, checksum), goGitIndex(t, order, objects,
			checksum); !bytes.Equal(got, want) {
			t.Errorf("the index of %d objects differs: %d bytes, want %d", n, len(got), len(want))
		}
	}
}

func BenchmarkEncodeIndex(b *testing.B) {
	const objectsOf50000Targets = 160_000
	order, objects := randomIndex(objectsOf50000Targets)
	for i := range order { // no hash is chosen by somebody
		p := objects[order[i]]
		delete(objects, order[i])
		order[i] = Hash(sha1.Sum(order[i][:]))
		objects[order[i]] = p
	}
	b.Run("own", func(b *testing.B) {
		for b.Loop() {
			encodeIndex(order, objects, Hash{})
		}
	})
	b.Run("go-git", func(b *testing.B) {
		for b.Loop() {
			goGitIndex(b, order, objects, Hash{})
		}
	})
}
