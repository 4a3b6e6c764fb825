package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// regoTimeout is the default time limit for the fleet's rules on one object.
const regoTimeout = 10 * time.Second

// regoRules are the fleet's own rules, compiled. Their names follow conftest.
type regoRules struct {
	modules   map[string]*ast.Module // with those of tests, by file
	names     []string               // of the rules to query, such as main.deny_latest
	rules     []Rule
	uses      uses
	evaluator chan *evaluator // as many as may evaluate in parallel
	data      map[string]any
	now       time.Time
}

// uses tells which facts below data.sluice the rules read.
type uses struct{ cluster, app, environment, old bool }

func allUses() uses { return uses{true, true, true, true} }

// evaluator is a store with a prepared query. It holds the facts of one object at a time.
type evaluator struct {
	store storage.Store
	query rego.PreparedEvalQuery
}

// ruleName matches the names that conftest queries.
var ruleName = regexp.MustCompile(`^(deny|violation|warn)(_[a-zA-Z0-9]+)*$`)

// loadRego parses and compiles modules. It returns all mistakes as Problems.
func loadRego(ctx context.Context, files []File, parameters map[string]any, o Options) (*regoRules, error) {
	r := &regoRules{
		modules: map[string]*ast.Module{}, now: o.Now,
		data: map[string]any{"sluice": map[string]any{"parameters": jsonValue(parameters)}},
	}
	if len(files) == 0 {
		return r, nil
	}
	limitBuiltins()
	var problems, refused Problems
	for _, f := range files {
		m, err := parseRego(f)
		if err != nil {
			problems = append(problems, regoErrors(err)...)
			continue
		}
		refused = append(refused, refusedCalls(m)...)
		r.modules[f.Name] = m
		r.collect(f.Name, m)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	compiler := ast.NewCompiler().WithCapabilities(capabilities())
	compiler.Compile(maps.Clone(r.modules))
	if problems = append(refused, compileProblems(compiler, refused)...); len(problems) > 0 {
		return nil, problems
	}
	slices.Sort(r.names)
	if len(r.names) == 0 {
		return r, nil
	}
	return r, r.prepare(ctx, compiler, max(1, min(o.Parallel, runtime.GOMAXPROCS(0))))
}

// parseRego parses a module as Rego v1, or as Rego v0 if it is that: conftest's policies of many repositories are. Mistakes are
// those of v1.
func parseRego(f File) (*ast.Module, error) {
	// Annotations contain the titles of rules. Schemas in annotations are not loaded, because the compiler does not use
	// them for type checks.
	o := ast.ParserOptions{RegoVersion: ast.RegoV1, ProcessAnnotation: true}
	m, err := ast.ParseModuleWithOpts(f.Name, string(f.Data), o)
	if err != nil {
		o.RegoVersion = ast.RegoV0
		if old, older := ast.ParseModuleWithOpts(f.Name, string(f.Data), o); older == nil {
			return old, nil
		}
	}
	return m, err
}

// compileProblems returns the compiler's errors, except those about calls that are already refused.
func compileProblems(c *ast.Compiler, refused Problems) Problems {
	if !c.Failed() {
		return nil
	}
	return slices.DeleteFunc(regoErrors(c.Errors), func(p Problem) bool {
		return slices.ContainsFunc(refused, func(r Problem) bool {
			return r.File == p.File && r.Line == p.Line &&
				r.Column == p.Column
		})
	})
}

// regoErrors returns errors of OPA's parser and compiler with their positions.
func regoErrors(err error) Problems {
	list, ok := errors.AsType[ast.Errors](err)
	if !ok {
		return Problems{{File: Dir, Message: err.Error()}}
	}
	out := make(Problems, len(list))
	for i, e := range list {
		out[i] = Problem{File: Dir, Message: e.Message}
		if e.Location != nil {
			out[i].File, out[i].Line, out[i].Column = e.Location.File, e.Location.Row, e.Location.Col
		}
	}
	return out
}

// collect adds the rules of a module that conftest would query, and the facts that the module reads.
func (r *regoRules) collect(name string, m *ast.Module) {
	if strings.HasSuffix(name, "_test.rego") {
		return
	}
	pkg := strings.TrimPrefix(m.Package.Path.String(), "data.")
	for _, rule := range m.Rules {
		//nolint:forcetypeassert // a rule's reference begins with its name
		short := string(rule.Head.Ref()[0].Value.(ast.Var))
		found := ruleName.FindStringSubmatch(short)
		id := pkg + "." + short
		if found == nil || slices.Contains(r.names, id) {
			continue
		}
		severity := SeverityError
		if found[1] == "warn" {
			severity = SeverityWarning
		}
		r.names = append(r.names, id)
		r.rules = append(r.rules, Rule{ID: id, Severity: severity, Title: title(m, short, id), File: name})
	}
	ast.WalkRefs(m, func(ref ast.Ref) bool {
		r.uses.add(ref)
		return false
	})
}

// title returns the title of a rule's METADATA or, without one, of its package's.
func title(m *ast.Module, short, id string) string {
	out := "rule " + id + ", which has no title" // of the fleet or of a workspace
	for _, a := range m.Annotations {
		switch {
		case a.Title == "" || a.GetTargetPath() == nil:
		case strings.HasSuffix(a.GetTargetPath().String(), "."+short):
			return a.Title
		case a.Scope == "package":
			out = a.Title
		}
	}
	return out
}

// add records the facts that a reference can read. A reference that is not constant can read all facts.
func (u *uses) add(ref ast.Ref) {
	if len(ref) == 0 || !ref[0].Equal(ast.DefaultRootDocument) {
		return
	}
	if len(ref) > 1 && !ref[1].Equal(ast.StringTerm("sluice")) {
		if _, constant := ref[1].Value.(ast.String); constant {
			return // another package
		}
	}
	if len(ref) < 3 {
		*u = allUses()
		return
	}
	switch field, constant := ref[2].Value.(ast.String); {
	case !constant:
		*u = allUses()
	case field == "cluster":
		u.cluster = true
	case field == "app":
		u.app = true
	case field == "environment":
		u.environment = true
	case field == "old":
		u.old = true
	}
}

// prepare creates n evaluators of one query for all rules.
func (r *regoRules) prepare(ctx context.Context, compiler *ast.Compiler, n int) error {
	parts := make([]string, len(r.names))
	for i, id := range r.names {
		parts[i] = fmt.Sprintf("%q: [v | v := %s]", id, ast.MustParseRef("data."+id))
	}
	query := "found := {" + strings.Join(parts, ", ") + "}"
	r.evaluator = make(chan *evaluator, n)
	for range n {
		store := inmem.NewFromObjectWithOpts(r.data, inmem.OptRoundTripOnWrite(false))
		q, err := rego.New(rego.Query(query), rego.Compiler(compiler), rego.Store(store),
			rego.StrictBuiltinErrors(true)).PrepareForEval(ctx)
		if err != nil {
			return err
		}
		r.evaluator <- &evaluator{store, q}
	}
	return nil
}
