package hydrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
)

// Epoch names the way that inputs become objects. It is part of every input digest: whoever changes what a rendering gives,
// by a new version of Helm or Kustomize or by hand, raises it, and everything is rendered anew once.
const Epoch = "2 helm 3.22.0 kustomize 0.21.2"

// Config is what a Hydrator works with.
type Config struct {
	Store    *gitstore.Store
	Branches gitstore.Branches // where rendered branches live
	Renderer renderer.Renderer
	Archives Archives
	Jobs     int    // targets rendered at once, at least 1
	Version  string // of Sluice, for the trailer
	Signer   gitstore.Signer
	Progress Progress
}

// Progress hears how far a phase is. It is called from several goroutines; total is 0 where it is not known.
type Progress func(phase string, done, total int)

// Hydrator renders commits of one source repository. Its methods are safe to call one after another; each reads the
// branches anew.
type Hydrator struct {
	Config
	store *gitstore.Store
	cache *fleet.Cache

	mu    sync.Mutex
	views map[gitstore.Hash]*view // by tree
	done  map[string]*shared      // renderings by bundle
}

// New makes a Hydrator.
func New(c Config) *Hydrator {
	c.Jobs = max(c.Jobs, 1)
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	return &Hydrator{Config: c, store: c.Store, cache: fleet.NewCache(), views: map[gitstore.Hash]*view{}, done: map[string]*shared{}}
}

// view is one source tree, read.
type view struct {
	fleet    *fleet.Fleet
	problems fleet.Problems
	sources  *sources
}

// open reads the fleet of a tree, once.
func (h *Hydrator) open(ctx context.Context, tree gitstore.Hash) (*view, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v, ok := h.views[tree]; ok {
		return v, nil
	}
	snap := h.store.Snapshot(ctx, tree)
	f, problems := fleet.Load(ctx, snap, h.cache)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	src, err := newSources(snap, h.Archives)
	if err != nil {
		return nil, err
	}
	v := &view{fleet: f, problems: problems, sources: src}
	h.views[tree] = v
	return v, nil
}

// Fleet reads the fleet of a tree and its warnings; its errors are fleet.Problems.
func (h *Hydrator) Fleet(ctx context.Context, tree gitstore.Hash) (*fleet.Fleet, fleet.Problems, error) {
	v, err := h.open(ctx, tree)
	if err != nil {
		return nil, nil, err
	}
	return v.fleet, v.problems, nil
}

// Readable is the newest commit on a commit's line of first parents whose fleet can be read, the commit itself if its own can. So a
// mistake on the trunk stops no rollback: rights and gates are those of the last fleet that was one. The error is the
// commit's own if none is found in its last hundred.
func (h *Hydrator) Readable(ctx context.Context, tip gitstore.Commit) (gitstore.Commit, *fleet.Fleet, error) {
	const most = 100
	at := tip
	var first error
	for range most {
		v, err := h.open(ctx, at.Tree)
		if err == nil {
			return at, v.fleet, nil
		}
		problems, broken := errors.AsType[fleet.Problems](err)
		if first == nil {
			first = err
		}
		if !broken || problems.Absent() || len(at.Parents) == 0 {
			return tip, nil, first
		}
		if at, err = h.store.Commit(ctx, at.Parents[0]); err != nil {
			return tip, nil, first
		}
	}
	return tip, nil, first
}

// digest is a target's input digest.
func (v *view) digest(t fleet.Target) (string, error) {
	key := make([]byte, 0, 1024)
	key = append(key, Epoch...)
	key, err := v.fleet.AppendKey(key, t)
	if err != nil {
		return "", err
	}
	resolved, err := v.fleet.Resolve(t)
	if err != nil {
		return "", err
	}
	for _, src := range resolved.Sources {
		id, err := v.sources.id(src)
		if err != nil {
			return "", err
		}
		key = append(key, 0)
		key = append(key, id...)
	}
	for _, layer := range v.fleet.Components(t) { // the key has the folder itself, not what it reaches
		r := v.sources.kustomizeID(layer.Path)
		if r.err != nil {
			return "", fmt.Errorf("component %s: %w", layer.Path, r.err)
		}
		key = append(key, 0)
		key = append(key, r.id...)
	}
	if resolved.Unstable == "keep" { // what is kept is each cluster's own
		key = append(key, "\x00of "+t.Cluster.Name...)
	}
	if v.fleet.AsRendered() {
		key = append(key, "\x00as rendered"...)
	}
	sum := sha256.Sum256(key)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// bundle gathers what a target's rendering depends on.
func (v *view) bundle(ctx context.Context, t fleet.Target) (*renderer.Bundle, fleet.Resolved, error) {
	resolved, err := v.fleet.Resolve(t)
	if err != nil {
		return nil, resolved, err
	}
	b := &renderer.Bundle{Namespace: resolved.Namespace, KubeVersion: t.Cluster.KubeVersion, APIVersions: t.Cluster.APIVersions}
	for _, src := range resolved.Sources {
		var values map[string]any
		if src.Helm != nil {
			if values, err = v.fleet.Values(t, src.Name); err != nil {
				return nil, resolved, err
			}
		}
		ready, err := v.sources.bundleSource(ctx, t.App, src, values)
		if err != nil {
			return nil, resolved, err
		}
		if ready.Helm != nil {
			ready.Helm.Release = src.Helm.ReleaseName
		}
		b.Sources = append(b.Sources, ready)
	}
	for _, layer := range v.fleet.Components(t) {
		c, err := v.component(t, layer.Path)
		if err != nil {
			return nil, resolved, err
		}
		b.Components = append(b.Components, c)
	}
	return b, resolved, nil
}

// component reads a layer's component, and what it reaches beside its own folder, as the target's cluster gets it.
func (v *view) component(t fleet.Target, dir string) (renderer.Component, error) {
	out := renderer.Component{Root: dir}
	content, err := v.sources.once("component\x00"+dir, func() (renderer.Content, error) { return v.sources.kustomizeFiles(dir) })
	if err != nil {
		return out, fmt.Errorf("component %s: %w", dir, err)
	}
	out.Files = renderer.Content{Name: dir, Files: make([]renderer.File, len(content.Files))}
	h := sha256.New()
	for i, f := range content.Files {
		data := f.Data
		if strings.HasPrefix(f.Path, dir+"/") { // what stands elsewhere is no layer's and has no references
			if data, err = t.ComponentFile(f.Path, f.Data); err != nil {
				return out, fmt.Errorf("component %s: %w", dir, err)
			}
		}
		out.Files.Files[i] = renderer.File{Path: f.Path, Data: data}
		fmt.Fprintf(h, "%d %s %d\n%s", len(f.Path), f.Path, len(data), data)
	}
	out.Files.Digest = "component " + hex.EncodeToString(h.Sum(nil))
	return out, nil
}

// Failure is a target that could not be rendered.
type Failure struct {
	Environment string `json:"environment"`
	Cluster     string `json:"cluster"`
	App         string `json:"app"`
	Message     string `json:"message"`
}

// Error names the target first.
func (f Failure) Error() string {
	return fmt.Sprintf("%s/%s: %s", f.Cluster, f.App, strings.TrimSpace(f.Message))
}
