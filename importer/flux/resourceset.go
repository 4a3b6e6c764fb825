package flux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-gitops/sluice/importer/internal/templates"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Annotations of the Flux Operator.
const (
	annotationReconcile = groupOperator + "/reconcile"
	annotationForce     = groupOperator + "/force"
	annotationCopy      = groupOperator + "/copyFrom"
	annotationConvert   = groupOperator + "/convertKubeConfigFrom"
	annotationChecksum  = groupOperator + "/checksumFrom"
)

// resourceSet is what Import reads of a ResourceSet.
// https://fluxoperator.dev/docs/crd/resourceset/
type resourceSet struct {
	Spec struct {
		CommonMetadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"commonMetadata"`
		InputStrategy struct {
			Name                  string `json:"name"`
			IncludeEmptyProviders bool   `json:"includeEmptyProviders"`
		} `json:"inputStrategy"`
		Inputs            []map[string]any `json:"inputs"`
		InputsFrom        []inputsFrom     `json:"inputsFrom"`
		Resources         []map[string]any `json:"resources"`
		ResourcesTemplate string           `json:"resourcesTemplate"`
		Steps             []step           `json:"steps"`
		DependsOn         []struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			Namespace  string `json:"namespace"`
		} `json:"dependsOn"`
	} `json:"spec"`
}

// inputsFrom names a ResourceSetInputProvider, or several by their labels.
type inputsFrom struct {
	Name     string                `json:"name"`
	Selector *metav1.LabelSelector `json:"selector"`
}

// step is a part of a ResourceSet that is applied after the one before it.
type step struct {
	Name              string           `json:"name"`
	Resources         []map[string]any `json:"resources"`
	ResourcesTemplate string           `json:"resourcesTemplate"`
}

// errServer means that a ResourceSet takes inputs from a server. Its objects are not in the commit, so the commit does
// not lack them either.
var errServer = errors.New("asks a server for its inputs (leave the ResourceSet out with spec.import ignore)")

// errLate means that a unit must be read after all others: it is a ResourceSet that selects its providers by labels, or
// it has an optional reference to an object that is not known yet.
var errLate = errors.New("it is read after the other units")

// Two ids such as the operator makes. They differ in every digit, in length and in the remainder of every division, so
// objects that depend on the id differ too.
const oneID, otherID = "999999999", "1000000000"

// expandSet builds a ResourceSet. The objects that it brings have the origin of the ResourceSet.
func (c *cluster) expandSet(ctx context.Context, p pending) (expansion, error) {
	if strings.EqualFold(p.object.Annotation(annotationReconcile), "disabled") {
		c.unit(p).Suspended = true
		return expansion{}, nil
	}
	var set resourceSet
	if err := decode(p.object, &set); err != nil {
		return expansion{}, err
	}
	k := keyOf(p.object)
	if !p.late && slices.ContainsFunc(set.Spec.InputsFrom, func(from inputsFrom) bool { return from.Selector != nil }) {
		return expansion{}, errLate
	}
	if c.Starting != nil {
		if err := c.Starting(k); err != nil {
			return expansion{}, err
		}
	}
	sources, err := c.sets.inputSources(k, &set)
	if err != nil {
		return expansion{}, err
	}
	built, err := set.resources(ctx, sources)
	if err != nil {
		return expansion{}, err
	}
	u := c.unit(p)
	u.Namespace, u.Reads, u.Prune = defaultNamespace, p.reads, true
	u.Force = strings.EqualFold(p.object.Annotation(annotationForce), "enabled")
	for _, d := range set.Spec.DependsOn {
		if on := (Key{
			Group: manifest.GroupOf(d.APIVersion), Kind: d.Kind,
			Namespace: cmp.Or(d.Namespace, k.Namespace), Name: d.Name,
		}); expands(on) {
			u.DependsOn = append(u.DependsOn, on)
		}
	}
	for _, from := range sources {
		u.Reads = union(u.Reads, c.sets.reads[from.key])
		u.Refers = append(u.Refers, c.brought[from.key])
	}
	c.remember(k, built, u.Reads)
	out := expansion{objects: built}
	for _, o := range built {
		if key := keyOf(o); expands(key) && key != k {
			out.children = append(out.children, pending{
				object: o, parent: k, depth: p.depth + 1, reads: u.Reads,
				origin: u.Origin,
			})
		} else if key != k {
			if u.Stream, err = document(u.Stream, o); err != nil {
				return expansion{}, err
			}
		}
	}
	return out, nil
}

// resources builds the objects of a ResourceSet. If it has providers, it builds them with several ids, because the ids
// of providers are not in Git, and refuses a ResourceSet whose objects depend on them.
func (set *resourceSet) resources(ctx context.Context, sources []inputSource) ([]manifest.Object, error) {
	steps := set.Spec.Steps
	single := step{Resources: set.Spec.Resources, ResourcesTemplate: set.Spec.ResourcesTemplate}
	if len(steps) == 0 {
		steps = []step{single}
	} else if len(single.Resources) > 0 || single.ResourcesTemplate != "" {
		return nil, errors.New("spec.steps cannot be used with spec.resources or spec.resourcesTemplate (move them into a step)")
	}
	for n, one := range set.Spec.Steps {
		if len(one.Resources) == 0 && one.ResourcesTemplate == "" {
			return nil, fmt.Errorf("spec.steps[%d] %s: it has neither resources nor resourcesTemplate", n, one.Name)
		}
		if slices.ContainsFunc(set.Spec.Steps[:n], func(before step) bool { return before.Name == one.Name }) {
			return nil, fmt.Errorf("spec.steps[%d]: another step has the name %q too (rename one)", n, one.Name)
		}
	}
	rounds := templates.NewRounds(functions())
	withID := func(id string) ([]manifest.Object, error) {
		inputs, err := combined(ctx, set, sources, id)
		if err != nil {
			return nil, err
		}
		return set.build(ctx, rounds, steps, inputs)
	}
	out, err := withID(oneID)
	if len(sources) == 1 || ctx.Err() != nil { // the only source is the ResourceSet itself
		return out, err
	}
	// The objects must be the same with every id, and the templates must not ask for one.
	other, otherErr := withID(otherID)
	if fmt.Sprint(err) != fmt.Sprint(otherErr) || !reflect.DeepEqual(out, other) {
		return nil, cmp.Or(ctx.Err(), errUID)
	}
	if _, without := withID(""); without != nil && strings.Contains(without.Error(), `map has no entry for key "id"`) &&
		fmt.Sprint(err) != without.Error() {
		return nil, errUID
	}
	return out, cmp.Or(ctx.Err(), err)
}

// build executes the templates of the steps for each set of inputs.
func (set *resourceSet) build(ctx context.Context, rounds *templates.Rounds, steps []step,
	inputs []map[string]any,
) ([]manifest.Object, error) {
	if len(inputs) == 0 {
		if len(set.Spec.InputsFrom) > 0 {
			return nil, nil // without inputs of its providers it applies nothing
		}
		inputs = []map[string]any{nil}
	}
	var out []manifest.Object
	stepOf := map[Key]string{}
	for n := range steps {
		objects, err := steps[n].build(ctx, rounds, inputs)
		if err != nil && len(set.Spec.Steps) > 0 {
			return nil, fmt.Errorf("spec.steps[%d] %s: %w", n, steps[n].Name, err)
		}
		if err != nil {
			return nil, fmt.Errorf("spec.%w", err)
		}
		for _, o := range objects {
			at := keyOf(o)
			if first, twice := stepOf[at]; twice {
				return nil, fmt.Errorf("spec.steps: %s is in the steps %s and %s", at, first, steps[n].Name)
			}
			if err := refused(o); err != nil {
				return nil, err
			}
			out = append(out, stamped(o, set.Spec.CommonMetadata.Labels, set.Spec.CommonMetadata.Annotations))
		}
		for _, o := range objects {
			stepOf[keyOf(o)] = steps[n].Name
		}
	}
	return out, nil
}

// build executes the templates of a step for each set of inputs. Of several objects with one identity, the first
// counts. As in the operator, objects whose reconciliation is disabled do not, except in resources of a ResourceSet
// without inputs.
func (s *step) build(ctx context.Context, rounds *templates.Rounds, inputs []map[string]any) ([]manifest.Object,
	error,
) {
	var out []manifest.Object
	seen := map[Key]bool{}
	add := func(objects []manifest.Object, disabled bool) error {
		for _, o := range objects {
			if k := keyOf(o); !seen[k] && (disabled || o.Annotation(annotationReconcile) != "disabled") {
				seen[k] = true
				out = append(out, o)
			}
		}
		if len(out) > maxUnits {
			return fmt.Errorf("resources: it has more than %d objects", maxUnits)
		}
		return ctx.Err()
	}
	for n, resource := range s.Resources {
		for _, set := range inputs {
			o, err := executeOne(rounds, resource, set)
			if err == nil {
				err = add([]manifest.Object{o}, set == nil)
			}
			if err != nil {
				return nil, fmt.Errorf("resources[%d]: %w", n, err)
			}
		}
	}
	if s.ResourcesTemplate == "" {
		return out, nil
	}
	for _, set := range inputs {
		objects, err := execute(rounds, s.ResourcesTemplate, set)
		if err == nil {
			err = add(objects, false)
		}
		if err != nil {
			return nil, fmt.Errorf("resourcesTemplate: %w", err)
		}
	}
	return out, nil
}

// refused returns an error for an object that the operator completes with content of the cluster.
func refused(o manifest.Object) error {
	for _, name := range []string{annotationCopy, annotationConvert} {
		if o.Annotation(name) != "" {
			return fmt.Errorf("%s has the annotation %s, which is not supported: the operator adds content of the cluster (remove it, or leave the ResourceSet out with spec.import ignore)", keyOf(o), name)
		}
	}
	if hasChecksum(map[string]any(o)) {
		return fmt.Errorf("%s has the annotation %s, which is not supported: the operator adds a digest of content of the cluster (remove it, or leave the ResourceSet out with spec.import ignore)", keyOf(o), annotationChecksum)
	}
	return nil
}

// hasChecksum reports whether a metadata of an object, such as that of its template of Pods, has the annotation
// checksumFrom.
func hasChecksum(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, hasChecksum)
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok {
			annotations, _ := metadata["annotations"].(map[string]any)
			if annotations[annotationChecksum] != nil {
				return true
			}
		}
		for _, inner := range v {
			if hasChecksum(inner) {
				return true
			}
		}
	}
	return false
}
