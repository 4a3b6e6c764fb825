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

// regoTimeout is the most time that the fleet's rules have for one object.
const regoTimeout = 10 * time.Second

// regoRules are the fleet's own rules, named as conftest names them.
type regoRules struct {
	modules   map[string]*ast.Module // with tests
	names     []string               // of the rules to ask for: main.deny_latest
	rules     []Rule
	severity  map[string]Severity
	uses      uses
	evaluator chan *evaluator
	data      map[string]any
	now       time.Time
}

// uses tells what of data.sluice the rules read.
type uses struct{ cluster, app, environment, old bool }

// evaluator is one store with its query: it holds the facts of one object at a time.
type evaluator struct {
	store storage.Store
	query rego.PreparedEvalQuery
}

// unsafeBuiltins reach beyond the input, or give another answer each time.
func unsafeBuiltins() []string {
	return []string{"http.send", "net.lookup_ip_addr", "opa.runtime", "rand.intn", "uuid.rfc4122", "trace"}
}

func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool { return slices.Contains(unsafeBuiltins(), b.Name) })
	c.AllowNet = []string{}
	return c
}

func loadRego(ctx context.Context, files []file, parameters map[string]any, o Options) (*regoRules, error) {
	r := &regoRules{modules: map[string]*ast.Module{}, severity: map[string]Severity{}, now: o.Now, data: map[string]any{"sluice": map[string]any{"parameters": jsonish(parameters)}}}
	if len(files) == 0 {
		return r, nil
	}
	var problems Problems
	for _, f := range files {
		m, err := ast.ParseModuleWithOpts(f.name, string(f.data), ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: capabilities()})
		if err != nil {
			problems = append(problems, regoErrors(err)...)
			continue
		}
		r.modules[f.name] = m
		r.collect(f.name, m)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	compiler := ast.NewCompiler().WithCapabilities(capabilities())
	compiler.Compile(maps.Clone(r.modules))
	if compiler.Failed() {
		return nil, regoErrors(compiler.Errors)
	}
	slices.Sort(r.names)
	if len(r.names) == 0 {
		return r, nil
	}
	return r, r.prepare(ctx, compiler, max(1, min(o.Parallel, runtime.GOMAXPROCS(0))))
}

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

// collect notes the rules that conftest would ask for, and what they read.
func (r *regoRules) collect(name string, m *ast.Module) {
	pkg := strings.TrimPrefix(m.Package.Path.String(), "data.")
	if strings.HasSuffix(name, "_test.rego") {
		return
	}
	kinds := regexp.MustCompile(`^(deny|violation|warn)(_[a-zA-Z0-9]+)*$`)
	for _, rule := range m.Rules {
		short := string(rule.Head.Ref()[0].Value.(ast.Var)) //nolint:forcetypeassert // a rule's name
		found := kinds.FindStringSubmatch(short)
		id := pkg + "." + short
		if found == nil || slices.Contains(r.names, id) {
			continue
		}
		severity := SeverityError
		if found[1] == "warn" {
			severity = SeverityWarning
		}
		r.names = append(r.names, id)
		r.severity[id] = severity
		r.rules = append(r.rules, Rule{ID: id, Severity: severity, Title: title(m, rule, id), File: name})
	}
	ast.WalkRefs(m, func(ref ast.Ref) bool {
		r.uses.note(ref)
		return false
	})
}

// title is the rule's METADATA title, if it has one.
func title(m *ast.Module, rule *ast.Rule, id string) string {
	for _, a := range m.Annotations {
		if a.Title != "" && a.GetTargetPath() != nil && strings.HasSuffix(a.GetTargetPath().String(), "."+string(rule.Head.Ref()[0].Value.(ast.Var))) {
			return a.Title
		}
	}
	return "the fleet's own rule " + id
}

