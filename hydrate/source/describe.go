package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// description identifies the content of a source without reading it.
type description struct {
	id     string   // sources with equal ids have equal content
	reach  []string // paths that the source reads
	charts bool     // a Kustomize root has charts
	err    error
}

// reach returns the paths that a source reads. For a source that cannot be described, it returns every path, so that
// each change reports the error again. It resolves no version.
func (c *contents) reach(src fleet.Source) []string {
	r := c.locked.describe(src)
	if r.err != nil && len(r.reach) == 0 {
		return []string{"."}
	}
	return r.reach
}

// describe returns the description of a source, computed once for each view.
func (c *contents) describe(src fleet.Source) description {
	key := sourceKey(src)
	c.mu.Lock()
	known, ok := c.descriptions[key]
	c.mu.Unlock()
	if ok {
		return known
	}
	var d description
	switch {
	case src.Helm != nil && src.Helm.Chart != "":
		d = c.remoteID(chartRef(src.Helm), src.Helm)
	case src.Helm != nil:
		d = c.chartID(src.Helm, src.Helm.Path, nil)
	case src.Objects != nil:
		d = description{id: "objects " + src.Objects.Digest}
	case src.Kustomize != nil:
		d = c.kustomizeID(c.root(src.Kustomize))
	default:
		d = c.dirID(src.Manifests.Path)
	}
	c.mu.Lock()
	c.descriptions[key] = d
	c.mu.Unlock()
	return d
}

func sourceKey(src fleet.Source) string {
	switch {
	case src.Helm != nil:
		packed, err := src.Helm.Packing.ID()
		if err != nil { // chartID reports it
			packed = " cannot be packed"
		}
		return packed + strings.Join([]string{
			"helm", src.Helm.Path, src.Helm.Repo, src.Helm.Chart, src.Helm.Version,
			strings.Join(src.Helm.Verify, " "),
		}, "\x00")
	case src.Objects != nil:
		return "objects\x00" + src.Objects.Digest
	case src.Kustomize != nil:
		return "kustomize\x00" + src.Kustomize.Key()
	default:
		return "manifests\x00" + src.Manifests.Path
	}
}

func chartRef(h *fleet.HelmSource) fetch.Ref {
	return fetch.Ref{Repo: h.Repo, Chart: h.Chart, Version: h.Version}
}

func (c *contents) dirID(dir string) description {
	e, err := c.files.now().Entry(dir)
	if err == nil && e.Mode != gitstore.ModeTree {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		return description{err: fmt.Errorf("source %s: %w", dir, plainError(err))}
	}
	return description{id: "tree " + e.Hash.String(), reach: []string{dir}}
}

// remoteID identifies a locked archive, and the signature that the source which needs it demands.
func (c *contents) remoteID(ref fetch.Ref, h *fleet.HelmSource) description {
	locked, err := c.require(ref)
	if err != nil {
		return description{err: err, reach: []string{fetch.LockFile}} // only a change of the lock file can fix that
	}
	signed, err := c.trust.id(c.trust.demanded(h, c.demanded))
	if err != nil {
		return description{err: fmt.Errorf("chart %s: %w", ref, err), reach: []string{fetch.LockFile}}
	}
	return description{id: "archive " + locked.Digest + signed, reach: []string{fetch.LockFile}}
}

func (c *contents) kustomizeID(r root) description {
	files, err := r.walker.Closure(r.Path)
	if err != nil {
		return description{err: err}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", r.Path)
	for _, f := range files {
		id, err := r.fileID(c, f)
		if err != nil {
			return description{err: err}
		}
		fmt.Fprintf(h, "%s %s\n", id, f)
	}
	dirs, err := r.walker.Directories(r.Path)
	if err != nil {
		return description{err: err}
	}
	out := description{reach: append(files, kustomizationNames(dirs)...)}
	charts, err := r.walker.ChartsOf(r.Path)
	if err != nil {
		return description{err: err}
	}
	for i := range charts {
		one := c.kustomizeChartID(&charts[i])
		out.reach = append(out.reach, one.reach...)
		if one.err != nil {
			return description{err: charts[i].Error(one.err), reach: out.reach}
		}
		fmt.Fprintf(h, "chart %s %d %s\n", charts[i].Dir, charts[i].Index, one.id)
	}
	out.charts = len(charts) > 0
	out.id = "kustomize " + hex.EncodeToString(h.Sum(nil))
	return out
}

// kustomizationNames returns the files that would change the build of the directories if somebody added them.
func kustomizationNames(dirs []string) []string {
	var out []string
	for _, d := range dirs {
		for _, name := range kustomize.FileNames() {
			out = append(out, path.Join(d, name))
		}
	}
	return out
}

// plainError replaces the operating system's error text for a missing path. The error still matches fs.ErrNotExist.
func plainError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return missingError{}
	}
	return err
}

// missingError is a path that the commit does not have. It matches fs.ErrNotExist.
type missingError struct{}

// Error implements error.
func (missingError) Error() string { return "no such path in the commit" }

// Is matches fs.ErrNotExist.
func (missingError) Is(target error) bool { return target == fs.ErrNotExist }
