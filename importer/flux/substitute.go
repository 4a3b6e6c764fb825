package flux

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/envsubst"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const substituteKey = "kustomize.toolkit.fluxcd.io/substitute"

// variable is what a name may look like, as in github.com/fluxcd/pkg/kustomize.
var variable = regexp.MustCompile(`^[_[:alpha:]][_[:alpha:][:digit:]]*$`)

// expression is a reference as envsubst reads it; the first group is the name.
var expression = regexp.MustCompile(`\$\{([_[:alpha:]][_[:alpha:][:digit:]]*)([^}]*)\}`)

// variables are what postBuild substitutes.
type variables struct {
	values map[string]string
	// sealed are the names that a SOPS-encrypted Secret defines. Their references stay as they are, for
	// kustomize-controller to replace where the key is.
	sealed map[string]string // name → Secret
	always bool              // references are replaced even if there is no variable
	strict bool              // a reference to a variable that is not set is an error
}

// missingError is a reference to an object that was not found in Git (yet).
type missingError struct {
	field string
	key   Key
}

func (e *missingError) Error() string {
	if e.key.Kind == kindExternalArtifact {
		return fmt.Sprintf("%s: no ArtifactGenerator of the cluster makes it", e.key)
	}
	if e.field == "" { // the caller names it
		return fmt.Sprintf("%s is not in Git (add it)", e.key)
	}
	if e.key.Kind == kindConfigMap || e.key.Kind == kindSecret {
		return fmt.Sprintf("%s: %s is not in Git (add it, or set optional: true)", e.field, e.key)
	}
	return fmt.Sprintf("%s: %s is not in Git (add it)", e.field, e.key) // never optional
}

// load reads the variables of a Kustomization; inline ones win.
func (c *cluster) load(namespace string, post *kustomizev1.PostBuild) (variables, error) {
	out := variables{
		values: map[string]string{}, sealed: map[string]string{},
		always: post.SubstituteStrategy == kustomizev1.SubstituteStrategyAlways, strict: !c.Lenient,
	}
	for _, ref := range post.SubstituteFrom {
		key := Key{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
		o, _, err := c.referred(key)
		if err != nil {
			return out, fmt.Errorf("spec.postBuild.substituteFrom: %w", err)
		}
		if o == nil && ref.Optional {
			continue
		}
		if o == nil {
			return out, &missingError{"spec.postBuild.substituteFrom", key}
		}
		data, encrypted, err := dataOf(o)
		if err != nil {
			return out, fmt.Errorf("spec.postBuild.substituteFrom: %w", err)
		}
		for name, value := range data {
			delete(out.values, name)
			delete(out.sealed, name)
			if encrypted {
				out.sealed[name] = key.String()
			} else {
				out.values[name] = strings.ReplaceAll(value, "\n", "")
			}
		}
	}
	for name, value := range post.Substitute {
		delete(out.sealed, name)
		out.values[name] = strings.ReplaceAll(value, "\n", "")
	}
	for name := range out.values {
		if !variable.MatchString(name) {
			return out, fmt.Errorf("spec.postBuild: %q is not a variable name (letters, digits and _, no digit first)",
				name)
		}
	}
	return out, nil
}

// dataOf returns the data of a ConfigMap or Secret, decoded. encrypted says that SOPS has encrypted the values.
func dataOf(o manifest.Object) (data map[string]string, encrypted bool, err error) {
	data = map[string]string{}
	_, encrypted = o["sops"].(map[string]any)
	for _, field := range []string{"data", "stringData"} {
		entries, _ := o[field].(map[string]any)
		for name, v := range entries {
			value, ok := v.(string)
			if !ok {
				return nil, false, fmt.Errorf("%s: %s.%s is not a string (quote it)", keyOf(o), field, name)
			}
			if o.Kind() == kindSecret && field == "data" && !encrypted {
				decoded, err := base64.StdEncoding.DecodeString(value)
				if err != nil {
					return nil, false, fmt.Errorf("%s: data.%s is not base64: %w", keyOf(o), name, err)
				}
				value = string(decoded)
			}
			encrypted = encrypted || strings.HasPrefix(value, "ENC[AES256_GCM,")
			data[name] = value
		}
	}
	return data, encrypted, nil
}

// substitute replaces the variables in an object, as SubstituteVariables of github.com/fluxcd/pkg/kustomize does: in
// the object's YAML text, so that `replicas: ${count}` becomes a number. used collects the sealed names that the object
// refers to.
func (v variables) substitute(o manifest.Object, used map[string]bool) (manifest.Object, error) {
	if len(v.values)+len(v.sealed) == 0 && !v.always || o.Annotation(substituteKey) == "disabled" ||
		label(o, substituteKey) == "disabled" {
		return o, nil
	}
	text, err := yaml.Marshal(map[string]any(o))
	if err != nil {
		return nil, err
	}
	escaped := expression.ReplaceAllStringFunc(string(text), func(ref string) string {
		name := expression.FindStringSubmatch(ref)[1]
		if _, ok := v.sealed[name]; !ok {
			return ref
		}
		used[name] = true
		return "$" + ref // $${name} stays as ${name}
	})
	asked, missing := "", false // the library stops at the first variable that it misses
	replaced, err := envsubst.Eval(escaped, func(name string) (string, bool) {
		value, ok := v.values[name]
		asked, missing = name, !ok
		return value, ok || !v.strict
	})
	if err != nil && missing && strings.Contains(err.Error(), "not set") {
		return nil, &unsetError{object: keyOf(o), name: asked}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: variable substitution: %w", keyOf(o), err)
	}
	asJSON, err := yaml.YAMLToJSON([]byte(replaced)) // what kustomize-controller reads: 3.0 is 3
	if err != nil {
		return nil, fmt.Errorf("%s is not YAML after variable substitution (quote the value that has the variable): %w",
			keyOf(o), err)
	}
	value, err := manifest.Value(asJSON, manifest.DefaultBudget())
	if err != nil {
		return nil, fmt.Errorf("%s after variable substitution: %w", keyOf(o), err)
	}
	out, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no mapping after variable substitution (quote the value that has the variable)",
			keyOf(o))
	}
	return out, nil
}

