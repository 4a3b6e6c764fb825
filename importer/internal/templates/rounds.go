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

// MaxRounds limits the work of the templates of one import, or of one object of it: rounds of loops, calls of templates
// and functions, and what functions read and return. They take about three seconds of a processor. It is a count and
// not a time, so that it is the same everywhere.
const MaxRounds = 5_000_000

// ErrRounds is a template that is not done after MaxRounds.
var ErrRounds = fmt.Errorf("it is not done after %d rounds of loops and calls, so it was stopped (shorten its loops)",
	MaxRounds)

// errSpent is a template that is not executed because of others.
var errSpent = errors.New("it was not executed: the templates before it used up the rounds of the import (shorten their loops)")

const roundBytes = 64 // that cost as much as a round

// Rounds is what is left of MaxRounds. It is not safe for concurrent use.
type Rounds struct {
	left      int
	functions template.FuncMap
	node      parse.Node // charges one round
}

// NewRounds returns a whole budget for templates with the functions.
func NewRounds(functions template.FuncMap) *Rounds {
	names := template.FuncMap{roundName: func() string { return "" }}
	parsed := template.Must(template.New("").Funcs(names).Parse("{{" + roundName + "}}"))
	r := &Rounds{left: MaxRounds, node: parsed.Root.Nodes[0]}
	r.functions = r.charged(functions)
	return r
}

// charge panics with ErrRounds if nothing is left. Package template returns such a panic of a function as an error.
func (r *Rounds) charge(rounds int) {
	if r.left -= rounds; r.left < 0 {
		panic(ErrRounds)
	}
}

// Execute parses a text as the new template t and executes it. It returns at most MaxText bytes. An error is ErrRounds
// if the budget is exhausted. Then every later call returns an error that says so.
func (r *Rounds) Execute(t *template.Template, text string, data any) (out []byte, err error) {
	defer func() { // a charge outside of a function of the template
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
	// Not known while the text is parsed, so the text cannot call it.
	parsed.Funcs(template.FuncMap{roundName: func() string { r.charge(1); return "" }})
	for _, one := range parsed.Templates() {
		if one.Tree != nil && one.Root != nil {
			r.count(one.Root)
			one.Root.Nodes = slices.Insert(one.Root.Nodes, 0, r.node)
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

// count makes each loop below a node charge its rounds.
func (r *Rounds) count(node parse.Node) {
	branch := func(b *parse.BranchNode) {
		r.count(b.List)
		if b.ElseList != nil {
			r.count(b.ElseList)
		}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, inner := range n.Nodes {
			r.count(inner)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
		n.List.Nodes = slices.Insert(n.List.Nodes, 0, r.node)
	}
}

// writer charges output.
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

// slow are functions that take far longer than what they read and return tells, with the rounds that they cost.
var slow = map[string]int{ //nolint:gochecknoglobals // a table
	"derivePassword": MaxRounds / 100, "bcrypt": MaxRounds / 100, "htpasswd": MaxRounds / 100,
	"genPrivateKey": MaxRounds / 10, "genCA": MaxRounds / 10, "genCAWithKey": MaxRounds / 10,
	"genSelfSignedCert": MaxRounds / 10,
	"deepCopy":          1000, "mustDeepCopy": 1000, "merge": 1000, "mustMerge": 1000, "mergeOverwrite": 1000,
	"mustMergeOverwrite": 1000, "deepEqual": 1000,
	"genSelfSignedCertWithKey": MaxRounds / 10, "genSignedCert": MaxRounds / 10, "genSignedCertWithKey": MaxRounds / 10,
}

// charged wraps functions, those of package template that copy texts too.
func (r *Rounds) charged(functions template.FuncMap) template.FuncMap {
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

// wrap returns a function of the same type that charges rounds, what it reads before it is called, and what it returns.
func (r *Rounds) wrap(f any, rounds int) any {
	inner := reflect.ValueOf(f)
	call := inner.Call
	if inner.Type().IsVariadic() {
		call = inner.CallSlice
	}
	return reflect.MakeFunc(inner.Type(), func(args []reflect.Value) []reflect.Value {
		r.charge(rounds)
		for _, v := range args {
			r.read(v)
		}
		out := call(args)
		for _, v := range out {
			r.read(v)
		}
		return out
	}).Interface()
}

// read charges the size of a value, as far as it can be seen at no cost.
func (r *Rounds) read(v reflect.Value) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() { //nolint:exhaustive // others are small
	case reflect.String:
		r.charge(v.Len() / roundBytes)
	case reflect.Slice, reflect.Array, reflect.Map:
		r.charge(v.Len())
	}
}
