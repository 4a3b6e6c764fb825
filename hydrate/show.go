package hydrate

import (
	"context"
	"fmt"
	"path"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Manifest is one file of a cluster's rendering.
type Manifest struct {
	Path string // app/file
	Data []byte
}

// Show renders one cluster of a tree, or one of its apps, to the files that its branch would have. It writes nothing. It
// renders all apps of the cluster even if one is asked for, since another app can define the kinds of its objects.
func (h *Hydrator) Show(ctx context.Context, tree gitstore.Hash, cluster, app string) ([]Manifest, []Failure, error) {
	v, err := h.Open(ctx, tree)
	if err != nil {
		return nil, nil, err
	}
	c, ok := v.Fleet.Cluster(cluster)
	if !ok {
		return nil, nil, fmt.Errorf("the fleet has no cluster %q: `sluice where` lists them", cluster)
	}
	if a, known := v.Fleet.App(app); app != "" && (!known || !v.Fleet.Places(a, c)) {
		return nil, nil, fmt.Errorf("cluster %s does not have the app %q: `sluice where --cluster %s` lists its apps", cluster, app, cluster)
	}
	batch := Batch{Environment: c.Environment, State: branch.NewState("")}
	var failed []Failure
	for _, t := range v.Fleet.TargetsOf(c) {
		target, err := v.Target(t)
		if err == nil {
			batch.Jobs = append(batch.Jobs, Job{Target: target})
		} else if app == "" || t.App.Name == app {
			failed = append(failed, failure(c.Environment, t, err))
		}
	}
	w, err := h.Store.NewWriter()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = w.Close() }() // it has written nothing that is kept
	rendered, _, err := h.RenderBatch(ctx, batch, w)
	if err != nil {
		return nil, nil, err
	}
	var out []Manifest
	for _, r := range rendered {
		switch {
		case app != "" && r.Target.App.Name != app:
		case r.Err != nil:
			failed = append(failed, failure(c.Environment, r.Target.Target, r.Err))
		default:
			if out, err = h.appendManifests(ctx, out, r); err != nil {
				return nil, nil, err
			}
		}
	}
	return out, failed, nil
}

func (h *Hydrator) appendManifests(ctx context.Context, out []Manifest, r Rendered) ([]Manifest, error) {
	entries, err := h.Store.Tree(ctx, r.Tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := h.Store.Blob(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		out = append(out, Manifest{Path: path.Join(r.Target.App.Name, e.Name), Data: data})
	}
	return out, nil
}
