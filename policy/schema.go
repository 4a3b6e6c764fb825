package policy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"

	"github.com/sluice-gitops/sluice/policy/lifecycle"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Schemas provides the JSON schemas of built-in kinds. It must be safe for concurrent use.
type Schemas interface {
	// Schema writes the schema of a kind to the folder that it returns, as `<version>/<kind>-<group>-<version>.json`.
	// It returns ErrNoSchema if there is none, and ErrSchemasOffline if it cannot check.
	Schema(ctx context.Context, kubeVersion, apiVersion, kind string, strict bool) (folder string, err error)
}

// Errors of Schemas.
var (
	ErrNoSchema       = errors.New("no schema exists")
	ErrSchemasOffline = errors.New("the schema is not cached and could not be downloaded")
)

// SchemaTemplate is kubeconform's template for the names of files in the folder that Schemas returns.
const SchemaTemplate = "{{ .NormalizedKubernetesVersion }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"

// schemaCheck validates built-in kinds: by their Go types, and by their schemas with kubeconform.
type schemaCheck struct {
	engine *Engine
	crds   *definitions
	notes  *notes
	types  typeCheck

	mu         sync.Mutex
	validators map[[2]string]validator.Validator
}

func (c *schemaCheck) scope(s *Subject, o *Object) string {
	if c.engine.severity(RuleSchema, "", s.Cluster.Environment) == SeverityOff {
		return "" // other environments do not share this
	}
	if manifest.GroupOf(o.Object.APIVersion()) != "" && c.crds.of(s.Cluster.Name, kindOf(o.Object)) != nil {
		return "" // customCheck validates it
	}
	version, ok := lifecycle.ParseMinor(s.Cluster.KubeVersion)
	if !ok {
		return o.Key + "\x00?"
	}
	return o.Key + "\x00" + version.String()
}

func kindOf(o manifest.Object) manifest.GroupKind {
	return manifest.GroupKind{Group: manifest.GroupOf(o.APIVersion()), Kind: o.Kind()}
}

// check compares the types of the values, which always works. If there is a schema, it also validates by the schema.
func (c *schemaCheck) check(ctx context.Context, s *Subject, o *Object) ([]breach, error) {
	out := c.types.breaches(o.Object)
	more, err := c.bySchema(ctx, s, o)
	for _, b := range more {
		if !slices.ContainsFunc(out, func(known breach) bool { return known.path == b.path }) {
			out = append(out, b)
		}
	}
	return out, err
}

func (c *schemaCheck) bySchema(ctx context.Context, s *Subject, o *Object) ([]breach, error) {
	if c.engine.options.Schemas == nil {
		c.notes.add("of built-in kinds only the types of values were checked: schemas are switched off", "")
		return nil, nil
	}
	version, ok := lifecycle.ParseMinor(s.Cluster.KubeVersion)
	if !ok {
		c.notes.add("schemas were not checked on clusters without a Kubernetes version (set kubeVersion of the cluster or its class)", s.Cluster.Name)
		return nil, nil
	}
	what := o.Object.APIVersion() + " " + o.Object.Kind()
	strict := !c.engine.schemaSpec.AllowUnknownFields
	folder, err := c.engine.options.Schemas.Schema(ctx, version.String()+".0", o.Object.APIVersion(), o.Object.Kind(),
		strict)
	if err != nil {
		return nil, c.missing(o.Object, what, version, err)
	}
	v, err := c.validator(folder, version.String()+".0", strict)
	if err != nil {
		return nil, err
	}
	data, err := manifest.Encode(o.Object)
	if err != nil {
		return nil, err
	}
	result := v.ValidateResource(resource.Resource{Bytes: data})
	switch result.Status {
	case validator.Invalid:
		return schemaBreaches(o.Object, version, result), nil
	case validator.Error:
		return nil, fmt.Errorf("schema of %s in Kubernetes %s: %w", what, version, result.Err)
	case validator.Skipped:
		return nil, fmt.Errorf("schema of %s in Kubernetes %s cannot be read", what, version)
	}
	return nil, nil
}

// missing adds a note that a schema is not available. It returns any other error.
func (c *schemaCheck) missing(o manifest.Object, what string, version lifecycle.Minor, err error) error {
	switch {
	case errors.Is(err, ErrNoSchema) && manifest.BuiltinScope(kindOf(o)) == manifest.ScopeUnknown:
		c.notes.add("not checked: neither a CustomResourceDefinition in the fleet nor a schema describes the kind",
			what)
	case errors.Is(err, ErrNoSchema):
		if _, known := lifecycle.Of(o.APIVersion(), o.Kind()); !known {
			c.notes.add(fmt.Sprintf("only the types of values were checked: Kubernetes %s has no schema of the kind",
				version), what)
		}
	case errors.Is(err, ErrSchemasOffline):
		c.notes.add(fmt.Sprintf("only the types of values were checked: the schema of Kubernetes %s is not cached and could not be downloaded", version), what)
	default:
		return fmt.Errorf("schema of %s in Kubernetes %s: %w", what, version, err)
	}
	return nil
}

func (c *schemaCheck) validator(folder, version string, strict bool) (validator.Validator, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{folder, version}
	if v, ok := c.validators[key]; ok {
		return v, nil
	}
	v, err := validator.New([]string{filepath.Join(folder, SchemaTemplate)},
		validator.Opts{KubernetesVersion: version, Strict: strict, IgnoreMissingSchemas: true})
	if err != nil {
		return nil, fmt.Errorf("schemas in %s: %w", folder, err)
	}
	if c.validators == nil {
		c.validators = map[[2]string]validator.Validator{}
	}
	c.validators[key] = v
	return v, nil
}

func schemaBreaches(o manifest.Object, version lifecycle.Minor, r validator.Result) []breach {
	var out []breach
	for _, e := range r.ValidationErrors {
		path, value := follow(o, strings.Split(strings.TrimPrefix(e.Path, "/"), "/"))
		if text, ok := value.(string); ok && masked(text) {
			continue
		}
		out = append(out, breach{rule: RuleSchema, path: path, message: fmt.Sprintf("%s (Kubernetes %s)", e.Msg,
			version), hint: "the API server refuses the object, or drops the field"})
	}
	if len(out) == 0 && len(r.ValidationErrors) == 0 {
		out = append(out, breach{rule: RuleSchema, message: fmt.Sprintf("%v (Kubernetes %s)", r.Err, version)})
	}
	return out
}

// follow follows the steps of a JSON pointer. It returns the path as the reports write it, and the value there.
func follow(v any, steps []string) (string, any) {
	if m, ok := v.(manifest.Object); ok {
		v = map[string]any(m)
	}
	var b strings.Builder
	for _, step := range steps {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		if step == "" {
			continue
		}
		switch x := v.(type) {
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(x) {
				v = nil
				break
			}
			v = x[i]
			name := step
			if m, ok := v.(map[string]any); ok {
				if n := str(m, "name"); n != "" && !strings.ContainsAny(n, "[]") {
					name = "name=" + n
				}
			}
			b.WriteString("[" + name + "]")
			continue
		case map[string]any:
			v = x[step]
		default:
			v = nil
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	return b.String(), v
}
