package hydrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Archives gives packed charts by what sluice.lock says. *fetch.Fetcher is one.
type Archives interface {
	Archive(ctx context.Context, r fetch.Ref, l fetch.Locked) ([]byte, error)
}

// sources knows what the sources of one commit's apps consist of: their content's digest without reading it, and their
// bytes. Everything is found once per commit. Safe for concurrent use.
type sources struct {
	snap     *gitstore.Snapshot
	archives Archives
	lock     *fetch.Lock
	walker   *kustomize.Walker

	mu       sync.Mutex
	ids      map[string]idResult
	contents map[string]*contentOnce
}

type idResult struct {
	id    string
	reach []string // paths that the source reads
	err   error
}

type contentOnce struct {
	once    sync.Once
	content renderer.Content
	err     error
}

func newSources(snap *gitstore.Snapshot, archives Archives) (*sources, error) {
	s := &sources{
		snap: snap, archives: archives, walker: kustomize.NewWalker(snap, manifest.DefaultBudget()),
		ids: map[string]idResult{}, contents: map[string]*contentOnce{},
	}
	var data []byte
	if _, err := snap.Stat(fetch.LockFile); err == nil {
		if data, err = snap.ReadFile(fetch.LockFile); err != nil {
			return nil, err
		}
	}
	var err error
	s.lock, err = fetch.ParseLock(data)
	return s, err
}

// id names a source's content: equal ids, equal content.
func (s *sources) id(src fleet.Source) (string, error) {
	r := s.describe(src)
	return r.id, r.err
}

// reach lists what a source reads; a source that cannot be read yet reads everything, so that its error is found again.
func (s *sources) reach(src fleet.Source) []string {
	r := s.describe(src)
	if r.err != nil {
		return []string{"."}
	}
	return r.reach
}

func (s *sources) describe(src fleet.Source) idResult {
	key := sourceKey(src)
	s.mu.Lock()
	known, ok := s.ids[key]
	s.mu.Unlock()
	if ok {
		return known
	}
	var r idResult
	switch {
	case src.Helm != nil && src.Helm.Chart != "":
		r = s.remoteID(fetch.Ref{Repo: src.Helm.Repo, Chart: src.Helm.Chart, Version: src.Helm.Version})
	case src.Helm != nil:
		r = s.chartID(src.Helm.Path, nil)
	case src.Kustomize != nil:
		r = s.kustomizeID(src.Kustomize.Path)
	default:
		r = s.dirID(src.Manifests.Path)
	}
	s.mu.Lock()
	s.ids[key] = r
	s.mu.Unlock()
	return r
}

func sourceKey(src fleet.Source) string {
	switch {
	case src.Helm != nil:
		return strings.Join([]string{"helm", src.Helm.Path, src.Helm.Repo, src.Helm.Chart, src.Helm.Version}, "\x00")
	case src.Kustomize != nil:
		return "kustomize\x00" + src.Kustomize.Path
	default:
		return "manifests\x00" + src.Manifests.Path
	}
}

func (s *sources) dirID(dir string) idResult {
	e, err := s.snap.Entry(dir)
	if err == nil && e.Mode != gitstore.ModeTree {
		err = fmt.Errorf("%s is no directory", dir)
	}
	if err != nil {
		return idResult{err: fmt.Errorf("source %s: %w", dir, plainError(err))}
	}
	return idResult{id: "tree " + e.Hash.String(), reach: []string{dir}}
}

func (s *sources) remoteID(ref fetch.Ref) idResult {
	locked, err := s.lock.Require(ref)
	if err != nil {
		return idResult{err: err}
	}
	return idResult{id: "archive " + locked.Digest, reach: []string{fetch.LockFile}}
}

