package fetch

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/hashicorp/golang-lru/v2/expirable"
	"oras.land/oras-go/v2/registry"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// KnownImages remembers for an hour which images their registries had. It is safe for concurrent use.
type KnownImages struct {
	found *expirable.LRU[string, struct{}]
}

// NewKnownImages returns an empty memory.
func NewKnownImages() *KnownImages {
	const most = 20_000
	return &KnownImages{expirable.NewLRU[string, struct{}](most, nil, time.Hour)}
}

// dockerHub is the registry of Docker Hub, under the name by which it is asked.
const dockerHub = "registry-1.docker.io"

// Image asks a registry, without downloading anything, whether it has an image; nil means that it has. The name has the
// form of a container's field image. An error that is ErrNotFound means that the registry answered and has no such
// image, or that none can have the name. All other errors leave the question open: ErrUnavailable, ErrDenied (many
// registries hide by it what does not exist), ErrInvalid or a context error.
func (f *Fetcher) Image(ctx context.Context, image string) error {
	ref, err := name.ParseReference(image)
	if err != nil {
		return fail(ErrNotFound, "%s is not the name of an image", safetext.Brief(image, 200))
	}
	if known := f.opts.KnownImages; known != nil {
		if _, ok := known.found.Get(ref.Name()); ok {
			return nil
		}
	}
	if _, tag, ok := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":"); ok && (tag == "" || strings.HasPrefix(tag, "@")) {
		return fail(ErrNotFound, "%s has an empty tag", safetext.Brief(image, 200))
	}
	where := registry.Reference{Registry: ref.Context().RegistryStr(), Repository: ref.Context().RepositoryStr()}
	if where.Registry == name.DefaultRegistry {
		where.Registry = dockerHub
	}
	repo, u := f.repository(where)
	err = f.retry(ctx, u, func(ctx context.Context) error {
		_, err := repo.Manifests().Resolve(ctx, ref.Identifier())
		return err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return fail(ErrNotFound, "%s does not exist in %s", safetext.Brief(image, 300), safetext.Brief(where.Registry, 100))
	case err != nil:
		return err
	}
	if f.opts.KnownImages != nil {
		f.opts.KnownImages.found.Add(ref.Name(), struct{}{})
	}
	return nil
}
