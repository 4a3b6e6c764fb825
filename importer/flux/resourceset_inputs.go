package flux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

const (
	maxPermutations = 10_000  // the operator's limit
	maxPermuted     = 1 << 20 // values in all permutations together
)

// sets reads the inputs of the ResourceSets of a cluster.
type sets struct {
	objects    map[Key]manifest.Object // of the cluster; shared with it
	reads      map[Key][]string        // by provider: of the unit that brings it
	selections []selection             // what the selectors have found, for recheckSelectors
}

// provider is an object with sets of inputs: the ResourceSet itself or a ResourceSetInputProvider.
type provider struct {
	key  Key
	sets []map[string]any
}

// inputSource has the inputs that a provider gives, as they are written.
type inputSource struct {
	key    Key
	field  string // for errors
	values []map[string]any
}

// inputSources returns the inputs of a ResourceSet: its own, then those of its providers.
func (s *sets) inputSources(k Key, set *resourceSet) ([]inputSource, error) {
	found, err := s.providers(k, set.Spec.InputsFrom)
	if err != nil {
		return nil, err
	}
	all := []inputSource{{k, "spec.inputs", set.Spec.Inputs}}
	for _, key := range found {
		values, err := s.staticInputs(key)
		if err != nil {
			return nil, fmt.Errorf("spec.inputsFrom: %w", err)
		}
		all = append(all, inputSource{
			key, "spec.inputsFrom: " + key.String() + ": spec.defaultValues",
			[]map[string]any{values},
		})
	}
	return all, nil
}

// combined returns new sets of inputs, combined as spec.inputStrategy says. Each set of a ResourceSetInputProvider gets
// the id, or no id if it is "".
func combined(ctx context.Context, set *resourceSet, sources []inputSource, id string) ([]map[string]any, error) {
	all := make([]provider, len(sources))
	for n, from := range sources {
		all[n].key = from.key
		for _, values := range from.values {
			if err := all[n].add(values); err != nil {
				return nil, fmt.Errorf("%s: %w", from.field, err)
			}
			if from.key.Kind != kindInputProvider {
				continue
			}
			last := all[n].sets[len(all[n].sets)-1]
			if last["id"] = id; id == "" {
				delete(last, "id")
			}
		}
	}
	switch strategy := set.Spec.InputStrategy; strategy.Name {
	case "", "Flatten":
		var out []map[string]any
		for _, p := range all {
			out = append(out, p.sets...)
		}
		return out, nil
	case "Permute":
		return permuted(ctx, all, strategy.IncludeEmptyProviders)
	default:
		return nil, fmt.Errorf("spec.inputStrategy: %q is not known (write Flatten or Permute)", strategy.Name)
	}
}

// add adds a copy of a set of inputs, because templates may change it. The copy goes through JSON like the operator's,
// so an integer beyond int64 becomes a float64.
func (p *provider) add(values map[string]any) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	set := map[string]any{}
	if err := json.Unmarshal(text, &set); err != nil {
		return err
	}
	if set == nil { // null
		set = map[string]any{}
	}
	set["provider"] = map[string]any{
		"apiVersion": groupOperator + "/v1", "kind": p.key.Kind, "name": p.key.Name,
		"namespace": p.key.Namespace,
	}
	p.sets = append(p.sets, set)
	return nil
}

// providers returns the providers that spec.inputsFrom names or selects, sorted by key, each once.
func (s *sets) providers(of Key, refs []inputsFrom) ([]Key, error) {
	found := map[Key]bool{}
	var selections []selection // of this attempt: another one follows if a provider is missing
	for n, ref := range refs {
		field := fmt.Sprintf("spec.inputsFrom[%d]", n)
		switch {
		case (ref.Name == "") == (ref.Selector == nil):
			return nil, fmt.Errorf("%s: exactly one of name and selector must be set", field)
		case ref.Name != "":
			key := Key{Group: groupOperator, Kind: kindInputProvider, Namespace: of.Namespace, Name: ref.Name}
			if _, ok := s.objects[key]; !ok {
				return nil, &missingError{field, key}
			}
			found[key] = true
		default:
			selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
			if err != nil {
				return nil, fmt.Errorf("%s.selector: %w", field, err)
			}
			chosen := s.selected(of.Namespace, selector)
			maps.Copy(found, chosen)
			selections = append(selections, selection{of, selector, chosen})
		}
	}
	s.selections = append(s.selections, selections...)
	return slices.SortedStableFunc(maps.Keys(found), compareKeys), nil
}

// selection is what a selector has found. It may find more when all objects of the cluster are known.
type selection struct {
	of       Key
	selector labels.Selector
	found    map[Key]bool
}

