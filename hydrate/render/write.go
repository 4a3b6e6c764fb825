package render

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// place is what the files of a target depend on beside its objects and the scopes of custom kinds.
type place struct {
	namespace     string
	asRendered    bool
	forceHookJobs bool
	scope         func(manifest.GroupKind) manifest.Scope // of a kind that no definition in the environment has
}

func placeOf(t *source.Target) place {
	return place{namespace: t.Namespace, asRendered: t.AsRendered(), forceHookJobs: t.ForcesHookJobs(), scope: t.Scope}
}

// waits reports whether the objects cannot be written before the scopes of custom kinds are known.
func (p place) waits(list []renderer.Object) bool {
	return !p.asRendered && slices.ContainsFunc(list, scopeUnknown)
}

// writeObjects returns objects their namespaces and file names and writes them as a tree. scopes are the scopes of
// custom kinds. A custom kind without a known scope is treated as namespaced. Most kinds are, and the API server
// ignores the namespace of a cluster-scoped object, whereas a namespaced object without one would land in the
// namespace `default`.
func writeObjects(w *gitstore.Writer, list []renderer.Object, p place, scopes branch.Kinds) (*written, error) {
	out := &written{defines: branch.Kinds{}}
	ids := make([]manifest.Identity, 0, len(list))
	seen := make(map[manifest.Identity]int, len(list))
	distinct := make([]renderer.Object, 0, len(list))
	for _, o := range list {
		kind := manifest.GroupKind{Group: o.ID.Group, Kind: o.ID.Kind}
		id := o.ID
		text, err := hookJob(o, p)
		if err != nil {
			return nil, err
		}
		if o.Defines != nil {
			out.defines[o.Defines.Kind] = o.Defines.Scope
		}
		scope := o.Scope
		if scopeUnknown(o) && !p.asRendered {
			out.assumes = append(out.assumes, kind.String())
			scope = cmp.Or(scopes[kind], p.scope(kind), manifest.ScopeNamespaced)
		}
		if scope == manifest.ScopeNamespaced && o.ID.Namespace == "" && !p.asRendered {
			if text, err = objects.WithNamespace(text, p.namespace); err != nil {
				return nil, err
			}
			id.Namespace = p.namespace
		}
		o.YAML = text
		if i, twice := seen[id]; twice { // one copy names its namespace, the other does not
			one, note, err := renderer.Twice(id, distinct[i], o)
			if err != nil {
				return nil, err
			}
			distinct[i], out.notes = one, append(out.notes, note)
			continue
		}
		seen[id] = len(distinct)
		ids, distinct = append(ids, id), append(distinct, o)
	}
	entries := make([]gitstore.Entry, len(distinct))
	for i := range distinct {
		blob, err := w.Blob(distinct[i].YAML)
		if err != nil {
			return nil, err
		}
		entries[i] = gitstore.Entry{Mode: gitstore.ModeFile, Hash: blob}
	}
	for i, name := range manifest.FileNames(ids, p.namespace) {
		entries[i].Name = name
	}
	slices.Sort(out.assumes)
	out.assumes = slices.Compact(out.assumes)
	out.files = len(entries)
	var err error
	out.hash, err = w.Tree(entries)
	return out, err
}

// resolveUnstable handles fields that differ between two renderings of equal inputs. It refuses them or, with
// `unstable: keep`, replaces them with the values on the branch.
func resolveUnstable(ctx context.Context, store *gitstore.Store, j Job, r *renderer.Rendering) error {
	if len(r.Unstable) == 0 {
		return nil
	}
	if !j.Target.KeepsUnstable() {
		return unstableError(j.Target, r.Unstable)
	}
	before, err := objects.ByIdentity(ctx, store, j.Old, j.Target.Namespace)
	if err != nil {
		return err
	}
	fields := map[manifest.Identity][][]string{}
	for _, f := range r.Unstable {
		if f.Path == nil {
			return fmt.Errorf("the name of %s differs between two renderings, so that no earlier value can be kept: set a fixed name", f.Object)
		}
		fields[f.Object] = append(fields[f.Object], f.Path)
	}
	for i, o := range r.Objects {
		old, ok := before[o.ID]
		if !ok || len(fields[o.ID]) == 0 {
			continue
		}
		text, err := objects.KeepFields(o.YAML, old, fields[o.ID])
		if err != nil {
			return err
		}
		r.Objects[i].YAML = text
	}
	return nil
}

func unstableError(t *source.Target, fields []renderer.Field) error {
	const limit = 5
	var list []string
	for _, f := range fields[:min(limit, len(fields))] {
		list = append(list, strings.TrimSuffix(f.Object.String()+" "+strings.Join(f.Path, "."), " "))
	}
	if len(fields) > limit {
		list = append(list, fmt.Sprintf("and %d more", len(fields)-limit))
	}
	return fmt.Errorf("%s: the output of app %s is not deterministic: %s (set fixed values, or `unstable: keep` to keep the values of the branch)",
		t.App.File, t.App.Name, strings.Join(list, ", "))
}
