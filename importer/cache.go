package importer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// cached remembers builds by everything that they depend on, so that the second commit of a comparison, and the second
// cluster with the same directory, build only what differs. Its objects are shared and must not be changed.
type cached struct {
	inner  flux.Builder
	builds *lru.Cache[[]manifest.Object] // by the bytes of a hash
}

// maxBuilds bounds the builds that are remembered: those of a few commits of a large repository.
const maxBuilds = 4096

func newCached(inner flux.Builder) *cached {
	return &cached{inner: inner, builds: lru.New[[]manifest.Object](maxBuilds)}
}

// Build implements flux.Builder.
func (c *cached) Build(ctx context.Context, files []kustomize.File, root string) ([]manifest.Object, error) {
	h := sha256.New()
	add := func(data []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(data)))
		h.Write(n[:])
		h.Write(data)
	}
	add([]byte(root))
	for _, f := range files {
		add([]byte(f.Path))
		add(f.Data)
	}
	key := string(h.Sum(nil))
	if objects, ok := c.builds.Get(key); ok {
		return objects, nil
	}
	objects, err := c.inner.Build(ctx, files, root)
	if err == nil {
		c.builds.Add(key, objects)
	}
	return objects, err
}
