package helmfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/internal/layered"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// tolerant are the missingFileHandlers that skip a missing file. The default, Error, does not.
func tolerant() []string { return []string{"Warn", "Info", "Debug"} }

// entries reads the values of a release. embedded has the contents of its files, if the environment has a second state.
func (b base) entries(r *release, embedded []any, both bool) ([]entry, *problem) {
	var out []entry
	next := func() (map[string]any, bool) {
		if len(embedded) == 0 {
			return nil, false
		}
		values, ok := embedded[0].(map[string]any)
		embedded = embedded[1:]
		return values, ok || values == nil
	}
	for i, v := range r.Values {
		at := fmt.Sprintf("values[%d]", i)
		name, isName := v.(string)
		if !isName {
			values, ok := v.(map[string]any)
			if _, same := next(); !ok || both && !same {
				return nil, problemf(at, "it is neither a file nor values")
			}
			out = append(out, entry{values: values, inline: at})
			continue
		}
		one, skip, why := b.file(at, r.ValuesPathPrefix+name, both)
		if why != nil {
			return nil, why
		}
		if skip {
			continue
		}
		if both {
			values, ok := next()
			if !ok {
				return nil, problemf(at, "the state with --embed-values has no values of %s", name)
			}
			one = one.over(values, at+" "+name)
		}
		out = append(out, one)
	}
	if len(embedded) > 0 {
		return nil, problemf("values", "the state with --embed-values has more values than the other one names files")
	}
	return out, nil
}

// over returns the entry with the values that the second state has for it. A file that says the same stays, and secrets
// are not taken.
func (e entry) over(values map[string]any, at string) entry {
	if e.secret || e.path != "" && equal(e.values, values) {
		return e
	}
	return entry{values: values, inline: at}
}

// file reads a values file. It is skipped if it does not exist and the state permits that. The entry has no path if
// only helmfile can read it, and the second state has its content.
func (b base) file(at, name string, both bool) (entry, bool, *problem) {
	full, why := b.locate(at, name)
	switch {
	case why != nil:
		return entry{}, false, why
	case full == "" && slices.Contains(tolerant(), b.handler):
		b.note(Changed, at+" "+name, "does not exist, and missingFileHandler permits it")
		return entry{}, true, nil
	case full == "":
		return entry{}, false, problemf(at, "the repository has no file %s", path.Join(b.dir, name))
	}
	data, err := b.files.ReadFile(full)
	switch {
	case err != nil:
		return entry{}, false, problemf(at, "%s cannot be read: %v", full, err)
	case path.Ext(full) == template && secret(data):
		return entry{}, false, problemf(at,
			"%s is a template that reads a secret store, so its values would be written (let the cluster create a Secret, and refer to it in the values)", full)
	case path.Ext(full) == template && both:
		return entry{}, false, nil
	case path.Ext(full) == template:
		return entry{}, false, problemf(at,
			"%s is a template of helmfile (give a second state, built with --embed-values)", full)
	}
	if err := manifest.Check(data, manifest.DefaultBudget()); err != nil {
		return entry{}, false, problemf(at, "%s: %v", full, err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return entry{}, false, problemf(at, "%s: %v", full, err)
	}
	if secret(data) { // dropReferences removes them; a state with --embed-values has the secrets
		return entry{values: values, secret: true}, false, nil
	}
	// Sluice would replace it, or refuse a key that is set twice
	if fleet.Refers(string(data)) || yaml.UnmarshalStrict(data, &map[string]any{}) != nil {
		return entry{values: values}, false, nil
	}
	return entry{path: full, values: values}, false, nil
}

// template is the extension of templates of helmfile.
const template = ".gotmpl"

func equal(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// merge merges values as Helm merges several files.
func merge(below, above map[string]any) map[string]any {
	out := maps.Clone(below)
	if out == nil {
		out = map[string]any{}
	}
	for key, v := range above {
		if m, ok := v.(map[string]any); ok {
			if known, ok := out[key].(map[string]any); ok {
				out[key] = merge(known, m)
				continue
			}
		}
		out[key] = v
	}
	return out
}

func merged(entries []entry) map[string]any {
	out := map[string]any{}
	for _, e := range entries {
		out = merge(out, e.values)
	}
	return out
}

// overlay returns what set and setString say beyond the other values, in the order in which Helm applies them.
func (b base) overlay(r *release, entries []entry) (map[string]any, *problem) {
	if len(r.Set) == 0 && len(r.SetString) == 0 {
		return nil, nil
	}
	before := merged(entries)
	after, err := copied(before)
	if err != nil {
		return nil, problemf("values", "%v", err)
	}
	for _, list := range []struct {
		field string
		items []setValue
		parse func(text string, into map[string]any) error
	}{{"set", r.Set, strvals.ParseInto}, {"setString", r.SetString, strvals.ParseIntoString}} {
		for i, s := range list.items {
			if text, ok := s.flag(); ok {
				if err := list.parse(text, after); err != nil {
					return nil, problemf(fmt.Sprintf("%s[%d]", list.field, i), "%v", err)
				}
			}
		}
	}
	for i, s := range r.Set { // Helm applies --set-file after --set-string
		if s.Value != "" || s.File == "" {
			continue
		}
		at := fmt.Sprintf("set[%d]", i)
		name, why := b.literal(at, s.File)
		if why != nil {
			return nil, why
		}
		data, err := b.files.ReadFile(name)
		if err != nil {
			return nil, problemf(at, "%s cannot be read: %v", name, err)
		}
		read := func([]rune) (any, error) { return string(data), nil }
		if err := strvals.ParseIntoFile(escape(s.Name)+"="+s.File, after, read); err != nil {
			return nil, problemf(at, "%v", err)
		}
	}
	if after, err = copied(after); err != nil {
		return nil, problemf("set", "%v", err)
	}
	rest := layered.Rest(after, before)
	if !same(merge(before, rest), after) {
		return nil, problemf("set", "it removes keys, which values above others cannot do (write it as values)")
	}
	return rest, nil
}

// flag is the argument of --set or --set-string that helmfile passes for an item; false if it passes none.
func (s setValue) flag() (string, bool) {
	switch {
	case s.Value != "":
		return escape(s.Name) + "=" + escape(s.Value), true
	case s.File != "" || len(s.Values) == 0:
		return "", false
	}
	items := make([]string, len(s.Values))
	for i, v := range s.Values {
		text, isText := v.(string)
		if !isText {
			data, err := json.Marshal(v)
			if err != nil { // it comes from JSON
				return "", false
			}
			text = string(data)
		}
		items[i] = escape(text)
	}
	return escape(s.Name) + "={" + strings.Join(items, ",") + "}", true
}

// escape escapes as helmfile does.
func escape(text string) string {
	return strings.NewReplacer("{", `\{`, "}", `\}`, ",", `\,`).Replace(text)
}

// copied returns a copy with the types that values have after they were read from a file.
func copied(values map[string]any) (map[string]any, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(text, &out)
}

const referenceReason = "its value is a reference of vals, which helmfile reads when it runs: let the cluster create a Secret, and refer to it in the values"

// dropReferences removes values that helmfile reads elsewhere when it runs, and lists them. A file with such a value is
// not kept.
func (c *converter) dropReferences(at place, entries []entry) {
	for i := range entries {
		values, err := copied(entries[i].values)
		if err != nil {
			continue // writing it fails
		}
		dropped := withoutReferences(values, "")
		if len(dropped) == 0 {
			continue
		}
		c.find(at, NotCarried, fmt.Sprintf("values[%d] %s", i, strings.Join(dropped, ", ")), referenceReason)
		entries[i] = entry{values: values, inline: entries[i].inline}
	}
}

// withoutReferences removes references of vals from values, and returns their keys. A list with a reference is removed
// as a whole.
func withoutReferences(values map[string]any, at string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if inner, ok := values[key].(map[string]any); ok {
			out = append(out, withoutReferences(inner, at+key+".")...)
			continue
		}
		if hasReference(values[key]) {
			delete(values, key)
			out = append(out, at+key)
		}
	}
	return out
}

func hasReference(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "ref+")
	case []any:
		return slices.ContainsFunc(v, hasReference)
	case map[string]any:
		for _, inner := range v {
			if hasReference(inner) {
				return true
			}
		}
	}
	return false
}

