package helm

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// Options are what a rendering depends on besides the chart.
type Options struct {
	ReleaseName, Namespace string
	KubeVersion            string
	APIVersions            []string
	Values                 map[string]any // null deletes a default
	IncludeCRDs            bool           // also those of crds/ directories
	SkipSchema             bool           // values.schema.json is not looked at
	Probe                  bool           // functions of time give another time: for a second rendering to compare with
	MaxOutput              int            // bytes of rendered text; 0 is no bound
}

// Result is the rendered text.
type Result struct {
	Documents []Document
	Unstable  bool // a function that gives another outcome each time can be reached
}

// Document is one YAML document, not parsed.
type Document struct {
	Source string // the template's path, from the chart's name on
	Text   []byte
	CRD    bool // from a crds/ directory, to which hook rules do not apply
}

// Render renders the chart as `helm template` does, in the order of its files.
func (c *Chart) Render(ctx context.Context, o Options) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("chart %s: Helm panicked: %v", c.Name(), r)
		}
	}()
	if err := c.renderable(); err != nil {
		return Result{}, err
	}
	analysis := c.analyse()
	work := copyChart(c.chart)
	if o.Probe {
		analysis.probe(work)
	}
	values := copyMap(o.Values)
	if err := chartutil.ProcessDependenciesWithMerge(work, values); err != nil {
		return Result{}, fmt.Errorf("chart %s: dependencies: %w", c.Name(), err)
	}
	top, err := c.values(work, values, o)
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	files, err := engine.Engine{}.Render(work, top)
	if err != nil {
		return Result{}, templateError(err)
	}
	documents, err := collect(work, files, o)
	if err != nil {
		return Result{}, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	return Result{Documents: documents, Unstable: analysis.unstable(top)}, ctx.Err()
}

// renderable refuses what `helm template` refuses before it renders.
func (c *Chart) renderable() error {
	switch c.chart.Metadata.Type {
	case "", "application":
	default:
		return fmt.Errorf("chart %s: a chart of type %s cannot be rendered by itself; use it as a dependency", c.Name(), c.chart.Metadata.Type)
	}
	if missing := c.Missing(); len(missing) > 0 {
		return fmt.Errorf("chart %s: its dependency %s (%s) is neither in charts/ nor locked: run `sluice deps lock`",
			c.Name(), missing[0].Name, missing[0].Repository)
	}
	return nil
}

func (c *Chart) values(work *chart.Chart, values map[string]any, o Options) (chartutil.Values, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	if o.KubeVersion != "" {
		version, err := chartutil.ParseKubeVersion(o.KubeVersion)
		if err != nil {
			return nil, fmt.Errorf("kubeVersion %q of the cluster: %w", o.KubeVersion, err)
		}
		capabilities.KubeVersion = *version
	}
	capabilities.APIVersions = append(capabilities.APIVersions, o.APIVersions...)
	if want := work.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, capabilities.KubeVersion.String()) {
		return nil, fmt.Errorf("chart %s needs Kubernetes %s, the cluster has %s: change the chart's version or the cluster's kubeVersion",
			c.Name(), want, capabilities.KubeVersion.String())
	}
	release := chartutil.ReleaseOptions{Name: o.ReleaseName, Namespace: o.Namespace, Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValuesWithSchemaValidation(work, values, release, capabilities, true)
	if err != nil {
		return nil, fmt.Errorf("chart %s: values: %w", c.Name(), err)
	}
	if o.SkipSchema {
		return top, nil
	}
	merged, ok := top["Values"].(chartutil.Values)
	if !ok {
		return nil, fmt.Errorf("chart %s: Helm gave no values", c.Name())
	}
	return top, c.validate(work, merged)
}

// collect brings the rendered files into documents: CRDs first, then the files by name, as Helm splits them.
func collect(work *chart.Chart, files map[string]string, o Options) ([]Document, error) {
	var out []Document
	total := 0
	if o.IncludeCRDs {
		for _, crd := range work.CRDObjects() {
			out = append(out, Document{Source: crd.Filename, Text: crd.File.Data, CRD: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if total += len(text); o.MaxOutput > 0 && total > o.MaxOutput {
			return nil, fmt.Errorf("the templates give more than %d MiB of text", o.MaxOutput>>20)
		}
		if strings.HasSuffix(name, "NOTES.txt") || strings.HasPrefix(path.Base(name), "_") || strings.TrimSpace(text) == "" {
			continue
		}
		out = appendDocuments(out, name, text)
	}
	return out, nil
}

func appendDocuments(out []Document, name, text string) []Document {
	entries := releaseutil.SplitManifests(text)
	keys := slices.Collect(maps.Keys(entries))
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	for _, key := range keys {
		// Helm prints a newline behind each: without it, a block scalar at the end would lose its own.
		out = append(out, Document{Source: name, Text: []byte(entries[key] + "\n")})
	}
	return out
}

// copyChart copies all that Helm writes to when it processes dependencies; files are shared.
func copyChart(c *chart.Chart) *chart.Chart {
	metadata := *c.Metadata
	metadata.Dependencies = make([]*chart.Dependency, len(c.Metadata.Dependencies))
	for i, d := range c.Metadata.Dependencies {
		if d != nil {
			dependency := *d
			metadata.Dependencies[i] = &dependency
		}
	}
	out := &chart.Chart{
		Metadata:  &metadata,
		Lock:      c.Lock,
		Templates: c.Templates,
		Values:    copyMap(c.Values),
		Schema:    c.Schema,
		Files:     c.Files,
	}
	for _, d := range c.Dependencies() {
		out.AddDependency(copyChart(d))
	}
	return out
}

func copyMap(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = copyValue(v)
	}
	return out
}

func copyValue(v any) any {
	switch x := v.(type) {
	case map[string]any:
		return copyMap(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = copyValue(x[i])
		}
		return out
	default:
		return v
	}
}