func label(o manifest.Object, key string) string {
	metadata, _ := o["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	text, _ := labels[key].(string)
	return text
}

// notes says which variables stay for Flux to replace.
func (v variables) notes(used map[string]bool) []string {
	bySecret := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		bySecret[v.sealed[name]] = append(bySecret[v.sealed[name]], name)
	}
	var out []string
	for _, secret := range slices.Sorted(maps.Keys(bySecret)) {
		out = append(out, fmt.Sprintf("%s is encrypted: %s are not replaced", secret,
			strings.Join(bySecret[secret], ", ")))
	}
	return out
}

// stamped returns an object with labels and annotations as Flux's controllers apply it, with those of
// spec.commonMetadata. A null is an empty text, as a variable without a value leaves one. Flux does not read labels of
// which one is a number or a bool, so common ones replace them all. It changes a copy: builds are shared.
func stamped(o manifest.Object, labels, annotations map[string]string) manifest.Object {
	for field, add := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		metadata, _ := o["metadata"].(map[string]any)
		own, _ := metadata[field].(map[string]any)
		values, changed := texts(own)
		if len(add) == 0 && !changed {
			continue
		}
		for k, v := range add {
			values[k] = v
		}
		o, metadata = maps.Clone(o), maps.Clone(metadata)
		if metadata == nil {
			metadata = map[string]any{}
		}
		o["metadata"], metadata[field] = metadata, values
	}
	return o
}

// texts returns a copy of labels or annotations in which every null is an empty text, and reports whether there was a
// null. It returns nil if another value is no text.
func texts(own map[string]any) (values map[string]any, nulls bool) {
	values = make(map[string]any, len(own))
	for k, v := range own {
		switch v.(type) {
		case nil:
			values[k], nulls = "", true
		case string:
			values[k] = v
		default:
			return map[string]any{}, false
		}
	}
	return values, nulls
}
