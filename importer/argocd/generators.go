package argocd

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// interpolated replaces the parameters of another generator in the generator of a kind. A text of its values that uses
// a parameter which the other one does not have stays as it is: withValues replaces the generator's own.
func (s *set) interpolated(kind string, generator any, outer params) (any, error) {
	spec, ok := generator.(map[string]any)
	if !ok || !s.TemplatesValues {
		return s.templates.value(generator, outer)
	}
	rest, own := maps.Clone(spec), map[string]any{}
	switch kind {
	case "git", "clusters":
		if values, ok := spec["values"].(map[string]any); ok {
			delete(rest, "values")
			strict := s.templates
			strict.options = append(slices.Clip(strict.options), "missingkey=error")
			replaced := make(map[string]any, len(values))
			for k, v := range values {
				text, err := strict.text(fmt.Sprint(v), outer)
				switch {
				case err == nil:
					replaced[k] = text
				case strings.Contains(err.Error(), "map has no entry for key"),
					strings.Contains(err.Error(), "can't evaluate field"):
					replaced[k] = v
				default:
					return nil, fmt.Errorf("values.%s: %w", k, err)
				}
			}
			own["values"] = replaced
		}
	case "matrix", "merge":
		generators, err := s.nested(spec)
		if err != nil {
			return nil, err
		}
		delete(rest, "generators")
		list := make([]any, len(generators))
		for n, g := range generators {
			one := make(map[string]any, len(g))
			for name, inner := range g {
				if one[name], err = s.interpolated(name, inner, outer); err != nil {
					return nil, err
				}
			}
			list[n] = one
		}
		own["generators"] = list
	}
	v, err := s.templates.value(rest, outer)
	if err != nil {
		return nil, err
	}
	out, _ := v.(map[string]any) // of a map
	maps.Copy(out, own)
	return out, nil
}

// withValues adds a generator's own values, in which parameters are replaced.
func (s *set) withValues(spec map[string]any, p params) error {
	values, _ := spec["values"].(map[string]any)
	replaced := map[string]string{}
	for k, v := range values {
		text, err := s.templates.text(fmt.Sprint(v), p)
		if err != nil {
			return fmt.Errorf("values.%s: %w", k, err)
		}
		replaced[k] = text
	}
	if s.templates.goTemplate && len(replaced) > 0 {
		p["values"] = replaced
		return nil
	}
	for k, v := range replaced {
		p["values."+k] = v
	}
	return nil
}

