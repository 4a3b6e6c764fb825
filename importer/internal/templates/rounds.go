package templates

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"text/template"
	"text/template/parse"
)

// MaxRounds limits the work of the templates that share a Rounds: rounds of loops, calls of templates and functions,
// and the bytes that functions read and return. So many rounds take about three seconds of a processor. The limit is a
// count and not a time, so that the same templates exceed it on every machine.
const MaxRounds = 5_000_000

// ErrRounds means that a template was stopped after MaxRounds.
var ErrRounds = fmt.Errorf("it is not done after %d rounds of loops and calls, so it was stopped (shorten its loops)",
	MaxRounds)

// errSpent means that a template was not executed, because earlier ones used up the rounds.
var errSpent = errors.New("it was not executed: the templates before it used up the rounds of the import (shorten their loops)")

const roundBytes = 64 // bytes of text that cost as much as one round

// Rounds counts the rounds that are left of MaxRounds. It is not safe for concurrent use.
type Rounds struct {
	left      int
	functions template.FuncMap // those of NewRounds; each call charges
	charging  parse.Node       // `{{sluice_round}}`, which Execute inserts where a round begins
}

// NewRounds returns a budget of MaxRounds for templates that use the functions.
func NewRounds(functions template.FuncMap) *Rounds {
	names := template.FuncMap{roundName: func() string { return "" }}
	parsed := template.Must(template.New("").Funcs(names).Parse("{{" + roundName + "}}"))
	r := &Rounds{left: MaxRounds, charging: parsed.Root.Nodes[0]}
	r.functions = r.chargedFunctions(functions)
	return r
}

// charge uses up rounds. It panics with ErrRounds if none are left, because a function of a template cannot always
// return an error. Package template returns the panic of a function as an error; Execute catches the others.
func (r *Rounds) charge(rounds int) {
	if r.left -= rounds; r.left < 0 {
		panic(ErrRounds)
	}
}

// Execute parses a text as the new template t and executes it. It returns at most MaxText bytes. If the budget is
// exhausted, the error is ErrRounds, and every later call returns an error that blames the templates before it.
func (r *Rounds) Execute(t *template.Template, text string, data any) (out []byte, err error) {
	defer func() { // a charge that package template did not catch
		if cause := recover(); cause != nil {
			if cause != any(ErrRounds) {
				panic(cause)
			}
			out, err = nil, ErrRounds
		}
	}()
	if r.left < 0 {
		return nil, errSpent
	}
	r.charge(1 + len(text)/roundBytes)
	parsed, err := t.Funcs(r.functions).Parse(text)
	if err != nil {
		return nil, err
	}
	// The function is unknown while the text is parsed, so the text itself cannot call it.
	parsed.Funcs(template.FuncMap{roundName: func() string { r.charge(1); return "" }})
	for _, one := range parsed.Templates() {
		if one.Tree != nil && one.Root != nil {
			r.chargeLoops(one.Root)
			one.Root.Nodes = slices.Insert(one.Root.Nodes, 0, r.charging) // a call of the template is a round, too
		}
	}
	var to Output
	err = parsed.Execute(&writer{r, &to}, data)
	if errors.Is(err, ErrRounds) {
		return nil, ErrRounds
	}
	return to.Bytes(), err
}

const roundName = "sluice_round"

// chargeLoops makes each loop at or below a node charge its rounds.
func (r *Rounds) chargeLoops(node parse.Node) {
	branch := func(b *parse.BranchNode) {
		r.chargeLoops(b.List)
		if b.ElseList != nil {
			r.chargeLoops(b.ElseList)
		}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, inner := range n.Nodes {
			r.chargeLoops(inner)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
		n.List.Nodes = slices.Insert(n.List.Nodes, 0, r.charging)
	}
}

// writer charges output. Like every Writer it returns an error, where charge panics.
type writer struct {
	rounds *Rounds
	to     io.Writer
}

func (w *writer) Write(p []byte) (int, error) {
	if w.rounds.left -= len(p) / roundBytes; w.rounds.left < 0 {
		return 0, ErrRounds
	}
	return w.to.Write(p)
}

// slow lists functions that take far longer than the sizes of their arguments and results tell, with the rounds that a
// call costs. Functions that MakeDeterministic disables are not among them.
var slow = map[string]int{ //nolint:gochecknoglobals // a table
	"derivePassword": MaxRounds / 100,
	"deepCopy":       1000, "mustDeepCopy": 1000, "deepEqual": 1000,
	"merge": 1000, "mustMerge": 1000, "mergeOverwrite": 1000, "mustMergeOverwrite": 1000,
}

// chargedFunctions returns functions that charge rounds: those given, and those of package template that copy texts.
func (r *Rounds) chargedFunctions(functions template.FuncMap) template.FuncMap {
	out := template.FuncMap{}
	for name, f := range (template.FuncMap{
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	}) {
		out[name] = r.wrap(f, 1)
	}
	for name, f := range functions {
		out[name] = r.wrap(f, 1+slow[name])
	}
	return out
}

// wrap returns a function of the same type that charges rounds and the size of its arguments before the call, and the
// size of its results after it.
func (r *Rounds) wrap(f any, rounds int) any {
	inner := reflect.ValueOf(f)
	call := inner.Call
	if inner.Type().IsVariadic() {
		call = inner.CallSlice
	}
	return reflect.MakeFunc(inner.Type(), func(args []reflect.Value) []reflect.Value {
		r.charge(rounds)
		for _, v := range args {
			r.chargeSize(v)
		}
		out := call(args)
		for _, v := range out {
			r.chargeSize(v)
		}
		return out
	}).Interface()
}

// chargeSize charges the length of a text, list or map. It does not look into lists and maps, which would take long.
func (r *Rounds) chargeSize(v reflect.Value) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() { //nolint:exhaustive // the others are small
	case reflect.String:
		r.charge(v.Len() / roundBytes)
	case reflect.Slice, reflect.Array, reflect.Map:
		r.charge(v.Len())
	}
}
