package rest

import "iter"

// GraphError is an entry of the errors in an answer of a GraphQL server
// (https://spec.graphql.org/October2021/#sec-Errors). Path leads to the field that is null because of it.
type GraphError struct {
	Type    string `json:"type"` // only GitHub sets it
	Message string `json:"message"`
	Path    []any  `json:"path"`
}

// FailedFields returns which fields of the answer's top object have errors. An error whose path names no such field
// concerns all of them.
func FailedFields(list []GraphError, fields iter.Seq[string]) map[string]bool {
	out := map[string]bool{}
	for _, e := range list {
		name := ""
		if len(e.Path) > 1 {
			name, _ = e.Path[1].(string) // an index names no field
		}
		if name != "" {
			out[name] = true
			continue
		}
		for field := range fields {
			out[field] = true
		}
	}
	return out
}
