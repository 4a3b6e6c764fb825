package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// pin resolves repositories that are not locked, and those for which again is true. It returns the fleet with the new
// pins.
func (d *dependencies) pin(ctx context.Context, v *source.View, tree gitstore.Hash,
	again func(name string) bool,
) (*source.View, error) {
	lock := v.Lock()
	before := lock.Pinned()
	lock.ClearPins()
	var failed []error
	for _, r := range v.Fleet.Repositories {
		pin, locked := v.Pin(r)
		if !locked || again(r.Name) {
			old := pin
			var err error
			if pin, err = d.session.ResolvePin(ctx, r, old); err != nil {
				failed = append(failed, err)
				continue
			}
			if !locked || old.Commit != pin.Commit {
				line := fmt.Sprintf("%s → %s (%s)", r.Name, refName(pin.Resolved), pin.Commit[:shortCommit])
				if locked && old.Resolved == pin.Resolved && strings.HasPrefix(pin.Resolved, "refs/tags/") {
					line += ": the tag has moved, it was at " + old.Commit[:shortCommit]
				}
				d.moved = append(d.moved, line)
			}
		}
		lock.SetPin(r.Name, pin)
	}
	if err := errors.Join(failed...); err != nil || len(d.moved) == 0 && slices.Equal(before, lock.Pinned()) {
		return v, err
	}
	data, err := lock.Bytes()
	if err != nil {
		return nil, err
	}
	if tree, err = d.session.Store.Replace(ctx, tree, fetch.LockFile, data); err != nil {
		return nil, err
	}
	return d.session.Open(ctx, tree)
}

const shortCommit = 10

// refName returns a branch or tag without refs/heads/ or refs/tags/.
func refName(ref string) string {
	return strings.TrimPrefix(strings.TrimPrefix(ref, "refs/heads/"), "refs/tags/")
}

// repository looks up the newest commit of another repository.
func (d *dependencies) repository(ctx context.Context, r *fleet.Repository) dependency {
	out := dependency{Chart: r.Name, Repo: r.URL, Requested: refName(r.Wanted)}
	pin, ok := d.lock.Pin(r.Name)
	if ok {
		out.Locked = pinned(pin)
	}
	newest, err := d.session.ResolvePin(ctx, r, pin)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.InRange, out.Newest = pinned(newest), pinned(newest)
	return out
}

// pinned returns the tag and commit of a pin; for a branch only the commit.
func pinned(p fetch.Pin) string {
	if tag, ok := strings.CutPrefix(p.Resolved, "refs/tags/"); ok {
		return tag + "@" + p.Commit[:shortCommit]
	}
	return p.Commit[:shortCommit]
}

// remote finds the charts. What is wrong in a workspace concerns that workspace alone, so it is a warning; an app of
// the fleet is an error.
func (d *dependencies) remote(o IO, v *source.View) error {
	var err error
	if d.refs, d.lock, err = v.Remote(); err != nil {
		unresolved, ok := errors.AsType[*source.UnresolvedError](err)
		if !ok {
			return err
		}
		var own []error
		for _, a := range unresolved.Apps {
			if name := fleet.WorkspaceOf(a.App); name == "" {
				own = append(own, a.Err)
				continue
			}
			d.partial = true
			warner(o)(fmt.Errorf("the charts of %s are left as they are: %w", a.App, a.Err))
		}
		if len(own) > 0 {
			return errors.Join(own...)
		}
	}
	for _, w := range v.Fleet.Workspaces {
		if w.Err != nil {
			d.partial = true
			warner(o)(fmt.Errorf("the charts of workspace %s are left as they are: %w", w.Name, w.Err))
		}
	}
	return nil
}
