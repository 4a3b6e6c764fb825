package flux

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// API groups of Flux.
const (
	groupKustomize = "kustomize.toolkit.fluxcd.io"
	groupHelm      = "helm.toolkit.fluxcd.io"
	groupSource    = "source.toolkit.fluxcd.io"
	groupArtifacts = "source.extensions.fluxcd.io"
	groupOperator  = "fluxcd.controlplane.io"
)

// Kinds of objects that Flux controllers read.
const (
	kindKustomization     = "Kustomization"
	kindHelmRelease       = "HelmRelease"
	kindGitRepository     = "GitRepository"
	kindHelmRepository    = "HelmRepository"
	kindHelmChart         = "HelmChart"
	kindOCIRepository     = "OCIRepository"
	kindBucket            = "Bucket"
	kindArtifactGenerator = "ArtifactGenerator"
	kindExternalArtifact  = "ExternalArtifact"
	kindResourceSet       = "ResourceSet"
	kindInputProvider     = "ResourceSetInputProvider"
	kindConfigMap         = "ConfigMap"
	kindSecret            = "Secret"
)

// defaultNamespace is where the API server puts a namespaced object that names no namespace.
const defaultNamespace = "default"

// Key identifies an object on one cluster. The version is left out: Flux's controllers convert between versions.
type Key struct{ Group, Kind, Namespace, Name string }

// String is `Kind namespace/name`.
func (k Key) String() string { return k.Kind + " " + k.Namespace + "/" + k.Name }

func keyOf(o manifest.Object) Key {
	namespace := o.Namespace()
	if namespace == "" {
		namespace = defaultNamespace
	}
	return Key{Group: manifest.GroupOf(o.APIVersion()), Kind: o.Kind(), Namespace: namespace, Name: o.Name()}
}

// decode converts an object into one of Flux's API types. Unknown fields are ignored, as the API server drops them.
func decode(o manifest.Object, into any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, into)
	if err == nil {
		return nil
	}
	if data, failed := json.Marshal(o); failed == nil { // this decoder names the field
		if bad, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(data, into)); ok &&
			bad.Type.Kind() == reflect.String && (bad.Value == "bool" || strings.HasPrefix(bad.Value, "number")) {
			what, _, _ := strings.Cut(bad.Value, " ")
			return fmt.Errorf("%s: %s is a %s in YAML, not text (quote it)", keyOf(o), bad.Field, what)
		}
	}
	return fmt.Errorf("%s: %w", keyOf(o), err)
}

// documents yields the YAML documents of a file that are not empty, up to the first mistake. The data must have passed
// manifest.Check. Whoever builds the file reports the mistake.
func documents(data []byte) iter.Seq[*yaml.Node] {
	return func(yield func(*yaml.Node) bool) {
		dec := yaml.NewDecoder(bytes.NewReader(data))
		for {
			var node yaml.Node
			if dec.Decode(&node) != nil { // the end, or a mistake
				return
			}
			if len(node.Content) > 0 && !yield(&node) {
				return
			}
		}
	}
}

// expands reports whether Import follows objects of this kind.
func expands(k Key) bool {
	switch k.Group {
	case groupKustomize:
		return k.Kind == kindKustomization
	case groupHelm:
		return k.Kind == kindHelmRelease
	case groupOperator:
		return k.Kind == kindResourceSet
	}
	return false
}
