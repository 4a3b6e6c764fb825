// Package expression compiles and evaluates the expressions of gates (spec.environments[].promotion.gates) in the Common
// Expression Language (https://cel.dev), which Kubernetes uses for admission policies. An expression is typed, has no
// side effects and no access to anything but its Facts, and stops at Kubernetes' limit of cost
// (k8s.io/apiserver/pkg/apis/cel: PerCallLimit).
//
// The package is not API: it can change in every release.
package expression

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/parser"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Facts are what an expression can ask about. Each field is a variable.
type Facts struct {
	Now         time.Time
	Environment Environment
	Commit      Commit
	Changes     Changes
	Upstreams   map[string]Upstream // by environment
	History     History
	Approvals   Approvals
	Request     Request
	Checks      map[string]Check // by name

	// Unknown says why a fact is not known, by its Path: `changes`, `commit.files`, `checks.errors`. An expression whose
	// value depends on one has none.
	Unknown map[string]string
}

// hiddenDot stands for a dot in a part of a path.
const hiddenDot = "\x00"

// Path returns the path of a fact whose parts may contain dots, as names of environments and checks do.
func Path(parts ...string) string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = strings.ReplaceAll(p, ".", hiddenDot)
	}
	return strings.Join(out, ".")
}

// readable returns a path for people.
func readable(path string) string { return strings.ReplaceAll(path, hiddenDot, ".") }

// Environment is the environment that would be promoted.
type Environment struct {
	Name     string   `cel:"name"`
	Clusters []string `cel:"clusters"`
	Runs     string   `cel:"runs"` // a commit of the source; empty if it runs nothing
}

// Commit is the newest commit of the source that would be promoted.
type Commit struct {
	ID      string        `cel:"id"`
	Time    time.Time     `cel:"time"` // of the committer
	Age     time.Duration `cel:"age"`
	Authors []string      `cel:"authors"` // names and addresses of all commits that it brings
	Files   []string      `cel:"files"`   // that differ between what runs and the commit
}

// Changes are what would change in the rendered objects of the environment.
type Changes struct {
	Added     int64    `cel:"added"` // objects
	Changed   int64    `cel:"changed"`
	Removed   int64    `cel:"removed"`
	Workloads int64    `cel:"workloads"` // whose pods are replaced
	Apps      []string `cel:"apps"`
	Clusters  []string `cel:"clusters"`
	Kinds     []string `cel:"kinds"`
	Effects   []string `cel:"effects"` // as reports name them: restart, immutable, …
	Risk      string   `cel:"risk"`    // none, low, medium, high or critical
}

// Upstream is an environment that promotions come from.
type Upstream struct {
	Runs    string        `cel:"runs"`
	Healthy bool          `cel:"healthy"`
	Soak    time.Duration `cel:"soak"` // how long it has run the commit without a red status
	// ReceiptAge is the age of the newest receipt of an isolated environment; unknown for others.
	ReceiptAge time.Duration `cel:"receiptAge"`
	// Waves are those of its rollout, by name; unknown if it has none.
	Waves map[string]Wave `cel:"waves"`
}

// Wave is a part of an environment's clusters.
type Wave struct {
	Clusters []string      `cel:"clusters"`
	Healthy  bool          `cel:"healthy"` // all of its clusters run the commit, and no status on them is red
	Soak     time.Duration `cel:"soak"`
}

// History are the past moves of the environment, newest first.
type History struct {
	Promotions []time.Time `cel:"promotions"`
	Rollbacks  []time.Time `cel:"rollbacks"`
	Failures   []time.Time `cel:"failures"` // halts and rollbacks by Sluice
}

// Approvals are those of the promotion.
type Approvals struct {
	Count int64    `cel:"count"`
	By    []string `cel:"by"`
}

// Request is the command that asked for the promotion; empty if nobody did.
type Request struct {
	By         string   `cel:"by"`
	Reason     string   `cel:"reason"`
	Apps       []string `cel:"apps"`
	Workspaces []string `cel:"workspaces"`
}

// Check is the result of a check of the environment.
type Check struct {
	Green  bool    `cel:"green"`
	Reason string  `cel:"reason"`
	Value  float64 `cel:"value"` // least value of a Prometheus query; unknown for an HTTP check
}

