package fakegithub

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// object is an object of the GraphQL API: its type, and its fields. Tests hold each query against the schema that
// GitHub publishes.
type object struct {
	kind   string
	fields map[string]getter
}

type arguments = map[string]any

// graphProblem is an entry of errors, of one field.
type graphProblem struct {
	kind, message string
}

// getter returns a field: a scalar, an object, or a list of objects.
type getter = func(arguments) (any, *graphProblem)

func value(v any) getter {
	return func(arguments) (any, *graphProblem) { return v, nil }
}

// query is a GraphQL query in progress.
type query struct {
	doc       *ast.QueryDocument
	variables map[string]any
	errors    []fields
	lists     int  // connections, by which GitHub charges
	fatal     bool // the query is not valid: no data
}

const (
	graphLimit = 5000 // points per hour
	perPoint   = 100  // lists
)

var objectID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// graphQL answers a query. As on GitHub, the status is 200 for each query that could be read, also at the limit.
func graphQL(c *call) answer {
	var in struct {
		Query     string
		Variables map[string]any
	}
	if !c.read(&in) {
		return problem(400, "Problems parsing JSON")
	}
	doc, err := parser.ParseQuery(&ast.Source{Input: in.Query})
	if err != nil || len(doc.Operations) != 1 {
		return answer{code: 200, value: fields{"errors": []fields{{"message": fmt.Sprint("Parse error on ", err)}}}}
	}
	if c.s.graphPoints >= graphLimit {
		return answer{code: 200, value: fields{"errors": []fields{{
			"type": "RATE_LIMIT", "code": "graphql_rate_limit",
			"message": "API rate limit already exceeded for user ID 1.",
		}}}}
	}
	q := &query{doc: doc, variables: in.Variables}
	for _, v := range doc.Operations[0].VariableDefinitions {
		have, ok := in.Variables[v.Variable]
		if text, is := have.(string); v.Type.NonNull && !ok || v.Type.NamedType == "GitObjectID" &&
			(!is || !objectID.MatchString(text)) {
			q.refuse("Variable $%s of type %s was provided invalid value", v.Variable, v.Type)
		}
	}
	data := q.run(c.queryRoot(q), doc.Operations[0].SelectionSet, nil)
	c.s.graphPoints += max(1, (q.lists+1+perPoint/2)/perPoint) // the repository is one more
	out := fields{"data": data}
	if q.fatal {
		out = fields{}
	}
	if len(q.errors) > 0 {
		out["errors"] = q.errors
	}
	return answer{code: 200, value: out}
}

func (q *query) refuse(format string, args ...any) {
	q.fatal = true
	q.errors = append(q.errors, fields{"message": fmt.Sprintf(format, args...)})
}

// run returns the selected fields of an object. A field with an error is null.
func (q *query) run(o object, set ast.SelectionSet, path []any) fields {
	out := fields{}
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			name := cmp.Or(s.Alias, s.Name)
			if s.Name == "__typename" {
				out[name] = o.kind
				continue
			}
			out[name] = q.field(o, s, append(slices.Clip(path), name))
		case *ast.InlineFragment:
			q.spread(o, s.TypeCondition, s.SelectionSet, path, out)
		case *ast.FragmentSpread:
			f := q.doc.Fragments.ForName(s.Name)
			if f == nil {
				q.refuse("Fragment %s was used, but not defined", s.Name)
				continue
			}
			q.spread(o, f.TypeCondition, f.SelectionSet, path, out)
		}
	}
	return out
}

// spread adds the fields of a fragment, if it is for the type of the object.
func (q *query) spread(o object, kind string, set ast.SelectionSet, path []any, out fields) {
	if kind != o.kind {
		return
	}
	maps.Copy(out, q.run(o, set, path))
}

func (q *query) field(o object, f *ast.Field, path []any) any {
	get := o.fields[f.Name]
	if get == nil {
		q.refuse("Field '%s' doesn't exist on type '%s'", f.Name, o.kind)
		return nil
	}
	args := arguments{}
	for _, a := range f.Arguments {
		v, err := a.Value.Value(q.variables)
		if err != nil {
			q.refuse("%v", err)
		}
		args[a.Name] = v
	}
	v, wrong := get(args)
	if wrong != nil {
		q.errors = append(q.errors, fields{"type": wrong.kind, "message": wrong.message, "path": path})
		return nil
	}
	return q.plain(v, f, path)
}

// plain replaces objects by their selected fields.
func (q *query) plain(v any, f *ast.Field, path []any) any {
	switch v := v.(type) {
	case object:
		return q.run(v, f.SelectionSet, path)
	case []object:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = q.run(one, f.SelectionSet, append(slices.Clip(path), i))
		}
		return out
	}
	return v
}

