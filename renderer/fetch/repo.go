package fetch

import (
	"context"
	"net/url"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// maxHeldIndexes bounds the memory for indexes of one Fetcher. Beyond it, the Fetcher does not keep
// an index, and reads it again for the next use.
const maxHeldIndexes = 128 << 20

// indexes holds the indexes that one run has read, undecoded.
type indexes struct {
	mu     sync.Mutex
	byRepo map[string][]byte
	held   int
}

func (x *indexes) get(repo string) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byRepo[repo]
}

func (x *indexes) put(repo string, data []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.held+len(data) > maxHeldIndexes {
		clear(x.byRepo)
		x.held = 0
	}
	x.held += len(data) - len(x.byRepo[repo])
	x.byRepo[repo] = data
}

// versions reads the versions of one chart from a chart repository.
func (f *Fetcher) versions(ctx context.Context, where place, a access) ([]*indexEntry, error) {
	repo := where.repo.String()
	index := f.indexes.get(repo)
	if index == nil {
		var err error
		index, err = f.once(ctx, "index "+repo, func() ([]byte, error) {
			data, err := f.get(ctx, request{url: below(where.repo, "index.yaml"), access: a, limit: f.opts.MaxIndex})
			if err == nil {
				f.indexes.put(repo, data)
			}
			return data, err
		})
		if err != nil {
			return nil, err
		}
	}
	all, err := findChart(index, where.chart)
	if err != nil {
		return nil, err
	}
	entries := all[:0:0]
	for _, e := range all {
		if e != nil {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil, fail(ErrNotFound,
			"the repository's index does not have this chart: check the name by `helm search repo`")
	}
	return entries, nil
}

func (f *Fetcher) resolveHTTP(ctx context.Context, where place, want wanted) (Locked, error) {
	a, err := f.opts.Credentials.forRepo(where.repo, f.base)
	if err != nil {
		return Locked{}, err
	}
	entries, err := f.versions(ctx, where, a)
	if err != nil {
		return Locked{}, err
	}
	texts := make([]string, len(entries))
	for i, e := range entries {
		texts[i] = e.Version
	}
	i, ok := want.pick(texts)
	if !ok {
		return Locked{}, want.none(texts)
	}
	e := entries[i]
	claimed := indexDigest(e.Digest)
	if claimed != "" && f.cache.get(claimed) != nil {
		return Locked{Version: e.Version, Digest: claimed}, nil
	}
	data, err := f.download(ctx, where, a, e)
	if err != nil {
		return Locked{}, err
	}
	locked := Locked{Version: e.Version, Digest: digestOf(data)}
	if claimed != "" && claimed != locked.Digest {
		return Locked{}, fail(ErrDigest,
			"the repository's index gives version %s the digest %s, but the archive there has %s: "+
				"the repository is damaged or was tampered with; ask whoever runs it", safetext.Brief(e.Version, 60),
			claimed, locked.Digest)
	}
	if err := locked.check(); err != nil {
		return Locked{}, err
	}
	f.cache.put(locked.Digest, data)
	return locked, nil
}

// lockedHTTP downloads the archive of exactly the locked version.
func (f *Fetcher) lockedHTTP(ctx context.Context, where place, l Locked) ([]byte, error) {
	a, err := f.opts.Credentials.forRepo(where.repo, f.base)
	if err != nil {
		return nil, err
	}
	entries, err := f.versions(ctx, where, a)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Version != l.Version {
			continue
		}
		data, err := f.download(ctx, where, a, e)
		return data, err
	}
	return nil, fail(ErrNotFound,
		"the locked version %s is no longer in the repository's index: ask for it to be put back, or remove the entry from %s and run `sluice deps lock`",
		safetext.Brief(l.Version, 60), LockFile)
}

// download fetches the archive that an index entry points to, wherever that is.
func (f *Fetcher) download(ctx context.Context, where place, a access, e *indexEntry) ([]byte, error) {
	if len(e.URLs) == 0 || e.URLs[0] == "" || len(e.URLs[0]) > 8*maxRefPart {
		return nil, fail(ErrInvalid, "the index has no usable URL for version %s", safetext.Brief(e.Version, 60))
	}
	if strings.HasPrefix(e.URLs[0], ociScheme+"://") {
		name, err := parseOCI(e.URLs[0])
		if err != nil {
			return nil, fail(ErrInvalid, "the index has a malformed oci:// URL for version %s",
				safetext.Brief(e.Version, 60))
		}
		return f.tagged(ctx, name)
	}
	u, err := archiveURL(where.repo, e.URLs[0])
	if err != nil {
		return nil, err
	}
	data, err := f.get(ctx, request{url: u, access: a, limit: f.opts.MaxArchive, raw: true})
	if err != nil {
		return nil, err
	}
	return data, archiveLike(data, display(u.String()))
}

// tagged fetches the chart that an oci:// URL with a tag names.
func (f *Fetcher) tagged(ctx context.Context, name registry.Reference) ([]byte, error) {
	digest, err := layerOf(ctx, f, name, name.Reference)
	if err != nil {
		return nil, err
	}
	name.Reference = ""
	data, err := f.blob(ctx, name, digest)
	if err == nil && digestOf(data) != digest {
		err = fail(ErrDigest, "the registry's answer has not the digest %s that was asked for", digest)
	}
	return data, err
}

// archiveURL resolves an index entry's URL against the repository, as Helm does. The
// function permitted checks scheme and host.
func archiveURL(repo *url.URL, ref string) (*url.URL, error) {
	u, err := url.Parse(ref)
	if err != nil || u.Opaque != "" {
		return nil, fail(ErrInvalid, "the index has a malformed archive URL")
	}
	u = below(repo, "").ResolveReference(u)
	if u.User != nil {
		return nil, fail(ErrInvalid, "the index has an archive URL with credentials in it, which is refused")
	}
	u.Fragment = ""
	return u, nil
}

// below adds a file name to a repository's URL.
func below(repo *url.URL, name string) *url.URL {
	u := *repo
	if u.RawPath != "" {
		u.RawPath = strings.TrimRight(u.RawPath, "/") + "/" + name
	}
	u.Path = strings.TrimRight(u.Path, "/") + "/" + name
	return &u
}

// archiveLike refuses bytes that are no archive, such as a login page.
func archiveLike(data []byte, from string) error {
	if len(data) > 2 && data[0] == 0x1f && data[1] == 0x8b {
		return nil
	}
	return fail(ErrInvalid, "%s is not a chart archive (.tgz), it may be an error or login page: open it in a browser",
		from)
}
