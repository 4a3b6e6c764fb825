package flux

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"
	kustypes "sigs.k8s.io/kustomize/api/types"
	kyaml "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// syncing is what a FluxInstance, or values of the chart flux-instance, say about the sync of a cluster. The Flux Operator
// makes a source and a Kustomization of it, which are in no file.
// https://fluxoperator.dev/docs/crd/fluxinstance/#sync-configuration
type syncing struct {
	Kind      string // of the source
	URL, Ref  string // of the source
	Path      string // as it is written
	Namespace string
	Name      string // of the source and of the Kustomization
	Patches   []kustypes.Patch
	Line      int
}

// source is the key of the source that the operator makes.
func (s *syncing) source() Key {
	return Key{Group: groupSource, Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}
}

// sourceKinds are the kinds that spec.sync can have.
func sourceKinds() []string { return []string{kindGitRepository, kindOCIRepository, kindBucket} }

// instanceSpec is what Import reads of the spec of a FluxInstance. The chart flux-instance makes the same spec of its
// value `instance`.
type instanceSpec struct {
	Distribution struct {
		Version string `yaml:"version"`
	} `yaml:"distribution"`
	Sync struct {
		Kind string `yaml:"kind"`
		URL  string `yaml:"url"`
		Ref  string `yaml:"ref"`
		Path string `yaml:"path"`
		Name string `yaml:"name"`
	} `yaml:"sync"`
	Kustomize struct {
		Patches []struct {
			Patch  string            `yaml:"patch"`
			Target kustypes.Selector `yaml:"target"`
		} `yaml:"patches"`
	} `yaml:"kustomize"`
}

// instanceFile has the places where a YAML document can have an instanceSpec.
type instanceFile struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec     yaml.Node         `yaml:"spec"`
	Data     map[string]string `yaml:"data"`     // of a ConfigMap that valuesFrom names
	Instance *instanceSpec     `yaml:"instance"` // of a values file
	Releases []struct {        // of a helmfile, with which a cluster is set up
		Namespace string      `yaml:"namespace"`
		Values    []yaml.Node `yaml:"values"`
	} `yaml:"releases"`
}

// instanceValues are values of the chart flux-instance.
type instanceValues struct {
	Instance *instanceSpec `yaml:"instance"`
}

// instances finds the places of a file that set up the sync of a cluster, and the versions of Flux that they name. A
// file that does not decode has none.
func instances(data []byte) (out []syncing, versions []installed) {
	if !bytes.Contains(data, []byte("sync:")) && !bytes.Contains(data, []byte("distribution:")) ||
		!bytes.Contains(data, []byte("FluxInstance")) && !bytes.Contains(data, []byte("instance:")) ||
		manifest.Check(data, manifest.DefaultBudget()) != nil {
		return nil, nil
	}
	add := func(spec *instanceSpec, namespace string, line int) {
		if spec == nil {
			return
		}
		if version := strings.TrimPrefix(spec.Distribution.Version, "v"); version != "" {
			versions = append(versions, installed{Version: version, Path: spec.Sync.Path, Line: line})
		}
		if spec.Sync.Path == "" {
			return
		}
		one := syncing{
			Kind: cmp.Or(spec.Sync.Kind, kindGitRepository), URL: spec.Sync.URL, Ref: spec.Sync.Ref,
			Path:      spec.Sync.Path,
			Namespace: cmp.Or(namespace, "flux-system"), Line: line,
		}
		one.Name = cmp.Or(spec.Sync.Name, one.Namespace)
		for _, p := range spec.Kustomize.Patches {
			one.Patches = append(one.Patches, kustypes.Patch{Patch: p.Patch, Target: &p.Target})
		}
		if slices.Contains(sourceKinds(), one.Kind) {
			out = append(out, one)
		}
	}
	for node := range documents(data) {
		var file instanceFile
		if node.Decode(&file) != nil {
			continue // it is no object and no values of this form
		}
		line := node.Content[0].Line
		switch group := manifest.GroupOf(file.APIVersion); {
		case group == groupOperator && file.Kind == "FluxInstance":
			var spec instanceSpec
			if file.Spec.Decode(&spec) == nil {
				add(&spec, file.Metadata.Namespace, line)
			}
		case group == groupHelm && file.Kind == kindHelmRelease:
			var spec struct {
				TargetNamespace string         `yaml:"targetNamespace"`
				Values          instanceValues `yaml:"values"`
			}
			if file.Spec.Decode(&spec) == nil {
				add(spec.Values.Instance, cmp.Or(spec.TargetNamespace, file.Metadata.Namespace), line)
			}
		case file.Kind == kindConfigMap:
			for _, text := range file.Data {
				var values instanceValues
				if strings.Contains(text, "instance:") && manifest.Check([]byte(text),
					manifest.DefaultBudget()) == nil && yaml.Unmarshal([]byte(text), &values) == nil {
					add(values.Instance, file.Metadata.Namespace, line)
				}
			}
		case file.Kind == "":
			add(file.Instance, "", line)
			for _, r := range file.Releases {
				for _, v := range r.Values {
					var values instanceValues
					if v.Kind == yaml.MappingNode && v.Decode(&values) == nil {
						add(values.Instance, r.Namespace, v.Line)
					}
				}
			}
		}
	}
	return out, versions
}

