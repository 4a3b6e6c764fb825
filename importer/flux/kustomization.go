package flux

import (
	"fmt"
	"path"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	fluxkustomize "github.com/fluxcd/pkg/apis/kustomize"
	"sigs.k8s.io/kustomize/api/konfig"
	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// generated returns the kustomization.yaml that kustomize-controller builds: the one in the directory, or a new one
// that lists the directory's manifests, with what the Kustomization object adds. The rules are those of
// Generator.GenerateManifest in github.com/fluxcd/pkg/kustomize v1.41.0.
func generated(a view, dir string, spec *kustomizev1.KustomizationSpec) (name string, data []byte, err error) {
	if !a.isDir(dir) {
		return "", nil, fmt.Errorf("spec.path: %q is not a directory of the source", spec.Path)
	}
	k := kustypes.Kustomization{TypeMeta: kustypes.TypeMeta{
		APIVersion: kustypes.KustomizationVersion,
		Kind:       kustypes.KustomizationKind,
	}}
	name, ok := kustomizationFile(a, dir)
	if ok {
		if data, err = a.ReadFile(name); err != nil {
			return "", nil, err
		}
		if err := yaml.Unmarshal(data, &k); err != nil {
			return "", nil, fmt.Errorf("%s: %w", a.original(name), err)
		}
		if len(k.Resources) == 0 {
			// Flux sets this, so that Kustomize does not refuse the file as empty.
			k.BuildMetadata = []string{kustypes.OriginAnnotations}
		}
	} else {
		name = path.Join(dir, konfig.DefaultKustomizationFileName())
		if k.Resources = manifests(a, dir); len(k.Resources) == 0 {
			k.Namespace = "_placeholder"
		}
	}
	if err := extend(&k, a, dir, spec); err != nil {
		return "", nil, err
	}
	data, err = yaml.Marshal(k)
	return name, data, err
}

// kustomizationFile returns the kustomization of a directory.
func kustomizationFile(a view, dir string) (string, bool) {
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		if name := path.Join(dir, base); a.isFile(name) {
			return name, true
		}
	}
	return "", false
}

// manifests lists the YAML files below a directory, relative to it. A folder with a kustomization stands for itself.
func manifests(a view, dir string) []string {
	var out []string
	var walk func(at string)
	walk = func(at string) {
		for _, base := range a.names(at) {
			name := path.Join(at, base)
			rel := "./" + strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
			if dir == "." {
				rel = "./" + name
			}
			if a.isDir(name) {
				if _, ok := kustomizationFile(a, name); ok {
					out = append(out, rel)
				} else {
					walk(name)
				}
			} else if isYAML(base) {
				out = append(out, rel)
			}
		}
	}
	walk(dir)
	return out
}

// extend adds to a kustomization what the spec of the Kustomization object adds.
func extend(k *kustypes.Kustomization, a view, dir string, spec *kustomizev1.KustomizationSpec) error {
	if spec.TargetNamespace != "" {
		k.Namespace = spec.TargetNamespace
	}
	if spec.NamePrefix != "" {
		k.NamePrefix = spec.NamePrefix
	}
	if spec.NameSuffix != "" {
		k.NameSuffix = spec.NameSuffix
	}
	for _, p := range spec.Patches {
		k.Patches = append(k.Patches, kustypes.Patch{Patch: p.Patch, Target: selector(p.Target)})
	}
	for i, c := range spec.Components {
		full := path.Join(dir, c)
		if path.IsAbs(c) || full == ".." || strings.HasPrefix(full, "../") {
			return fmt.Errorf("spec.components[%d]: %q must be a relative path in the source", i, c)
		}
		if spec.IgnoreMissingComponents && !a.isDir(full) {
			continue
		}
		k.Components = append(k.Components, c)
	}
	for _, image := range spec.Images {
		setImage(k, image)
	}
	if len(spec.BuildMetadata) > 0 {
		k.BuildMetadata = nil
		for _, m := range spec.BuildMetadata {
			k.BuildMetadata = append(k.BuildMetadata, string(m))
		}
	}
	return nil
}

// setImage merges an image into those of the kustomization. Tag and digest replace each other, as in Kustomize.
func setImage(k *kustypes.Kustomization, image fluxkustomize.Image) {
	for i := range k.Images {
		known := &k.Images[i]
		if known.Name != image.Name {
			continue
		}
		if image.NewName != "" {
			known.NewName = image.NewName
		}
		if image.NewTag != "" || image.Digest != "" {
			known.NewTag, known.Digest = image.NewTag, image.Digest
		}
		return
	}
	k.Images = append(k.Images, kustypes.Image{
		Name: image.Name, NewName: image.NewName, NewTag: image.NewTag,
		Digest: image.Digest,
	})
}

// selector converts a selector of Flux's API into one of Kustomize; nil stays nil.
func selector(s *fluxkustomize.Selector) *kustypes.Selector {
	if s == nil {
		return nil
	}
	out := &kustypes.Selector{LabelSelector: s.LabelSelector, AnnotationSelector: s.AnnotationSelector}
	out.Group, out.Kind, out.Version, out.Name, out.Namespace = s.Group, s.Kind, s.Version, s.Name, s.Namespace
	return out
}
