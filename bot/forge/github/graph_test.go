package github_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// GitHub's GraphQL schema, as it publishes it.
const (
	graphSchema     = "@octokit/graphql-schema@15.26.1"
	graphSchemaFile = "package/schema.graphql"
)

var publishedGraph = sync.OnceValues(func() (*ast.Schema, error) {
	data, err := npmFile(graphSchema, graphSchemaFile)
	if err != nil {
		return nil, err
	}
	doc, err := parser.ParseSchemas(validator.Prelude, &ast.Source{Name: graphSchemaFile, Input: string(data)})
	if err != nil {
		return nil, err
	}
	for _, d := range doc.Definitions { // the published file has a field twice
		seen := map[string]bool{}
		d.Fields = slices.DeleteFunc(d.Fields, func(f *ast.FieldDefinition) bool {
			twice := seen[f.Name]
			seen[f.Name] = true
			return twice
		})
	}
	return validator.ValidateSchemaDocument(doc)
})

// checkGraph holds a query and its answer against the schema: fields, arguments, types, enums, and what must not be
// null.
func checkGraph(sent, got []byte) error {
	schema, err := publishedGraph()
	if err != nil {
		return err
	}
	var asked struct{ Query string }
	if err := json.Unmarshal(sent, &asked); err != nil {
		return err
	}
	doc, wrong := gqlparser.LoadQueryWithRules(schema, asked.Query, rules.NewDefaultRules())
	if len(wrong) > 0 {
		return wrong
	}
	var answer struct {
		Data   map[string]any
		Errors []struct{ Type, Message string }
	}
	if err := json.Unmarshal(got, &answer); err != nil {
		return err
	}
	if answer.Data == nil {
		if len(answer.Errors) == 0 {
			return errors.New("neither data nor errors")
		}
		return nil
	}
	return checkObject(schema, doc.Operations[0].SelectionSet, answer.Data, "Query", len(answer.Errors) > 0)
}

func checkObject(schema *ast.Schema, set ast.SelectionSet, object map[string]any, kind string, failed bool) error {
	if name, ok := object["__typename"].(string); ok {
		if schema.Types[name] == nil {
			return fmt.Errorf("there is no type %s", name)
		}
		kind = name
	}
	for _, s := range set {
		var err error
		switch s := s.(type) {
		case *ast.Field:
			v, there := object[s.Alias]
			if !there {
				return fmt.Errorf("the answer lacks %s.%s", kind, s.Alias)
			}
			err = checkValue(schema, s.SelectionSet, v, s.Definition.Type, failed)
		case *ast.InlineFragment:
			if s.TypeCondition == kind {
				err = checkObject(schema, s.SelectionSet, object, kind, failed)
			}
		case *ast.FragmentSpread:
			if s.Definition.TypeCondition == kind {
				err = checkObject(schema, s.Definition.SelectionSet, object, kind, failed)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// checkValue checks a value. With failed, a value may be null because of an error.
func checkValue(schema *ast.Schema, set ast.SelectionSet, v any, t *ast.Type, failed bool) error {
	if v == nil {
		if t.NonNull && !failed {
			return fmt.Errorf("%s is null", t)
		}
		return nil
	}
	if t.Elem != nil {
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%v is no %s", v, t)
		}
		for _, one := range list {
			if err := checkValue(schema, set, one, t.Elem, failed); err != nil {
				return err
			}
		}
		return nil
	}
	def := schema.Types[t.NamedType]
	text, isText := v.(string)
	_, isNumber := v.(float64)
	switch object, isObject := v.(map[string]any); {
	case def.Kind == ast.Enum && !slices.ContainsFunc(def.EnumValues,
		func(e *ast.EnumValueDefinition) bool { return e.Name == text }):
		return fmt.Errorf("%v is no %s", v, t)
	case def.IsCompositeType() != isObject, t.NamedType == "Int" && !isNumber, t.NamedType == "String" && !isText:
		return fmt.Errorf("%v is no %s", v, t)
	case isObject:
		return checkObject(schema, set, object, def.Name, failed)
	}
	return nil
}
