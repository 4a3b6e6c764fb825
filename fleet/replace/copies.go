package replace

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
)

// maxCopied limits the files that are copied for a new cluster.
const maxCopied = 2000

// copies copies the files that the fleet reads for the old cluster because of its name.
type copies struct {
	*creation
	with *fleet.Fleet // has the new cluster
	o    *fleet.Cluster
	done map[string]bool // folders and files that were looked at
}

func (c *copies) all() error {
	c.done = map[string]bool{}
	n, ok := c.with.Cluster(c.new)
	if !ok {
		return fmt.Errorf("the fleet does not read the declaration of %s (does spec.files.clusters match its file?)", c.new)
	}
	for _, was := range c.fleet.TargetsOf(c.o) {
		app, ok := c.with.App(was.App.Name)
		if !ok {
			continue
		}
		if err := c.layers(was, fleet.Target{App: app, Cluster: n}); err != nil {
			return err
		}
		if err := c.sources(was, fleet.Target{App: app, Cluster: n}); err != nil {
			return err
		}
	}
	return nil
}

// layers copies the files of layers.
func (c *copies) layers(was, is fleet.Target) error {
	for _, l := range c.fleet.Layers() {
		if !l.Custom() {
			continue
		}
		for _, v := range l.Values {
			if err := c.templates(l, v.Path, was, is); err != nil {
				return err
			}
		}
		for _, template := range l.Components {
			if err := c.templates(l, template, was, is); err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc(c.fleet.Layers(), func(l fleet.Layer) bool { return l.Name == "cluster" && l.Custom() }) {
		return nil
	}
	var folders []string
	for _, file := range c.fleet.ValuesFiles(was) {
		if file.Layer == "cluster" {
			folders = append(folders, path.Dir(file.Path))
		}
	}
	for _, file := range c.fleet.Components(was) {
		if file.Layer == "cluster" {
			folders = append(folders, file.Path)
		}
	}
	for _, dir := range folders {
		if path.Base(dir) == c.old {
			if err := c.copy(dir, path.Join(path.Dir(dir), c.new)); err != nil {
				return err
			}
		}
	}
	return nil
}

// templates copies what a path template has for the old cluster, and for named sources beside it.
func (c *copies) templates(l fleet.Layer, template string, was, is fleet.Target) error {
	from, to := l.Paths(was, template), l.Paths(is, template)
	if len(from) != len(to) {
		return nil
	}
	for i := range from {
		if err := c.copy(from[i], to[i]); err != nil {
			return err
		}
		for _, s := range was.App.AllSources() {
			if s.Name == "" {
				continue
			}
			named := func(p string) string { return strings.TrimSuffix(p, path.Ext(p)) + "." + s.Name + path.Ext(p) }
			if err := c.copy(named(from[i]), named(to[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// sources copies folders of sources that are chosen by the name of the cluster.
func (c *copies) sources(was, is fleet.Target) error {
	before, err := c.fleet.Resolve(was)
	if err != nil {
		return err
	}
	now, err := c.with.Resolve(is)
	if err != nil {
		return nil //nolint:nilerr // reported at the end, when everything is copied
	}
	for i := range before.Sources {
		if i >= len(now.Sources) {
			break
		}
		if from, to := before.Sources[i].Path(), now.Sources[i].Path(); from != "" && to != "" {
			if err := c.copy(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// copy copies a file, or a folder with everything below it, unless it exists.
func (c *copies) copy(from, to string) error {
	if from == to || c.done[from] || !c.fleet.Has(from) {
		return nil
	}
	c.done[from] = true
	if c.fleet.Has(to) {
		c.note("%s exists and stays as it is; for %s, it is %s", to, c.old, from)
		return nil
	}
	info, err := c.fleet.Lstat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return c.file(from, to)
	}
	entries, err := c.fleet.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(from, e.Name())
		if c.fleet.IsDir(from, e) {
			err = c.copy(name, path.Join(to, e.Name()))
		} else {
			err = c.file(name, path.Join(to, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copies) file(from, to string) error {
	if len(c.change.Files) >= maxCopied {
		return fmt.Errorf("more than %d files belong to %s: copy them yourself, and run the command again", maxCopied, c.old)
	}
	data, err := c.files.Read(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.note("%s is in another repository: copy it there for %s", c.fleet.Locate(from), c.new)
		return nil
	case errors.Is(err, fs.ErrInvalid):
		c.note("%s is a symbolic link, which is not copied: create %s yourself", from, to)
		return nil
	}
	if err != nil {
		return err
	}
	c.change.Files[to] = data
	return nil
}
