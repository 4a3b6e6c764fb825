package flux

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Release is a HelmRelease as one cluster gets it: a chart and its values.
type Release struct {
	// Repository is the name of the other repository that has the chart; "" for this one.
	Repository string
	// Path is the chart's directory in its repository; "" for a remote chart.
	Path string
	// Repo, Chart and Version name a remote chart, as fleet.HelmSource does.
	Repo, Chart, Version string

	Name        string         // of the release
	Namespace   string         // of the release
	Values      map[string]any // merged: valuesFrom, values
	Defaults    map[string]any // of valuesFiles, merged, which replace the chart's own values; nil without valuesFiles
	ValuesFiles []string       // the files that valuesFiles names, in the tree
	Without     []string       // files of the chart and of its local dependencies that the artifact lacks, in the tree
	IncludeCRDs bool
	SkipSchema  bool
	StandIns    []string // see Unit
	DropHooks   bool
	// Component is a Kustomize component that does what spec.postRenderers and spec.commonMetadata ask for; nil for
	// none.
	Component []byte
}

// errEncrypted means that SOPS has encrypted the values that a release refers to.
var errEncrypted = errors.New("the values are encrypted: Sluice cannot read them")

// release reads a HelmRelease: its settings, its chart, its values, its post-renderers.
func (c *cluster) release(o manifest.Object) (*Release, *helmv2.HelmRelease, error) {
	var r helmv2.HelmRelease
	head, own, err := divided(o)
	if err != nil {
		return nil, nil, err
	}
	if err := decode(head, &r); err != nil {
		return nil, nil, err
	}
	r.Namespace = keyOf(o).Namespace
	out := &Release{
		Name: r.GetReleaseName(), Namespace: r.GetReleaseNamespace(), Values: map[string]any{},
		IncludeCRDs: true,
	}
	if r.Spec.KubeConfig != nil {
		return nil, &r, errors.New("spec.kubeConfig: releases on other clusters are not supported (give that cluster an entry of its own)")
	}
	if r.Spec.PostRenderStrategy == helmv2.PostRenderStrategyNoHooks &&
		(len(r.Spec.PostRenderers) > 0 || r.Spec.CommonMetadata != nil) {
		return nil, &r, errors.New("spec.postRenderStrategy: nohooks is not supported (leave it out: hooks are changed like other objects)")
	}
	if in := r.Spec.Install; in != nil {
		// skipCRDs is deprecated, and helm-controller still obeys it
		out.IncludeCRDs = in.CRDs != helmv2.Skip && !in.SkipCRDs
		out.DropHooks = in.DisableHooks
		out.SkipSchema = in.DisableSchemaValidation
	}
	if up := r.Spec.Upgrade; up != nil && up.DisableSchemaValidation { // one rendering stands for both
		out.SkipSchema = true
	}
	if err := c.chart(&r, out); err != nil {
		return nil, &r, err
	}
	if err := c.values(&r, own, out); err != nil {
		return nil, &r, err
	}
	out.Component, err = component(&r)
	return out, &r, err
}

// divided returns a HelmRelease without spec.values, and a copy of these. The values are most of the object, and
// decoding the rest alone is faster.
func divided(o manifest.Object) (head manifest.Object, values map[string]any, err error) {
	spec, _ := o["spec"].(map[string]any)
	if spec["values"] == nil {
		return o, nil, nil
	}
	given, ok := spec["values"].(map[string]any)
	if !ok {
		return nil, nil, errors.New("spec.values: it is no mapping")
	}
	if values, err = wire.Plain(given); err != nil {
		return nil, nil, fmt.Errorf("spec.values: %w", err)
	}
	head, spec = maps.Clone(o), maps.Clone(spec)
	delete(spec, "values")
	head["spec"] = spec
	return head, values, nil
}

