package fluxref

import (
	"errors"
	"io"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// client returns the ConfigMaps and Secrets of the cluster, as the API server stores them.
func (c *cluster) client(more []*Object) client.Client {
	builder := fake.NewClientBuilder()
	all := maps.Clone(c.store)
	for _, o := range more {
		all[key(o)] = o
	}
	for id, o := range all {
		namespace := strings.Split(id, "/")[1]
		switch {
		case o.GetAPIVersion() != "v1":
		case o.GetKind() == "ConfigMap":
			var m corev1.ConfigMap
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m) == nil {
				m.Namespace = namespace
				builder = builder.WithObjects(&m)
			}
		case o.GetKind() == "Secret" && o.Object["sops"] != nil:
			builder = builder.WithObjects(sealed(o, namespace))
		case o.GetKind() == "Secret":
			var s corev1.Secret
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s) == nil {
				s.Namespace = namespace
				for k, v := range s.StringData {
					if s.Data == nil {
						s.Data = map[string][]byte{}
					}
					s.Data[k] = []byte(v)
				}
				builder = builder.WithObjects(&s)
			}
		}
	}
	return builder.Build()
}

// sealed stands for a Secret that cannot be decrypted here. Each variable stands for itself, as Sluice keeps references
// to it.
func sealed(o *Object, namespace string) *corev1.Secret {
	s := &corev1.Secret{Data: map[string][]byte{}}
	s.Name, s.Namespace = o.GetName(), namespace
	for _, field := range []string{"data", "stringData"} {
		values, _, _ := unstructured.NestedMap(o.Object, field)
		for name := range values {
			s.Data[name] = []byte("${" + name + "}")
		}
	}
	return s
}

// decode reads a stream of documents.
func decode(text string) ([]*Object, error) {
	var out []*Object
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		u := &Object{}
		if err := utiljson.Unmarshal(raw.Raw, &u.Object); err != nil { // integers stay integers
			return nil, err
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}

// stored removes the namespaces that the API server removes.
func stored(list []*Object) []*Object {
	for _, o := range list {
		if o.GetKind() == "Namespace" || o.IsList() {
			o.SetNamespace("")
		}
	}
	return list
}