func (s *sources) kustomizeID(root string) idResult {
	files, err := s.walker.Closure(root)
	if err != nil {
		return idResult{err: err}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", root)
	for _, f := range files {
		e, err := s.snap.Entry(f)
		if err != nil {
			return idResult{err: err}
		}
		fmt.Fprintf(h, "%s %s\n", e.Hash, f)
	}
	dirs, err := s.walker.Directories(root)
	if err != nil {
		return idResult{err: err}
	}
	return idResult{id: "kustomize " + hex.EncodeToString(h.Sum(nil)), reach: append(files, kustomizationNames(dirs)...)}
}

// kustomizationNames are the files whose appearance would change what a directory builds.
func kustomizationNames(dirs []string) []string {
	var out []string
	for _, d := range dirs {
		for _, name := range kustomize.FileNames() {
			out = append(out, path.Join(d, name))
		}
	}
	return out
}

// dependency is a chart that Chart.yaml asks for and charts/ lacks.
type dependency struct {
	name string
	path string    // of a file:// dependency
	ref  fetch.Ref // of a remote one
}

func (s *sources) chartID(dir string, above []string) idResult {
	if slices.Contains(above, dir) {
		return idResult{err: fmt.Errorf("chart %s depends on itself: %s", dir, strings.Join(append(above, dir), " → "))}
	}
	out := s.dirID(dir)
	if out.err != nil {
		return out
	}
	dependencies, err := s.dependencies(dir)
	if err != nil {
		return idResult{err: err}
	}
	for _, d := range dependencies {
		var inner idResult
		if d.path != "" {
			inner = s.chartID(d.path, append(above, dir))
		} else {
			inner = s.remoteID(d.ref)
		}
		if inner.err != nil {
			return idResult{err: fmt.Errorf("chart %s: dependency %s: %w", dir, d.name, inner.err)}
		}
		out.id += " + " + d.name + " " + inner.id
		out.reach = append(out.reach, inner.reach...)
	}
	return out
}

// dependencies reads Chart.yaml alone, so that a digest needs no chart to be loaded.
func (s *sources) dependencies(dir string) ([]dependency, error) {
	name := path.Join(dir, "Chart.yaml")
	data, err := s.snap.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, plainError(err))
	}
	if err := manifest.Check(data, manifest.DefaultBudget()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var file struct {
		Dependencies []struct{ Name, Version, Repository string } `yaml:"dependencies"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	present, err := s.vendored(dir)
	if err != nil {
		return nil, err
	}
	var out []dependency
	seen := map[string]bool{}
	for _, d := range file.Dependencies {
		if d.Repository == "" || seen[d.Name] || present(d.Name) {
			continue
		}
		seen[d.Name] = true
		local, ok := strings.CutPrefix(d.Repository, "file://")
		if !ok {
			out = append(out, dependency{name: d.Name, ref: fetch.Ref{Repo: d.Repository, Chart: d.Name, Version: d.Version}})
			continue
		}
		target := path.Join(dir, local)
		if path.IsAbs(local) || target == ".." || strings.HasPrefix(target, "../") {
			return nil, fmt.Errorf("%s: the dependency %s at %q is outside the repository", name, d.Name, d.Repository)
		}
		out = append(out, dependency{name: d.Name, path: target})
	}
	return out, nil
}

// vendored says which dependencies stand in charts/, as folders or archives.
func (s *sources) vendored(dir string) (func(name string) bool, error) {
	entries, err := s.snap.Entries(path.Join(dir, "charts"))
	if err != nil && !isMissing(err) {
		return nil, err
	}
	return func(name string) bool {
		return slices.ContainsFunc(entries, func(e gitstore.Entry) bool {
			if e.Mode == gitstore.ModeTree || e.Mode == gitstore.ModeSymlink {
				return e.Name == name
			}
			rest, ok := strings.CutPrefix(e.Name, name+"-")
			return ok && strings.HasSuffix(e.Name, ".tgz") && rest != "" && (rest[0] >= '0' && rest[0] <= '9' || rest[0] == 'v')
		})
	}, nil
}

// bundleSource makes a source ready to render.
func (s *sources) bundleSource(ctx context.Context, app *fleet.App, src fleet.Source, values map[string]any) (renderer.Source, error) {
	switch {
	case src.Helm != nil:
		out, err := s.helm(ctx, src.Helm, values)
		return renderer.Source{Helm: out}, err
	case src.Kustomize != nil:
		content, err := s.content(src, func() (renderer.Content, error) { return s.kustomizeFiles(src.Kustomize.Path) })
		return renderer.Source{Kustomize: &renderer.KustomizeSource{Files: content, Root: src.Kustomize.Path}}, err
	default:
		content, err := s.content(src, func() (renderer.Content, error) { return s.files(src.Manifests.Path) })
		if src.Manifests.Path == app.Dir {
			content = withoutOwn(content, path.Base(app.File))
		}
		return renderer.Source{Manifests: &renderer.ManifestsSource{Files: content}}, err
	}
}

// withoutOwn leaves out what Sluice itself reads in an app's folder.
func withoutOwn(c renderer.Content, appFile string) renderer.Content {
	c.Digest += " without " + appFile
	c.Files = slices.DeleteFunc(slices.Clone(c.Files), func(f renderer.File) bool {
		return f.Path == appFile || strings.HasPrefix(f.Path, "layers/")
	})
	return c
}

// content reads a source's bytes once.
func (s *sources) content(src fleet.Source, load func() (renderer.Content, error)) (renderer.Content, error) {
	return s.once(sourceKey(src), load)
}

func (s *sources) once(key string, load func() (renderer.Content, error)) (renderer.Content, error) {
	s.mu.Lock()
	c, ok := s.contents[key]
	if !ok {
		c = &contentOnce{}
		s.contents[key] = c
	}
	s.mu.Unlock()
	c.once.Do(func() { c.content, c.err = load() })
	return c.content, c.err
}

func (s *sources) helm(ctx context.Context, h *fleet.HelmSource, values map[string]any) (*renderer.HelmSource, error) {
	out := &renderer.HelmSource{IncludeCRDs: h.IncludeCRDs, DropHooks: h.Hooks == "drop", SkipSchema: h.Schema == "skip"}
	var err error
	if out.Values, err = json.Marshal(values); err != nil {
		return nil, err
	}
	if h.Chart != "" {
		out.Chart, err = s.archive(ctx, fetch.Ref{Repo: h.Repo, Chart: h.Chart, Version: h.Version})
		return out, err
	}
	if out.Chart, err = s.once("chart\x00"+h.Path, func() (renderer.Content, error) { return s.chartFiles(h.Path) }); err != nil {
		return nil, err
	}
	dependencies, err := s.dependencies(h.Path)
	if err != nil {
		return nil, err
	}
	for _, d := range dependencies {
		var chart renderer.Content
		if d.path != "" {
			chart, err = s.once("chart\x00"+d.path, func() (renderer.Content, error) { return s.chartFiles(d.path) })
		} else {
			chart, err = s.archive(ctx, d.ref)
		}
		if err != nil {
			return nil, fmt.Errorf("chart %s: dependency %s: %w", h.Path, d.name, err)
		}
		out.Dependencies = append(out.Dependencies, renderer.Dependency{Name: d.name, Chart: chart})
	}
	return out, nil
}

// archive takes a packed chart from the repository if it is vendored, else from the cache or the network.
func (s *sources) archive(ctx context.Context, ref fetch.Ref) (renderer.Content, error) {
	locked, err := s.lock.Require(ref)
	if err != nil {
		return renderer.Content{}, err
	}
	return s.once("archive\x00"+locked.Digest, func() (renderer.Content, error) {
		out := renderer.Content{Name: ref.String(), Digest: locked.Digest}
		if data, err := s.snap.ReadFile(fetch.VendorPath(ref, locked)); err == nil {
			if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) == locked.Digest {
				out.Archive = data
				return out, nil
			}
			return out, fmt.Errorf("%s is not the archive that sluice.lock names: run `sluice deps vendor`", fetch.VendorPath(ref, locked))
		}
		data, err := s.archives.Archive(ctx, ref, locked)
		out.Archive = data
		return out, err
	})
}

func (s *sources) kustomizeFiles(root string) (renderer.Content, error) {
	names, err := s.walker.Closure(root)
	if err != nil {
		return renderer.Content{}, err
	}
	r := s.kustomizeID(root)
	out := renderer.Content{Name: root, Digest: r.id}
	for _, name := range names {
		data, err := s.snap.ReadFile(name)
		if err != nil {
			return out, err
		}
		out.Files = append(out.Files, renderer.File{Path: name, Data: data})
	}
	return out, r.err
}

// chartFiles reads a chart's directory. Links inside it are followed, as Helm does.
func (s *sources) chartFiles(dir string) (renderer.Content, error) {
	out, links, err := s.walk(dir)
	if err != nil || len(links) == 0 {
		return out, err
	}
	if out.Files, err = renderer.FollowLinks(out.Files, links); err != nil {
		return out, fmt.Errorf("chart %s: %w", dir, err)
	}
	return out, nil
}

// files reads all files below a directory. Links in it are refused by name.
func (s *sources) files(dir string) (renderer.Content, error) {
	out, links, err := s.walk(dir)
	if err == nil && len(links) > 0 {
		err = fmt.Errorf("%s is a symbolic link: links are followed in charts only; put the file itself there", path.Join(dir, links[0].Path))
	}
	return out, err
}

// walk lists all files and links below a directory. It refuses submodules by name.
func (s *sources) walk(dir string) (renderer.Content, []renderer.Link, error) {
	e, err := s.snap.Entry(dir)
	if err != nil {
		return renderer.Content{}, nil, fmt.Errorf("source %s: %w", dir, plainError(err))
	}
	out := renderer.Content{Name: dir, Digest: "tree " + e.Hash.String(), Files: []renderer.File{}}
	var links []renderer.Link
	var walk func(at, rel string) error
	walk = func(at, rel string) error {
		entries, err := s.snap.Entries(at)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name, inner := path.Join(at, e.Name), path.Join(rel, e.Name)
			switch e.Mode {
			case gitstore.ModeTree:
				if err := walk(name, inner); err != nil {
					return err
				}
			case gitstore.ModeSymlink:
				target, err := s.snap.ReadLink(name)
				if err != nil {
					return err
				}
				links = append(links, renderer.Link{Path: inner, Target: target})
			case gitstore.ModeSubmodule:
				return fmt.Errorf("%s is a submodule: submodules are not read; vendor the files", name)
			default:
				data, err := s.snap.ReadFile(name)
				if err != nil {
					return err
				}
				out.Files = append(out.Files, renderer.File{Path: inner, Data: data})
			}
		}
		return nil
	}
	return out, links, walk(dir, "")
}

func isMissing(err error) bool { return strings.Contains(err.Error(), fs.ErrNotExist.Error()) }

// plainError says "there is no such file" instead of the operating system's words.
func plainError(err error) error {
	if isMissing(err) {
		return fmt.Errorf("there is no such path in the commit: %w", fs.ErrNotExist)
	}
	return err
}
