package argocd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// overlay replaces one file of a tree.
type overlay struct {
	Tree
	name string
	data []byte
}

func (o overlay) ReadFile(name string) ([]byte, error) {
	if name == o.name {
		return o.data, nil
	}
	return o.Tree.ReadFile(name)
}

// Written implements kustomize.EditedTree.
func (o overlay) Written(name string) ([]byte, error) { return o.Tree.ReadFile(name) }

// kustomize builds a directory after the edits that a source asks for, as `kustomize edit` makes them. A root with helmCharts is not built:
// its objects are only those that may be Applications.
func (i *importer) kustomize(ctx context.Context, k *kustomizeSource, dir string, env map[string]string) (Source, error) {
	name := kustomizationOf(i, dir)
	if name == "" {
		return Source{}, fmt.Errorf("%s has no kustomization.yaml", dir)
	}
	data, err := i.Tree.ReadFile(name)
	if err != nil {
		return Source{}, err
	}
	tree, root := i.Tree, &Root{Path: dir}
	if k != nil {
		if data, err = i.edited(data, k, dir, env); err != nil {
			return Source{}, fmt.Errorf("%s: %w", name, err)
		}
		tree, root.Edited, root.KubeVersion, root.APIVersions = overlay{i.Tree, name, data}, data, k.KubeVersion, k.APIVersions
	}
	walker := kustomize.NewWalker(tree, manifest.DefaultBudget()).Charts()
	charts, err := walker.ChartsOf(dir)
	if err != nil {
		return Source{}, err
	}
	if len(charts) > 0 && !i.EnableHelm {
		return Source{}, charts[0].Error(errHelmDisabled)
	}
	files, err := closure(tree, walker, dir)
	if err != nil {
		return Source{}, err
	}
	if len(charts) == 0 {
		objects, err := i.Build(ctx, files, dir)
		return Source{Objects: objects}, err
	}
	if !slices.ContainsFunc(files, func(f kustomize.File) bool { return describes(f.Data) }) {
		return Source{Root: root}, nil
	}
	objects, err := i.BuildWithoutCharts(ctx, files, dir)
	if err != nil {
		return Source{}, fmt.Errorf("looking for Applications in %s, without the objects of its helmCharts: %w (move the charts to a kustomization that another Application names)", name, err)
	}
	return Source{Root: root, Objects: objects}, nil
}

// errHelmDisabled says how to accept helmCharts.
var errHelmDisabled = errors.New("the kustomization lists helmCharts, which Argo CD renders only with --enable-helm " +
	"(if kustomize.buildOptions in its ConfigMap argocd-cm has this option, set spec.import[].argocd.kustomize.buildOptions in sluice.yaml to --enable-helm)")

// kustomizationOf is the kustomization file of a directory; "" if it has none.
func kustomizationOf(i *importer, dir string) string {
	for _, base := range kustomize.FileNames() {
		if name := path.Join(dir, base); i.isFile(name) {
			return name
		}
	}
	return ""
}

// closure reads the files of a build.
func closure(tree Tree, walker *kustomize.Walker, dir string) ([]kustomize.File, error) {
	names, err := walker.Closure(dir)
	if err != nil {
		return nil, err
	}
	files := make([]kustomize.File, len(names))
	for n, name := range names {
		content, err := tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[n] = kustomize.File{Path: name, Data: content}
	}
	return files, nil
}

// edited is a kustomization with the fields of a source.
func (i *importer) edited(data []byte, k *kustomizeSource, dir string, env map[string]string) ([]byte, error) {
	var out kustypes.Kustomization
	if err := out.Unmarshal(data); err != nil {
		return nil, err
	}
	out.FixKustomization()
	if k.NamePrefix != "" {
		out.NamePrefix = k.NamePrefix
	}
	if k.NameSuffix != "" {
		out.NameSuffix = k.NameSuffix
	}
	if k.Namespace != "" {
		out.Namespace = k.Namespace
	}
	for _, text := range k.Images {
		text, err := expand(text, env)
		if err != nil {
			return nil, err
		}
		setImage(&out, text)
	}
	for _, r := range k.Replicas {
		count, err := strconv.ParseInt(fmt.Sprint(r.Count), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("kustomize.replicas %s: %q is no number", r.Name, fmt.Sprint(r.Count))
		}
		setReplicas(&out, r.Name, count)
	}
	if err := commonLabels(&out, k, env); err != nil {
		return nil, err
	}
	if err := commonAnnotations(&out, k, env); err != nil {
		return nil, err
	}
	if err := addPatches(&out, k); err != nil {
		return nil, err
	}
	for _, c := range k.Components {
		full, err := inside(dir, c)
		if err != nil {
			return nil, fmt.Errorf("kustomize.components: %w", err)
		}
		if info, err := i.Tree.Stat(full); k.IgnoreMissingComponents && (missing(err) || err == nil && !info.IsDir()) {
			continue
		}
		out.Components = append(out.Components, c)
	}
	return yaml.Marshal(out)
}

