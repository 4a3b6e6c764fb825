package source

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// root is a Kustomize root, or the folder of a component.
type root struct {
	*fleet.PathSource

	tree   kustomize.Tree
	walker *kustomize.Walker
}

// root returns a Kustomize root of the commit. Roots whose kustomization an importer has edited have walkers of their
// own, because their kustomizations differ.
func (c *contents) root(p *fleet.PathSource) root {
	if p.Edited == nil {
		return root{p, c.bases, c.walker}
	}
	tree := editedTree(c.bases, p)
	c.mu.Lock()
	defer c.mu.Unlock()
	key := p.Key()
	if c.edited[key] == nil {
		c.edited[key] = newWalker(tree)
	}
	return root{p, tree, c.edited[key]}
}

// componentRoot returns the root of a component's folder.
func componentRoot(c *contents, dir string) root { return c.root(&fleet.PathSource{Path: dir}) }

func newWalker(tree kustomize.Tree) *kustomize.Walker {
	return kustomize.NewWalker(tree, manifest.DefaultBudget()).Charts().Mounts(fleet.MountDir)
}

// fileID identifies the content of a file that a build of the root reads.
func (r root) fileID(c *contents, name string) (string, error) {
	if r.replaces(name) {
		return fmt.Sprintf("edited %x", sha256.Sum256(r.Edited)), nil
	}
	e, err := c.files.now().Entry(name)
	return e.Hash.String(), err
}

func (r root) replaces(name string) bool {
	return r.Edited != nil && path.Dir(name) == path.Clean(r.Path) &&
		slices.Contains(kustomize.FileNames(), path.Base(name))
}

// editedTree returns a commit's tree with the kustomization of one root replaced.
func editedTree(bases *kustomize.Redirected, p *fleet.PathSource) kustomize.Tree {
	files := map[string][]byte{}
	for _, base := range kustomize.FileNames() {
		name := path.Join(path.Clean(p.Path), base)
		if _, err := bases.Stat(name); err == nil {
			files[name] = p.Edited
		}
	}
	return bases.Replacing(files)
}