// queryRoot is the type Query.
func (c *call) queryRoot(q *query) object {
	return object{"Query", map[string]getter{
		"viewer": func(arguments) (any, *graphProblem) {
			u := c.who.user
			return object{"User", map[string]getter{"login": value(u.login), "databaseId": value(u.id)}}, nil
		},
		"rateLimit": func(arguments) (any, *graphProblem) {
			return object{"RateLimit", map[string]getter{
				"limit": value(graphLimit), "remaining": value(max(graphLimit-c.s.graphPoints-1, 0)),
				"resetAt": value(stamp(c.s.peek().Add(time.Hour))),
			}}, nil
		},
		"repository": func(a arguments) (any, *graphProblem) {
			path := fmt.Sprint(a["owner"], "/", a["name"])
			c.repo = c.s.repo(path)
			if c.repo == nil || c.role() == "" || c.role() == "none" {
				return nil, &graphProblem{
					kind:    "NOT_FOUND",
					message: "Could not resolve to a Repository with the name '" + path + "'.",
				}
			}
			return object{"Repository", map[string]getter{"object": func(a arguments) (any,
				*graphProblem,
			) {
				return c.graphCommit(q, fmt.Sprint(a["oid"])), nil
			}}}, nil
		},
	}}
}

// graphCommit is a commit, or nil if there is none.
func (c *call) graphCommit(q *query, sha string) any {
	if !c.repo.has(sha) {
		return nil
	}
	contexts := append(c.graphStatuses(sha), c.graphChecks(sha)...)
	if c.repo.expected != "" && len(contexts) > 0 { // a required status that nobody has posted
		contexts = append(contexts, object{"StatusContext", map[string]getter{
			"context": value(c.repo.expected), "state": value("EXPECTED"), "createdAt": value(stamp(c.s.peek())),
			"description": value(nil),
		}})
	}
	var roll any
	if len(contexts) > 0 {
		roll = object{"StatusCheckRollup", map[string]getter{"contexts": func(a arguments) (any,
			*graphProblem,
		) {
			return q.list(contexts, a)
		}}}
	}
	return object{"Commit", map[string]getter{
		"oid": value(sha),
		"statusCheckRollup": func(arguments) (any, *graphProblem) {
			if c.who.app != nil && c.who.app.NoChecks {
				return nil, &graphProblem{kind: "FORBIDDEN", message: "Resource not accessible by integration"}
			}
			return roll, nil
		},
	}}
}

// list is the first page of a connection.
func (q *query) list(all []object, a arguments) (any, *graphProblem) {
	n, first := fmt.Sprint(a["first"]), 0
	if _, err := fmt.Sscan(n, &first); err != nil {
		return nil, &graphProblem{
			kind:    "MISSING_PAGINATION_BOUNDARIES",
			message: "You must provide a `first` or `last` value to properly paginate the `contexts` connection.",
		}
	}
	if first < 1 || first > 100 {
		return nil, &graphProblem{kind: "EXCESSIVE_PAGINATION", message: "Requesting " + n +
			" records on the `contexts` connection exceeds the `first` limit of 100 records."}
	}
	q.lists++
	page := object{"PageInfo", map[string]getter{"hasNextPage": value(len(all) > first)}}
	return object{"StatusCheckRollupContextConnection", map[string]getter{
		"pageInfo": value(page), "nodes": value(all[:min(len(all), first)]),
	}}, nil
}

// graphStatuses are the newest statuses of a commit, one of each context.
func (c *call) graphStatuses(sha string) []object {
	var out []object
	seen := map[string]bool{}
	for _, x := range slices.Backward(c.repo.statuses) {
		if key := strings.ToLower(x.context); x.sha == sha && !seen[key] {
			seen[key] = true
			out = append(out, object{"StatusContext", map[string]getter{
				"context": value(x.context), "state": value(strings.ToUpper(x.state)),
				"createdAt": value(stamp(x.created)), "description": value(x.description),
			}})
		}
	}
	return out
}

// graphChecks are the newest check runs of a commit, one of each App and name.
func (c *call) graphChecks(sha string) []object {
	var out []object
	seen := map[string]bool{}
	upper := func(text string) any {
		if text == "" {
			return nil
		}
		return strings.ToUpper(text)
	}
	for _, x := range slices.Backward(c.repo.checks) {
		if key := x.app.Slug + " " + strings.ToLower(x.name); x.sha == sha && !seen[key] {
			seen[key] = true
			out = append(out, object{"CheckRun", map[string]getter{
				"name": value(x.name), "status": value(upper(x.status)), "conclusion": value(upper(x.conclusion)),
				"startedAt": value(stamp(x.started)), "completedAt": value(stamp(x.completed)),
			}})
		}
	}
	return out
}

// Expect makes a status required that nobody has posted: GraphQL shows it, REST does not.
func (s *Server) Expect(repo forge.Repository, context string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repo(repo.Path).expected = context
}

// SetGraphPoints sets the used points of the GraphQL quota.
func (s *Server) SetGraphPoints(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.graphPoints = n
}

// GraphPoints returns the used points of the GraphQL quota.
func (s *Server) GraphPoints() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.graphPoints
}
