package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// contents identifies the sources of one commit's apps without reading them, and reads their bytes, each source once.
// It is safe for concurrent use.
type contents struct {
	files    *exactMounts
	archives Archives
	lock     *fetch.Lock
	bases    *kustomize.Redirected // all files that Kustomize reads
	walker   *kustomize.Walker     // of roots that are not edited
	trust    *Trust                // signers of charts
	demanded []string              // names of signers that the fleet of the commit demands by default
	pins     pins                  // of charts that the lock lacks
	locked   *contents             // the same without such charts; itself if there is no Pinner

	dependsOn sync.Map // folder of a chart → []dependency

	mu           sync.Mutex
	descriptions map[string]description
	loads        map[string]*load
	edited       map[string]*kustomize.Walker // of roots whose kustomization an importer has edited, by their key
}

// load holds the bytes of one source.
type load struct {
	once    sync.Once
	content renderer.Content
	err     error
}

func newContents(files *exactMounts, archives Archives, repositories []*fleet.Repository, p pins) (*contents, error) {
	c := &contents{
		files: files, archives: archives, pins: p,
		descriptions: map[string]description{}, loads: map[string]*load{}, edited: map[string]*kustomize.Walker{},
	}
	var err error
	if c.lock, err = readLock(files.now()); err != nil {
		return nil, err
	}
	c.bases = kustomize.Redirect(files, newRemoteBases(repositories, c.lock, files))
	c.walker = newWalker(c.bases)
	c.locked = c
	if p.pinner != nil {
		c.locked, err = newContents(files, archives, repositories, pins{})
	}
	return c, err
}

// once reads the bytes for a key once. It does not keep an error, so the next caller reads again.
func (c *contents) once(key string, read func() (renderer.Content, error)) (renderer.Content, error) {
	c.mu.Lock()
	l, ok := c.loads[key]
	if !ok {
		l = &load{}
		c.loads[key] = l
	}
	c.mu.Unlock()
	l.once.Do(func() {
		if l.content, l.err = read(); l.err != nil {
			c.mu.Lock()
			delete(c.loads, key)
			c.mu.Unlock()
		}
	})
	return l.content, l.err
}

// manifests reads a folder of plain manifests. In an app's own folder, it leaves out Sluice's files.
func (c *contents) manifests(dir string, app *fleet.App) (renderer.Content, error) {
	content, err := c.folder(dir)
	if err != nil || dir != app.Dir {
		return content, err
	}
	appFile := path.Base(app.File)
	content.Digest += " without " + appFile
	content.Files = slices.DeleteFunc(slices.Clone(content.Files), func(f renderer.File) bool {
		return f.Path == appFile || strings.HasPrefix(f.Path, "layers/")
	})
	return content, nil
}

// helm reads a chart and its dependencies, except those in charts/.
func (c *contents) helm(ctx context.Context, h *fleet.HelmSource, values map[string]any) (*renderer.HelmSource, error) {
	out := &renderer.HelmSource{
		Release: h.ReleaseName, Namespace: h.Namespace, IncludeCRDs: h.IncludeCRDs,
		DropHooks: h.Hooks == "drop", SkipSchema: h.Schema == "skip",
	}
	var err error
	if out.Values, err = json.Marshal(values); err != nil {
		return nil, err
	}
	if h.Chart != "" {
		out.Chart, err = c.signedArchive(ctx, chartRef(h), h)
		return out, err
	}
	if out.Chart, err = c.chart(h.Path); err != nil {
		return nil, err
	}
	if out.Chart, err = packed(out.Chart, h.Path, h.Packing); err != nil {
		return nil, err
	}
	out.Dependencies, err = c.chartDependencies(ctx, h.Path, h)
	return out, err
}

// chartDependencies reads the dependencies of a chart in the repository, except those in charts/.
func (c *contents) chartDependencies(ctx context.Context, dir string, h *fleet.HelmSource) ([]renderer.Dependency,
	error,
) {
	dependencies, err := c.dependencies(dir)
	if err != nil {
		return nil, err
	}
	var out []renderer.Dependency
	for _, d := range dependencies {
		var chart renderer.Content
		if d.path != "" {
			if chart, err = c.chart(d.path); err == nil {
				chart, err = without(chart, d.path, h.Packing)
			}
		} else {
			chart, err = c.signedArchive(ctx, d.ref, h)
		}
		if err != nil {
			return nil, fmt.Errorf("chart %s: dependency %s: %w", dir, d.name, err)
		}
		out = append(out, renderer.Dependency{Name: d.name, Chart: chart})
	}
	return out, nil
}

// signedArchive reads a packed chart that a source needs, and requires the signature that is demanded of it.
func (c *contents) signedArchive(ctx context.Context, ref fetch.Ref, h *fleet.HelmSource) (renderer.Content, error) {
	names := c.trust.demanded(h, c.demanded)
	if len(names) == 0 {
		return c.archive(ctx, ref)
	}
	locked, err := c.require(ref)
	if err != nil {
		return renderer.Content{}, err
	}
	signers, err := c.trust.Named(names)
	if err != nil {
		return renderer.Content{}, fmt.Errorf("chart %s: %w", ref, err)
	}
	return c.once("signed\x00"+locked.Digest+"\x00"+strings.Join(names, "\x00"), func() (renderer.Content, error) {
		if err := c.archives.Verify(ctx, ref, locked, signers); err != nil {
			return renderer.Content{}, err
		}
		return c.archive(ctx, ref)
	})
}