// environment is the language with its variables. It never changes after it is built, which takes much longer
// than an evaluation.
//
//nolint:gochecknoglobals // immutable
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		ext.Strings(), ext.Sets(), ext.Lists(), ext.Math(),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), cel.EnableMacroCallTracking(),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals()),
		ext.NativeTypes(ext.ParseStructTags(true), reflect.TypeFor[Environment](), reflect.TypeFor[Commit](), reflect.TypeFor[Changes](), reflect.TypeFor[Upstream](), reflect.TypeFor[Wave](), reflect.TypeFor[History](),
			reflect.TypeFor[Approvals](), reflect.TypeFor[Request](), reflect.TypeFor[Check]()),
	}
	for name, of := range variableTypes() {
		options = append(options, cel.Variable(name, of))
	}
	return cel.NewEnv(options...)
})

// variableTypes returns the variables of expressions with their types.
func variableTypes() map[string]*cel.Type {
	object := func(name string) *cel.Type { return cel.ObjectType("expression." + name) }
	return map[string]*cel.Type{
		"now": cel.TimestampType, "environment": object("Environment"), "commit": object("Commit"),
		"changes": object("Changes"), "history": object("History"), "approvals": object("Approvals"),
		"request": object("Request"), "upstreams": cel.MapType(cel.StringType, object("Upstream")),
		"checks": cel.MapType(cel.StringType, object("Check")),
	}
}

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	text    string
	checked *cel.Ast
	program cel.Program
}

// maxLength is the greatest length of an expression: the time to compile one grows faster than its length.
const maxLength = 4096

// Compile compiles an expression whose value is true or false. The error names the place in the text.
func Compile(text string) (*Expression, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("the expression has %d characters, more than %d: write several gates", len(text), maxLength)
	}
	checked, program, err := compile(text)
	if err != nil {
		return nil, err
	}
	if checked.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("the value is a %s, and a gate needs true or false", checked.OutputType())
	}
	return &Expression{text: text, checked: checked, program: program}, nil
}

func compile(text string) (*cel.Ast, cel.Program, error) {
	env, err := environment()
	if err != nil {
		return nil, nil, err
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, nil, fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1,
			first.Message)
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(celconfig.PerCallLimit))
	return checked, program, err
}

// String returns the text.
func (e *Expression) String() string { return e.text }

// Asks reports whether the expression mentions a fact, by its path: `changes`, `commit.files`.
func (e *Expression) Asks(path string) bool {
	found := false
	ast.PostOrderVisit(e.checked.NativeRep().Expr(), ast.NewExprVisitor(func(n ast.Expr) {
		at, ok := pathOf(n)
		found = found || ok && (at == path || strings.HasPrefix(at, path+".")) ||
			n.Kind() == ast.IdentKind && strings.HasPrefix(path, n.AsIdent()+".") && e.whole(n)
	}))
	return found
}

// Keys returns the names that the expression asks a map for: the environments of `upstreams`, or `checks`.
func (e *Expression) Keys(variable string) []string {
	var out []string
	ast.PostOrderVisit(e.checked.NativeRep().Expr(), ast.NewExprVisitor(func(n ast.Expr) {
		if path, ok := pathOf(n); ok {
			if key, ok := strings.CutPrefix(path, variable+"."); ok && !strings.Contains(key, ".") {
				out = append(out, readable(key))
			}
		}
	}))
	slices.Sort(out)
	return slices.Compact(out)
}

// whole reports whether an identifier stands for itself, not as the operand of a field.
func (e *Expression) whole(ident ast.Expr) bool {
	selected := false
	ast.PostOrderVisit(e.checked.NativeRep().Expr(), ast.NewExprVisitor(func(n ast.Expr) {
		selected = selected || n.Kind() == ast.SelectKind && n.AsSelect().Operand().ID() == ident.ID()
	}))
	return !selected
}

// Result is the value of an expression.
type Result struct {
	Open    bool
	Unknown []string // why it has no value: what is not known, or an error
}

// Evaluate evaluates the expression.
func (e *Expression) Evaluate(f *Facts) Result {
	result, _ := e.evaluate(f) // the cost matters only to Opens
	return result
}

