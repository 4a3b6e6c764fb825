package argocd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
)

// chart reads a Helm source: the chart and its merged values. dir is the chart's directory; "" for a remote chart.
func (i *importer) chart(app *application, s *source, all []source, dir string, env map[string]string) (*Chart, error) {
	h := s.Helm
	if h == nil {
		h = &helmSource{}
	}
	out := &Chart{
		Path: dir, Release: cmp.Or(h.ReleaseName, app.Metadata.Name), Values: map[string]any{}, SkipCRDs: h.SkipCrds,
		SkipSchema:  h.SkipSchemaValidation,
		KubeVersion: h.KubeVersion, APIVersions: h.APIVersions, Namespace: h.Namespace,
	}
	for _, name := range h.ValueFiles {
		if err := i.valueFile(out, name, dir, all, h.IgnoreMissingValueFiles, env); err != nil {
			return nil, fmt.Errorf("helm.valueFiles: %w", err)
		}
	}
	own := h.ValuesObject
	if own == nil && h.Values != "" {
		if err := yaml.Unmarshal([]byte(h.Values), &own); err != nil {
			return nil, fmt.Errorf("helm.values: %w", err)
		}
	}
	out.Values = over(out.Values, own)
	for n, p := range h.Parameters {
		value, err := expand(p.Value, env)
		if err != nil {
			return nil, fmt.Errorf("helm.parameters[%d]: %w", n, err)
		}
		set := strvals.ParseInto
		if p.ForceString {
			set = strvals.ParseIntoString
		}
		if err := set(p.Name+"="+literalCommas(value), out.Values); err != nil {
			return nil, fmt.Errorf("helm.parameters[%d] %s: %w", n, p.Name, err)
		}
	}
	for n, p := range h.FileParameters {
		name, err := inside(cmp.Or(dir, "."), p.Path)
		if err != nil {
			return nil, fmt.Errorf("helm.fileParameters[%d]: %w", n, err)
		}
		data, err := i.Tree.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("helm.fileParameters[%d]: %s does not exist", n, name)
		}
		read := func([]rune) (any, error) { return string(data), nil }
		if err := strvals.ParseIntoFile(p.Name+"="+literalCommas(p.Path), out.Values, read); err != nil {
			return nil, fmt.Errorf("helm.fileParameters[%d]: %w", n, err)
		}
	}
	return out, nil
}

// comma is a comma that nothing escapes.
var comma = regexp.MustCompile(`([^\\]),`)

// literalCommas keeps the commas of a value that is no list, as Argo CD passes it to `helm --set`.
func literalCommas(value string) string {
	if strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") {
		return value
	}
	return comma.ReplaceAllString(value, `$1\,`)
}

var errRemoteValues = errors.New("values files from URLs are not supported (add the file to the repository)")

// valueFile merges one values file: relative to the chart, `/x` from the repository, or `$ref/x` from the root of
// another source.
func (i *importer) valueFile(out *Chart, name, dir string, all []source, ignoreMissing bool,
	env map[string]string,
) error {
	name, err := expandExceptRef(name, env)
	if err != nil {
		return err
	}
	if strings.Contains(name, "://") {
		return fmt.Errorf("%s: %w", name, errRemoteValues)
	}
	full, from := "", i
	if ref, rest, ok := strings.Cut(name, "/"); ok && strings.HasPrefix(ref, "$") {
		found := false
		for _, s := range all {
			if "$"+s.Ref != ref {
				continue
			}
			var err error
			if from, err = i.contentOf(s.RepoURL, s.TargetRevision); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			found = true
		}
		if !found {
			return fmt.Errorf("%s: no source has the ref %q", name, strings.TrimPrefix(ref, "$"))
		}
		full, err = inside(".", rest)
	} else if dir == "" {
		return fmt.Errorf("%s: the values file is inside a remote chart, which is not supported (copy it into the repository, and use a source with a ref)", name)
	} else {
		full, err = inside(dir, name)
	}
	if err != nil {
		return err
	}
	if !from.isFile(full) {
		// Argo CD 3.2 takes such a name as it is, and 3.5 for all files that match
		if strings.ContainsAny(full, "*?[{") {
			return fmt.Errorf("%s: wildcards in the names of values files are not supported (name each file)", full)
		}
		if ignoreMissing {
			return nil
		}
		return fmt.Errorf("%s does not exist (add it, or set ignoreMissingValueFiles)", full)
	}
	data, err := from.Tree.ReadFile(full)
	if err != nil {
		return err
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	out.Values = over(out.Values, values)
	out.ValuesFiles = append(out.ValuesFiles, path.Join(from.dir, full))
	return nil
}

// expandExceptRef replaces variables, but not the `$ref` that a path begins with.
func expandExceptRef(name string, env map[string]string) (string, error) {
	if strings.HasPrefix(name, "$") && !strings.HasPrefix(name, "$ARGOCD_") && !strings.HasPrefix(name, "${") {
		ref, rest, _ := strings.Cut(name, "/")
		rest, err := expand(rest, env)
		return path.Join(ref, rest), err
	}
	return expand(name, env)
}

// over puts b over a, as helm does with several values files.
func over(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		upper, isMap := v.(map[string]any)
		lower, wasMap := out[k].(map[string]any)
		if isMap && wasMap {
			out[k] = over(lower, upper)
			continue
		}
		out[k] = v
	}
	return out
}
