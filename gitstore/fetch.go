package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// fetchRequest describes what to fetch.
type fetchRequest struct {
	objects []Hash
	depth   int // commits of history; all if negative

	// Objects to leave out, if the server supports that and gives them later: "blob:none", "tree:0".
	filter packp.Filter

	// have is a local commit whose files are complete; its history may be missing. Zero means none.
	have Hash
}

const everything = -1

// Ensure fetches missing objects, with one request to each remote. It fetches commits without their history.
func (s *Store) Ensure(ctx context.Context, hashes ...Hash) error {
	if s.supply != nil {
		return s.fromSupply(ctx, hashes)
	}
	missing := s.missing(hashes)
	if len(missing) == 0 {
		return nil
	}
	err := s.fromSources(ctx, missing, func(e endpoint, still []Hash) error {
		return s.fetch(ctx, e, fetchRequest{objects: still, depth: 1})
	})
	if err != nil && s.fromLenders(ctx, missing) {
		return nil
	}
	return err
}

// fromSources tries the remotes one after the other until nothing is missing.
func (s *Store) fromSources(ctx context.Context, hashes []Hash, fetch func(endpoint, []Hash) error) error {
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return ctx.Err()
	}
	missing := s.missing(hashes) // another fetch may have added them
	var errs []error
	for _, e := range s.remotes() {
		if len(missing) == 0 {
			break
		}
		if err := fetch(e, missing); err != nil {
			errs = append(errs, err)
			continue
		}
		if missing = s.missing(missing); len(missing) == 0 {
			s.askFirst(e)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &missingError{object: missing[0], hint: s.hint(missing[0]), cause: errors.Join(errs...)}
}

// remotes lists the remotes in the order in which to ask them.
func (s *Store) remotes() []endpoint {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.foreign {
		return slices.Concat(s.others, s.sources)
	}
	return slices.Concat(s.sources, s.others)
}

// askFirst records the remote that had the missing objects, because it probably has the next ones too.
func (s *Store) askFirst(e endpoint) {
	s.mu.Lock()
	s.foreign = !slices.ContainsFunc(s.sources, func(own endpoint) bool { return own.url == e.url })
	foreign := s.foreign
	s.mu.Unlock()
	if !foreign {
		s.prefer(e)
	}
}

func (s *Store) missing(hashes []Hash) []Hash {
	return slices.DeleteFunc(slices.Clone(hashes), s.Has)
}

// deepen fetches a commit and depth-1 of its ancestors, without files if the server supports that.
func (s *Store) deepen(ctx context.Context, from Hash, depth int) error {
	const deep = 10_000 // beyond this depth, one request for everything is cheaper than several requests
	if depth > deep {
		depth = everything
	}
	return s.fromSources(ctx, []Hash{from}, func(e endpoint, still []Hash) error {
		return s.fetch(ctx, e, fetchRequest{objects: still, depth: depth, filter: packp.FilterTreeDepth(0)})
	})
}

// fetch fetches objects by name into the cache. It creates no refs.
func (s *Store) fetch(ctx context.Context, e endpoint, w fetchRequest) error {
	session, advertised, err := e.upload(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // every answer that counts has been read
	return s.fetchBy(ctx, e, session, advertised, w)
}

func (s *Store) fetchBy(ctx context.Context, e endpoint, session transport.UploadPackSession, advertised *packp.AdvRefs,
	w fetchRequest,
) error {
	if !givesAny(advertised.Capabilities) { // the server closes the connection if it is asked for other objects
		tips := refsOf(advertised)
		w.objects = slices.DeleteFunc(slices.Clone(w.objects), func(h Hash) bool { return !isTip(tips, h) })
		if len(w.objects) == 0 {
			return e.explain(errOnlyTips)
		}
	}
	req, err := w.request(advertised.Capabilities)
	if err != nil {
		return e.explain(err)
	}
	response, err := session.UploadPack(ctx, req)
	if errors.Is(err, transport.ErrEmptyUploadPackRequest) {
		return e.explain(fmt.Errorf("fetch %s: the server sent nothing: %w", w, err))
	}
	if err != nil {
		abandon(ctx, session)
		return e.explain(fmt.Errorf("fetch %s: %w", w, err))
	}
	defer func() { _ = response.Close() }() // it is only read
	var stream io.Reader = response
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		stream = sideband.NewDemuxer(sideband.Sideband64k, response)
	case req.Capabilities.Supports(capability.Sideband):
		stream = sideband.NewDemuxer(sideband.Sideband, response)
	}
	if e.most > 0 {
		stream = &bounded{stream, e.most, e.most, "split the repository, or remove large files from it"}
	}
	if err := s.keepPack(stream); err != nil {
		abandon(ctx, session)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return e.explain(fmt.Errorf("fetch %s: %w", w, err))
	}
	return nil
}

// String describes an object of the request, for errors.
func (w fetchRequest) String() string {
	if len(w.objects) == 1 {
		return w.objects[0].String()
	}
	return fmt.Sprintf("%d objects, such as %s,", len(w.objects), w.objects[0])
}

func (w fetchRequest) request(server *capability.List) (*packp.UploadPackRequest, error) {
	req := packp.NewUploadPackRequestFromCapabilities(server)
	for _, h := range w.objects {
		req.Wants = append(req.Wants, plumbing.Hash(h))
	}
	if server.Supports(capability.Shallow) {
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return nil, err
		}
		req.Depth = packp.DepthCommits(w.depth)
		if w.depth < 0 {
			req.Depth = packp.DepthCommits(math.MaxInt32) // Git sends this for --unshallow
		}
		if !w.have.IsZero() {
			req.Haves = []plumbing.Hash{plumbing.Hash(w.have)}
			req.Shallows = []plumbing.Hash{plumbing.Hash(w.have)}
		}
	}
	if w.filter != "" && server.Supports(capability.Filter) && givesAny(server) {
		if err := req.Capabilities.Set(capability.Filter); err != nil {
			return nil, err
		}
		req.Filter = w.filter
	}
	return req, nil
}