// archive reads a packed chart: a vendored one from the repository, any other from Archives.
func (c *contents) archive(ctx context.Context, ref fetch.Ref) (renderer.Content, error) {
	locked, err := c.require(ref)
	if err != nil {
		return renderer.Content{}, err
	}
	return c.once("archive\x00"+locked.Digest, func() (renderer.Content, error) {
		out := renderer.Content{Name: ref.String(), Digest: locked.Digest}
		vendored := fetch.VendorPath(ref, locked)
		data, err := c.files.now().ReadFile(vendored)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Archive, err = c.archives.Archive(ctx, ref, locked)
			return out, err
		case err != nil:
			return out, err
		}
		if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != locked.Digest {
			return out, fmt.Errorf("the archive %s differs from its digest in sluice.lock: run `sluice deps vendor`",
				vendored)
		}
		out.Archive = data
		return out, nil
	})
}

// kustomizeFiles reads all files that the build of a Kustomize root or a component uses.
func (c *contents) kustomizeFiles(r root) (renderer.Content, error) {
	return c.once("kustomize\x00"+r.Key(), func() (renderer.Content, error) {
		names, err := r.walker.Closure(r.Path)
		if err != nil {
			return renderer.Content{}, err
		}
		d := c.kustomizeID(r)
		out := renderer.Content{Name: r.Path, Digest: d.id}
		for _, name := range names {
			data, err := r.tree.ReadFile(name)
			if err != nil {
				return out, err
			}
			out.Files = append(out.Files, renderer.File{Path: name, Data: data})
		}
		return out, d.err
	})
}

// chart reads a chart's directory. It follows links inside the chart, as Helm does.
func (c *contents) chart(dir string) (renderer.Content, error) {
	return c.once("chart\x00"+dir, func() (renderer.Content, error) {
		out, links, err := c.read(dir)
		if err != nil || len(links) == 0 {
			return out, err
		}
		if out.Files, err = renderer.FollowLinks(out.Files, links); err != nil {
			return out, fmt.Errorf("chart %s: %w", dir, err)
		}
		return out, nil
	})
}

// folder reads all files below a directory. It refuses symbolic links.
func (c *contents) folder(dir string) (renderer.Content, error) {
	return c.once("folder\x00"+dir, func() (renderer.Content, error) {
		out, links, err := c.read(dir)
		if err == nil && len(links) > 0 {
			err = fmt.Errorf("%s is a symbolic link: links are followed in charts only; put the file itself there",
				path.Join(dir, links[0].Path))
		}
		return out, err
	})
}

// read reads all files and links below a directory. It refuses submodules.
func (c *contents) read(dir string) (renderer.Content, []renderer.Link, error) {
	e, err := c.files.now().Entry(dir)
	if err != nil {
		return renderer.Content{}, nil, fmt.Errorf("source %s: %w", dir, plainError(err))
	}
	if err := c.files.now().Bounded(dir); err != nil {
		return renderer.Content{}, nil, err
	}
	w := walk{contents: c, files: []renderer.File{}}
	if err = w.folder(dir, ""); err != nil {
		err = fmt.Errorf("source %s: %w", dir, err)
	}
	return renderer.Content{Name: dir, Digest: "tree " + e.Hash.String(), Files: w.files}, w.links, err
}

// walk collects the files and links below a directory.
type walk struct {
	contents *contents
	files    []renderer.File
	links    []renderer.Link
	bytes    int
}

// Limits of one source. A renderer takes less.
const (
	maxSourceFiles = 50_000
	maxSourceBytes = 256 << 20
)

// add adds a file, unless the source is too large. A few objects can be very many files.
func (w *walk) add(name string, data []byte) error {
	if w.bytes += len(data); w.bytes > maxSourceBytes {
		return fmt.Errorf("the folder has more than %d MiB of files", maxSourceBytes>>20)
	}
	if len(w.files)+len(w.links) >= maxSourceFiles {
		return fmt.Errorf("the folder has more than %d files", maxSourceFiles)
	}
	w.files = append(w.files, renderer.File{Path: name, Data: data})
	return nil
}

// folder reads a directory; prefix is its path as seen from the source's own directory.
func (w *walk) folder(dir, prefix string) error {
	snap := w.contents.files.now()
	entries, err := snap.Entries(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, inner := path.Join(dir, e.Name), path.Join(prefix, e.Name)
		switch e.Mode {
		case gitstore.ModeTree:
			if err := w.folder(name, inner); err != nil {
				return err
			}
		case gitstore.ModeSymlink:
			target, err := snap.ReadLink(name)
			if err != nil {
				return err
			}
			w.links = append(w.links, renderer.Link{Path: inner, Target: target})
		case gitstore.ModeSubmodule:
			return fmt.Errorf("%s is a submodule: submodules are not read; vendor the files", name)
		default:
			data, err := snap.ReadFile(name)
			if err != nil {
				return err
			}
			if err := w.add(inner, data); err != nil {
				return err
			}
		}
	}
	return nil
}
