package kustomize

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// target is the selector of a patch.
type target struct {
	at       place
	selector types.Selector
}

// UnmatchedError reports patches of components whose target selects no object. Kustomize ignores such patches silently,
// so that a typing error leaves an object unpatched.
type UnmatchedError struct{ Patches []string }

// Error returns one line for each patch, with its target.
func (e *UnmatchedError) Error() string {
	return strings.Join(e.Patches, "\n")
}

// recordTargets records the selectors of a kustomization's patches and the identities of the objects that it generates.
func (s *scan) recordTargets(k *types.Kustomization) {
	generated := func(kind, name, namespace string) {
		s.out.generated = append(s.out.generated, manifest.Object{
			"apiVersion": "v1", "kind": kind,
			"metadata": map[string]any{"name": name, "namespace": namespace},
		})
	}
	for i := range k.ConfigMapGenerator {
		generated("ConfigMap", k.ConfigMapGenerator[i].Name, k.ConfigMapGenerator[i].Namespace)
	}
	for i := range k.SecretGenerator {
		generated("Secret", k.SecretGenerator[i].Name, k.SecretGenerator[i].Namespace)
	}
	//nolint:staticcheck // deprecated fields are read as long as the library reads them
	for field, patches := range map[string][]types.Patch{"patches": k.Patches, "patchesJson6902": k.PatchesJson6902} {
		for i, p := range patches {
			if p.Target != nil {
				s.out.targets = append(s.out.targets, target{s.file.at("%s[%d].target", field, i), *p.Target})
			}
		}
	}
}

// addedObjects returns the objects that a component's files define, with the names in those files: Kustomize also
// selects objects by their original names.
func (b *Builder) addedObjects(tree *memory, r *reach) []manifest.Object {
	var out []manifest.Object
	for name := range r.files {
		objects, err := manifest.Decode(tree.files[name], b.budget)
		if err != nil { // a patch, a kustomization or a text file
			continue
		}
		out = append(out, objects...)
	}
	return append(out, r.generated...)
}

// unmatched returns an UnmatchedError if a target selects none of the objects: those before and after the components
// and those that components add. A component may therefore patch an object that another one adds, renames or removes.
func unmatched(targets []target, objects []manifest.Object) error {
	var out UnmatchedError
	for _, t := range targets {
		matches, err := matcher(&t.selector)
		if err != nil {
			return nil //nolint:nilerr // Kustomize reports the selector
		}
		if !slices.ContainsFunc(objects, matches) {
			out.Patches = append(out.Patches,
				fmt.Sprintf("%s: %s selects no object (%s): correct it or remove the patch; `strict: {unmatchedPatches: false}` in sluice.yaml permits such patches",
					t.at.file, t.at.field, describeSelector(&t.selector)))
		}
	}
	if len(out.Patches) == 0 {
		return nil
	}
	slices.Sort(out.Patches)
	return &out
}

// matcher returns a predicate equal to resmap.ResMap.Select: regular expressions match whole names, and label selectors
// match labels and annotations.
func matcher(s *types.Selector) (func(manifest.Object) bool, error) {
	pattern, err := types.NewSelectorRegex(s)
	if err != nil {
		return nil, err
	}
	byLabel, err := labels.Parse(s.LabelSelector)
	byAnnotation, err2 := labels.Parse(s.AnnotationSelector)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return func(o manifest.Object) bool {
		_, version, grouped := strings.Cut(o.APIVersion(), "/")
		if !grouped {
			version = o.APIVersion()
		}
		id := resid.NewResIdWithNamespace(resid.NewGvk(manifest.GroupOf(o.APIVersion()), version, o.Kind()), o.Name(),
			o.Namespace())
		metadata, _ := o["metadata"].(map[string]any)
		return pattern.MatchGvk(id.Gvk) && pattern.MatchName(id.Name) &&
			pattern.MatchNamespace(id.EffectiveNamespace()) &&
			byLabel.Matches(texts(metadata["labels"])) && byAnnotation.Matches(texts(metadata["annotations"]))
	}, nil
}

func texts(v any) labels.Set {
	m, _ := v.(map[string]any)
	out := make(labels.Set, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

func describeSelector(s *types.Selector) string {
	var parts []string
	for _, p := range []struct{ name, value string }{
		{"group", s.Group},
		{"version", s.Version},
		{"kind", s.Kind},
		{"namespace", s.Namespace},
		{"name", s.Name},
		{"labels", s.LabelSelector},
		{"annotations", s.AnnotationSelector},
	} {
		if p.value != "" {
			parts = append(parts, p.name+" "+shown(p.value))
		}
	}
	return strings.Join(parts, ", ")
}
