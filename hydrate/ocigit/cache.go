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
// longer has one of them, the cache begins anew. Two processes can share it.
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
	data, err := os.ReadFile(c.file)
	if err != nil || len(data) > maxCached || json.Unmarshal(data, &c.list) != nil ||
		c.list.Folder == "" || c.list.Folder != filepath.Base(c.list.Folder) || !strings.HasPrefix(c.list.Folder, filepath.Base(at)) {
		c.list = cached{Folder: filepath.Base(at) + "-" + rand.Text()[:8]}
		if err := c.write(); err != nil { // a folder that cannot be written to
			return openCache("")
		}
	}
	folder := filepath.Join(filepath.Dir(c.file), c.list.Folder)
	if _, err := os.Stat(folder); err != nil {
		c.list.Holds, c.list.Loaded = nil, nil
	}
	if c.store, err = gitstore.OpenCache(folder); err != nil {
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

// write stores the list. The caller holds mu.
func (c *cache) write() error {
	if c.file == "" {
		return nil
	}
	data, err := json.Marshal(c.list)
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

// note records a version that was read or written, whose layers are all loaded.
func (c *cache) note(v version) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := namesOf(v.layers)
	if c.list.Sequence == v.sequence && slices.Equal(c.list.Loaded, names) {
		return nil
	}
	c.list.Sequence, c.list.Holds, c.list.Loaded = v.sequence, names, names
	return c.write()
}

func namesOf(layers []ocispec.Descriptor) []string {
	out := make([]string, 0, len(layers))
	for _, l := range layers {
		out = append(out, l.Digest.String())
	}
	return out
}

// missing returns the layers that are not loaded. stale means that the cache may have objects that the layers lack.
func (c *cache) missing(layers []ocispec.Descriptor) (out []ocispec.Descriptor, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	there := map[string]bool{}
	for _, l := range layers {
		there[l.Digest.String()] = true
		joins := joinsOf(l)
		for _, j := range joins {
			there[j] = true
		}
		loaded := slices.Contains(c.list.Loaded, l.Digest.String()) || len(joins) > 0 &&
			!slices.ContainsFunc(joins, func(j string) bool { return !slices.Contains(c.list.Loaded, j) })
		if !loaded {
			out = append(out, l)
		}
	}
	return out, slices.ContainsFunc(c.list.Holds, func(name string) bool { return !there[name] })
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
	if err := c.write(); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// add reads the packfile of a layer.
func (c *cache) add(ctx context.Context, layer ocispec.Descriptor, pack []byte) error {
	c.mu.Lock()
	c.list.Holds = append(c.list.Holds, layer.Digest.String())
	err := c.write()
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
	return c.write()
}

// load makes the objects of a version readable.
func (r *Repository) load(ctx context.Context, v version) error {
	r.loading.Lock()
	defer r.loading.Unlock()
	missing, stale := r.cache.missing(v.layers)
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
