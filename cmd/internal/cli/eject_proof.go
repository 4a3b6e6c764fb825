package cli

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/importer/eject"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// proof compares the renderings of all clusters before and after a plan.
type proof struct {
	session  *app.Session
	tree     gitstore.Hash
	fleet    *fleet.Fleet
	app      string
	clusters []string // of the app

	before        map[string]rendering                // by cluster
	old           map[string]map[string]gitstore.Hash // cluster → app → tree of the rendering before
	trees         *gitstore.Writer                    // has the trees of old
	objects, ours int
}

// rendering is what a cluster has.
type rendering struct {
	objects  map[string]string // by path
	failures map[string]string // by the folder of the app
}

func (p *proof) close() {
	if p.trees != nil {
		_ = p.trees.Close() // nothing in it is kept
	}
}

// of returns an error unless every object is equal, and each cluster of the app has one of its objects.
func (p *proof) of(ctx context.Context, plan *eject.Plan) error {
	if p.before == nil {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	w, err := p.session.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // nothing in it is kept
	tree, err := overlaid(ctx, p.session.Store, w, p.tree, plan.Files)
	if err != nil {
		return err
	}
	after := map[string]rendering{}
	for _, c := range p.fleet.Clusters {
		shown, err := p.session.ShowOver(ctx, tree, c.Name, p.old[c.Name])
		if err != nil {
			return err
		}
		after[c.Name] = contents(shown)
	}
	return p.compare(after)
}

// start renders the clusters before the plan. Its trees become the old ones of the rendering after it: fields that are
// not deterministic then keep their values, as they do from one commit to the next.
func (p *proof) start(ctx context.Context) error {
	var err error
	if p.trees, err = p.session.Store.NewWriter(); err != nil {
		return err
	}
	p.before, p.old = map[string]rendering{}, map[string]map[string]gitstore.Hash{}
	for _, c := range p.fleet.Clusters {
		shown, err := p.session.Show(ctx, p.tree, c.Name, "")
		if err != nil {
			return err
		}
		p.before[c.Name] = contents(shown)
		if p.old[c.Name], err = treesOf(p.trees, shown); err != nil {
			return err
		}
	}
	return nil
}

// treesOf writes the rendered files of each app as a tree.
func treesOf(w *gitstore.Writer, shown *hydrate.Shown) (map[string]gitstore.Hash, error) {
	entries := map[string][]gitstore.Entry{}
	for _, m := range shown.Manifests {
		blob, err := w.Blob(m.Data)
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(path.Dir(m.Path), fleet.WorkspacesDir+"/")
		entries[name] = append(entries[name], gitstore.Entry{
			Name: path.Base(m.Path), Mode: gitstore.ModeFile,
			Hash: blob,
		})
	}
	out := map[string]gitstore.Hash{}
	for name, list := range entries {
		var err error
		if out[name], err = w.Tree(list); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func contents(shown *hydrate.Shown) rendering {
	out := rendering{map[string]string{}, map[string]string{}}
	for _, m := range shown.Manifests {
		out.objects[m.Path] = string(m.Data)
	}
	for _, f := range shown.Failures {
		out.failures[fleet.AppDir(f.App)] = f.Message
	}
	return out
}

func (p *proof) compare(after map[string]rendering) error {
	p.objects, p.ours = 0, 0
	for _, cluster := range slices.Sorted(maps.Keys(p.before)) {
		before, now := p.before[cluster], after[cluster]
		if message, failed := before.failures[p.app]; failed {
			return fmt.Errorf("%s on %s cannot be rendered, so nothing can prove that the files are equal: %s", p.app,
				cluster, message)
		}
		if err := sameFailures(cluster, before, now); err != nil {
			return err
		}
		ours := 0
		for _, name := range union(before.objects, now.objects) {
			if err := sameObject(cluster, name, before, now); err != nil {
				return err
			}
			if path.Dir(name) == p.app {
				ours++
			}
			p.objects++
		}
		if ours == 0 && slices.Contains(p.clusters, cluster) {
			return fmt.Errorf("%s renders no object on %s, so nothing can prove that the files are equal", p.app,
				cluster)
		}
		p.ours += ours
	}
	return nil
}

func union(a, b map[string]string) []string {
	names := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(names)
	return slices.Compact(names)
}

// sameFailures returns an error unless the apps that fail are the same, for the same reasons.
func sameFailures(cluster string, before, now rendering) error {
	for _, name := range union(before.failures, now.failures) {
		was, is := before.failures[name], now.failures[name]
		switch _, fails := now.failures[name]; {
		case !fails:
			return fmt.Errorf("%s/%s fails now, and would be rendered: %s", cluster, name, was)
		case was != is:
			return fmt.Errorf("%s/%s would fail: %s", cluster, name, is)
		}
	}
	return nil
}

func sameObject(cluster, name string, before, now rendering) error {
	was, had := before.objects[name]
	is, has := now.objects[name]
	switch {
	case !has:
		return fmt.Errorf("%s/%s would be missing", cluster, name)
	case !had:
		return fmt.Errorf("%s/%s would be new", cluster, name)
	case was != is:
		return fmt.Errorf("%s/%s would differ: %s (if a layer of the fleet sets it, restrict that layer to the apps that need it)", cluster, name, firstDifference(name, was, is))
	}
	return nil
}

// firstDifference shows the first lines that differ. It does not show those of Secrets.
func firstDifference(name, was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if objects.IsSecret(name) {
		return fmt.Sprintf("line %d", n+1)
	}
	line := func(lines []string) string {
		if n >= len(lines) {
			return "the end"
		}
		return fmt.Sprintf("%q", safetext.Message(strings.TrimSpace(lines[n]), 1, failureWidth))
	}
	return fmt.Sprintf("line %d is %s, and would be %s", n+1, line(a), line(b))
}

func (p *proof) summary() string {
	return fmt.Sprintf("%s of %s equal, %d of them of %s", count(p.objects, "object"), count(len(p.before), "cluster"),
		p.ours, p.app)
}
