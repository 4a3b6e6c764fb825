package helm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Options are the inputs of a rendering apart from the chart.
type Options struct {
	ReleaseName, Namespace string
	KubeVersion            string
	APIVersions            []string
	Values                 map[string]any // null deletes a default
	IncludeCRDs            bool           // including those of crds/ directories
	SkipSchema             bool           // do not read values.schema.json
	Probe                  bool           // functions of time return another time, for a second rendering to compare with
	MaxOutput              int            // bytes of rendered text; 0: no limit
}

// Result is the result of a rendering.
type Result struct {
	Documents []Document
	Unstable  bool // a template called a non-deterministic function, or may have
}

// Document is the text of one YAML document. Renderings share it.
type Document struct {
	Source string // the template's path, from the chart's name on
	Text   []byte
	Sum    [sha256.Size]byte // of Text
	CRD    bool              // from a crds/ directory, to which hook rules do not apply
}

// Render renders the chart like `helm template`. The documents are ordered by file name.
func (c *Chart) Render(ctx context.Context, o Options) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("chart %s: Helm panicked: %v", c.Name(), r)
		}
	}()
	if err := c.renderable(); err != nil {
		return Result{}, err
	}
	in, files, err := c.attempt(ctx, o)
	if in.units == nil {
		return Result{}, err
	}
	if _, tooMuch := errors.AsType[*tooMuchText](err); err != nil && !tooMuch {
		files, err = c.helms(o)
	}
	if _, tooMuch := errors.AsType[*tooMuchText](err); tooMuch {
		err = fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	if err != nil {
		return Result{}, err
	}
	var documents []Document
	if o.IncludeCRDs {
		documents = c.parsed.crds(in.work)
	}
	return Result{Documents: files.documents(documents), Unstable: files.unstable}, ctx.Err()
}

// attempt executes the templates. It begins again if a template would have changed shared values. Without units, nothing was executed.
func (c *Chart) attempt(ctx context.Context, o Options) (in prepared, files *outputs, err error) {
	for tries := 0; ; tries++ {
		if in, err = c.prepare(o, tries <= maxRestarts); err != nil {
			return prepared{}, nil, err
		}
		if err := ctx.Err(); err != nil {
			return prepared{}, nil, err
		}
		in.units = c.units(in)
		if files, err = c.execute(in, o.MaxOutput); in.shared == nil || !errors.Is(err, errShared) {
			return in, files, err
		}
	}
}

// prepared is a copy of the chart with the subcharts that the values select, and the values for the templates.
type prepared struct {
	work      *chart.Chart
	selection *selection // of the chart; can be nil
	probe     bool
	top       chartutil.Values
	units     map[string]unit
	shared    *defaults // in the values; nil: templates can change all
}

func (c *Chart) prepare(o Options, share bool) (in prepared, err error) {
	if in.work, in.selection, err = c.selected(o.Values); err != nil {
		return prepared{}, err
	}
	if share && in.selection != nil && in.selection.defaults != nil && !in.selection.defaults.off.Load() {
		in.shared = in.selection.defaults
	}
	in.probe = o.Probe
	if o.Probe {
		c.analyse().probe(in.work)
	}
	in.top, err = c.values(in.work, copyMap(o.Values), in.shared, o)
	return in, err
}

// helms renders with Helm's engine. A failed execution may have changed the values, so it prepares them again.
func (c *Chart) helms(o Options) (*outputs, error) {
	in, err := c.prepare(o, false)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Engine{}.Render(in.work, in.top)
	if err != nil {
		return nil, templateError(err)
	}
	out := newOutputs(o.MaxOutput, len(texts))
	out.unstable = c.analyse().mayBeUnstable()
	for name, text := range texts {
		if err := out.text(name, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

var errNotParsed = errors.New("the templates do not parse")

// execute renders with parsed templates. Any error means that Helm's engine must render.
func (c *Chart) execute(in prepared, maxOutput int) (files *outputs, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	p := c.program(in)
	if p == nil {
		return nil, errNotParsed
	}
	results := p.reuse(c.results, in.units)
	files, err = p.run(in, results, maxOutput)
	if results == nil && errors.Is(err, errShared) {
		p.used.Store(false)
	}
	return files, err
}

// renderable returns an error if `helm template` would refuse the chart before it renders.
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

func (c *Chart) values(work *chart.Chart, values map[string]any, shared *defaults, o Options) (chartutil.Values, error) {
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
	if err := coalesce(work, values, shared); err != nil {
		if _, err = chartutil.CoalesceValues(work, copyMap(o.Values)); err == nil { // for Helm's message
			err = errNoTable
		}
		return nil, fmt.Errorf("chart %s: values: %w", c.Name(), err)
	}
	top := chartutil.Values{
		"Chart":        work.Metadata,
		"Capabilities": capabilities,
		"Release": map[string]any{
			"Name": o.ReleaseName, "Namespace": o.Namespace, "IsUpgrade": false, "IsInstall": true, "Revision": 1, "Service": "Helm",
		},
		"Values": chartutil.Values(values),
	}
	if o.SkipSchema {
		return top, nil
	}
	return top, c.validate(work, values, shared)
}

// copyChart copies the parts of a chart that Helm or templates change. The copies share the files, and the default values, which are copied
// before they are merged.
func copyChart(c *chart.Chart) *chart.Chart {
	out := &chart.Chart{Metadata: copyMetadata(c.Metadata), Lock: c.Lock, Templates: c.Templates, Values: c.Values, Schema: c.Schema, Files: c.Files}
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
