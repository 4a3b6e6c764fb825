package ocigit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// Bounds of what a registry may have.
const (
	maxConfig   = 32 << 20
	maxBranches = 100_000
	maxPack     = 512 << 20 // bytes of a layer
	maxLayers   = 1000
	maxPacks    = 64 << 30   // bytes of all layers, which a machine without a cache downloads
	maxObjects  = 20_000_000 // of a layer
	maxInflated = 64 << 30   // bytes of the objects of a layer, and of the bases of its deltas
)

// errForeign means that a tag leads to something that Sluice did not write.
var errForeign = errors.New("the tag leads to something that Sluice did not write")

// ErrSetBack means that the registry has an older version of the branches than one that was there before.
var ErrSetBack = errors.New("the branches were set back")

// version is what StateTag leads to. The zero value is a repository without branches.
type version struct {
	digest   string
	sequence int
	branches map[string]gitstore.Hash
	layers   []ocispec.Descriptor // later ones need earlier ones
}

// config is the configuration of a manifest, as JSON.
type config struct {
	Sequence int               `json:"sequence"` // 1 for the first version
	Previous string            `json:"previous,omitempty"`
	Branches map[string]string `json:"branches"` // without refs/heads/
}

// List implements gitstore.Branches. A repository in a registry has no default branch.
func (r *Repository) List(ctx context.Context, prefixes ...string) (map[string]gitstore.Hash, error) {
	now, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]gitstore.Hash{}
	for name, h := range now.branches {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				out[name] = h
			}
		}
	}
	return out, nil
}

// Fetch implements gitstore.Branches. It reads all objects that the repository has gained since the cache was written.
func (r *Repository) Fetch(ctx context.Context, commits ...gitstore.Hash) error {
	if r.cache.hasAll(commits) {
		return nil
	}
	now, err := r.read(ctx)
	if err != nil {
		return err
	}
	if err := r.load(ctx, now); err != nil {
		return err
	}
	return r.Store.Ensure(ctx, commits...)
}

// read returns what the registry has now.
func (r *Repository) read(ctx context.Context) (version, error) {
	r.mu.Lock()
	newest := max(r.last.sequence, r.cache.sequence()) // before it asks: a push may end before the answer is here
	r.mu.Unlock()
	now, err := r.readTag(ctx)
	if err != nil {
		return now, within(r.Name, "the branches (tag "+StateTag+")", err)
	}
	if now.sequence < newest {
		return now, r.setBack(now.sequence, newest)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.sequence >= r.last.sequence {
		r.last = now
	}
	return now, nil
}

func (r *Repository) setBack(has, had int) error {
	return fmt.Errorf("%s: %w: the tag %s has version %d, and version %d was there before (lead the tag to the newest version again; to go on from the older one, delete the tag %s%s)",
		r.Name, ErrSetBack, StateTag, has, had, LeaseTag, r.cache.advice())
}

func (r *Repository) readTag(ctx context.Context) (version, error) {
	desc, data, err := r.Registry.Manifest(ctx, StateTag)
	if errors.Is(err, fetch.ErrNotFound) {
		return version{}, r.neverWritten(ctx)
	}
	if err != nil {
		return version{}, err
	}
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	if last.digest == desc.Digest.String() {
		return last, nil
	}
	var m ocispec.Manifest
	if json.Unmarshal(data, &m) != nil || m.Config.MediaType != configType {
		return version{}, errForeign
	}
	if err := checkLayers(m.Layers); err != nil {
		return version{}, err
	}
	text, err := r.Registry.Blob(ctx, m.Config, maxConfig)
	if err != nil {
		return version{}, err
	}
	out, err := parseConfig(text)
	out.digest, out.layers = desc.Digest.String(), m.Layers
	return out, err
}

// neverWritten returns an error if somebody deleted StateTag: the lease tells.
func (r *Repository) neverWritten(ctx context.Context) error {
	l, err := r.readLease(ctx)
	if err == nil && l.Sequence > 0 {
		err = fmt.Errorf("somebody deleted the tag, which had version %d (restore it, or delete the tag %s, too, to begin with no branches)",
			l.Sequence, LeaseTag)
	}
	return err
}

func checkLayers(layers []ocispec.Descriptor) error {
	if len(layers) > maxLayers {
		return fmt.Errorf("%w: it has %d layers, more than %d", errForeign, len(layers), maxLayers)
	}
	var total int64
	for _, l := range layers {
		if total += l.Size; total > maxPacks {
			return fmt.Errorf("%w: its layers have more than %d GiB", errForeign, maxPacks>>30)
		}
		if l.MediaType != packType || l.Size < 0 || l.Size > maxPack {
			return fmt.Errorf("%w: a layer of type %q with %d bytes", errForeign, safetext.Brief(l.MediaType, 80), l.Size)
		}
	}
	return nil
}

func parseConfig(text []byte) (version, error) {
	var c config
	if err := json.Unmarshal(text, &c); err != nil || c.Sequence < 1 {
		return version{}, errForeign
	}
	if len(c.Branches) > maxBranches {
		return version{}, fmt.Errorf("%w: it has %d branches, more than %d", errForeign, len(c.Branches), maxBranches)
	}
	out := version{sequence: c.Sequence, branches: make(map[string]gitstore.Hash, len(c.Branches))}
	for name, commit := range c.Branches {
		h, err := gitstore.ParseHash(commit)
		if err != nil || h.IsZero() {
			return version{}, fmt.Errorf("%w: the branch %q has no commit", errForeign, safetext.Brief(name, 100))
		}
		out.branches[name] = h
	}
	if err := out.check(); err != nil {
		return version{}, fmt.Errorf("%w: %s", errForeign, safetext.Brief(err.Error(), 200))
	}
	return out, nil
}

// check refuses branches that a Git repository cannot have beside one another.
func (v version) check() error {
	if len(v.branches) > maxBranches {
		return fmt.Errorf("it would have %d branches, more than %d", len(v.branches), maxBranches)
	}
	all := make([]gitstore.Move, 0, len(v.branches))
	for name, h := range v.branches {
		all = append(all, gitstore.Move{Branch: name, New: h})
	}
	return gitstore.CheckMoves(all)
}

// next returns the version after moves, as a manifest and its configuration. The digest of the version is the manifest's.
func (v version) next(moves []gitstore.Move, layers []ocispec.Descriptor) (version, blob, blob, error) {
	out := version{sequence: v.sequence + 1, branches: maps.Clone(v.branches), layers: layers}
	if out.branches == nil {
		out.branches = map[string]gitstore.Hash{}
	}
	for _, m := range moves {
		if m.New.IsZero() {
			delete(out.branches, m.Branch)
		} else {
			out.branches[m.Branch] = m.New
		}
	}
	if err := out.check(); err != nil {
		return out, blob{}, blob{}, err
	}
	if err := checkLayers(layers); err != nil { // nobody could read it
		return out, blob{}, blob{}, err
	}
	c := config{Sequence: out.sequence, Previous: v.digest, Branches: make(map[string]string, len(out.branches))}
	for name, h := range out.branches {
		c.Branches[name] = h.String()
	}
	text, err := json.Marshal(c)
	if err != nil {
		return out, blob{}, blob{}, err
	}
	if len(text) > maxConfig {
		return out, blob{}, blob{}, fmt.Errorf("their list would have %d MiB, more than %d", len(text)>>20, maxConfig>>20)
	}
	described := newBlob(configType, text)
	manifest, err := newManifest(described.Descriptor, nil, layers...)
	out.digest = manifest.Digest.String()
	return out, manifest, described, err
}