func (s *set) list(spec map[string]any) ([]params, error) {
	var out []params
	elements, _ := spec["elements"].([]any)
	for n, e := range elements {
		element, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("elements[%d] is no mapping", n)
		}
		if s.templates.goTemplate {
			out = append(out, maps.Clone(element))
			continue
		}
		p, err := textParams(element)
		if err != nil {
			return nil, fmt.Errorf("elements[%d]%w", n, err)
		}
		out = append(out, p)
	}
	if text, _ := spec["elementsYaml"].(string); text != "" {
		var more []params
		if err := yaml.Unmarshal([]byte(text), &more); err != nil {
			return nil, fmt.Errorf("elementsYaml: %w", err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// textParams returns the parameters of an element for a template without goTemplate, where every value is a string. Its
// errors begin with the field: `.name is no string`.
func textParams(element map[string]any) (params, error) {
	p := params{}
	for k, v := range element {
		if k != "values" {
			text, ok := v.(string)
			if !ok {
				return nil, fmt.Errorf(".%s is no string (quote it, or set goTemplate)", k)
			}
			p[k] = text
			continue
		}
		values, ok := v.(map[string]any)
		if !ok {
			return nil, errors.New(".values is no mapping")
		}
		for name, inner := range values {
			text, ok := inner.(string)
			if !ok {
				return nil, fmt.Errorf(".values.%s is no string", name)
			}
			p["values."+name] = text
		}
	}
	return p, nil
}

func (s *set) clusters(spec map[string]any) ([]params, error) {
	var selector metav1.LabelSelector
	if spec["selector"] != nil {
		if err := decode(spec["selector"], &selector); err != nil {
			return nil, fmt.Errorf("selector: %w", err)
		}
	}
	restricted := len(selector.MatchLabels)+len(selector.MatchExpressions) > 0
	s.selects = s.selects || restricted
	out := []params{}
	for n := range s.Clusters {
		c := &s.Clusters[n]
		local := isLocal(c)
		if local && restricted || !local && !matches(&selector, c.Labels) {
			continue
		}
		p := params{"name": c.Name, "nameNormalized": sanitize(c.Name), "server": c.Server, "project": c.project}
		s.addMetadata(p, c, local)
		if err := s.withValues(spec, p); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if flat, _ := spec["flatList"].(bool); flat {
		return []params{{"clusters": out}}, nil
	}
	return out, nil
}

// addMetadata adds a cluster's labels and annotations to its parameters. A local cluster has no Secret, so goTemplate
// has no metadata.
func (s *set) addMetadata(p params, c *Cluster, local bool) {
	if !s.templates.goTemplate {
		for k, v := range c.Annotations {
			p["metadata.annotations."+k] = v
		}
		for k, v := range c.Labels {
			p["metadata.labels."+k] = v
		}
		return
	}
	if local {
		return
	}
	meta := map[string]any{}
	if len(c.Annotations) > 0 {
		meta["annotations"] = c.Annotations
	}
	if len(c.Labels) > 0 {
		meta["labels"] = c.Labels
	}
	p["metadata"] = meta
}

func (s *set) nested(spec map[string]any) ([]map[string]any, error) {
	list, _ := spec["generators"].([]any)
	out := make([]map[string]any, 0, len(list))
	for n, g := range list {
		generator, ok := g.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("generators[%d] is no mapping", n)
		}
		out = append(out, generator)
	}
	return out, nil
}

func (s *set) matrix(spec map[string]any, outer params, depth int) ([]params, error) {
	generators, err := s.nested(spec)
	if err != nil {
		return nil, err
	}
	if len(generators) != 2 {
		return nil, fmt.Errorf("a matrix has two generators, not %d", len(generators))
	}
	first, _, err := s.params(generators[0], outer, depth+1)
	if err != nil {
		return nil, fmt.Errorf("generators[0]: %w", err)
	}
	var out []params
	for _, a := range first {
		second, _, err := s.params(generators[1], a, depth+1)
		if err != nil {
			return nil, fmt.Errorf("generators[1]: %w", err)
		}
		for _, b := range second {
			if s.templates.goTemplate {
				out = append(out, merged(b, a))
				continue
			}
			both := maps.Clone(a)
			for k, v := range b {
				if had, ok := both[k]; ok && had != v {
					return nil, fmt.Errorf("both generators have a parameter %q, with different values", k)
				}
				both[k] = v
			}
			out = append(out, both)
		}
	}
	return out, nil
}

func (s *set) merge(spec map[string]any, depth int) ([]params, error) {
	generators, err := s.nested(spec)
	if err != nil {
		return nil, err
	}
	keys, _ := spec["mergeKeys"].([]any)
	if len(generators) < 2 || len(keys) == 0 {
		return nil, errors.New("a merge needs two generators or more, and mergeKeys")
	}
	key := func(p params) (string, error) {
		values := make([]any, len(keys))
		for n, k := range keys {
			values[n] = p[fmt.Sprint(k)]
		}
		text, err := json.Marshal(values)
		return string(text), err
	}
	var base []params
	index := map[string]int{}
	for n, g := range generators {
		list, _, err := s.params(g, nil, depth+1)
		if err != nil {
			return nil, fmt.Errorf("generators[%d]: %w", n, err)
		}
		seen := map[string]bool{}
		for _, p := range list {
			k, err := key(p)
			if err != nil {
				return nil, err
			}
			if seen[k] {
				return nil, fmt.Errorf("generators[%d]: two sets of parameters have the merge keys %s", n, k)
			}
			seen[k] = true
			at, known := index[k]
			switch {
			case n == 0:
				index[k] = len(base)
				base = append(base, maps.Clone(p))
			case known && s.templates.goTemplate:
				base[at] = merged(base[at], p)
			case known:
				maps.Copy(base[at], p)
			}
		}
	}
	return base, nil
}
