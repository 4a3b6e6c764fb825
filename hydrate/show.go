package hydrate

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/render"
)

// Manifest is one file of a cluster's rendering.
type Manifest struct {
	Path string // app/file
	Data []byte
}

// Shown is the rendering of one cluster, or of one app on it.
type Shown struct {
	Manifests []Manifest
	Failures  []Failure
	Notes     []Note
}

// Show renders one cluster of a tree, or one of its apps, to the files that its branch would have. It writes no
// branch. It always renders all apps of the cluster, because another app can define the kinds of an app's objects.
func (h *Hydrator) Show(ctx context.Context, tree gitstore.Hash, cluster, app string) (*Shown, error) {
	return h.show(ctx, tree, cluster, app, nil)
}

// ShowOver renders one cluster of a tree over an earlier rendering: old has the tree of each app, whose values the
// fields that are not deterministic keep.
func (h *Hydrator) ShowOver(ctx context.Context, tree gitstore.Hash, cluster string,
	old map[string]gitstore.Hash,
) (*Shown, error) {
	return h.show(ctx, tree, cluster, "", old)
}

func (h *Hydrator) show(ctx context.Context, tree gitstore.Hash, cluster, app string,
	old map[string]gitstore.Hash,
) (*Shown, error) {
	v, err := h.Open(ctx, tree)
	if err != nil {
		return nil, err
	}
	c, ok := v.Fleet.Cluster(cluster)
	if !ok {
		return nil, fmt.Errorf("the fleet has no cluster %q: `sluice where` lists them", cluster)
	}
	if a, known := v.Fleet.App(app); app != "" && (!known || !v.Fleet.Places(a, c)) {
		return nil, fmt.Errorf("cluster %s does not have the app %q: `sluice where --cluster %s` lists its apps",
			cluster, app, cluster)
	}
	batch := Batch{Environment: c.Environment, State: branch.NewState("")}
	out := &Shown{}
	for _, t := range v.Fleet.TargetsOf(c) {
		target, err := v.Target(t)
		if err == nil {
			batch.Jobs = append(batch.Jobs, render.Job{Target: target, Old: old[t.App.Name]})
		} else if app == "" || t.App.Name == app {
			out.Failures = append(out.Failures, NewFailure(c.Environment, t, err))
		}
	}
	w, err := h.Store.NewWriter()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // nothing in it is kept
	rendered, notes, err := h.RenderBatch(ctx, batch, w)
	if err != nil {
		return nil, err
	}
	out.Notes = slices.DeleteFunc(notes, func(n Note) bool { return app != "" && n.App != "" && n.App != app })
	if err := addRendered(ctx, h.Store, out, rendered, c.Environment, app); err != nil {
		return nil, err
	}
	sortFailures(out.Failures)
	return out, nil
}

// addRendered adds the files and failures of one app, or of all if app is empty.
func addRendered(ctx context.Context, store *gitstore.Store, out *Shown, rendered []Rendered, environment,
	app string,
) error {
	var err error
	for _, r := range rendered {
		switch {
		case app != "" && r.Target.App.Name != app:
		case r.Err != nil:
			out.Failures = append(out.Failures, NewFailure(environment, r.Target.Target, r.Err))
		default:
			if out.Manifests, err = appendManifests(ctx, store, out.Manifests, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func appendManifests(ctx context.Context, store *gitstore.Store, out []Manifest, r Rendered) ([]Manifest, error) {
	entries, err := store.Tree(ctx, r.Tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := store.Blob(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		out = append(out, Manifest{Path: path.Join(fleet.AppDir(r.Target.App.Name), e.Name), Data: data})
	}
	return out, nil
}