var errOnlyTips = errors.New("the server gives only commits that its branches and tags name (use a clone that was made without " +
	"--depth, --single-branch and --filter, or set uploadpack.allowReachableSHA1InWant on the server)")

func isTip(refs map[string]Hash, h Hash) bool {
	for _, at := range refs {
		if at == h {
			return true
		}
	}
	return false
}

// givesAny reports whether the server provides objects that are not at the tip of a ref.
func givesAny(server *capability.List) bool {
	return server.Supports(capability.AllowReachableSHA1InWant)
}

// keepPack stores a packfile in the cache while it arrives.
func (s *Store) keepPack(stream io.Reader) error {
	side, err := s.sideFolder()
	if err != nil {
		return err
	}
	return side.Receive(stream)
}

// sideName is the folder of the cache in a user's repository. Git does not read it, so that objects without complete
// history or files do no harm there.
const sideName = "sluice"

// sideFolder opens the cache, and creates it if needed. If the repository is read-only, the cache is a temporary
// folder.
func (s *Store) sideFolder() (*pack.Folder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.side != nil {
		return s.side, nil
	}
	dir := filepath.Join(s.dir, sideName)
	packs := filepath.Join("objects", "pack")
	if s.dir == "" || s.disk.MkdirAll(filepath.Join(dir, packs)) != nil || !writable(filepath.Join(dir, packs)) {
		temp, err := os.MkdirTemp("", "sluice-objects-")
		if err != nil {
			return nil, fmt.Errorf("make a folder for fetched objects: %w", err)
		}
		if err := s.disk.MkdirAll(filepath.Join(temp, packs)); err != nil {
			return nil, fmt.Errorf("make a folder for fetched objects: %w", err)
		}
		dir, s.temp = temp, append(s.temp, temp)
	}
	s.side = pack.OpenCache(dir, s.disk)
	return s.side, nil
}

func writable(dir string) bool {
	f, err := os.CreateTemp(dir, "tmp_try_")
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}