// selected returns the providers that a selector finds now.
func (s *sets) selected(namespace string, selector labels.Selector) map[Key]bool {
	out := map[Key]bool{}
	for key, o := range s.objects {
		if key.Group != groupOperator || key.Kind != kindInputProvider || key.Namespace != namespace {
			continue
		}
		// the API server refuses labels that are no texts: here they count as empty
		metadata, _ := o["metadata"].(map[string]any)
		values, _ := metadata["labels"].(map[string]any)
		set := labels.Set{}
		for name, v := range values {
			set[name], _ = v.(string)
		}
		if selector.Matches(set) {
			out[key] = true
		}
	}
	return out
}

// recheckSelectors fails each ResourceSet whose selectors match other providers now than when it was built, or may
// match providers that are unknown.
func (c *cluster) recheckSelectors() {
	fail := func(one selection, err error) {
		if u := c.units[one.of]; u != nil && u.Err == nil {
			u.Err, u.Brings = err, true
		}
	}
	for _, one := range c.sets.selections {
		if !maps.Equal(one.found, c.sets.selected(one.of.Namespace, one.selector)) {
			fail(one, errors.New("spec.inputsFrom: its selector matches providers that another ResourceSet brings (name them instead)"))
		}
	}
	if len(c.sets.selections) == 0 {
		return
	}
	if k, why := c.unreadUnit(describing(groupKustomize, groupOperator)); why != "" {
		for _, one := range c.sets.selections {
			fail(one, fmt.Errorf("spec.inputsFrom: its selector may match providers of %s, which %s, so they are unknown (name the providers instead)", k, why))
		}
	}
}

// unreadUnit returns a unit that was not built and may contain what match accepts, and why it was not built. why is ""
// if there is no such unit.
func (c *cluster) unreadUnit(match func(name string, data []byte) bool) (k Key, why string) {
	for _, k := range c.order {
		if k.Kind == kindHelmRelease { // it brings no objects that others refer to
			continue
		}
		u := c.units[k]
		spec, _ := u.object["spec"].(map[string]any)
		failed := u.Err != nil && !errors.Is(u.Err, errElsewhere) && spec["kubeConfig"] == nil
		if !failed && !u.Suspended || !c.mayContain(u.object, match) {
			continue
		}
		if failed {
			return k, "cannot be built"
		}
		return k, "is suspended"
	}
	return Key{}, ""
}

// staticInputs returns the inputs of a ResourceSetInputProvider. It refuses one whose inputs are not in the commit.
// https://fluxoperator.dev/docs/crd/resourcesetinputprovider/
func (s *sets) staticInputs(key Key) (map[string]any, error) {
	var in struct {
		Spec struct {
			Type          string         `json:"type"`
			DefaultValues map[string]any `json:"defaultValues"`
		} `json:"spec"`
	}
	o := s.objects[key]
	if err := decode(o, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Spec.Type != "Static":
		return nil, fmt.Errorf("%s of the type %s %w", key, cmp.Or(in.Spec.Type, `""`), errServer)
	case strings.EqualFold(o.Annotation(annotationReconcile), "disabled"):
		return nil, fmt.Errorf("%s is suspended, so its inputs are those of an earlier commit (resume it, or name another provider)", key)
	}
	return in.Spec.DefaultValues, nil
}

// permuted returns every combination of one set of each provider, as a mapping from the provider's name to its set.
// Providers without a set are left out; with empty, they count, and there is no combination.
func permuted(ctx context.Context, all []provider, empty bool) ([]map[string]any, error) {
	var names []string
	var from []provider
	total := 1
	for _, p := range all {
		if len(p.sets) == 0 && !empty {
			continue
		}
		name := inputName(p.key.Name)
		if name == "" {
			return nil, fmt.Errorf("spec.inputStrategy: the name of %s has no letter and no digit", p.key)
		}
		if total *= len(p.sets); total > maxPermutations {
			return nil, fmt.Errorf("spec.inputStrategy: there are more than %d permutations", maxPermutations)
		}
		names, from = append(names, name), append(from, p)
	}
	if len(from) == 0 || total == 0 {
		return nil, nil
	}
	if total*len(from) > maxPermuted {
		return nil, fmt.Errorf("spec.inputStrategy: %d permutations × %d providers exceed the limit of %d values",
			total, len(from), maxPermuted)
	}
	out := make([]map[string]any, total)
	picked := make([]int, len(from)) // the index of a set, by provider; the last one changes first
	for n := range out {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		one := make(map[string]any, len(from)+1)
		var id []byte
		for i, name := range names {
			one[name] = from[i].sets[picked[i]]
			if i > 0 {
				id = append(id, '/')
			}
			id = strconv.AppendInt(append(append(id, name...), '='), int64(picked[i]), 10)
		}
		one["id"] = strconv.FormatUint(uint64(adler32.Checksum(id)), 10)
		out[n] = one
		for i := len(picked) - 1; i >= 0; i-- {
			if picked[i]++; picked[i] < len(from[i].sets) {
				break
			}
			picked[i] = 0
		}
	}
	return out, nil
}

// inputName is the key of a provider's inputs: lower case, with one underscore for spaces and punctuation.
func inputName(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsPunct(r)
	})
	for n, word := range words {
		words[n] = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, word)
	}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), "_")
}
