package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// Defaults of Options.
const (
	DefaultMaxArchive = 64 << 20
	DefaultMaxIndex   = 64 << 20
	DefaultTimeout    = 2 * time.Minute
)

// transfers is how many downloads run at once; each may hold one limit's worth of bytes.
const transfers = 4

// Options of a Fetcher; the zero value works, without cache and credentials.
type Options struct {
	CacheDir  string            // archives by digest; empty: no cache
	Transport http.RoundTripper // nil: one with the usual proxy variables
	// nil: every address may be asked; it replaces the dialer and proxy of an *http.Transport
	Guard       *Guard
	Credentials *Credentials // nil: none
	MaxArchive  int64        // bytes
	MaxIndex    int64        // bytes, after content decoding
	UserAgent   string
	KnownImages *KnownImages // nil: every question about an image goes to its registry
	// hosts, with or without port, that may be asked over plain HTTP; loopback always may
	PlainHTTP []string
	Timeout   time.Duration                              // of one attempt, from the request to the last byte
	Sleep     func(context.Context, time.Duration) error // between attempts; nil: that of internal/retry
}

// Fetcher resolves and downloads charts. It keeps the indexes it has read, so one Fetcher is for one run.
type Fetcher struct {
	opts     Options
	base     http.RoundTripper
	registry *auth.Client
	cache    cache
	flight   singleflight.Group
	slots    *semaphore.Weighted
	indexes  indexes
}

// New makes a Fetcher; it touches neither network nor disk.
func New(o Options) *Fetcher {
	if o.MaxArchive <= 0 {
		o.MaxArchive = DefaultMaxArchive
	}
	if o.MaxIndex <= 0 {
		o.MaxIndex = DefaultMaxIndex
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.UserAgent == "" {
		o.UserAgent = "sluice"
	}
	f := &Fetcher{
		opts: o, base: o.Transport, cache: cache{dir: o.CacheDir, limit: o.MaxArchive},
		slots: semaphore.NewWeighted(transfers), indexes: indexes{byRepo: map[string][]byte{}},
	}
	if f.base == nil {
		f.base = newTransport()
	}
	if t, ok := f.base.(*http.Transport); ok && o.Guard != nil {
		t = t.Clone()
		t.DialContext, t.Proxy = o.Guard.DialContext, o.Guard.Proxy
		t.DialTLSContext = nil
		f.base = t
	}
	f.registry = &auth.Client{
		Client:     f.client(access{}),
		Header:     http.Header{"User-Agent": {o.UserAgent}, "Accept-Encoding": {"identity"}},
		Credential: o.Credentials.forRegistry,
		Cache:      auth.NewCache(),
	}
	return f
}

// Resolve chooses the version for a reference and learns the digest of its archive, from the network. The archive is
// downloaded (or found in the cache) and its digest computed: what an index says is only compared with it. Errors are
// one of this package's kinds or a context error.
func (f *Fetcher) Resolve(ctx context.Context, r Ref) (Locked, error) {
	where, err := r.place()
	if err != nil {
		return Locked{}, wrap(r, err)
	}
	want, err := r.wanted(where)
	if err != nil {
		return Locked{}, wrap(r, err)
	}
	var locked Locked
	if where.oci != nil {
		locked, err = f.resolveOCI(ctx, *where.oci, want)
	} else {
		locked, err = f.resolveHTTP(ctx, where, want)
	}
	if err != nil {
		return Locked{}, wrap(r, err)
	}
	return locked, nil
}

// Archive returns the locked archive: from the cache, else from the network. Several callers may get the same slice,
// so it must not be written to. Requests for one digest download it once; when the caller that downloads is
// cancelled, another one takes over.
func (f *Fetcher) Archive(ctx context.Context, r Ref, l Locked) ([]byte, error) {
	where, err := r.place()
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return nil, wrap(r, err)
	}
	data, err := f.byDigest(ctx, l.Digest, func(ctx context.Context) ([]byte, error) {
		if where.oci != nil {
			return f.blob(ctx, *where.oci, l.Digest)
		}
		return f.lockedHTTP(ctx, where, l)
	})
	if err != nil {
		return nil, wrap(r, err)
	}
	return data, nil
}

// wrap names the chart in front of an error.
func wrap(r Ref, err error) error { return fmt.Errorf("chart %s: %w", r, err) }

// byDigest returns the bytes with this digest. load's result is verified here and nowhere else.
func (f *Fetcher) byDigest(ctx context.Context, digest string, load func(context.Context) ([]byte, error)) ([]byte,
	error,
) {
	if data := f.cache.get(digest); data != nil {
		return data, nil
	}
	return f.once(ctx, digest, func() ([]byte, error) {
		if data := f.cache.get(digest); data != nil {
			return data, nil // stored between the look above and the start of this flight
		}
		data, err := load(ctx)
		if err != nil {
			return nil, err
		}
		if got := digestOf(data); got != digest {
			return nil, fail(ErrDigest,
				"the server's archive has the digest %s, not the locked %s: the version was published anew, or somebody tampers with it. "+
					"Ask whoever runs the repository; if the change is wanted, remove the entry from %s and run `sluice deps lock`",
				got, digest, LockFile)
		}
		f.cache.put(digest, data)
		return data, nil
	})
}

// once shares one run of load among concurrent callers with the same key. load uses the context of the caller that
// started it; if that one is cancelled, the others start again.
func (f *Fetcher) once(ctx context.Context, key string, load func() ([]byte, error)) ([]byte, error) {
	for {
		done := f.flight.DoChan(key, func() (any, error) { return load() })
		select {
		case <-ctx.Done():
			return nil, &failure{text: "interrupted", kind: ctx.Err()}
		case res := <-done:
			foreign := errors.Is(res.Err, context.Canceled) || errors.Is(res.Err, context.DeadlineExceeded)
			if foreign && ctx.Err() == nil {
				continue
			}
			data, _ := res.Val.([]byte)
			return data, res.Err
		}
	}
}
