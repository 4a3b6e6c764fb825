package flux

import (
	"slices"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// component returns a Kustomize component that does what the post-renderers of a release and spec.commonMetadata do;
// nil if there are none. The first post-renderer becomes fields of the component. The others become transformers,
// because Kustomize applies transformers after the fields and in their order.
func component(r *helmv2.HelmRelease) ([]byte, error) {
	k := kustypes.Kustomization{TypeMeta: kustypes.TypeMeta{
		APIVersion: kustypes.ComponentVersion,
		Kind:       kustypes.ComponentKind,
	}}
	renderers := slices.DeleteFunc(slices.Clone(r.Spec.PostRenderers), func(p helmv2.PostRenderer) bool {
		return p.Kustomize == nil || len(p.Kustomize.Patches)+len(p.Kustomize.Images) == 0
	})
	for n, p := range renderers {
		if n > 0 {
			if err := addTransformers(&k, p.Kustomize); err != nil {
				return nil, err
			}
			continue
		}
		for _, patch := range p.Kustomize.Patches {
			k.Patches = append(k.Patches, kustypes.Patch{Patch: patch.Patch, Target: selector(patch.Target)})
		}
		for _, image := range p.Kustomize.Images {
			setImage(&k, image)
		}
	}
	metadata := r.Spec.CommonMetadata
	if metadata == nil {
		metadata = &helmv2.CommonMetadata{}
	}
	if len(renderers)+len(metadata.Labels)+len(metadata.Annotations) == 0 {
		return nil, nil
	}
	if len(metadata.Labels) > 0 && len(renderers) < 2 {
		k.Labels = append(k.Labels, kustypes.Label{Pairs: metadata.Labels})
	} else if len(metadata.Labels) > 0 { // after all post-renderers
		if err := addTransformer(&k, "LabelTransformer", map[string]any{
			"labels":     metadata.Labels,
			"fieldSpecs": fieldSpecs("metadata/labels"),
		}); err != nil {
			return nil, err
		}
	}
	if len(metadata.Annotations) > 0 { // commonAnnotations would reach templates of Pods too
		if err := addTransformer(&k, "AnnotationsTransformer", map[string]any{
			"annotations": metadata.Annotations,
			"fieldSpecs":  fieldSpecs("metadata/annotations"),
		}); err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(k)
}

// addTransformers adds a post-renderer as transformers.
func addTransformers(k *kustypes.Kustomization, p *helmv2.Kustomize) error {
	for _, patch := range p.Patches {
		config := map[string]any{"patch": patch.Patch}
		if target := selector(patch.Target); target != nil {
			config["target"] = target
		}
		if err := addTransformer(k, "PatchTransformer", config); err != nil {
			return err
		}
	}
	var merged kustypes.Kustomization
	for _, image := range p.Images {
		setImage(&merged, image)
	}
	for _, image := range merged.Images {
		if err := addTransformer(k, "ImageTagTransformer", map[string]any{
			"imageTag":   image,
			"fieldSpecs": fieldSpecs(imageFields()...),
		}); err != nil {
			return err
		}
	}
	return nil
}

// imageFields returns where Kustomize v0.21 looks for images, besides containers at any depth.
func imageFields() []string {
	return []string{
		"spec/containers[]/image", "spec/initContainers[]/image", "spec/volumes[]/image/reference",
		"spec/template/spec/containers[]/image", "spec/template/spec/initContainers[]/image",
		"spec/template/spec/volumes[]/image/reference",
		"spec/jobTemplate/spec/template/spec/volumes[]/image/reference",
	}
}

// addTransformer adds a transformer of Kustomize with its configuration.
func addTransformer(k *kustypes.Kustomization, kind string, config map[string]any) error {
	config["apiVersion"], config["kind"], config["metadata"] = "builtin", kind, map[string]any{"name": "common"}
	text, err := yaml.Marshal(config)
	k.Transformers = append(k.Transformers, string(text))
	return err
}

// fieldSpecs tells a transformer which fields to set, and to create.
func fieldSpecs(paths ...string) []any {
	out := make([]any, len(paths))
	for n, path := range paths {
		out[n] = map[string]any{"path": path, "create": true}
	}
	return out
}
