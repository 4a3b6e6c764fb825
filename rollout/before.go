package rollout

import (
	"fmt"
	"slices"
)

// before applies an observation of an upstream environment.
func (r *Record) before(e Event) error {
	w := r.Before[e.Target]
	if e.Kind == EventBefore {
		if w == nil {
			w = &UpstreamHistory{}
			if r.Before == nil {
				r.Before = map[string]*UpstreamHistory{}
			}
			r.Before[e.Target] = w
		}
		if e.Forgets >= 0 && len(w.Ran) >= maxRan {
			w.Ran = slices.Delete(w.Ran, e.Forgets, e.Forgets+1)
		}
		w.Ran = append(w.Ran, PastState{Source: e.Source.tidy(), At: e.At})
		return nil
	}
	if w == nil || len(w.Ran) == 0 {
		return fmt.Errorf("nothing was observed of %s", e.Target)
	}
	switch e.Kind {
	case EventBeforeHealthy:
		w.Ran[len(w.Ran)-1].Healthy = e.At
	case EventBeforeRed:
		w.Red, w.LastRed = true, e.At
	case EventBeforeAlone:
		w.alone(e)
	default:
		w.Red, w.LastRed = false, e.At
	}
	return nil
}

// alone records which workspaces are red.
func (w *UpstreamHistory) alone(e Event) {
	if w.Workspaces == nil {
		w.Workspaces = map[string]WorkspaceHealth{}
	}
	for name, h := range w.Workspaces {
		if h.Red && !slices.Contains(e.Workspaces, name) {
			w.Workspaces[name] = WorkspaceHealth{Since: e.At}
		}
	}
	for _, name := range e.Workspaces {
		if !w.Workspaces[name].Red {
			w.Workspaces[name] = WorkspaceHealth{Red: true, Since: e.At}
		}
	}
	for _, name := range e.Passed {
		delete(w.Workspaces, name)
	}
	if len(w.Workspaces) == 0 {
		w.Workspaces = nil
	}
}
