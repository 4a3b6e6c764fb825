package argocd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Limits of one ApplicationSet.
const (
	maxParams = 20_000 // sets of parameters
	maxNested = 5      // generators in generators
)

var errServer = errors.New("asks a server, so it is not supported")

// errUnregistered means that an ApplicationSet selects clusters by what only Argo CD knows: it would be wrong to say that it
// generates nothing.
var errUnregistered = errors.New("it selects clusters by labels, and no file says which labels the clusters have in Argo CD (list them in spec.import argocd clusters; `sluice import --detect` prints which ones)")

type params = map[string]any

// set is an ApplicationSet while its Applications are generated.
type set struct {
	*importer
	ctx       context.Context //nolint:containedctx // of one call of generate
	templates replacer
	preserve  bool // its Applications get no finalizer
	count     int
	reads     []string // files that generators read
	selects   bool     // a generator selects clusters by labels
}

// generate returns the Applications of an ApplicationSet, and the files that its generators read.
func (i *importer) generate(ctx context.Context, o manifest.Object) ([]manifest.Object, []string, error) {
	spec, _ := o["spec"].(map[string]any)
	s := &set{importer: i, ctx: ctx}
	s.templates.rounds = i.rounds
	s.templates.goTemplate, _ = spec["goTemplate"].(bool)
	options, _ := spec["goTemplateOptions"].([]any)
	for _, option := range options {
		s.templates.options = append(s.templates.options, fmt.Sprint(option))
	}
	policy, _ := spec["syncPolicy"].(map[string]any)
	s.preserve, _ = policy["preserveResourcesOnDeletion"].(bool)
	template, ok := spec["template"].(map[string]any)
	if !ok {
		return nil, nil, errors.New("spec.template is missing")
	}
	patch, _ := spec["templatePatch"].(string)
	generators, _ := spec["generators"].([]any)
	var out []manifest.Object
	names := map[string]bool{}
	for n, g := range generators {
		generator, ok := g.(map[string]any)
		if !ok {
			return nil, nil, fmt.Errorf("spec.generators[%d] is no mapping", n)
		}
		list, override, err := s.params(generator, nil, 0)
		if err != nil {
			return nil, nil, fmt.Errorf("spec.generators[%d]: %w", n, err)
		}
		for _, p := range list {
			app, err := s.application(overlaid(template, override), patch, p)
			if err != nil {
				return nil, nil, fmt.Errorf("spec.generators[%d]: %w", n, err)
			}
			if names[app.Name()] {
				return nil, nil, fmt.Errorf("spec.generators[%d]: two Applications are called %q", n, app.Name())
			}
			names[app.Name()] = true
			if app.Namespace() == "" && o.Namespace() != "" {
				metadata, _ := app["metadata"].(map[string]any)
				metadata["namespace"] = o.Namespace()
			}
			out = append(out, app)
		}
	}
	if len(out) == 0 && s.selects && !s.labelled() {
		return nil, nil, errUnregistered
	}
	return out, s.reads, nil
}

// labelled reports whether a file gives labels to a cluster: then the import describes what Argo CD knows.
func (i *importer) labelled() bool {
	return slices.ContainsFunc(i.Clusters, func(c Cluster) bool {
		_, registered := c.Labels[secretType]
		return c.secret || len(c.Labels) > 1 || len(c.Labels) == 1 && !registered
	})
}

// application renders the template for one set of parameters.
func (s *set) application(template map[string]any, patch string, p params) (manifest.Object, error) {
	v, err := any(template), error(nil)
	if len(p) > 0 {
		if v, err = s.templates.value(template, p); err != nil {
			return nil, err
		}
	}
	app, _ := v.(map[string]any)
	app = maps.Clone(app)
	app["apiVersion"], app["kind"] = group+"/v1alpha1", kindApplication
	metadata, _ := app["metadata"].(map[string]any)
	metadata = maps.Clone(metadata) // without parameters it is the template's
	app["metadata"] = metadata
	if finalizers, _ := metadata["finalizers"].([]any); metadata != nil && len(finalizers) == 0 && len(p) > 0 &&
		!s.preserve {
		metadata["finalizers"] = []any{finalizer}
	}
	if patch != "" {
		text, err := s.templates.text(patch, p)
		if err == nil {
			app, err = templatePatched(app, text)
		}
		if err != nil {
			return nil, fmt.Errorf("templatePatch: %w", err)
		}
	}
	out := manifest.Object(app)
	if out.Name() == "" {
		return nil, errors.New("an Application has no name")
	}
	if strings.Contains(out.Name(), "<no value>") {
		return nil, fmt.Errorf("an Application has the name %q: the template uses a parameter that the generators do not set (set it, or add goTemplateOptions: [missingkey=error] to find it)", out.Name())
	}
	return out, nil
}

// params are the parameters of one generator, and its template.
func (s *set) params(generator map[string]any, outer params, depth int) ([]params, map[string]any, error) {
	if depth > maxNested {
		return nil, nil, fmt.Errorf("generators are nested more than %d levels deep", maxNested)
	}
	kind := ""
	for name := range generator {
		if name == "selector" {
			continue
		}
		if kind != "" {
			return nil, nil, fmt.Errorf("one generator has both %s and %s", min(kind, name), max(kind, name))
		}
		kind = name
	}
	if len(outer) > 0 { // the second generator of a matrix may use parameters of the first
		v, err := s.interpolated(kind, generator[kind], outer)
		if err != nil {
			return nil, nil, err
		}
		generator = map[string]any{kind: v, "selector": generator["selector"]}
	}
	spec, ok := generator[kind].(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("%s is no mapping", kind)
	}
	var list []params
	var err error
	switch kind {
	case "list":
		list, err = s.list(spec)
	case "clusters":
		list, err = s.clusters(spec)
	case "git":
		list, err = s.git(spec)
	case "matrix":
		list, err = s.matrix(spec, outer, depth)
	case "merge":
		list, err = s.merge(spec, depth)
	case "scmProvider", "pullRequest", "plugin", "clusterDecisionResource":
		return nil, nil, fmt.Errorf("the generator %s %w", kind, errServer)
	default:
		return nil, nil, fmt.Errorf("the generator %q is not known", kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	if s.count += len(list); s.count > maxParams {
		return nil, nil, fmt.Errorf("more than %d sets of parameters", maxParams)
	}
	if list, err = selected(list, generator["selector"]); err != nil {
		return nil, nil, err
	}
	template, _ := spec["template"].(map[string]any)
	return list, template, nil
}
