package policy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	sigsyaml "sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write docs/schema/policy.json and exemption.json")

// docs/schema has the JSON Schemas of the kinds Policy and Exemption, generated from the Go types. `go test ./policy
// -run TestSchemasOfFiles -update` writes them.
func TestSchemasOfFiles(t *testing.T) {
	for name, v := range map[string]any{"policy.json": policyFile{}, "exemption.json": exemptionFile{}} {
		r := reflector(t)
		schema := r.Reflect(v)
		schema.ID = invopop.ID("https://sluice.dev/schema/v1alpha1/" + name)
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, '\n')
		file := filepath.Join("../docs/schema", name)
		if *update {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, text) {
			t.Errorf("%s is not current (%v): go test ./policy -run TestSchemasOfFiles -update", file, err)
		}
	}
	for name, c := range map[string]struct {
		schema, text string
		valid        bool
	}{
		"policy": {
			"policy.json",
			"apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: acme}\nspec: {rules: {image-tag: {severity: warning, environments: {prod: error}}, privileged: {allow: {cilium: ['*']}}, x: {allow: [a]}}, parameters: {max: 5}, schemas: {locations: [a]}}", true,
		},
		"unknown key": {
			"policy.json",
			"apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: acme}\nspec: {rule: {}}", false,
		},
		"wrong severity": {
			"policy.json",
			"apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: acme}\nspec: {rules: {a: {severity: fatal}}}", false,
		},
		"exemption": {
			"exemption.json",
			"apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: a}\nspec: {rule: privileged, object: '*', reason: why, until: '2027-01-01'}", true,
		},
		"wrong list": {
			"exemption.json",
			"apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: a}\nspec: {rule: privileged, object: '*', reason: why, apps: web}", false,
		},
	} {
		if err := validate(t, c.schema, c.text); (err == nil) != c.valid {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func reflector(t *testing.T) *invopop.Reflector {
	t.Helper()
	r := &invopop.Reflector{
		FieldNameTag: "yaml", RequiredFromJSONSchemaTags: true, Anonymous: true,
		Mapper: func(of reflect.Type) *invopop.Schema {
			list := &invopop.Schema{Type: "array", Items: &invopop.Schema{Type: "string"}}
			switch of {
			case reflect.TypeFor[allowList]():
				return &invopop.Schema{OneOf: []*invopop.Schema{list, {Type: "object", AdditionalProperties: list}}}
			case reflect.TypeFor[Severity]():
				return &invopop.Schema{Type: "string", Enum: []any{
					SeverityError, SeverityWarning, SeverityInfo,
					SeverityOff,
				}}
			case reflect.TypeFor[map[string]any]():
				return &invopop.Schema{Type: "object"}
			}
			return nil
		},
	}
	if err := r.AddGoComments("github.com/sluice-gitops/sluice/policy", "./"); err != nil {
		t.Fatal(err)
	}
	return r
}

func validate(t *testing.T, name, text string) error {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("../docs/schema", name))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := sigsyaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return schema.Validate(v)
}
