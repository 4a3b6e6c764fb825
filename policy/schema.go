package policy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Schemas brings the JSON schemas of built-in kinds. Safe for concurrent use.
type Schemas interface {
	// Schema makes the schema of a kind available under the folder that it gives, as
	// `<version>/<kind>-<group>-<version>.json`. ErrNoSchema: there is none. ErrSchemasOffline: it could not be looked for.
	Schema(ctx context.Context, kubeVersion, apiVersion, kind string, strict bool) (folder string, err error)
}

// Errors of Schemas.
var (
	ErrNoSchema       = errors.New("there is no schema")
	ErrSchemasOffline = errors.New("the schema is not in the cache, and could not be fetched")
)

// SchemaTemplate is how files are named in the folder that Schemas give, in kubeconform's words.
const SchemaTemplate = "{{ .NormalizedKubernetesVersion }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"

// schemaCheck validates built-in kinds with kubeconform.
type schemaCheck struct {
	engine *Engine
	crds   *definitions
	notes  *notes

	mu         sync.Mutex
	validators map[[2]string]validator.Validator
}

func (c *schemaCheck) scope(s *Subject, o *Object) string {
	if manifest.GroupOf(o.Object.APIVersion()) != "" && c.crds.of(s.Cluster.Name, kindOf(o.Object)) != nil {
		return "" // its definition is in the fleet
	}
	version, ok := parseMinor(s.Cluster.KubeVersion)
	if !ok {
		return o.Key + "\x00?"
	}
	return o.Key + "\x00" + version.String()
}

func kindOf(o manifest.Object) manifest.GroupKind {
	return manifest.GroupKind{Group: manifest.GroupOf(o.APIVersion()), Kind: o.Kind()}
}

func (c *schemaCheck) check(ctx context.Context, s *Subject, o *Object) ([]breach, error) {
	if c.engine.severity(RuleSchema, "", s.Cluster.Environment) == SeverityOff {
		return nil, nil
	}
	if c.engine.options.Schemas == nil {
		c.notes.add("no schema of a built-in kind was checked: schemas are switched off", "")
		return nil, nil
	}
	version, ok := parseMinor(s.Cluster.KubeVersion)
	if !ok {
		c.notes.add("schemas were not checked on clusters whose Kubernetes version is not known (spec.kubeVersion)", s.Cluster.Name)
		return nil, nil
	}
	what := o.Object.APIVersion() + " " + o.Object.Kind()
	strict := !c.engine.schemaSpec.AllowUnknownFields
	folder, err := c.engine.options.Schemas.Schema(ctx, version.String()+".0", o.Object.APIVersion(), o.Object.Kind(), strict)
	switch {
	case errors.Is(err, ErrNoSchema):
		if manifest.BuiltinScope(kindOf(o.Object)) == manifest.ScopeUnknown {
			c.notes.add("not checked, since neither a CustomResourceDefinition in the fleet nor a schema describes the kind", what)
			return nil, nil
		}
		if _, known := lifecycleOf(o.Object.APIVersion(), o.Object.Kind()); !known {
			c.notes.add(fmt.Sprintf("not checked, since Kubernetes %s has no schema of the kind", version), what)
		}
		return nil, nil
	case errors.Is(err, ErrSchemasOffline):
		c.notes.add(fmt.Sprintf("not checked, since the schema of Kubernetes %s is not in the cache and could not be fetched", version), what)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("schema of %s in Kubernetes %s: %w", what, version, err)
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

func (c *schemaCheck) validator(folder, version string, strict bool) (validator.Validator, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{folder, version}
	if v, ok := c.validators[key]; ok {
		return v, nil
	}
	v, err := validator.New([]string{filepath.Join(folder, SchemaTemplate)}, validator.Opts{KubernetesVersion: version, Strict: strict, IgnoreMissingSchemas: true})
	if err != nil {
		return nil, fmt.Errorf("schemas in %s: %w", folder, err)
	}
	if c.validators == nil {
		c.validators = map[[2]string]validator.Validator{}
	}
	c.validators[key] = v
	return v, nil
}

func schemaBreaches(o manifest.Object, version minor, r validator.Result) []breach {
	var out []breach
	for _, e := range r.ValidationErrors {
		path, value := follow(o, strings.Split(strings.TrimPrefix(e.Path, "/"), "/"))
		if text, ok := value.(string); ok && masked(text) {
			continue
		}
		out = append(out, breach{rule: RuleSchema, path: path, message: fmt.Sprintf("%s (Kubernetes %s)", e.Msg, version), hint: "the cluster would refuse the object, or drop the field"})
	}
	if len(out) == 0 && len(r.ValidationErrors) == 0 {
		out = append(out, breach{rule: RuleSchema, message: fmt.Sprintf("%v (Kubernetes %s)", r.Err, version)})
	}
	return out
}

// follow walks a JSON pointer's steps and gives the path as Sluice writes it.
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