func (e *Expression) evaluate(f *Facts) (result Result, cost uint64) {
	value, cost, err := evaluate(e.program, f)
	unknown, isUnknown := value.(*types.Unknown)
	switch {
	case isUnknown:
		return Result{Unknown: reasons(unknown, f.Unknown)}, cost
	case err != nil:
		return Result{Unknown: []string{err.Error()}}, cost
	}
	return Result{Open: value == types.True}, cost
}

func evaluate(program cel.Program, f *Facts) (value ref.Val, cost uint64, err error) {
	var unknown []*cel.AttributePatternType
	for path := range f.Unknown {
		parts := strings.Split(path, ".")
		pattern := cel.AttributePattern(parts[0])
		for _, p := range parts[1:] {
			pattern = pattern.QualString(readable(p))
		}
		unknown = append(unknown, pattern)
	}
	vars, err := cel.PartialVars(f.variables(), unknown...)
	if err != nil {
		return nil, 0, err
	}
	value, details, err := program.Eval(vars)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	return value, cost, err
}

// variables returns the facts by the names of their variables.
func (f *Facts) variables() map[string]any {
	return map[string]any{
		"now": f.Now, "environment": f.Environment, "commit": f.Commit, "changes": f.Changes, "upstreams": f.Upstreams,
		"history": f.History, "approvals": f.Approvals, "request": f.Request, "checks": f.Checks,
	}
}

