package argocd

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/gosimple/slug"
	"github.com/valyala/fasttemplate"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/importer/internal/templates"
)

// replacer replaces parameters in texts, in one of the two languages of ApplicationSets.
type replacer struct {
	goTemplate bool
	options    []string
	rounds     *templates.Rounds
}

// invalidName are the characters that `normalize` replaces.
var invalidName = regexp.MustCompile(`[^-a-z0-9.]`)

// sanitize makes a DNS name of a text, as Argo CD's `normalize` does.
func sanitize(text string) string {
	const most = 253
	text = invalidName.ReplaceAllString(strings.ToLower(text), "-")
	return strings.Trim(text[:min(len(text), most)], "-.")
}

// slugify is Argo CD's function: [max length] [truncate at words] text.
func slugify(args ...any) (string, error) {
	limit, words, text := 50, true, ""
	for n, arg := range args {
		ok := true
		switch {
		case n == len(args)-1:
			text, ok = arg.(string)
		case n == 0:
			limit, ok = arg.(int)
		case n == 1:
			words, ok = arg.(bool)
		}
		if !ok {
			return "", fmt.Errorf("slugify: argument %d has the wrong type", n+1)
		}
	}
	out := slug.Make(sanitize(text))
	if len(out) <= limit {
		return out, nil
	}
	if !words {
		return strings.Trim(out[:limit], "-_"), nil
	}
	return strings.Trim(templates.CutAtWord(out, limit), "-_"), nil
}

func functions() template.FuncMap {
	out := template.FuncMap(maps.Clone(sprig.GenericFuncMap()))
	for _, name := range []string{"env", "expandenv", "getHostByName"} { // they read the machine
		delete(out, name)
	}
	templates.MakeDeterministic(out)
	out["normalize"] = sanitize
	out["slugify"] = slugify
	out["toYaml"] = func(v any) (string, error) {
		data, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(data), "\n"), err
	}
	out["fromYaml"] = func(text string) (map[string]any, error) {
		v := map[string]any{}
		return v, yaml.Unmarshal([]byte(text), &v)
	}
	out["fromYamlArray"] = func(text string) ([]any, error) {
		v := []any{}
		return v, yaml.Unmarshal([]byte(text), &v)
	}
	return out
}

// text replaces the parameters in one text.
func (t replacer) text(text string, params map[string]any) (string, error) {
	if t.goTemplate {
		if !strings.Contains(text, "{{") {
			return text, nil
		}
		one := template.New("")
		for _, o := range t.options {
			if !strings.HasPrefix(o, "missingkey=") { // Option panics on what it does not know
				return "", fmt.Errorf("goTemplateOptions: %q is not known", o)
			}
			switch strings.TrimPrefix(o, "missingkey=") {
			case "default", "invalid", "zero", "error":
				one = one.Option(o)
			default:
				return "", fmt.Errorf("goTemplateOptions: %q is not known", o)
			}
		}
		out, err := t.rounds.Execute(one, text, params)
		if err != nil {
			return "", fmt.Errorf("template %.200q: %w", text, err)
		}
		return string(out), nil
	}
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	parsed, err := fasttemplate.NewTemplate(text, "{{", "}}")
	if err != nil {
		return "", fmt.Errorf("template %.200q: %w", text, err)
	}
	return parsed.ExecuteFuncString(func(w io.Writer, tag string) (int, error) {
		value, ok := params[strings.TrimSpace(tag)].(string)
		if !ok || strings.TrimSpace(tag) == "" {
			return fmt.Fprintf(w, "{{%s}}", tag)
		}
		return io.WriteString(w, value)
	}), nil
}

// value replaces the parameters in all texts of a value, keys of maps too. It changes a copy.
func (t replacer) value(v any, params map[string]any) (any, error) {
	switch v := v.(type) {
	case string:
		return t.text(v, params)
	case []any:
		out := make([]any, len(v))
		for n := range v {
			var err error
			if out[n], err = t.value(v[n], params); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			key, err := t.text(k, params)
			if err != nil {
				return nil, err
			}
			if out[key], err = t.value(inner, params); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}
