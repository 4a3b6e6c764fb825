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
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// schemas compiles each schema once. Renderings share the texts of a chart's schemas, so that the address of a text
// stands for it. It is safe for concurrent use.
type schemas struct {
	mu       sync.Mutex
	compiled map[*byte]schema
}

type schema struct {
	compiled *jsonschema.Schema
	err      error
}

// validate checks values as Helm does, but with a compiler that cannot read other documents.
func (s *schemas) validate(chart part, values map[string]any) error {
	var out SchemaError
	s.validateOne(chart, values, nil, &out)
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
func (s *schemas) validateOne(chart part, values map[string]any, above []string, out *SchemaError) {
	if chart.schema != nil {
		out.add(chart.name, above, s.check(chart.schema, values))
	}
	for _, sub := range chart.below {
		raw, ok := values[sub.name]
		if !ok || raw == nil {
			continue
		}
		path := append(slices.Clip(above), sub.name)
		if v, isTable := raw.(map[string]any); isTable {
			s.validateOne(sub, v, path, out)
		} else {
			out.Failures = append(out.Failures, SchemaFailure{
				Chart: sub.name, Path: path,
				Message: "the values of a subchart must be a mapping",
			})
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
	if k, ok := invalid.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(k.Properties) // the validator's order differs between runs, and equal failures of targets are one
	}
	text := invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if !slices.ContainsFunc(e.Failures, func(f SchemaFailure) bool {
		return f.Message == text &&
			slices.Equal(f.Path, path)
	}) {
		e.Failures = append(e.Failures, SchemaFailure{Chart: chart, Path: append([]string{}, path...), Message: text})
	}
}

func (s *schemas) check(text []byte, values map[string]any) error {
	known := s.of(text)
	if known.err != nil {
		return known.err
	}
	return known.compiled.Validate(values)
}

func (s *schemas) of(text []byte) (out schema) {
	if len(text) == 0 {
		out.compiled, out.err = compile(text)
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.compiled[&text[0]]
	if !ok {
		known.compiled, known.err = compile(text)
		if s.compiled == nil {
			s.compiled = map[*byte]schema{}
		}
		s.compiled[&text[0]] = known
	}
	return known
}

// schemaURL is the name that Helm gives a schema: a relative $ref resolves the same.
const schemaURL = "file:///values.schema.json"

func compile(text []byte) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("values.schema.json cannot be used: %v", r)
		}
	}()
	if err := manifest.CheckPointer(text); err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refuse{})
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	compiled, err = compiler.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	return compiled, nil
}

// refuse is a loader that fails for every URL outside the schema. The library has the well-known meta-schemas built in.
type refuse struct{}

// Load returns an error.
func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is another document: a chart's schema may only refer to itself (the app can say `schema: skip`)", url)
}