// chart finds the chart of a release.
func (c *cluster) chart(r *helmv2.HelmRelease, out *Release) error {
	if ref := r.Spec.ChartRef; ref != nil {
		key := Key{Group: groupSource, Kind: ref.Kind, Namespace: cmp.Or(ref.Namespace, r.Namespace), Name: ref.Name}
		o, ok := c.objects[key]
		if !ok {
			return &missingError{"spec.chartRef", key}
		}
		switch ref.Kind {
		case kindOCIRepository:
			return ociChart(o, out)
		case kindHelmChart:
			var chart sourcev1.HelmChart
			if err := decode(o, &chart); err != nil {
				return err
			}
			return c.chartOf(chartSpec{
				chart: chart.Spec.Chart, version: chart.Spec.Version, kind: chart.Spec.SourceRef.Kind,
				name:      chart.Spec.SourceRef.Name,
				namespace: key.Namespace, valuesFiles: chart.Spec.ValuesFiles,
				ignoreMissing: chart.Spec.IgnoreMissingValuesFiles,
			}, out)
		default:
			return fmt.Errorf("spec.chartRef: charts from %s are not supported", ref.Kind)
		}
	}
	if r.Spec.Chart == nil {
		return errors.New("spec.chart or spec.chartRef is missing")
	}
	t := r.Spec.Chart.Spec
	return c.chartOf(chartSpec{
		chart: t.Chart, version: t.Version, kind: t.SourceRef.Kind, name: t.SourceRef.Name,
		namespace:   cmp.Or(t.SourceRef.Namespace, r.Namespace),
		valuesFiles: t.ValuesFiles, ignoreMissing: t.IgnoreMissingValuesFiles,
	}, out)
}

// chartSpec is what HelmChart and HelmRelease.spec.chart have in common.
type chartSpec struct {
	chart, version        string
	kind, name, namespace string
	valuesFiles           []string
	ignoreMissing         bool
}

// chartOf finds a chart in its source.
func (c *cluster) chartOf(s chartSpec, out *Release) error {
	key := Key{Group: groupSource, Kind: s.kind, Namespace: s.namespace, Name: s.name}
	o, ok := c.objects[key]
	if !ok && key != c.self { // the Flux Operator makes the cluster's own repository, which is not in Git then
		return &missingError{"the chart's source", key}
	}
	switch s.kind {
	case kindHelmRepository:
		var repo sourcev1.HelmRepository
		if err := decode(o, &repo); err != nil {
			return err
		}
		out.Version = cmp.Or(s.version, "*")
		if repo.Spec.Type == sourcev1.HelmRepositoryTypeOCI || strings.HasPrefix(repo.Spec.URL, "oci://") {
			out.Chart = strings.TrimSuffix(repo.Spec.URL, "/") + "/" + s.chart
		} else {
			out.Repo, out.Chart = repo.Spec.URL, s.chart
		}
		if len(s.valuesFiles) > 0 {
			return errors.New("valuesFiles of a chart from a HelmRepository are not supported (copy the values into spec.values)")
		}
		return nil
	case kindGitRepository, kindBucket:
		return c.gitChart(key, s, out)
	default:
		return fmt.Errorf("charts from %s are not supported", s.kind)
	}
}

// gitChart finds a chart in the files of a GitRepository, or of a Bucket that is pushed from this repository.
func (c *cluster) gitChart(key Key, s chartSpec, out *Release) error {
	a, err := c.artifactOf(key)
	if err != nil {
		return err
	}
	dir := clean(s.chart)
	if !a.isDir(dir) {
		return fmt.Errorf("the chart %q is not a directory of %s", s.chart, key)
	}
	if out.Repository, out.Path = a.of.name, dir; out.Repository == "" {
		out.Path = a.of.at(dir) // a Bucket can be pushed from a directory
	}
	if out.Without, err = c.leftOut(a, dir); err != nil {
		return err
	}
	if len(s.valuesFiles) > 0 {
		out.Defaults = map[string]any{}
	}
	for _, name := range s.valuesFiles {
		full := clean(name)
		if !a.isFile(full) && s.ignoreMissing {
			continue
		}
		if err := out.addDefaults(a, full); err != nil {
			return fmt.Errorf("valuesFiles: %w", err)
		}
	}
	return nil
}

// addDefaults merges a values file of the chart over the defaults.
func (r *Release) addDefaults(a *artifact, name string) error {
	data, err := a.ReadFile(name)
	if err != nil {
		return err
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("%s: %w", a.original(name), err)
	}
	r.Defaults = merged(r.Defaults, values)
	r.ValuesFiles = append(r.ValuesFiles, a.original(name))
	return nil
}