// patches returns what jsonPatches and strategicMergePatches say as patches of a Kustomize component.
func (b base) patches(r *release) ([]any, *problem) {
	var out []any
	if len(r.SetString) > 0 && len(r.JSONPatches)+len(r.StrategicMergePatches) > 0 {
		return nil, problemf("setString",
			"helmfile does not pass it to the chart of a release with patches (write it as set)")
	}
	for i, item := range r.JSONPatches {
		at := fmt.Sprintf("jsonPatches[%d]", i)
		patch, why := b.patch(at, item)
		if why != nil {
			return nil, why
		}
		target, ok := patch["target"].(map[string]any)
		operations, list := patch["patch"].([]any)
		if !ok || !list || len(patch) > 2 {
			return nil, problemf(at, "it must have target and patch, and nothing else")
		}
		text, err := yaml.Marshal(operations)
		if err != nil {
			return nil, problemf(at, "%v", err)
		}
		out = append(out, map[string]any{"target": target, "patch": string(text)})
	}
	for i, item := range r.StrategicMergePatches {
		at := fmt.Sprintf("strategicMergePatches[%d]", i)
		patch, why := b.patch(at, item)
		if why != nil {
			return nil, why
		}
		text, err := yaml.Marshal(patch)
		if err != nil {
			return nil, problemf(at, "%v", err)
		}
		out = append(out, map[string]any{"patch": string(text)})
	}
	return out, nil
}

// patch reads a patch that is written in the state, or in a file.
func (b base) patch(at string, item any) (map[string]any, *problem) {
	if name, isName := item.(string); isName {
		b.handler = "" // it is for values
		one, _, why := b.file(at, name, false)
		if why != nil {
			return nil, why
		}
		item = one.values
	}
	patch, ok := item.(map[string]any)
	switch {
	case !ok || len(patch) == 0:
		return nil, problemf(at, "it is no object")
	case hasReference(patch):
		return nil, problemf(at,
			"it has a reference of vals, which helmfile reads when it runs (let the cluster create a Secret, and refer to it)")
	}
	return patch, nil
}