// syncOf returns what a FluxInstance says about the cluster whose path is dir, and where; nil if none does.
func (i *Importer) syncOf(dir string) (*syncing, Origin, error) {
	for _, name := range i.commit.files {
		if !isYAML(name) {
			continue
		}
		found, err := i.factsOf(name)
		if err != nil {
			return nil, Origin{}, err
		}
		for n := range found.Syncs {
			if one := &found.Syncs[n]; clean(one.Path) == dir || pathPattern(one.Path) != nil &&
				pathPattern(one.Path).MatchString(dir) {
				return one, Origin{File: name, Line: one.Line}, nil
			}
		}
	}
	return nil, Origin{}, nil
}

// kustomization is the Kustomization that the operator makes for a directory, with the patches of the FluxInstance.
func (s *syncing) kustomization(ctx context.Context, b Builder, dir string) (manifest.Object, error) {
	o := manifest.Object{
		"apiVersion": groupKustomize + "/v1", "kind": kindKustomization,
		"metadata": map[string]any{"name": s.Name, "namespace": s.Namespace},
		"spec": map[string]any{
			"path": dir, "prune": true, "sourceRef": map[string]any{"kind": s.Kind, "name": s.Name},
		},
	}
	var patches []kustypes.Patch
	for _, p := range s.Patches { // the others are about Flux's own Deployments, which are not read
		if strings.Contains(p.Target.Kind, kindKustomization) {
			patches = append(patches, p)
		} else if *p.Target == (kustypes.Selector{}) && strings.Contains(p.Patch, "kind: "+kindKustomization) {
			patches = append(patches, kustypes.Patch{Patch: p.Patch})
		}
	}
	if len(patches) == 0 {
		return o, nil
	}
	text, err := kyaml.Marshal(map[string]any(o))
	if err != nil {
		return nil, err
	}
	root, err := kyaml.Marshal(kustypes.Kustomization{
		TypeMeta:  kustypes.TypeMeta{APIVersion: kustypes.KustomizationVersion, Kind: kustypes.KustomizationKind},
		Resources: []string{"sync.yaml"}, Patches: patches,
	})
	if err != nil {
		return nil, err
	}
	built, err := b.Build(ctx, []kustomize.File{
		{Path: "sync/kustomization.yaml", Data: root},
		{Path: "sync/sync.yaml", Data: text},
	}, "sync")
	if err != nil {
		return nil, err
	}
	if len(built) != 1 {
		return nil, errors.New("the patches of the FluxInstance remove its Kustomization")
	}
	return built[0], nil
}

// same reports whether a source of a cluster fetches what the operator's source does.
func (s *syncing) same(o manifest.Object) bool {
	switch keyOf(o).Kind {
	case kindGitRepository:
		var repo sourcev1.GitRepository
		return s.Kind == kindGitRepository && decode(o, &repo) == nil &&
			giturl.Key(repo.Spec.URL) == giturl.Key(s.URL) && refName(&repo) == s.Ref
	case kindOCIRepository:
		var repo sourcev1.OCIRepository
		return s.Kind == kindOCIRepository && decode(o, &repo) == nil &&
			strings.TrimSuffix(repo.Spec.URL, "/") == strings.TrimSuffix(s.URL, "/") &&
			repo.Spec.Reference != nil && repo.Spec.Reference.Tag == s.Ref && repo.Spec.Reference.SemVer == "" &&
			repo.Spec.Reference.Digest == ""
	case kindBucket:
		var repo sourcev1.Bucket
		return s.Kind == kindBucket && decode(o, &repo) == nil && repo.Spec.Endpoint == s.URL &&
			repo.Spec.BucketName == s.Ref
	}
	return false
}
