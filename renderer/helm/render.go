package helm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
)

// Options are the inputs of a rendering apart from the chart.
type Options struct {
	ReleaseName, Namespace string
	KubeVersion            string
	APIVersions            []string
	Values                 map[string]any // null deletes a default
	IncludeCRDs            bool           // including those of crds/ directories
	SkipSchema             bool           // do not read values.schema.json
	// functions of time return another time, for a second rendering to compare with
	Probe     bool
	MaxOutput int // bytes of rendered text; 0: no limit
}

// Result is the result of a rendering.
type Result struct {
	Documents []Document
	Unstable  bool // a template called a non-deterministic function
}

// Document is the text of one YAML document. Nobody changes it.
type Document struct {
	Source string // the template's path, from the chart's name on
	Text   []byte
	Sum    [sha256.Size]byte // of Text
	CRD    bool              // from a crds/ directory, to which hook rules do not apply
}

// prepared is a chart with the subcharts and the values of one rendering, which can change them.
type prepared struct {
	part   part
	values map[string]any
	units  map[string]unit // by the names that Helm gives the templates
	crds   []File          // of the crds/ directories
	render func() error    // with Helm's engine

	functions func() template.FuncMap
	split     func(text string) []string
}

// part is a chart of a rendering with its subcharts.
type part struct {
	name   string
	schema []byte // nil: none
	below  []part
}

// Render renders the chart like `helm template`. The documents are ordered by file name. Errors do not quote values of
// the release that are secrets by their names, or because they are random.
func (c *Chart) Render(ctx context.Context, o Options) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("chart %s: Helm panicked: %v", c.Name(), r)
		}
	}()
	if err := c.renderable(); err != nil {
		return Result{}, err
	}
	in, err := c.prepare(ctx, o)
	if in != nil {
		defer func() { err = withoutSecrets(err, in.values) }()
	}
	if err != nil {
		return Result{}, err
	}
	texts, unstable, err := c.execute(in, o)
	if _, tooMuch := errors.AsType[*tooMuchText](err); tooMuch {
		return Result{}, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	if err != nil {
		return Result{}, c.helms(ctx, o, err)
	}
	out := Result{Unstable: unstable}
	for _, crd := range in.crds {
		out.Documents = append(out.Documents, Document{
			Source: crd.Path, Text: crd.Data, Sum: sha256.Sum256(crd.Data),
			CRD: true,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		for _, document := range in.split(texts[name]) {
			// Helm prints a newline after each document; without it, a block scalar at the end would lose its newline.
			text := append(append(make([]byte, 0, len(document)+1), document...), '\n')
			out.Documents = append(out.Documents, Document{Source: name, Text: text, Sum: sha256.Sum256(text)})
		}
	}
	return out, ctx.Err()
}

func (c *Chart) prepare(ctx context.Context, o Options) (*prepared, error) {
	in, err := c.chart.prepare(o)
	if err == nil && !o.SkipSchema {
		err = c.schemas.validate(in.part, in.values)
	}
	return in, cmp.Or(err, ctx.Err())
}

// execute renders with parsed templates. A panic is that of a function in a template.
func (c *Chart) execute(in *prepared, o Options) (texts map[string]string, unstable bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return c.programs.of(in).run(in.units, o)
}

// helms returns the error of Helm's engine for a rendering that has failed. It prepares the values again, which the
// templates may have changed. If Helm renders the chart, it returns the error as it is.
func (c *Chart) helms(ctx context.Context, o Options, failed error) error {
	in, err := c.prepare(ctx, o)
	if err != nil {
		return err
	}
	return templateError(cmp.Or(in.render(), failed))
}

// renderable returns an error if `helm template` would refuse the chart before it renders.
func (c *Chart) renderable() error {
	switch kind := c.chart.about().kind; kind {
	case "", "application":
	default:
		return fmt.Errorf("chart %s: a chart of type %s cannot be rendered by itself; use it as a dependency", c.Name(),
			kind)
	}
	if missing := c.Missing(); len(missing) > 0 {
		return fmt.Errorf("chart %s: its dependency %s (%s) is neither in charts/ nor locked: run `sluice deps lock`",
			c.Name(), missing[0].Name, missing[0].Repository)
	}
	return nil
}

// kubeVersionError is the error of a chart that refuses the version of a cluster.
func kubeVersionError(chart, want, version string) error {
	return fmt.Errorf("chart %s needs Kubernetes %s, the cluster has %s: change the chart's version or the cluster's kubeVersion", chart, want, version)
}

// copyValue copies the maps and lists of a value.
func copyValue(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, item := range x {
			out[k] = copyValue(item)
		}
		return out
	case []any:
		return copyList(x)
	default:
		return v
	}
}

func copyList(list []any) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = copyValue(list[i])
	}
	return out
}