func addPatches(out *kustypes.Kustomization, k *kustomizeSource) error {
	for n, p := range k.Patches {
		var target *kustypes.Selector
		if p.Target != nil {
			target = &kustypes.Selector{}
			if err := json.Unmarshal(*p.Target, target); err != nil {
				return fmt.Errorf("kustomize.patches[%d].target: %w", n, err)
			}
		}
		out.Patches = append(out.Patches, kustypes.Patch{Path: p.Path, Patch: p.Patch, Target: target, Options: options(p.Options)})
	}
	return nil
}

func options(set map[string]bool) *kustypes.PatchArgs {
	if len(set) == 0 {
		return nil
	}
	return &kustypes.PatchArgs{AllowNameChange: set["allowNameChange"], AllowKindChange: set["allowKindChange"]}
}

// setImage sets an image as `kustomize edit set image` does: `[name=]newName[:tag|@digest]`.
func setImage(k *kustypes.Kustomization, text string) {
	name, rest, renamed := strings.Cut(text, "=")
	if !renamed {
		rest = text
	}
	image := kustypes.Image{}
	if at, digest, ok := strings.Cut(rest, "@"); ok {
		rest, image.Digest = at, digest
	} else if n := strings.LastIndex(rest, ":"); n > strings.LastIndex(rest, "/") {
		rest, image.NewTag = rest[:n], rest[n+1:]
	}
	image.Name = rest
	if renamed {
		image.Name, image.NewName = name, rest
	}
	if image.NewName == "*" {
		image.NewName = ""
	}
	for n := range k.Images {
		if k.Images[n].Name != image.Name {
			continue
		}
		if image.NewName == "" {
			image.NewName = k.Images[n].NewName
		}
		if image.NewTag == "" && image.Digest == "" || image.NewTag == "*" {
			image.NewTag, image.Digest = k.Images[n].NewTag, k.Images[n].Digest
		}
		k.Images[n] = image
		return
	}
	k.Images = append(k.Images, image)
}

func setReplicas(k *kustypes.Kustomization, name string, count int64) {
	for n := range k.Replicas {
		if k.Replicas[n].Name == name {
			k.Replicas[n].Count = count
			return
		}
	}
	k.Replicas = append(k.Replicas, kustypes.Replica{Name: name, Count: count})
}

// commonLabels adds a source's labels to a kustomization.
func commonLabels(out *kustypes.Kustomization, k *kustomizeSource, env map[string]string) error {
	if len(k.CommonLabels) == 0 {
		return nil
	}
	labels := map[string]string{}
	for key, value := range k.CommonLabels {
		text, err := expand(value, env)
		if err != nil {
			return fmt.Errorf("kustomize.commonLabels: %w", err)
		}
		if _, had := out.CommonLabels[key]; had && !k.ForceCommonLabels { //nolint:staticcheck // kustomizations still have it
			return fmt.Errorf("kustomize.commonLabels: %s is in the kustomization already (set forceCommonLabels)", key)
		}
		labels[key] = text
	}
	out.Labels = append(out.Labels, kustypes.Label{Pairs: labels, IncludeSelectors: !k.LabelWithoutSelector, IncludeTemplates: k.LabelIncludeTemplates})
	return nil
}

// commonAnnotations adds a source's annotations to a kustomization.
func commonAnnotations(out *kustypes.Kustomization, k *kustomizeSource, env map[string]string) error {
	if len(k.CommonAnnotations) == 0 {
		return nil
	}
	annotations := maps.Clone(out.CommonAnnotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range k.CommonAnnotations {
		if _, had := annotations[key]; had && !k.ForceCommonAnnotations {
			return fmt.Errorf("kustomize.commonAnnotations: %s is in the kustomization already (set forceCommonAnnotations)", key)
		}
		if k.CommonAnnotationsEnvsubst {
			var err error
			if value, err = expand(value, env); err != nil {
				return fmt.Errorf("kustomize.commonAnnotations: %w", err)
			}
		}
		annotations[key] = value
	}
	out.CommonAnnotations = annotations
	return nil
}
