package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	crdcel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// definition is a CustomResourceDefinition in the fleet.
type definition struct {
	key           string
	clusterScoped bool
	versions      map[string]*crdVersion
}

// crdVersion is one version of a definition. It is compiled on first use.
type crdVersion struct {
	served bool
	schema *apiextensionsv1.JSONSchemaProps

	once       sync.Once
	err        error
	validator  validation.SchemaValidator
	structural *structural.Structural
	rules      *crdcel.Validator
}

// definitions are the CustomResourceDefinitions of each cluster of a batch. It reads equal ones once, and the
// surroundings only for clusters with custom kinds. It is safe for concurrent use, apart from begin.
type definitions struct {
	ctx    context.Context //nolint:containedctx // of one check
	around Surroundings
	notes  *notes

	mu        sync.Mutex
	own       map[string][]*Object // definitions among the subjects of the batch, by cluster
	byKey     map[string]map[manifest.GroupKind]*definition
	byCluster map[string]map[manifest.GroupKind]*definition
	err       error // the first
}

func newDefinitions(ctx context.Context, around Surroundings, n *notes) *definitions {
	return &definitions{
		ctx: ctx, around: around, notes: n, own: map[string][]*Object{},
		byKey:     map[string]map[manifest.GroupKind]*definition{},
		byCluster: map[string]map[manifest.GroupKind]*definition{},
	}
}

// begin begins a batch, which has all targets of its clusters.
func (d *definitions) begin(batch []Subject) {
	clear(d.own)
	clear(d.byCluster)
	for i := range batch {
		s := &batch[i]
		for j := range s.Objects {
			if o := &s.Objects[j]; o.Object.Kind() == "CustomResourceDefinition" &&
				manifest.GroupOf(o.Object.APIVersion()) == "apiextensions.k8s.io" {
				d.own[s.Cluster.Name] = append(d.own[s.Cluster.Name], o)
			}
		}
	}
}

// of returns the definition of a kind on a cluster. It returns nil for built-in kinds, and if the fleet has no
// definition.
func (d *definitions) of(cluster string, kind manifest.GroupKind) *definition {
	if manifest.BuiltinScope(kind) != manifest.ScopeUnknown {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.byCluster[cluster]
	if !ok {
		known = map[manifest.GroupKind]*definition{}
		d.byCluster[cluster] = known
		if d.around != nil {
			others, err := d.around.Definitions(d.ctx, cluster)
			if err != nil && d.err == nil {
				d.err = err
			}
			for i := range others {
				d.take(known, &others[i])
			}
		}
		for _, o := range d.own[cluster] {
			d.take(known, o)
		}
	}
	return known[kind]
}

func (d *definitions) take(known map[manifest.GroupKind]*definition, o *Object) {
	read, ok := d.byKey[o.Key]
	if !ok {
		read = readDefinition(o, d.notes)
		d.byKey[o.Key] = read
	}
	maps.Copy(known, read)
}

func readDefinition(o *Object, n *notes) map[manifest.GroupKind]*definition {
	data, err := json.Marshal(normal(map[string]any(o.Object)))
	var crd apiextensionsv1.CustomResourceDefinition
	if err == nil {
		err = json.Unmarshal(data, &crd)
	}
	if err != nil {
		n.add("custom resources were not checked, because their CustomResourceDefinition cannot be read",
			o.Object.Name())
		return nil
	}
	def := &definition{
		key: o.Key, clusterScoped: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
		versions: map[string]*crdVersion{},
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		one := &crdVersion{served: v.Served}
		if v.Schema != nil {
			one.schema = v.Schema.OpenAPIV3Schema
		}
		def.versions[v.Name] = one
	}
	return map[manifest.GroupKind]*definition{{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}: def}
}

// compile creates the validators with the API server's own packages.
func (v *crdVersion) compile() error {
	v.once.Do(func() {
		if v.schema == nil {
			return
		}
		var internal apiextensions.JSONSchemaProps
		if v.err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.schema, &internal,
			nil); v.err != nil {
			return
		}
		if v.validator, _, v.err = validation.NewSchemaValidator(&internal); v.err != nil {
			return
		}
		if v.structural, v.err = structural.NewStructural(&internal); v.err != nil {
			return
		}
		v.rules = crdcel.NewValidator(v.structural, true, celconfig.PerCallLimit)
	})
	return v.err
}

// customCheck validates custom resources by the definitions in the fleet.
type customCheck struct {
	engine *Engine
	known  *definitions
}

func (c *customCheck) scope(s *Subject, o *Object) string {
	d := c.known.of(s.Cluster.Name, kindOf(o.Object))
	if d == nil {
		return ""
	}
	return o.Key + "\x00" + o.OldKey + "\x00" + d.key
}

func (c *customCheck) check(ctx context.Context, s *Subject, o *Object) (out []breach, err error) {
	defer func() { // the packages panic on definitions that every API server refuses
		if p := recover(); p != nil {
			err = fmt.Errorf("the CustomResourceDefinition of %s cannot be evaluated: %v", o.Object.Kind(), p)
		}
	}()
	d := c.known.of(s.Cluster.Name, kindOf(o.Object))
	name := apiVersionOnly(o.Object.APIVersion())
	v := d.versions[name]
	if v == nil || !v.served {
		return []breach{{
			rule: RuleCustomResource, path: "apiVersion",
			message: fmt.Sprintf("the CustomResourceDefinition in the fleet does not serve version %s", name),
			hint:    "use a served version, or update the definition",
		}}, nil
	}
	if v.schema == nil {
		return nil, nil
	}
	if err := v.compile(); err != nil {
		return nil, fmt.Errorf("the CustomResourceDefinition of %s cannot be used: %w", o.Object.Kind(), err)
	}
	object := normal(map[string]any(o.Object)).(map[string]any) //nolint:forcetypeassert // a map stays one
	errs := validation.ValidateCustomResource(nil, object, v.validator)
	var old any
	if o.Old != nil {
		old = normal(map[string]any(o.Old))
	}
	if len(errs) == 0 && v.rules != nil {
		more, _ := v.rules.Validate(ctx, nil, v.structural, object, old, celconfig.RuntimeCELCostBudget)
		errs = append(errs, more...)
	}
	for _, e := range errs {
		if value, ok := e.BadValue.(string); ok && masked(value) {
			continue
		}
		out = append(out, breach{
			rule: RuleCustomResource, path: e.Field, message: detail(e),
			hint: "the API server refuses the object",
		})
	}
	pruned := normal(map[string]any(o.Object))
	for _, path := range pruning.PruneWithOptions(pruned, v.structural, true,
		structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		out = append(out, breach{
			rule: RuleCustomResource, severity: SeverityWarning, path: path,
			message: "the definition does not have this field, and the API server drops it",
		})
	}
	return out, nil
}

func detail(e *field.Error) string {
	if e.Detail != "" {
		return string(e.Type) + ": " + e.Detail
	}
	return e.ErrorBody()
}

func apiVersionOnly(apiVersion string) string {
	for i := len(apiVersion) - 1; i >= 0; i-- {
		if apiVersion[i] == '/' {
			return apiVersion[i+1:]
		}
	}
	return apiVersion
}

// normal copies a value, with the number types that the libraries of Kubernetes accept.
func normal(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = normal(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = normal(v)
		}
		return out
	case int:
		return int64(x)
	case uint64:
		if x <= math.MaxInt64 {
			return int64(x)
		}
		return float64(x)
	}
	return v
}
