package helm

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// schemaCache compiles each schema text once: charts are copied for every rendering, their schemas never change.
type schemaCache struct {
	mu       sync.Mutex
	compiled map[string]schema
}

// validate checks values as Helm does, with a compiler that can read nothing but the schema itself.
func (c *Chart) validate(work *chart.Chart, values chartutil.Values) error {
	var failures bytes.Buffer
	c.validateOne(work, values, &failures)
	if failures.Len() == 0 {
		return nil
	}
	return fmt.Errorf("values do not fit values.schema.json (an app can say `schema: skip`):\n%s", bytes.TrimRight(failures.Bytes(), "\n"))
}

func (c *Chart) validateOne(work *chart.Chart, values map[string]any, failures *bytes.Buffer) {
	if work.Schema != nil {
		if err := c.schema.check(work.Schema, values); err != nil {
			fmt.Fprintf(failures, "chart %s: %v\n", work.Name(), err)
		}
	}
	for _, sub := range work.Dependencies() {
		raw, ok := values[sub.Name()]
		if !ok || raw == nil {
			continue
		}
		switch v := raw.(type) {
		case map[string]any:
			c.validateOne(sub, v, failures)
		case chartutil.Values:
			c.validateOne(sub, v, failures)
		default:
			fmt.Fprintf(failures, "chart %s: values must be a mapping, not %T\n", sub.Name(), raw)
		}
	}
}

func (s *schemaCache) check(text []byte, values map[string]any) error {
	s.mu.Lock()
	known, ok := s.compiled[string(text)]
	if !ok {
		known.compiled, known.err = compile(text)
		if s.compiled == nil {
			s.compiled = map[string]schema{}
		}
		s.compiled[string(text)] = known
	}
	s.mu.Unlock()
	if known.err != nil {
		return known.err
	}
	return known.compiled.Validate(values)
}

func compile(text []byte) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("values.schema.json cannot be used: %v", r)
		}
	}()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	const url = "file:///values.schema.json" // the name that Helm gives it: a relative $ref resolves the same
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refuse{})
	if err := compiler.AddResource(url, document); err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	compiled, err = compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("values.schema.json: %w", err)
	}
	return compiled, nil
}

// refuse is the loader for every URL that a schema names beyond itself. The well-known meta-schemas are part of the
// library and never come here.
type refuse struct{}

// Load refuses.
func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is beyond the schema: a chart's schema may refer only to itself (the app can say `schema: skip`)", url)
}