func (u *uses) note(ref ast.Ref) {
	if len(ref) < 1 || !ref[0].Equal(ast.DefaultRootDocument) {
		return
	}
	if len(ref) < 2 {
		*u = uses{true, true, true, true}
		return
	}
	if !ref[1].Equal(ast.StringTerm("sluice")) {
		if _, constant := ref[1].Value.(ast.String); !constant {
			*u = uses{true, true, true, true}
		}
		return
	}
	if len(ref) < 3 {
		*u = uses{true, true, true, true}
		return
	}
	field, constant := ref[2].Value.(ast.String)
	switch {
	case !constant:
		*u = uses{true, true, true, true}
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

func (r *regoRules) prepare(ctx context.Context, compiler *ast.Compiler, n int) error {
	parts := make([]string, len(r.names))
	for i, id := range r.names {
		parts[i] = fmt.Sprintf("%q: [v | v := %s]", id, ast.MustParseRef("data."+id))
	}
	query := "found := {" + strings.Join(parts, ", ") + "}"
	r.evaluator = make(chan *evaluator, n)
	for range n {
		store := inmem.NewFromObjectWithOpts(r.data, inmem.OptRoundTripOnWrite(false))
		q, err := rego.New(rego.Query(query), rego.Compiler(compiler), rego.Store(store), rego.StrictBuiltinErrors(true)).PrepareForEval(ctx)
		if err != nil {
			return err
		}
		r.evaluator <- &evaluator{store, q}
	}
	return nil
}

// regoCheck asks the fleet's own rules.
type regoCheck struct {
	engine *Engine
	rules  *regoRules
}

func (c *regoCheck) scope(s *Subject, o *Object) string {
	u := c.rules.uses
	scope := o.Key
	if u.old {
		scope += "\x00old " + o.OldKey
	}
	if u.app {
		scope += "\x00app " + s.App.Name
	}
	if u.environment {
		scope += "\x00environment " + s.Cluster.Environment
	}
	if u.cluster {
		scope += "\x00cluster " + s.Cluster.Name
	}
	return scope
}

func (c *regoCheck) check(ctx context.Context, s *Subject, o *Object) ([]breach, error) {
	ctx, cancel := context.WithTimeout(ctx, regoTimeout)
	defer cancel()
	var e *evaluator
	select {
	case e = <-c.rules.evaluator:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { c.rules.evaluator <- e }()
	txn, err := e.store.NewTransaction(ctx, storage.WriteParams)
	if err != nil {
		return nil, err
	}
	defer e.store.Abort(ctx, txn)
	if err := e.store.Write(ctx, txn, storage.AddOp, storage.Path{"sluice"}, c.facts(s, o)); err != nil {
		return nil, err
	}
	results, err := e.query.Eval(ctx, rego.EvalInput(jsonish(map[string]any(o.Object))), rego.EvalTransaction(txn), rego.EvalTime(c.rules.now))
	if err != nil {
		return nil, fmt.Errorf("the rules in policy/*.rego on %s: %w", o.Object.Identity(), err)
	}
	if len(results) != 1 {
		return nil, nil
	}
	found, _ := results[0].Bindings["found"].(map[string]any)
	var out []breach
	for _, id := range c.rules.names {
		values, _ := found[id].([]any)
		for _, v := range values {
			out = append(out, regoBreaches(id, v)...)
		}
	}
	return out, nil
}

func (c *regoCheck) facts(s *Subject, o *Object) map[string]any {
	facts := map[string]any{
		"environment": s.Cluster.Environment,
		"app":         map[string]any{"name": s.App.Name, "namespace": s.App.Namespace},
		"cluster": map[string]any{
			"name": s.Cluster.Name, "environment": s.Cluster.Environment, "class": s.Cluster.Class, "kubeVersion": s.Cluster.KubeVersion,
			"labels": stringMap(s.Cluster.Labels), "vars": jsonish(s.Cluster.Vars),
		},
		"parameters": jsonish(c.engine.parameters),
	}
	if o.Old != nil {
		facts["old"] = jsonish(map[string]any(o.Old))
	}
	return facts
}

// regoBreaches reads what a rule gives: strings, objects with msg, or collections of them.
func regoBreaches(id string, v any) []breach {
	switch x := v.(type) {
	case string:
		return []breach{{rule: id, message: x}}
	case bool:
		if x {
			return []breach{{rule: id, message: "the rule " + id + " says so"}}
		}
	case []any:
		var out []breach
		for _, one := range x {
			out = append(out, regoBreaches(id, one)...)
		}
		return out
	case map[string]any:
		if msg, ok := x["msg"].(string); ok {
			b := breach{rule: id, message: msg}
			b.path, _ = x["path"].(string)
			b.hint, _ = x["hint"].(string)
			return []breach{b}
		}
		if len(x) > 0 {
			return []breach{{rule: id, message: fmt.Sprintf("the rule %s gives an object without msg", id)}}
		}
	}
	return nil
}

func stringMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// jsonish copies a value as OPA takes it.
func jsonish(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = jsonish(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = jsonish(v)
		}
		return out
	}
	return v
}
