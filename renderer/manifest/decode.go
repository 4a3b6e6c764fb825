package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Decode reads every object of a YAML or JSON stream as Kubernetes does (YAML 1.1, like sigs.k8s.io/yaml), but with
// integers exact to 64 bits. It returns the items of lists in place of the list. Nothing but empty documents and lists
// without items vanishes: each other document is at least one object, or an error that names its number in the stream.
func Decode(data []byte, b Budget) ([]Object, error) {
	if err := checkSize(data, b); err != nil {
		return nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var out []Object
	for n := 1; ; n++ {
		var raw any
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if raw == nil {
			continue
		}
		objects, err := objectsOf(raw, b.Depth)
		if errors.Is(err, errDepth) {
			err = &BudgetError{"levels of nesting", b.Depth + 1, b.Depth}
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		out = append(out, objects...)
	}
}

// Value decodes the first document of a YAML or JSON text to plain data, whose types are those of Object. Unlike
// sigs.k8s.io/yaml, which makes every number a float64, it keeps integers exact to 64 bits. An empty document is nil.
func Value(data []byte, b Budget) (any, error) {
	if err := Check(data, b); err != nil {
		return nil, err
	}
	var raw any
	err := yaml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))).Decode(&raw)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := plain(raw, b.Depth)
	if errors.Is(err, errDepth) {
		return nil, &BudgetError{"levels of nesting", b.Depth + 1, b.Depth}
	}
	return v, err
}

func objectsOf(raw any, depth int) ([]Object, error) {
	value, err := plain(raw, depth)
	if err != nil {
		return nil, err
	}
	m, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a Kubernetes object must be a mapping, not %s", describe(value))
	}
	return take(m)
}

// take returns the objects of one document.
func take(m map[string]any) ([]Object, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return itemsOf(Object(m), 0)
}

// itemsOf returns the items of a list, or the object itself.
func itemsOf(o Object, depth int) ([]Object, error) {
	const most = 8 // levels of lists
	if o.Kind() == "List" && o.APIVersion() == "v1" {
		if err := listOnly(o); err != nil {
			return nil, err
		}
	} else if !isListOfKind(o) {
		return []Object{o}, complete(o)
	}
	items, _ := o["items"].([]any)
	if depth > most {
		return nil, errors.New("lists are nested too deep")
	}
	var out []Object
	for i, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d] of the %s must be a mapping, not %s", i, o.Kind(), describe(item))
		}
		child := Object(m)
		if kind := strings.TrimSuffix(o.Kind(), "List"); kind != "" { // a DeploymentList implies its items' kind
			setDefault(child, "apiVersion", o.APIVersion())
			setDefault(child, "kind", kind)
		}
		objects, err := itemsOf(child, depth+1)
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// listOnly checks that a v1 List has nothing but metadata and items, so that taking it apart loses nothing. It may have
// no items: templates print such a list after a loop over nothing.
func listOnly(o Object) error {
	switch items := o["items"].(type) {
	case nil, []any:
	default:
		return fmt.Errorf("items of the List must be a list, not %s", describe(items))
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		switch key {
		case "apiVersion", "kind", "metadata", "items":
		default:
			return fmt.Errorf("the List has the key %s, which would be lost (a List has only items)", describe(key))
		}
	}
	return nil
}

// isListOfKind reports whether an object is a list of objects of one kind, such as a ConfigMapList. Custom kinds may
// end in List too and have items of their own; they have a name, which lists of built-in kinds may have as well.
func isListOfKind(o Object) bool {
	kind, ok := strings.CutSuffix(o.Kind(), "List")
	if _, hasItems := o["items"].([]any); !ok || !hasItems {
		return false
	}
	return o.Name() == "" || BuiltinScope(GroupKind{GroupOf(o.APIVersion()), kind}) != ScopeUnknown
}

func setDefault(o Object, key, value string) {
	if _, ok := o[key]; !ok {
		o[key] = value
	}
}

// noValue is what Go's templates print for a value that is not set. As a part of a name it is never meant: two such
// objects are one.
const noValue = "<no value>"

// complete checks that an object has apiVersion, kind and a name.
func complete(o Object) error {
	switch {
	case o.APIVersion() == "":
		return fmt.Errorf("an object needs apiVersion (kind %q, name %q)", o.Kind(), o.Name())
	case o.Kind() == "":
		return fmt.Errorf("an object needs kind (apiVersion %q, name %q)", o.APIVersion(), o.Name())
	case strings.Contains(o.Name()+o.Namespace(), noValue):
		return fmt.Errorf("%s %q in the namespace %q: a template puts %s there (set the value that it uses)", o.Kind(),
			o.Name(), o.Namespace(), noValue)
	case o.Name() != "":
		return namespaceIsText(o)
	case text(o.metadata()["generateName"]) != "":
		return fmt.Errorf("%s has metadata.generateName: a branch needs fixed names, set metadata.name", o.Kind())
	default:
		return fmt.Errorf("%s needs metadata.name, as a string", o.Kind())
	}
}

// namespaceIsText refuses a namespace that YAML reads as another type, such as `y` or `5`: the API server would refuse
// the object, and ignoring the value would move the object to another namespace.
func namespaceIsText(o Object) error {
	switch v := o.metadata()["namespace"].(type) {
	case nil, string:
		return nil
	default:
		return fmt.Errorf("%s %s: metadata.namespace must be a string, not %s: quote it", o.Kind(), o.Name(),
			describe(v))
	}
}

func describe(v any) string {
	switch x := v.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	case string:
		return strconv.Quote(safetext.Shorten(x, 40))
	default:
		return fmt.Sprint(v)
	}
}

// plain converts decoded YAML to JSON-like data. It refuses data that is nested deeper than depth levels; the library's
// own limit is 10,000.
func plain(v any, depth int) (any, error) {
	switch x := v.(type) {
	case map[any]any:
		if depth <= 0 {
			return nil, errDepth
		}
		out := make(map[string]any, len(x))
		for k, item := range x {
			key, err := keyText(k)
			if err != nil {
				return nil, err
			}
			if out[key], err = plain(item, depth-1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		if depth <= 0 {
			return nil, errDepth
		}
		for i := range x {
			item, err := plain(x[i], depth-1)
			if err != nil {
				return nil, err
			}
			x[i] = item
		}
		return x, nil
	case int:
		return int64(x), nil
	case float64:
		return number(x)
	case time.Time: // goyaml.v2 decodes times into any as strings; this case covers a later change of that
		return x.Format(time.RFC3339Nano), nil
	default:
		return v, nil
	}
}

// errDepth becomes a BudgetError in Decode, which knows the limit.
var errDepth = errors.New("too deep")

func number(x float64) (any, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, fmt.Errorf("%v is a number that JSON cannot represent", x)
	}
	return x, nil
}

// keyText returns a mapping's key as in JSON, by the rules of sigs.k8s.io/yaml.
func keyText(k any) (string, error) {
	switch x := k.(type) {
	case string:
		return x, nil
	case int:
		return strconv.Itoa(x), nil
	case int64:
		return strconv.FormatInt(x, 10), nil
	case uint64:
		return strconv.FormatUint(x, 10), nil
	case bool:
		return strconv.FormatBool(x), nil
	case float64:
		s := strconv.FormatFloat(x, 'g', -1, 32)
		switch s {
		case "+Inf":
			s = ".inf"
		case "-Inf":
			s = "-.inf"
		case "NaN":
			s = ".nan"
		}
		return s, nil
	default:
		return "", fmt.Errorf("a mapping's key must be a string, not %v", k)
	}
}
