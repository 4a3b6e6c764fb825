package ocigit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sluice-gitops/sluice/gitstore"
)

// cache has the objects of layers on this machine. It must never have an object that the registry lacks, because a push
// leaves out what the cache has. So a file beside it lists the layers whose objects may be in it; if the registry no
// longer has one of them, the cache begins anew. Processes can share it: what one writes to the file keeps what others
// wrote. One that begins anew takes the folder from the others, whose runs may then fail.
type cache struct {
	file string // the list; "" if the cache is temporary

	mu    sync.Mutex
	store *gitstore.Store
	list  cached
}

// cached is the list, as JSON.
type cached struct {
	Folder   string   `json:"folder"`   // with the objects, beside the file
	Sequence int      `json:"sequence"` // of the newest version that was read or written
	Holds    []string `json:"holds"`    // layers whose objects may be in the folder, some only in part
	Loaded   []string `json:"loaded"`   // layers whose objects are all in the folder
}

const maxCached = 1 << 20

// openCache opens the cache whose list is in a file at a path without its suffix; "" stands for a temporary one.
func openCache(at string) (*cache, error) {
	if at == "" {
		store, err := gitstore.OpenCache("")
		return &cache{store: store}, err
	}
	c := &cache{file: at + ".json"}
	c.list = c.onDisk()
	known := c.list.Folder == filepath.Base(c.list.Folder) && strings.HasPrefix(c.list.Folder, filepath.Base(at)) && c.there()
	if !known {
		c.list = cached{Folder: filepath.Base(at) + "-" + rand.Text()[:8], Sequence: c.list.Sequence}
	}
	var err error
	if c.store, err = gitstore.OpenCache(filepath.Join(filepath.Dir(c.file), c.list.Folder)); err != nil {
		return openCache("")
	}
	if err := c.write(nil); err != nil && !known { // a folder that cannot be written to
		return openCache("")
	}
	return c, nil
}

func (c *cache) advice() string {
	if c.file == "" {
		return ""
	}
	return " and the file " + c.file
}

func (c *cache) sequence() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list.Sequence
}

// objects returns the store with the objects.
func (c *cache) objects() *gitstore.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store
}

func (c *cache) hasAll(commits []gitstore.Hash) bool {
	has := c.objects().Has
	return !slices.ContainsFunc(commits, func(h gitstore.Hash) bool { return !has(h) })
}

// onDisk returns the list of the file, which another process may have written; the zero list if it cannot be read.
func (c *cache) onDisk() cached {
	var out cached
	data, err := os.ReadFile(c.file)
	if err != nil || len(data) > maxCached || json.Unmarshal(data, &out) != nil {
		return cached{}
	}
	return out
}

// write stores the list, with what other processes noted about the same folder, apart from the layers that gone has.
// The caller holds mu.
func (c *cache) write(gone map[string]bool) error {
	if c.file == "" {
		return nil
	}
	out := c.list
	if theirs := c.onDisk(); theirs.Folder == out.Folder {
		c.list.Sequence, c.list.Holds = max(out.Sequence, theirs.Sequence), union(out.Holds, theirs.Holds, gone)
		out = c.list
		out.Loaded = union(out.Loaded, theirs.Loaded, gone) // this process may not see the objects that others added
	} else if theirs.Folder != "" && !c.there() {
		return nil // another process began anew
	}
	data, err := json.Marshal(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(c.file), ".list-")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), c.file)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the error of the write matters
	}
	return err
}

// there reports whether the folder exists. The caller holds mu.
func (c *cache) there() bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(c.file), c.list.Folder))
	return err == nil
}

