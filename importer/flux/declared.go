package flux

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/importer/internal/reach"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// describe adds to a unit what tells a reader whether it changes although it cannot be built: its declaration, and the
// files that it may be built from.
func (c *cluster) describe(u *Unit) {
	declared := u.object
	// the values are part of the release
	if spec, ok := u.object["spec"].(map[string]any); ok && u.Err == nil && u.Release != nil {
		declared, spec = maps.Clone(u.object), maps.Clone(spec)
		delete(spec, "values")
		declared["spec"] = spec
	}
	parts := []manifest.Object{declared}
	if u.Err != nil {
		parts = append(parts, c.referredObjects(u.object)...)
		if text, err := manifest.Encode(u.object); err == nil { // the object was decoded from YAML
			u.Object = text
		}
	}
	if u.Err != nil || u.Suspended {
		u.Own = c.mayRead(u.object)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		text = []byte(err.Error()) // not possible: the objects were decoded from YAML
	}
	u.Declared = digest(text)
}

// referredObjects returns the objects of the cluster that an object refers to by kind and name, directly or through
// others, in the order of their keys.
func (c *cluster) referredObjects(o manifest.Object) []manifest.Object {
	found := map[Key]bool{}
	var look func(v any, namespace string)
	look = func(v any, namespace string) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				look(one, namespace)
			}
		case map[string]any:
			kind, _ := v["kind"].(string)
			name, _ := v["name"].(string)
			if other, ok := v["namespace"].(string); ok {
				namespace = other
			}
			if kind != "" && name != "" {
				for _, group := range []string{"", groupSource, groupArtifacts, groupOperator} {
					key := Key{Group: group, Kind: kind, Namespace: namespace, Name: name}
					if to, ok := c.objects[key]; ok && !found[key] {
						found[key] = true
						look(to["spec"], namespace)
					}
				}
			}
			for _, one := range v {
				look(one, namespace)
			}
		}
	}
	look(o["spec"], keyOf(o).Namespace)
	keys := make([]Key, 0, len(found))
	for k := range found {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	out := make([]manifest.Object, len(keys))
	for n, k := range keys {
		out[n] = c.objects[k]
	}
	return out
}

// mayRead returns the files and directories of the tree that a unit may be built from that cannot be built. A unit that
// takes its content from a repository that the fleet does not have reads none.
func (c *cluster) mayRead(o manifest.Object) []string {
	spec, _ := o["spec"].(map[string]any)
	key := keyOf(o)
	from, names := c.commit, []string(nil)
	inside := "." // the directory that the source is pushed from
	behind := func(source Key) bool {
		var a *content
		var err error
		if source.Kind == kindOCIRepository || source.Kind == kindBucket {
			_, err = c.pushed(source)
			a, inside = c.commit, orDefault(c.objects[source].Annotation(AnnotationPushedFrom), ".")
		} else {
			a, err = c.contentBehind(source)
		}
		switch {
		case err == nil:
			from = a
		case !missingSource(err):
			return false
		}
		return true
	}
	switch key.Kind {
	case kindHelmRelease:
		var r helmv2.HelmRelease
		head, _, err := divided(o)
		if err != nil || decode(head, &r) != nil || r.Spec.Chart == nil {
			return nil
		}
		t := r.Spec.Chart.Spec
		if !slices.Contains([]string{kindGitRepository, kindBucket}, t.SourceRef.Kind) ||
			!behind(Key{
				Group: groupSource, Kind: t.SourceRef.Kind,
				Namespace: orDefault(t.SourceRef.Namespace, key.Namespace), Name: t.SourceRef.Name,
			}) {
			return nil
		}
		names = append(names, clean(inside+"/"+t.Chart))
		for _, name := range t.ValuesFiles {
			names = append(names, clean(inside+"/"+name))
		}
	case kindKustomization:
		dir, _ := spec["path"].(string)
		var ks kustomizev1.Kustomization
		if decode(o, &ks) == nil {
			if ks.Spec.SourceRef.Kind != kindExternalArtifact && !behind(sourceKey(key.Namespace, ks.Spec.SourceRef)) {
				return nil
			}
			for _, component := range ks.Spec.Components {
				names = append(names, clean(inside+"/"+dir+"/"+component))
			}
		}
		names = append(names, clean(inside+"/"+dir))
	default:
		text, err := manifest.Encode(o)
		if err != nil {
			return nil
		}
		names = reach.Named(slices.Sorted(slices.Values(from.files)), text)
	}
	out := reach.Paths(slices.Sorted(slices.Values(from.files)),
		func(name string) ([]byte, error) { return c.tree.ReadFile(from.at(name)) }, names...)
	for n := range out {
		out[n] = from.at(out[n])
	}
	return out
}

// missingSource reports whether the object of a source is not in the commit, or does not decode: it may mean this
// repository.
func missingSource(err error) bool {
	return !errors.Is(err, errElsewhere) && !errors.Is(err, errUnavailable)
}
