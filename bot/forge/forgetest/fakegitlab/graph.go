package fakegitlab

import (
	"cmp"
	_ "embed" // the schema
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

//go:embed schema.graphql
var schemaText string

var graphSchema = sync.OnceValues(func() (*ast.Schema, error) {
	return gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: schemaText})
})

const (
	graphPath     = "/api/graphql"
	maxComplexity = 250    // https://docs.gitlab.com/api/graphql/#maximum-query-complexity
	maxQuery      = 10_000 // characters
	maxNodes      = 100
)

// resolver returns a field with arguments.
type resolver = func(args map[string]any) any

// graphQL answers a query. The status is 200 for each query that could be read.
func (c *call) graphQL() answer {
	refuse := func(format string, args ...any) answer {
		return answer{code: http.StatusOK, value: fields{"errors": []fields{{"message": fmt.Sprintf(format, args...)}}}}
	}
	if c.who == nil {
		return answer{code: http.StatusUnauthorized, value: fields{"errors": []fields{{"message": "Invalid token"}}}}
	}
	text, _ := c.body["query"].(string)                  // an empty query is an error below
	variables, _ := c.body["variables"].(map[string]any) // without them, no filter matches
	schema, err := graphSchema()
	if err != nil {
		return problem(http.StatusInternalServerError, err.Error())
	}
	if len(text) > maxQuery {
		return refuse("Query too large")
	}
	doc, wrong := gqlparser.LoadQueryWithRules(schema, text, rules.NewDefaultRules())
	if len(wrong) > 0 || len(doc.Operations) != 1 {
		return refuse("%v", wrong)
	}
	set := doc.Operations[0].SelectionSet
	if n := complexity(set, variables); n > maxComplexity {
		return refuse("Query has complexity of %d, which exceeds max complexity of %d", n, maxComplexity)
	}
	root := fields{"project": func(args map[string]any) any { return c.graphProject(args["fullPath"]) }}
	return answer{code: http.StatusOK, value: fields{"data": selected(root, set, variables)}}
}

// complexity computes what GitLab charges: each field costs 1; a connection costs a hundredth more of its fields for
// each entry; the filter sha costs 2; pipelines ask Gitaly, which costs 1.
func complexity(set ast.SelectionSet, variables map[string]any) int {
	sum := 0
	for _, f := range fieldsOf(set) {
		n := 1 + complexity(f.SelectionSet, variables)
		args := f.ArgumentMap(variables)
		if f.Name == "pipelines" {
			n++
			if args["sha"] != nil {
				n += 2
			}
		}
		if f.Name == "pipelines" || f.Name == "jobs" {
			n += n * first(args) / 100
		}
		sum += n
	}
	return sum
}

// fieldsOf are the fields of a selection, those of fragments too.
func fieldsOf(set ast.SelectionSet) []*ast.Field {
	var out []*ast.Field
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			out = append(out, s)
		case *ast.InlineFragment:
			out = append(out, fieldsOf(s.SelectionSet)...)
		case *ast.FragmentSpread:
			out = append(out, fieldsOf(s.Definition.SelectionSet)...)
		}
	}
	return out
}

func first(args map[string]any) int {
	n, ok := args["first"].(int64)
	if !ok {
		return maxNodes
	}
	return int(min(n, maxNodes))
}

// selected returns the selected fields of an object.
func selected(o fields, set ast.SelectionSet, variables map[string]any) fields {
	out := fields{}
	for _, f := range fieldsOf(set) {
		v := o[f.Name]
		if get, ok := v.(resolver); ok {
			v = get(f.ArgumentMap(variables))
		}
		switch have := v.(type) {
		case fields:
			if have == nil {
				v = nil
				break
			}
			v = selected(have, f.SelectionSet, variables)
		case []fields:
			list := make([]fields, len(have))
			for i := range have {
				list[i] = selected(have[i], f.SelectionSet, variables)
			}
			v = list
		}
		out[cmp.Or(f.Alias, f.Name)] = v
	}
	return out
}

// connection returns the first entries of a list.
func connection(list []fields, args map[string]any) fields {
	n := min(len(list), first(args))
	return fields{"nodes": slices.Clone(list[:n]), "pageInfo": fields{
		"hasNextPage":     n < len(list),
		"hasPreviousPage": false,
	}, "count": len(list)}
}

func (c *call) graphProject(path any) fields {
	p := c.s.find(fmt.Sprint(path))
	if p == nil || !strings.EqualFold(p.path, fmt.Sprint(path)) || !c.sees(p) {
		return nil
	}
	return fields{"fullPath": p.path, "pipelines": func(args map[string]any) any {
		list := []fields{}
		if c.s.may(p, c.who, Reporter) { // GitLab answers others with an empty list
			list = c.s.graphPipelines(p, args["sha"])
		}
		return connection(list, args)
	}}
}

// graphPipelines lists the pipelines of a commit, the newest first, without child pipelines.
func (s *state) graphPipelines(p *project, sha any) []fields {
	ids := []int{}
	for _, t := range p.statuses {
		if t.sha == sha && !t.child && !slices.Contains(ids, t.pipeline) {
			ids = append(ids, t.pipeline)
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	out := make([]fields, 0, len(ids))
	for _, id := range ids {
		out = append(out, fields{
			"id": fmt.Sprintf("gid://gitlab/Ci::Pipeline/%d", id), "iid": fmt.Sprint(id),
			"sha": sha, "jobs": func(args map[string]any) any {
				return connection(s.graphJobs(p, id, args["retried"] == false), args)
			},
		})
	}
	return out
}

// graphJobs lists the jobs of a pipeline, the newest first. A status that was posted again is retried.
func (s *state) graphJobs(p *project, pipeline int, latest bool) []fields {
	var out []fields
	seen := map[string]bool{}
	for _, t := range slices.Backward(p.statuses) {
		if t.pipeline != pipeline || latest && seen[t.name] {
			continue
		}
		kind, model := "BUILD", "GenericCommitStatus"
		if t.bridge {
			kind, model = "BRIDGE", "Ci::Bridge"
		}
		out = append(out, fields{
			"id": fmt.Sprintf("gid://gitlab/%s/%d", model, t.id), "name": t.name, "kind": kind,
			"status": strings.ToUpper(t.state), "allowFailure": false,
			"refName": "main", "retried": seen[t.name], "createdAt": stamp(t.created), "startedAt": stamp(t.started),
			"finishedAt": stamp(t.finished),
		})
		seen[t.name] = true
	}
	return out
}

// NewPipeline begins a pipeline of a commit: statuses posted from then on are in it.
func (s *MergeRequests) NewPipeline(path, sha string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	p.pipelines[sha] = s.id()
}

// Trigger adds a job to a commit's pipeline that runs a child pipeline, with one job of its own.
func (s *MergeRequests) Trigger(path, sha, login, bridge, job, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	s.report(p, sha, "success", bridge, "", "", s.ensure(login)).bridge = true
	t := s.report(p, sha, state, job, "", "", s.ensure(login))
	t.pipeline, t.child = s.id(), true
}