// ociChart reads the chart of an OCIRepository. It refuses one whose version cannot be locked.
func ociChart(o manifest.Object, out *Release) error {
	var repo sourcev1.OCIRepository
	if err := decode(o, &repo); err != nil {
		return err
	}
	out.Chart = repo.Spec.URL
	ref := repo.Spec.Reference
	switch {
	case ref == nil:
		return errors.New("the OCIRepository has no spec.ref: the tag `latest` cannot be locked (set ref.tag or ref.semver)")
	case ref.Digest != "" && ref.Tag == "": // Flux takes the digest and ignores the range
		return errors.New("an OCIRepository with ref.digest and without ref.tag is not supported (set ref.tag too: Sluice calls the version by it)")
	case ref.Digest != "":
		out.Version = ref.Tag + "@" + ref.Digest
	case ref.Tag != "" && ref.SemVer == "":
		out.Version = ref.Tag
	case ref.SemVer != "" && ref.SemverFilter == "":
		out.Version = ref.SemVer
	case ref.SemVer != "":
		return errors.New("the OCIRepository's ref.semverFilter is not supported (set ref.tag or ref.semver alone)")
	default:
		return errors.New("the OCIRepository's spec.ref is empty: the tag `latest` cannot be locked (set ref.tag or ref.semver)")
	}
	return nil
}

// values merges valuesFrom in order, then spec.values, as ChartValuesFromReferences of github.com/fluxcd/pkg/chartutil
// does. An entry with targetPath sets a single value on top of spec.values, like `helm --set`.
func (c *cluster) values(r *helmv2.HelmRelease, own map[string]any, out *Release) error {
	for i, ref := range r.Spec.ValuesFrom {
		key := Key{Kind: ref.Kind, Namespace: r.Namespace, Name: ref.Name}
		o, standIn, err := c.referred(key)
		if err != nil {
			return fmt.Errorf("spec.valuesFrom[%d]: %w", i, err)
		}
		if o == nil && ref.Optional {
			continue
		}
		if o == nil {
			return &missingError{fmt.Sprintf("spec.valuesFrom[%d]", i), key}
		}
		if standIn != "" && !slices.Contains(out.StandIns, standIn) {
			out.StandIns = append(out.StandIns, standIn)
		}
		data, encrypted, err := dataOf(o)
		if err == nil && encrypted {
			err = fmt.Errorf("%s: %w", key, errEncrypted)
		}
		if err != nil {
			return fmt.Errorf("spec.valuesFrom[%d]: %w", i, err)
		}
		value, ok := data[ref.GetValuesKey()]
		if !ok && ref.Optional {
			continue
		}
		if !ok {
			return fmt.Errorf("spec.valuesFrom[%d]: %s has no key %q", i, key, ref.GetValuesKey())
		}
		if err := out.set(ref.TargetPath, value, ref.Literal, own); err != nil {
			return fmt.Errorf("spec.valuesFrom[%d]: %s: %w", i, key, err)
		}
	}
	out.Values = merged(out.Values, own)
	return nil
}

// merged puts b over a, as helm does with several values files. The result shares parts with both, on purpose: a
// targetPath that leads into such a part changes spec.values too, so that merging them again keeps it.
func merged(a, b map[string]any) map[string]any {
	out := make(map[string]any, len(a)+len(b))
	maps.Copy(out, a)
	for k, v := range b {
		upper, isMap := v.(map[string]any)
		lower, wasMap := out[k].(map[string]any)
		if isMap && wasMap {
			out[k] = merged(lower, upper)
			continue
		}
		out[k] = v
	}
	return out
}

// set merges a value of valuesFrom: a YAML text, or with a target, a single value at that path on top of own, which is
// spec.values. Like helm-controller, it reads the single value as `helm --set` does, unless it is literal or quoted.
func (r *Release) set(target, value string, literal bool, own map[string]any) error {
	if target == "" {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(value), &values); err != nil {
			return err
		}
		r.Values = merged(r.Values, values)
		return nil
	}
	const quotes = `'"`
	r.Values = merged(r.Values, own)
	switch {
	case literal: // every character that strvals gives a meaning is escaped
		escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`)
		return strvals.ParseIntoString(target+"="+escape.Replace(value), r.Values)
	case quoted(value, "'"), quoted(value, `"`):
		return strvals.ParseIntoString(target+"="+strings.Trim(value, quotes), r.Values)
	}
	return strvals.ParseInto(target+"="+value, r.Values)
}

// quoted reports whether a text is between two quotes.
func quoted(text, quote string) bool {
	return strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote)
}
