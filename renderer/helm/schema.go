package helm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// schemaCache compiles each schema once. Charts are copied for each rendering, but the copies share the texts of the schemas, so that the
// address of a text stands for it.
type schemaCache struct {
	mu       sync.Mutex
	compiled map[*byte]schema
}

// validate checks values as Helm does, but with a compiler that cannot read other documents.
func (c *Chart) validate(work *chart.Chart, values chartutil.Values, shared *defaults) error {
	var out SchemaError
	c.validateOne(work, values, shared, nil, &out)
	if len(out.Failures) == 0 {
		return nil
	}
	slices.SortStableFunc(out.Failures, func(a, b SchemaFailure) int { // the validator's order differs between runs
		return cmp.Or(slices.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return &out
}

const maxSchemaFailures = 50

// validateOne checks the values of a chart and its subcharts; above is the path of the chart's values in the release's.
func (c *Chart) validateOne(work *chart.Chart, values map[string]any, shared *defaults, above []string, out *SchemaError) {
	if work.Schema != nil {
		out.add(work.Name(), above, c.schema.check(work.Schema, values, shared))
	}
	for _, sub := range work.Dependencies() {
		raw, ok := values[sub.Name()]
		if !ok || raw == nil {
			continue
		}
		path := append(slices.Clip(above), sub.Name())
		switch v := raw.(type) {
		case map[string]any:
			c.validateOne(sub, v, shared, path, out)
		case chartutil.Values:
			c.validateOne(sub, v, shared, path, out)
		default:
			out.Failures = append(out.Failures, SchemaFailure{Chart: sub.Name(), Path: path, Message: fmt.Sprintf("values must be a mapping, not %T", raw)})
		}
	}
}

// add records the leaves of a validation error, which concern single values.
func (e *SchemaError) add(chart string, above []string, err error) {
	if err == nil || len(e.Failures) >= maxSchemaFailures {
		return
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		e.Failures = append(e.Failures, SchemaFailure{Chart: chart, Message: err.Error()})
		return
	}
	for _, cause := range invalid.Causes {
		e.add(chart, above, cause)
	}
	if len(invalid.Causes) > 0 {
		return
	}
	path := append(slices.Clip(above), invalid.InstanceLocation...)
	text := invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if !slices.ContainsFunc(e.Failures, func(f SchemaFailure) bool { return f.Message == text && slices.Equal(f.Path, path) }) {
		e.Failures = append(e.Failures, SchemaFailure{Chart: chart, Path: append([]string{}, path...), Message: text})
	}
}

func (s *schemaCache) check(text []byte, values map[string]any, shared *defaults) error {
	known := s.of(text)
	if known.err != nil {
		return known.err
	}
	if known.parts != nil && shared != nil && known.parts.valid(known.compiled, values, shared, 0) {
		return nil
	}
	return known.compiled.Validate(values)
}

func (s *schemaCache) of(text []byte) (out schema) {
	if len(text) == 0 {
		out.compiled, out.parts, out.err = compile(text)
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.compiled[&text[0]]
	if !ok {
		known.compiled, known.parts, known.err = compile(text)
		if s.compiled == nil {
			s.compiled = map[*byte]schema{}
		}
		s.compiled[&text[0]] = known
	}
	return known
}

// schemaURL is the name that Helm gives a schema: a relative $ref resolves the same.
const schemaURL = "file:///values.schema.json"

func compile(text []byte) (compiled *jsonschema.Schema, separate parts, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("values.schema.json cannot be used: %v", r)
		}
	}()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("values.schema.json: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refuse{})
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return nil, nil, fmt.Errorf("values.schema.json: %w", err)
	}
	compiled, err = compiler.Compile(schemaURL)
	if err != nil {
		return nil, nil, fmt.Errorf("values.schema.json: %w", err)
	}
	return compiled, partsOf(document, compiled), nil
}

// refuse is a loader that fails for every URL outside the schema. The library has the well-known meta-schemas built in.
type refuse struct{}

// Load returns an error.
func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is another document: a chart's schema may only refer to itself (the app can say `schema: skip`)", url)
}
