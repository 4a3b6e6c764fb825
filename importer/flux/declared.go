package flux

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"github.com/sluice-gitops/sluice/importer/internal/reach"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// describe sets what tells two commits of a unit apart even if the unit cannot be built: Declared, Object and Own. It sets
// what the unit refers to.
func (c *cluster) describe(u *Unit) {
	declared := u.object
	// the values are part of the release
	if spec, ok := u.object["spec"].(map[string]any); ok && u.Err == nil && u.Release != nil {
		declared, spec = maps.Clone(u.object), maps.Clone(spec)
		delete(spec, "values")
		declared["spec"] = spec
	}
	parts, referred := []manifest.Object{declared}, c.referredKeys(u.object)
	for _, k := range referred {
		u.Refers = append(u.Refers, c.brought[k])
	}
	if u.Err != nil {
		for _, k := range referred {
			parts = append(parts, c.objects[k])
		}
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

// referredKeys returns the objects of the cluster that an object refers to by kind and name, directly or through others,
// sorted.
func (c *cluster) referredKeys(o manifest.Object) []Key {
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
	return slices.SortedFunc(maps.Keys(found), compareKeys)
}

// mayRead returns the files and directories of the tree from which a unit would be built that cannot be built. A unit
// whose content is in a repository that the fleet does not have reads none.
func (c *cluster) mayRead(o manifest.Object) []string {
	from, names := c.commit, []string(nil)
	switch o.Kind() {
	case kindHelmRelease:
		from, names = c.chartPaths(o)
	case kindKustomization:
		from, names = c.kustomizationPaths(o)
	default:
		text, err := manifest.Encode(o)
		if err != nil {
			return nil
		}
		names = reach.Named(slices.Sorted(slices.Values(from.files)), text)
	}
	if from == nil {
		return nil
	}
	out := reach.Paths(slices.Sorted(slices.Values(from.files)),
		func(name string) ([]byte, error) { return c.tree.ReadFile(from.at(name)) }, names...)
	for n := range out {
		out[n] = from.at(out[n])
	}
	return out
}

// chartPaths returns the directory of a HelmRelease's chart and its values files, and the content that has them; nil if
// the fleet does not have it.
func (c *cluster) chartPaths(o manifest.Object) (from *content, names []string) {
	var r helmv2.HelmRelease
	head, _, err := divided(o)
	if err != nil || decode(head, &r) != nil || r.Spec.Chart == nil {
		return nil, nil
	}
	t := r.Spec.Chart.Spec
	if !slices.Contains([]string{kindGitRepository, kindBucket}, t.SourceRef.Kind) {
		return nil, nil
	}
	from, inside := c.contentFor(Key{
		Group: groupSource, Kind: t.SourceRef.Kind,
		Namespace: cmp.Or(t.SourceRef.Namespace, keyOf(o).Namespace), Name: t.SourceRef.Name,
	})
	names = append(names, clean(inside+"/"+t.Chart))
	for _, name := range t.ValuesFiles {
		names = append(names, clean(inside+"/"+name))
	}
	return from, names
}

// kustomizationPaths returns the directories of a Kustomization and its components, and the content that has them; nil
// if the fleet does not have it. A Kustomization that does not decode counts as one of this repository.
func (c *cluster) kustomizationPaths(o manifest.Object) (from *content, names []string) {
	spec, _ := o["spec"].(map[string]any)
	dir, _ := spec["path"].(string)
	from, inside := c.commit, "."
	var ks kustomizev1.Kustomization
	if decode(o, &ks) == nil {
		if ks.Spec.SourceRef.Kind != kindExternalArtifact {
			from, inside = c.contentFor(sourceKey(keyOf(o).Namespace, ks.Spec.SourceRef))
		}
		for _, component := range ks.Spec.Components {
			names = append(names, clean(inside+"/"+dir+"/"+component))
		}
	}
	return from, append(names, clean(inside+"/"+dir))
}

// contentFor returns the content that a source means, and the directory in it that the source is pushed from. A source
// whose object is missing may mean this repository. If the fleet does not have the content, from is nil.
func (c *cluster) contentFor(source Key) (from *content, inside string) {
	inside = "."
	var err error
	if source.Kind == kindOCIRepository || source.Kind == kindBucket {
		_, err = c.pushed(source)
		from, inside = c.commit, cmp.Or(c.objects[source].Annotation(AnnotationPushedFrom), ".")
	} else {
		from, err = c.contentBehind(source)
	}
	switch {
	case err == nil:
		return from, inside
	case missingSource(err):
		return c.commit, inside
	}
	return nil, inside
}

// missingSource reports whether an error of a source is about its object, which is missing or does not decode. The
// others say that its content is in another repository, which the fleet lacks.
func missingSource(err error) bool {
	return !errors.Is(err, errElsewhere) && !errors.Is(err, errUnavailable)
}
