package fetch

import (
	"io"
	"os"
	"path/filepath"
)

// cache keeps archives as files named by their digest. Files are only ever put in place whole, by renaming, and are
// verified when they are read, so processes need no lock among them. A cache that cannot be written slows things
// down and breaks nothing: therefore its write errors are dropped.
type cache struct {
	dir   string // empty: no cache
	limit int64
}

func (c cache) path(hex string) string { return filepath.Join(c.dir, "sha256", hex+".tgz") }

// get returns the archive, or nil. A file whose bytes are not what its name says is thrown away.
func (c cache) get(digest string) []byte {
	hex, ok := hexDigest(digest)
	if !ok || c.dir == "" {
		return nil
	}
	name := c.path(hex)
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil // a fifo would block, a directory is none of ours
	}
	file, err := os.Open(name) //nolint:gosec // the name is made of hex digits
	if err != nil {
		return nil
	}
	defer file.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(file, c.limit+1))
	if err != nil {
		return nil
	}
	if digestOf(data) != digest {
		_ = os.Remove(name) // at worst a good file that another process just put there: it is fetched again
		return nil
	}
	return data
}

// Cached returns the locked archive if Archive finds it without the network, else nil. It must not be written to.
func (f *Fetcher) Cached(l Locked) []byte { return f.cache.get(l.Digest) }

// put stores verified data.
func (c cache) put(digest string, data []byte) {
	hex, ok := hexDigest(digest)
	if !ok || c.dir == "" {
		return
	}
	name := c.path(hex)
	if os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return
	}
	c.place(name, data)
}

// place writes a file whole, by renaming.
func (c cache) place(name string, data []byte) {
	file, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return
	}
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the cache lacks the entry, which is fetched again
	}
}
