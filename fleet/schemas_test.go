package fleet

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
)

// Schemas are the JSON Schemas of all kinds, by file name. comments are the doc comments of this package's types, as
// jsonschema.Reflector.AddGoComments reads them from its source.
func Schemas(comments map[string]string) (map[string][]byte, error) {
	out := map[string][]byte{}
	comments = unwrapped(comments)
	for name, v := range map[string]any{
		"fleet.json": FleetFile{}, "cluster.json": ClusterFile{}, "clusterclass.json": ClassFile{},
		"app.json": AppFile{}, "repository.json": RepositoryFile{},
		"workspace.json": WorkspaceFile{}, "gateset.json": GateSetFile{},
		"catalogapp.json": CatalogFile{},
	} {
		r := jsonschema.Reflector{
			RequiredFromJSONSchemaTags: true,
			CommentMap:                 comments,
			Mapper:                     mapped,
			Anonymous:                  true,
		}
		schema := r.Reflect(v)
		schema.ID = jsonschema.ID("https://sluice.dev/schema/v1alpha1/" + name)
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
		out[name] = append(text, '\n')
	}
	return out, nil
}

// unwrapped returns comments without the line breaks of the source. An empty line still divides paragraphs.
func unwrapped(comments map[string]string) map[string]string {
	out := make(map[string]string, len(comments))
	for of, text := range comments {
		paragraphs := strings.Split(text, "\n\n")
		for i, p := range paragraphs {
			paragraphs[i] = strings.Join(strings.Fields(p), " ")
		}
		out[of] = strings.Join(paragraphs, "\n\n")
	}
	return out
}

// mapped returns the schemas of types whose YAML form differs from their Go structure.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[Layer]():
		type long Layer
		return stringOr(reflect.TypeFor[long]())
	case reflect.TypeFor[ValuesPath]():
		type long ValuesPath
		return stringOr(reflect.TypeFor[long]())
	case reflect.TypeFor[Follow]():
		type long Follow
		return shortOr("boolean", reflect.TypeFor[long]())
	case reflect.TypeFor[Amount]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
			{Type: "integer"},
			{Type: "string", Pattern: "^[0-9]+%?$"},
		}}
	case reflect.TypeFor[CatalogVersion]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer"}, {Type: "string"}}}
	case reflect.TypeFor[Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: "^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h))+$"}
	}
	if t.Kind() == reflect.Map && strings.HasPrefix(t.String(), "map[string]interface") {
		return &jsonschema.Schema{Type: "object"}
	}
	return nil
}

// stringOr returns the schema of a type whose short form is a string.
func stringOr(t reflect.Type) *jsonschema.Schema { return shortOr("string", t) }

// shortOr returns the schema of a type with a short form. mapped must not know t, or the calls would not end.
func shortOr(short string, t reflect.Type) *jsonschema.Schema {
	r := &jsonschema.Reflector{DoNotReference: true, Anonymous: true, RequiredFromJSONSchemaTags: true, Mapper: mapped}
	object := r.ReflectFromType(t)
	object.Version = ""
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: short}, object}}
}
