package fluxref

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	yaml "sigs.k8s.io/yaml/goyaml.v2"
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

// decode reads a stream of documents. Numbers keep their type: 3 is an integer, 3.0 is none, and both are what the text
// has. A decoder by way of JSON makes them equal.
func decode(text string) ([]*Object, error) {
	var out []*Object
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var raw any
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		value, err := plain(raw)
		if err != nil {
			return nil, err
		}
		switch object := value.(type) {
		case nil:
		case map[string]any:
			if len(object) > 0 {
				out = append(out, &Object{Object: object})
			}
		default:
			return nil, fmt.Errorf("a document is %T, not an object", raw)
		}
	}
}

// plain converts decoded YAML to the types of an unstructured object.
func plain(v any) (any, error) {
	var err error
	switch x := v.(type) {
	case map[any]any:
		out := make(map[string]any, len(x))
		for k, item := range x {
			switch k.(type) {
			case string, int, int64, uint64, bool:
			default:
				return nil, fmt.Errorf("the key %v of a mapping is no text", k)
			}
			if out[fmt.Sprint(k)], err = plain(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		for n := range x {
			if x[n], err = plain(x[n]); err != nil {
				return nil, err
			}
		}
		return x, nil
	case int:
		return int64(x), nil
	case uint64: // greater than every int64
		return json.Number(strconv.FormatUint(x, 10)), nil
	}
	return v, nil
}

// Typed converts a value of an object for an encoder of JSON, so that the text has the types: a float has a point or an
// exponent.
func Typed(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for key, item := range x {
			out[key] = Typed(item)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for n := range x {
			out[n] = Typed(x[n])
		}
		return out
	case float64:
		text := strconv.FormatFloat(x, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return json.Number(text)
	}
	return v
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
