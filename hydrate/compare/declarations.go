package compare

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// withoutCluster withholds the imported targets whose cluster is not known, and whose declaration or files change.
func (c *run) withoutCluster() []diff.Withheld {
	var out []diff.Withheld
	for _, app := range c.unplaced {
		t := c.views[1].Fleet.Unplaced(app)
		if t == nil {
			t = c.views[0].Fleet.Unplaced(app)
		}
		out = append(out, diff.Withheld{
			App: app, File: t.Located(), Line: t.Line, Message: c.out.Mask.Text(t.Err.Error()),
		})
	}
	return out
}

// declarations returns the changes of the objects that declare imported targets, for targets that are withheld or
// render the same on both sides.
func (c *run) declarations(environments []string) []diff.Group {
	if c.views[0] == nil {
		return nil
	}
	base, head := c.views[0].Fleet, c.views[1].Fleet
	shown := map[[2]string]bool{}
	for i := range c.out.Targets {
		if t := &c.out.Targets[i]; len(t.Files.Before)+len(t.Files.After) > 0 {
			shown[[2]string{t.Target.Cluster.Name, t.Target.App.Name}] = true
		}
	}
	environmentOf := func(name string) (environment string, frozen bool) {
		cluster, ok := head.Cluster(name)
		if !ok {
			if cluster, ok = base.Cluster(name); !ok {
				return "", false
			}
		}
		return cluster.Environment, cluster.State != "active"
	}
	changed := fleet.ChangedDeclarations(base, head, func(cluster, app string) bool {
		environment, frozen := environmentOf(cluster)
		return !shown[[2]string{cluster, app}] && !frozen && c.request.hasApp(app) &&
			(cluster == "" || c.wants(environment) && c.request.hasCluster(cluster))
	})
	targets := make([]diff.Target, 0, len(changed))
	for _, one := range changed {
		environment, _ := environmentOf(one.Cluster)
		t := diff.Target{App: one.App, Cluster: one.Cluster, Environment: environment}
		for i, side := range []*fleet.Imported{one.Base, one.Head} {
			if side == nil {
				continue
			}
			o := declared(one.Texts[i], side)
			if one.Texts[0] == one.Texts[1] { // a patch, or an object that it refers to
				o["builtFrom"] = side.Declared[:min(len(side.Declared), shortDigest)]
			}
			sum := sha256.Sum256([]byte(one.Texts[i] + "\x00" + side.Declared))
			list := []diff.Object{{Key: hex.EncodeToString(sum[:]), Object: c.out.Mask.Mask(o)}}
			if i == 0 {
				t.Before = list
			} else {
				t.After = list
			}
		}
		targets = append(targets, t)
	}
	return Rules(c.outputs).Compare(targets, nil, environments, newPlacements(c.views)).Groups
}

const shortDigest = 12

// declared decodes an object of a target. One that is in no file has only a kind and a name.
func declared(text string, t *fleet.Imported) manifest.Object {
	if list, err := manifest.Decode([]byte(text), manifest.DefaultBudget()); err == nil && len(list) == 1 {
		return list[0]
	}
	return manifest.Object{"apiVersion": "v1", "kind": t.Kind, "metadata": map[string]any{"name": t.App}}
}
