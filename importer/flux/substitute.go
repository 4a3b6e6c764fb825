package flux

import (
	"bytes"
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

// variableName matches the name of a variable, as in github.com/fluxcd/pkg/kustomize.
var variableName = regexp.MustCompile(`^[_[:alpha:]][_[:alpha:][:digit:]]*$`)

// variableReference matches a reference as envsubst reads it; the first group is the name.
var variableReference = regexp.MustCompile(`\$\{([_[:alpha:]][_[:alpha:][:digit:]]*)([^}]*)\}`)

// variables are what postBuild substitutes.
type variables struct {
	values map[string]string
	// sealed has the names that a SOPS-encrypted Secret defines. Their references stay as they are:
	// kustomize-controller has the key and replaces them.
	sealed map[string]string // name → Secret
	always bool              // references are replaced even if there is no variable
	strict bool              // a reference to a variable that is not set is an error
}

// load reads the variables of a Kustomization. Those of spec.postBuild.substitute win over those of ConfigMaps and
// Secrets, which it takes from c.objects.
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
		if !variableName.MatchString(name) {
			return out, fmt.Errorf("spec.postBuild: %q is not a variable name (letters, digits and _, no digit first)",
				name)
		}
	}
	return out, nil
}

// dataOf returns the data of a ConfigMap or Secret, decoded. If SOPS has encrypted the values, they stay as they are.
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
// the object's YAML text, so that `replicas: ${count}` becomes a number. It adds to used the sealed names that the
// object refers to.
func (v variables) substitute(o manifest.Object, used map[string]bool) (manifest.Object, error) {
	if len(v.values)+len(v.sealed) == 0 && !v.always || o.Annotation(substituteKey) == "disabled" ||
		label(o, substituteKey) == "disabled" {
		return o, nil
	}
	text, err := yaml.Marshal(map[string]any(o))
	if err != nil {
		return nil, err
	}
	escaped := variableReference.ReplaceAllStringFunc(string(text), func(ref string) string {
		name := variableReference.FindStringSubmatch(ref)[1]
		if _, ok := v.sealed[name]; !ok {
			return ref
		}
		used[name] = true
		return "$" + ref // $${name} stays as ${name}
	})
	asked, missing := "", false // of the last variable: the library stops at the first one that is missing
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

// label returns a label of an object; "" if it is missing or no text.
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

// stamped returns a copy of an object with the labels and annotations that Flux's controllers apply: its own, and those
// of spec.commonMetadata. A null becomes an empty text; a variable with an empty value leaves one. If one label of the
// object is a number or a bool, Flux reads none of them, so the common labels replace them all.
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
// null. The copy is empty if another value is no text.
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

// unsetError is a reference to a variable that is not set and has no default.
type unsetError struct {
	object Key
	name   string
	at     Origin // of the reference; zero if it is not known
}

func (e *unsetError) Error() string {
	where := ""
	if e.at.File != "" {
		where = e.at.String() + ": "
	}
	return fmt.Sprintf("%s%s: spec.postBuild: the variable %s is not set (set it, give it a default as in ${%s:=}, keep the text with $${%s}, or set strictPostBuildSubstitutions: false in spec.import[].flux)",
		where, e.object, e.name, e.name, e.name)
}

// mentioning finds a reference to a variable in the files that a build read. Of several files, the one that may have
// the object counts.
func (c *cluster) mentioning(e *unsetError, reads []string) Origin {
	var out Origin
	for _, name := range reads {
		data, err := c.tree.ReadFile(name)
		if err != nil {
			continue // the build has read it
		}
		at := bytes.Index(data, []byte("${"+e.name))
		if at < 0 {
			continue
		}
		here := Origin{File: name, Line: bytes.Count(data[:at], []byte("\n")) + 1}
		if bytes.Contains(data, []byte(e.object.Name)) && bytes.Contains(data, []byte(e.object.Kind)) {
			return here
		}
		if out.File == "" {
			out = here
		}
	}
	return out
}
