package rollout_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// settle makes two of three apps those of workspaces, which may go back alone.
func (w *world) settle(p *fleet.Promotion) {
	w.tenants, w.apps = true, []string{"x/a", "y/b", "f"}
	p.OnWorkspaceFailure, p.RestartBake, p.Approvers = "rollback", false, fleet.Approvers{}
	p.Health = fleet.Health{CommitStatuses: []string{"kustomization/${app}/*"}}
	if p.Mode == "request" {
		p.Mode = "auto"
	}
}

// redApp returns an app that is red on a cluster; "" if there is none.
func (w *world) redApp(cluster string) string {
	for app, version := range apps(w.clusters[cluster]) {
		if w.broken[app+"@"+version] {
			return app
		}
	}
	return ""
}

// tenantsOf gives each app a status of its own, and finds out whether workspaces may go back alone, as a caller does.
func (w *world) tenantsOf(s *rollout.Situation) error {
	if !w.tenants {
		return nil
	}
	s.Before[0].Clusters[0].Apps, s.Before[0].Clusters[0].Statuses = w.apps, w.stagingStatuses()
	for i := range s.Clusters {
		c := &s.Clusters[i]
		c.Apps, c.Statuses = w.apps, w.statuses(w.red[c.Name], c.Tree)
		if w.pending[c.Name] {
			missing := w.r.IntN(len(c.Statuses))
			c.Statuses = slices.Delete(c.Statuses, missing, missing+1)
		}
	}
	red, err := rollout.RedAlone(*s)
	if err != nil || red == nil {
		return err
	}
	s.Without = &rollout.Without{Workspaces: red.Names, From: w.id}
	s.Without.Apps, s.Without.Refused, err = red.Changed(red.Before.Tree, w.id, w.names(), w.read)
	for _, m := range w.members {
		if have := w.clusters[m.Name]; have != w.prod.subs[m.Name] && have != w.trees[red.Before.Tree].subs[m.Name] {
			s.Without.Refused = "a cluster runs another state"
		}
	}
	if s.Without.Refused == "" && w.r.IntN(8) == 0 {
		s.Without.Refused = "policy says no"
	}
	if err != nil || s.Without.Refused != "" {
		w.done["workspace back, refused"]++
		return err
	}
	a := rollout.Action{Apps: s.Without.Apps, Workspaces: red.Names}
	source := rollout.RestoredSource(w.prod.source, a, red.Before.Source, nil, w.names())
	s.Without.Tree, _ = w.render(source)
	return nil
}

// statuses are those of the apps in the content of a cluster.
func (w *world) statuses(red bool, content string) []rollout.Status {
	var out []rollout.Status
	for _, app := range w.apps {
		state := "success"
		if red || strings.Contains(content, "@") && w.broken[app+"@"+apps(content)[app]] {
			state = "failure"
		}
		out = append(out, rollout.Status{Name: "kustomization/" + rollout.ObjectName(app) + "/1a2b", State: state})
	}
	return out
}

// goesOn moves prod's branch in the rollout under way, which continues without the changes of workspaces. Every cluster
// keeps, or gets back, what it ran of them when the rollout began, and everything else is as the rollout has it.
func (w *world) goesOn(a rollout.Action, id string, next tree) error {
	if id != a.Continues {
		return fmt.Errorf("it continues with %s, and %s was judged", id, a.Continues)
	}
	if id == w.id {
		return nil // an interrupted run has moved it
	}
	for _, m := range w.members {
		for app, version := range apps(next.subs[m.Name]) {
			mine := slices.Contains(a.Workspaces, fleet.WorkspaceOf(app))
			before, now := apps(w.ran[m.Name])[app], apps(w.prod.subs[m.Name])[app]
			if mine && version != before || !mine && version != now {
				return fmt.Errorf("%s of %s ran %s before the rollout, has %s in it, and becomes %s without %v", app,
					m.Name, before, now, version, a.Workspaces)
			}
		}
		if moved := w.clusters[m.Name] == w.prod.subs[m.Name]; moved && w.changed[m.Name] &&
			slices.Contains(a.Later, m.Name) {
			return fmt.Errorf("%s has the rollout, and does not go back", m.Name)
		}
	}
	if w.restores || w.skips() {
		return fmt.Errorf("a rollout that is a rollback, or skips gates, continues without %v", a.Workspaces)
	}
	w.remember(id, next.source)
	w.id, w.prod, w.tip, w.continues = id, next, fmt.Sprintf("%s#%d", id, w.r.Uint32()), id
	return nil
}
