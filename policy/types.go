package policy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/internal/secret"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// typeCheck compares the values of an object with the Go types that the API server decodes it into. It needs no
// schema, so it finds a boolean in the place of a string without a network. It leaves unknown and missing fields to
// the schemas.
//
// It walks the types itself, because the decoders of Kubernetes stop at the first error and name no list element. It
// is safe for concurrent use.
type typeCheck struct {
	mu     sync.Mutex
	fields map[reflect.Type]map[string]reflect.Type
}

// breaches returns the values whose type the API server does not accept. For custom kinds it checks only the
// metadata.
func (c *typeCheck) breaches(o manifest.Object) []breach {
	w := &typeWalk{types: c, encrypted: child(o, "sops") != nil}
	if t := goType(o.APIVersion(), o.Kind()); t != nil {
		w.value(t, map[string]any(o), "")
	} else if metadata, ok := o["metadata"]; ok {
		w.value(reflect.TypeFor[metav1.ObjectMeta](), metadata, "metadata")
	}
	return w.found
}

// goType returns the type of a built-in kind, or nil.
func goType(apiVersion, kind string) reflect.Type {
	if kind == "CustomResourceDefinition" && apiVersion == apiextensionsv1.SchemeGroupVersion.String() {
		return reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]()
	}
	object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil { // the scheme does not have the kind
		return nil
	}
	return reflect.TypeOf(object).Elem()
}

// typeWalk is one walk over an object.
type typeWalk struct {
	types     *typeCheck
	encrypted bool // SOPS encrypted values, which are decrypted before the API server sees them
	found     []breach
}

func (w *typeWalk) value(t reflect.Type, v any, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if text, ok := v.(string); v == nil || ok && (masked(text) || w.encrypted && secret.Encrypted(text)) {
		return
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		w.custom(t, v, path)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		w.object(t, v, path)
	case reflect.Map:
		w.mapping(t, v, path)
	case reflect.Slice:
		w.list(t, v, path)
	default:
		w.scalar(t, v, path)
	}
}

func (w *typeWalk) object(t reflect.Type, v any, path string) {
	m, ok := v.(map[string]any)
	if !ok {
		w.add(path, v, "an object", "")
		return
	}
	fields := w.types.fieldsOf(t)
	for key, value := range m {
		if field, known := fields[key]; known {
			w.value(field, value, join(path, key))
		}
	}
}

func (w *typeWalk) mapping(t reflect.Type, v any, path string) {
	m, ok := v.(map[string]any)
	if !ok {
		w.add(path, v, "an object", "")
		return
	}
	for key, value := range m {
		w.value(t.Elem(), value, join(path, key))
	}
}

func (w *typeWalk) list(t reflect.Type, v any, path string) {
	if t.Elem().Kind() == reflect.Uint8 {
		text, ok := v.(string)
		if !ok {
			w.add(path, v, "a string", quoteHint)
		} else if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			w.add(path, v, "Base64", "encode the value; in a template, pipe it through b64enc")
		}
		return
	}
	list, ok := v.([]any)
	if !ok {
		w.add(path, v, "a list", "")
		return
	}
	for i, value := range list {
		w.value(t.Elem(), value, path+elementName(value, i))
	}
}

// elementName returns the name of a list element as the reports write it: [name=web], or [0].
func elementName(v any, i int) string {
	if m, ok := v.(map[string]any); ok {
		if name := str(m, "name"); name != "" && !strings.ContainsAny(name, "[]") {
			return "[name=" + name + "]"
		}
	}
	return fmt.Sprintf("[%d]", i)
}

const quoteHint = `write it in quotes; in a template, pipe it through quote`

func (w *typeWalk) scalar(t reflect.Type, v any, path string) {
	switch t.Kind() {
	case reflect.String:
		if !isString(v) {
			w.add(path, v, "a string", quoteHint)
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			w.add(path, v, "true or false", "write it without quotes")
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := integer(v)
		if !ok || reflect.Zero(t).OverflowInt(n) {
			w.add(path, v, "an integer of "+fmt.Sprint(t.Bits())+" bits", "write it without quotes and fraction")
		}
	case reflect.Float32, reflect.Float64:
		if _, ok := v.(float64); !ok {
			if _, ok := integer(v); !ok {
				w.add(path, v, "a number", "write it without quotes")
			}
		}
	}
}

// integer returns a number that has no fraction.
func integer(v any) (int64, bool) {
	switch x := v.(type) {
	case int:
		return int64(x), true
	case int64:
		return x, true
	case uint64:
		return int64(min(x, math.MaxInt64)), x <= math.MaxInt64
	case float64:
		return int64(x), x == math.Trunc(x) && math.Abs(x) < 1<<53
	}
	return 0, false
}

// custom checks a value with the type's own decoder: quantities, times, numbers or names of ports.
func (w *typeWalk) custom(t reflect.Type, v any, path string) {
	data, err := json.Marshal(v)
	if err != nil {
		return // not a value of JSON: encoding the object fails with a better message
	}
	target, ok := reflect.TypeAssert[json.Unmarshaler](reflect.New(t))
	if ok && target.UnmarshalJSON(data) != nil {
		w.add(path, v, kindName(t), "")
	}
}

// kindName describes in plain words the values that a type with its own decoder accepts.
func kindName(t reflect.Type) string {
	switch t.Name() {
	case "Quantity":
		return "a quantity such as 500m or 1Gi"
	case "IntOrString":
		return "an integer or a string"
	case "Time", "MicroTime":
		return "a time such as 2026-12-31T08:00:00Z"
	case "Duration":
		return "a duration such as 30s"
	}
	return "a value of type " + t.Name()
}

func (w *typeWalk) add(path string, v any, accepts, hint string) {
	if hint == "" {
		hint = "the API server refuses the object"
	}
	w.found = append(w.found, breach{
		rule: RuleSchema, path: path, message: fmt.Sprintf("the value is %s, and the API server accepts only %s",
			describe(v), accepts), hint: hint,
	})
}

// describe returns a value with its type.
func describe(v any) string {
	const shown = 40
	switch x := v.(type) {
	case bool:
		return fmt.Sprintf("the boolean %t", x)
	case string:
		return fmt.Sprintf("the string %q", safetext.Shorten(x, shown))
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("the number %v", v)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// fieldsOf returns the fields of a struct, including those of embedded structs, by their JSON names.
func (c *typeCheck) fieldsOf(t reflect.Type) map[string]reflect.Type {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fields == nil {
		c.fields = map[reflect.Type]map[string]reflect.Type{}
	}
	known, ok := c.fields[t]
	if !ok {
		known = map[string]reflect.Type{}
		addFields(t, known)
		c.fields[t] = known
	}
	return known
}

func addFields(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			addFields(f.Type, into)
		case name != "" && name != "-":
			into[name] = f.Type
		}
	}
}