// union returns a and what b has beside it, without what is gone.
func union(a, b []string, gone map[string]bool) []string {
	out := slices.Clone(a)
	for _, name := range b {
		if !gone[name] && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// note records a version that was read or written, whose layers are all loaded.
func (c *cache) note(v version) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := namesOf(v.layers)
	if c.list.Sequence == v.sequence && slices.Equal(c.list.Loaded, names) {
		return nil
	}
	c.list.Holds = union(names, c.list.Holds, joined(v.layers))
	c.list.Sequence, c.list.Loaded = max(v.sequence, c.list.Sequence), names
	return c.write(joined(v.layers))
}

// joined returns the layers that others replaced.
func joined(layers []ocispec.Descriptor) map[string]bool {
	out := map[string]bool{}
	for _, l := range layers {
		for _, name := range joinsOf(l) {
			out[name] = true
		}
	}
	return out
}

func namesOf(layers []ocispec.Descriptor) []string {
	out := make([]string, 0, len(layers))
	for _, l := range layers {
		out = append(out, l.Digest.String())
	}
	return out
}

// missing returns the layers of a version that are not loaded. stale means that the cache may have objects that the
// registry lacks. A version that is older than what another process noted lacks what is newer; a push compares it with
// what the registry has then.
func (c *cache) missing(v version) (out []ocispec.Descriptor, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if theirs := c.onDisk(); c.file != "" && theirs.Folder == c.list.Folder {
		c.list.Sequence, c.list.Holds = max(c.list.Sequence, theirs.Sequence), union(c.list.Holds, theirs.Holds, nil)
	}
	there := joined(v.layers)
	for _, l := range v.layers {
		there[l.Digest.String()] = true
		joins := joinsOf(l)
		loaded := slices.Contains(c.list.Loaded, l.Digest.String()) || len(joins) > 0 &&
			!slices.ContainsFunc(joins, func(j string) bool { return !slices.Contains(c.list.Loaded, j) })
		if !loaded {
			out = append(out, l)
		}
	}
	stale = v.sequence >= c.list.Sequence && slices.ContainsFunc(c.list.Holds, func(name string) bool { return !there[name] })
	return out, stale
}

// anew begins an empty cache.
func (c *cache) anew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == "" {
		store, err := gitstore.OpenCache("")
		if err == nil {
			c.store, c.list = store, cached{Sequence: c.list.Sequence}
		}
		return err
	}
	name, _, _ := strings.Cut(filepath.Base(c.file), ".")
	folder := name + "-" + rand.Text()[:8]
	store, err := gitstore.OpenCache(filepath.Join(filepath.Dir(c.file), folder))
	if err != nil {
		return err
	}
	old := filepath.Join(filepath.Dir(c.file), c.list.Folder)
	c.store, c.list = store, cached{Folder: folder, Sequence: c.list.Sequence}
	if err := c.write(nil); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// add reads the packfile of a layer.
func (c *cache) add(ctx context.Context, layer ocispec.Descriptor, pack []byte) error {
	c.mu.Lock()
	c.list.Holds = append(c.list.Holds, layer.Digest.String())
	err := c.write(nil)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	w, err := c.objects().NewWriter()
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // what is kept stays
	if err := gitstore.ReadThin(ctx, bytes.NewReader(pack), w, gitstore.ThinLimits{Objects: maxObjects, Bytes: maxInflated}); err != nil {
		return err
	}
	if err := w.Keep(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list.Loaded = append(c.list.Loaded, layer.Digest.String())
	return c.write(nil)
}

// load makes the objects of a version readable.
func (r *Repository) load(ctx context.Context, v version) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	missing, stale := r.cache.missing(v)
	if stale {
		if err := r.cache.anew(); err != nil {
			return err
		}
		r.Store.Borrow(r.cache.objects())
		missing = v.layers
	}
	for _, l := range missing {
		pack, err := r.Registry.Blob(ctx, l, maxPack)
		if err != nil {
			return within(r.Name, "the objects", err)
		}
		if err := r.cache.add(ctx, l, pack); err != nil {
			return within(r.Name, "the objects in the layer "+l.Digest.String(), err)
		}
	}
	return r.cache.note(v)
}
