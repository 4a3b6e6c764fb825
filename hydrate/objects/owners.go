package objects

import (
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// place is a file of an app.
type place struct {
	app  string
	hash gitstore.Hash
}

// Owners returns the apps on a cluster that have an object with this identity, by name. It is fast if the calls about
// one cluster follow each other, or if the cluster has the same apps as one that was asked about before. The caller
// does not change the list.
func (v *Inventory) Owners(ctx context.Context, cluster string, id manifest.Identity) ([]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, err := v.contentsOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	if known, ok := c.owners[id]; ok {
		return known, nil
	}
	find, err := v.finder(ctx, c)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, name := range v.namesOf(id) {
		places, err := find(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			has, err := v.is(ctx, File{name, p.hash}, id)
			if err != nil {
				return nil, err
			}
			if has {
				out = append(out, p.app)
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	v.reserve(len(out) + 1)
	c.owners[id] = out
	return out, nil
}

// namesOf returns the names that a file with an object can have.
func (v *Inventory) namesOf(id manifest.Identity) []string {
	out, known := v.names[id]
	if !known {
		out = manifest.PossibleFileNames(id)
		v.reserve(len(out) + 1)
		v.names[id] = out
	}
	return out
}

// fewCalls is the number of objects of one cluster that cost less without an index than making it one of the cluster's
// files does.
const fewCalls = 8

// finder returns a function that finds the files of a name on a cluster. The first calls about a cluster look into the
// list of each app: a change of many clusters asks about few objects of each, and the apps of neighbouring clusters may
// all differ. Clusters with workspaces have many apps, of which nearly all are equal from one cluster to the next.
func (v *Inventory) finder(ctx context.Context, c *contents) (func(ctx context.Context, name string) ([]place, error),
	error,
) {
	if v.asked != c {
		v.asked, v.calls = c, 0
	}
	v.calls++
	indexed := v.index != nil && v.indexed == c
	if !indexed && v.calls <= fewCalls && len(c.folders) == 0 {
		return func(ctx context.Context, name string) ([]place, error) { return v.placesOf(ctx, c, name) }, nil
	}
	if err := v.indexFiles(ctx, c); err != nil {
		return nil, err
	}
	return func(_ context.Context, name string) ([]place, error) { return v.index[name], nil }, nil
}

// placesOf returns the files of a name that the apps of a cluster without workspaces have.
func (v *Inventory) placesOf(ctx context.Context, c *contents, name string) ([]place, error) {
	out, known := c.places[name]
	if known {
		return out, nil
	}
	for app, tree := range c.apps {
		files, err := v.filesOf(ctx, tree)
		if err != nil {
			return nil, err
		}
		if hash, ok := files[name]; ok {
			out = append(out, place{app, hash})
		}
	}
	v.reserve(len(out) + 1)
	c.places[name] = out
	return out, nil
}

// indexFiles makes the index one of the files of a cluster. It changes what differs from the cluster before, because
// most apps have equal trees on many clusters.
func (v *Inventory) indexFiles(ctx context.Context, want *contents) error {
	if v.index != nil && v.indexed == want {
		return nil
	}
	differing := len(changed(v.indexed.apps, want.apps)) + len(changed(v.indexed.folders, want.folders))
	// removing many files costs more than a new index
	if v.index == nil || differing > (len(want.apps)+len(want.folders))/8 {
		v.index, v.indexed = map[string][]place{}, &contents{}
	}
	if err := v.moveIndex(ctx, want); err != nil {
		v.index = nil
		return err
	}
	return nil
}

// changed returns the names that another map does not have, or has with another tree.
func changed(from, to map[string]gitstore.Hash) []string {
	var out []string
	for name, tree := range from {
		if to[name] != tree {
			out = append(out, name)
		}
	}
	return out
}

// moveIndex makes the index one of other contents.
func (v *Inventory) moveIndex(ctx context.Context, want *contents) error {
	if err := v.edit(ctx, v.indexed, want, v.remove); err != nil {
		return err
	}
	if err := v.edit(ctx, want, v.indexed, v.add); err != nil {
		return err
	}
	v.indexed = want
	return nil
}

// edit calls f for each file of an app of from that to does not have, or has with another tree. Of a workspace whose
// folder differs, it calls f for the files of all apps.
func (v *Inventory) edit(ctx context.Context, from, to *contents, f func(name string, p place)) error {
	for _, app := range changed(from.apps, to.apps) {
		files, err := v.filesOf(ctx, from.apps[app])
		if err != nil {
			return err
		}
		for name, hash := range files {
			f(name, place{app, hash})
		}
	}
	for _, workspace := range changed(from.folders, to.folders) {
		apps, err := v.reader.store.Tree(ctx, from.folders[workspace])
		if err != nil {
			return err
		}
		for _, app := range apps {
			files, err := v.filesOf(ctx, app.Hash)
			if err != nil {
				return err
			}
			for name, hash := range files {
				f(name, place{workspace + "/" + app.Name, hash})
			}
		}
	}
	return nil
}

func (v *Inventory) add(name string, p place) { v.index[name] = append(v.index[name], p) }

func (v *Inventory) remove(name string, gone place) {
	if v.index[name] = slices.DeleteFunc(v.index[name],
		func(p place) bool { return p.app == gone.app }); len(v.index[name]) == 0 {
		delete(v.index, name)
	}
}