// reasons says why the attributes of an unknown value are not known.
func reasons(u *types.Unknown, why map[string]string) []string {
	var out []string
	for _, id := range u.IDs() {
		trails, _ := u.GetAttributeTrails(id)
		for _, t := range trails {
			parts := []string{t.Variable()}
			for _, q := range t.QualifierPath() {
				parts = append(parts, fmt.Sprint(q))
			}
			path := Path(parts...)
			out = append(out, strings.TrimSuffix(readable(path)+" is not known: "+reasonOf(path, why), ": "))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// reasonOf returns the reason of a fact, or of what it is a part of, or those of its parts.
func reasonOf(path string, why map[string]string) string {
	for p := path; p != ""; p = p[:max(strings.LastIndex(p, "."), 0)] {
		if why[p] != "" {
			return why[p]
		}
	}
	var parts []string
	for _, p := range slices.Sorted(maps.Keys(why)) {
		if rest, ok := strings.CutPrefix(p, path+"."); ok {
			parts = append(parts, readable(rest)+": "+why[p])
		}
	}
	return strings.Join(parts, ", ")
}

// Opens returns the time at which the expression becomes true if nothing but time passes, to the second; ok is false if it
// does not until the end, or if finding out would cost more than ten evaluations may.
func (e *Expression) Opens(f *Facts, end time.Time) (at time.Time, ok bool) {
	const step, most = 15 * time.Minute, 10 * celconfig.PerCallLimit
	now := f.Now.Truncate(time.Second)
	before, spent := now, uint64(0)
	open := func(at time.Time) bool {
		result, cost := e.evaluate(f.At(at))
		spent += cost
		return result.Open
	}
	for at := now; !at.After(end) && spent < most; at = at.Add(step) {
		if !open(at) {
			before = at
			continue
		}
		for at.Sub(before) > time.Second {
			if middle := before.Add(at.Sub(before) / 2).Truncate(time.Second); open(middle) { //nolint:mnd // halves
				at = middle
			} else {
				before = middle
			}
		}
		return at, true
	}
	return time.Time{}, false
}

// At returns the facts at another time, if nothing else happens.
func (f *Facts) At(t time.Time) *Facts {
	out, passed := *f, t.Sub(f.Now)
	out.Now, out.Commit.Age = t, f.Commit.Age+passed
	out.Upstreams = make(map[string]Upstream, len(f.Upstreams))
	for name, u := range f.Upstreams {
		if u.Healthy {
			u.Soak += passed
		}
		u.ReceiptAge += passed
		waves := make(map[string]Wave, len(u.Waves))
		for wave, w := range u.Waves {
			if w.Healthy {
				w.Soak += passed
			}
			waves[wave] = w
		}
		u.Waves = waves
		out.Upstreams[name] = u
	}
	return &out
}

// Term is a part of an expression with its value.
type Term struct {
	Text  string
	Value string   // true, false or unknown
	Facts []string // what it asks for: "upstreams.dev.soak = 3h12m0s"
}

// String describes the part on one line.
func (t Term) String() string {
	out := t.Text + ": " + t.Value
	if len(t.Facts) > 0 {
		out += " (" + strings.Join(t.Facts, ", ") + ")"
	}
	return out
}

// Explain evaluates each of the parts that && and || join, also those on which the value does not depend.
func (e *Expression) Explain(f *Facts) []Term {
	var out []Term
	variables := variableTypes()
	for _, part := range operands(e.checked.NativeRep().Expr()) {
		text, value, err := e.part(part, f)
		if err != nil {
			continue // a part that a macro made has no text; the whole has
		}
		one := Term{Text: text, Value: "unknown"}
		if value == types.True || value == types.False {
			one.Value = fmt.Sprint(value.Value())
		}
		ast.PreOrderVisit(part, ast.NewExprVisitor(func(n ast.Expr) {
			path, ok := pathOf(n)
			root, _, _ := strings.Cut(path, ".")
			if _, isFact := variables[root]; !ok || !isFact ||
				slices.ContainsFunc(one.Facts, func(f string) bool {
					return strings.HasPrefix(f, readable(path)+".") || strings.HasPrefix(f, readable(path)+" = ")
				}) {
				return
			}
			if _, fact, err := e.part(n, f); err == nil && fact != nil && !types.IsUnknownOrError(fact) {
				one.Facts = append(one.Facts, readable(path)+" = "+show(fact))
			}
		}))
		out = append(out, one)
	}
	return out
}

// part evaluates a part of the expression alone, within the same limit. The value is nil if it has none.
func (e *Expression) part(n ast.Expr, f *Facts) (text string, value ref.Val, err error) {
	if text, err = parser.Unparse(n, e.checked.NativeRep().SourceInfo()); err != nil {
		return "", nil, err
	}
	_, program, err := compile(text)
	if err != nil {
		return "", nil, err
	}
	if value, _, err = evaluate(program, f); err != nil {
		return text, nil, nil //nolint:nilerr // Evaluate says what is wrong
	}
	return text, value, nil
}

// operands returns the parts that && and || join.
func operands(n ast.Expr) []ast.Expr {
	if n.Kind() != ast.CallKind ||
		!slices.Contains([]string{operators.LogicalAnd, operators.LogicalOr}, n.AsCall().FunctionName()) {
		return []ast.Expr{n}
	}
	var out []ast.Expr
	for _, arg := range n.AsCall().Args() {
		out = append(out, operands(arg)...)
	}
	return out
}

// pathOf returns the path of a variable or a field: upstreams.dev.soak, also if it is written upstreams["dev"].soak.
func pathOf(n ast.Expr) (string, bool) {
	switch n.Kind() {
	case ast.IdentKind:
		return n.AsIdent(), true
	case ast.SelectKind:
		if path, ok := pathOf(n.AsSelect().Operand()); ok {
			return path + "." + n.AsSelect().FieldName(), true
		}
	case ast.CallKind:
		call := n.AsCall()
		if call.FunctionName() != operators.Index || len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
			return "", false
		}
		if path, ok := pathOf(call.Args()[0]); ok {
			return path + "." + Path(fmt.Sprint(call.Args()[1].AsLiteral().Value())), true
		}
	}
	return "", false
}

// show returns a short text of a value: 3h12m0s, ["a", "b"], a list of many values by their number.
func show(v ref.Val) string {
	const most = 5
	switch v := v.(type) {
	case types.Duration:
		return v.Duration.Round(time.Second).String()
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339)
	case types.String:
		return fmt.Sprintf("%q", string(v))
	}
	switch list := v.Value().(type) {
	case []string:
		if len(list) <= most {
			return fmt.Sprintf("%q", list)
		}
	case []time.Time:
		if len(list) <= most {
			texts := make([]string, len(list))
			for i := range list {
				texts[i] = list[i].Format(time.RFC3339)
			}
			return "[" + strings.Join(texts, " ") + "]"
		}
	}
	if sized, ok := v.(interface{ Size() ref.Val }); ok {
		return fmt.Sprintf("a list of %v", sized.Size())
	}
	return fmt.Sprint(v.Value())
}
