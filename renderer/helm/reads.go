package helm

import (
	"strconv"
	"strings"
	"text/template/parse"
)

// This file computes statically what a template file reads of its scope, so that the result of the file can be reused for another rendering
// in which these parts are the same. The analysis executes the templates with abstract values: a value that is printed, compared or passed
// to a function counts as read with everything below it. Where the analysis does not understand a template, the file reads everything.

// fileReads is what one file reads.
type fileReads struct {
	blocks [1 + maxBlocks]pathSet // of the whole file, then of each marked branch in addition
	named  bool                   // the name of the file, or what the analysis does not know
}

// reader analyses one file, or one template that files include.
type reader struct {
	trees    func(name string) *parse.Tree
	name     string // of the file
	basePath string
	branches map[*parse.ListNode]int // the marked branches of the file, with their blocks
	mutable  bool                    // a template of the program calls a function that changes maps: items of maps can change
	out      *fileReads

	into   *pathSet            // what is read now belongs to this set
	open   map[string]bool     // templates around the current one
	closed map[string]*pathSet // by template and its dot
	loops  []*pathSet          // of templates that call themselves
	steps  int
}

// Limits of the analysis of one file. A file that exceeds them reads everything.
const (
	maxSteps  = 50_000 // commands
	maxPasses = 6      // over one template, until the values of its variables are stable
)

// readFile analyses the file, whose dot is the scope.
func (r *reader) readFile(root *parse.ListNode) {
	r.start(r.name)
	r.body(root, abstract{paths: []string{""}})
	r.end()
}

// readIncluded analyses a template by itself. The reader has neither a name nor branches.
func (r *reader) readIncluded(name string, dot abstract) {
	r.start()
	r.template(name, dot)
	r.end()
}

func (r *reader) start(open ...string) {
	r.out = &fileReads{}
	r.into = &r.out.blocks[0]
	r.open, r.closed = map[string]bool{}, map[string]*pathSet{}
	for _, name := range open {
		r.open[name] = true
	}
}

func (r *reader) end() {
	for _, loop := range r.loops { // what other templates around it read was computed before that was known
		r.out.blocks[0].all = r.out.blocks[0].all || loop.all
	}
}

// frame is the execution of one template.
type frame struct {
	vars    map[string]abstract // by name; variables of the same name are joined
	used    map[string]bool     // variables that were read
	changed bool                // a variable got another value after it was read
}

func (r *reader) body(root *parse.ListNode, dot abstract) {
	f := &frame{vars: map[string]abstract{"$": dot}, used: map[string]bool{}}
	for range maxPasses {
		f.changed = false
		r.list(f, root, dot)
		if !f.changed {
			return
		}
	}
	r.giveUp()
}

// giveUp ends the analysis of a part that it does not understand.
func (r *reader) giveUp() { r.into.all = true }

// template analyses a template that another one calls.
func (r *reader) template(name string, dot abstract) {
	tree := r.trees(name)
	switch {
	case tree == nil || tree.Root == nil:
		return // the execution fails
	case dot.large(), r.open[name]: // a template that calls itself reads nothing but its dot
		r.consume(dot)
		dot = abstract{}
	}
	key := name + separator + dot.key()
	set, ok := r.closed[key]
	switch {
	case !ok:
		set = &pathSet{}
		around, outer := r.into, !r.open[name]
		r.into, r.open[name], r.closed[key] = set, true, set
		r.body(tree.Root, dot)
		r.into = around
		if outer {
			delete(r.open, name)
		}
	case r.open[name]:
		r.loops = append(r.loops, set)
	}
	r.into.addAll(set)
}

func (r *reader) list(f *frame, l *parse.ListNode, dot abstract) {
	if l == nil {
		return
	}
	if block, ok := r.branches[l]; ok {
		around := r.into
		r.into = &r.out.blocks[block]
		defer func() { r.into = around }()
	}
	for _, n := range l.Nodes {
		r.node(f, n, dot)
	}
}

func (r *reader) node(f *frame, n parse.Node, dot abstract) {
	switch x := n.(type) {
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
	case *parse.ActionNode:
		if v := r.pipe(f, x.Pipe, dot); len(x.Pipe.Decl) == 0 {
			r.consume(v)
		}
	case *parse.IfNode:
		r.consume(r.pipe(f, x.Pipe, dot))
		r.list(f, x.List, dot)
		r.list(f, x.ElseList, dot)
	case *parse.WithNode:
		v := r.pipe(f, x.Pipe, dot)
		r.consume(v)
		r.list(f, x.List, v)
		r.list(f, x.ElseList, dot)
	case *parse.RangeNode:
		v := r.commands(f, x.Pipe, dot)
		r.consume(v)
		for _, variable := range x.Pipe.Decl {
			f.assign(variable.Ident[0], abstract{})
		}
		r.list(f, x.List, abstract{})
		r.list(f, x.ElseList, dot)
	case *parse.TemplateNode:
		r.template(x.Name, r.pipe(f, x.Pipe, dot))
	default:
		r.giveUp()
	}
}

// pipe returns the value of a pipeline, and assigns it to the variables.
func (r *reader) pipe(f *frame, p *parse.PipeNode, dot abstract) abstract {
	if p == nil {
		return abstract{}
	}
	v := r.commands(f, p, dot)
	for _, variable := range p.Decl {
		f.assign(variable.Ident[0], v)
	}
	return v
}

func (r *reader) commands(f *frame, p *parse.PipeNode, dot abstract) abstract {
	var v abstract
	for i, c := range p.Cmds {
		var last []abstract
		if i > 0 {
			last = []abstract{v}
		}
		v = r.command(f, c, dot, last)
		if v.large() {
			r.consume(v)
			v = abstract{}
		}
	}
	return v
}

// assign adds a possible value of a variable.
func (f *frame) assign(name string, v abstract) {
	if old, ok := f.vars[name]; ok {
		v = join(old, v)
		if f.used[name] && v.key() != old.key() {
			f.changed = true
		}
	} else if f.used[name] {
		f.changed = true
	}
	f.vars[name] = v
}

// command returns the value of a command. last has the value of the command before it in a pipeline.
func (r *reader) command(f *frame, c *parse.CommandNode, dot abstract, last []abstract) abstract {
	if r.steps++; r.steps > maxSteps {
		r.giveUp()
		return abstract{}
	}
	args := make([]abstract, 0, len(c.Args)+len(last))
	function, called := c.Args[0].(*parse.IdentifierNode)
	for i, arg := range c.Args {
		if i > 0 || !called {
			args = append(args, r.value(f, arg, dot))
		}
	}
	args = append(args, last...)
	switch {
	case called:
		return r.call(function.Ident, args)
	case len(args) == 1:
		return args[0]
	}
	r.consume(args...) // a method with arguments
	return abstract{}
}

func (r *reader) value(f *frame, n parse.Node, dot abstract) abstract {
	switch x := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return r.chain(dot, x.Ident)
	case *parse.VariableNode:
		f.used[x.Ident[0]] = true
		return r.chain(f.vars[x.Ident[0]], x.Ident[1:])
	case *parse.ChainNode:
		return r.chain(r.value(f, x.Node, dot), x.Field)
	case *parse.PipeNode:
		return r.pipe(f, x, dot)
	case *parse.IdentifierNode:
		return r.call(x.Ident, nil)
	case *parse.StringNode:
		return abstract{known: x.Text}
	case *parse.NumberNode:
		if x.IsInt && x.Int64 >= 0 && x.Int64 < maxAbstractItems {
			return abstract{known: int(x.Int64)}
		}
		return abstract{}
	case *parse.BoolNode, *parse.NilNode:
		return abstract{}
	}
	r.giveUp()
	return abstract{}
}

func (r *reader) chain(v abstract, names []string) abstract {
	for _, name := range names {
		v = r.field(v, name)
	}
	return v
}

// field returns an item of a map, or a field or the result of a method.
func (r *reader) field(v abstract, name string) abstract {
	var found []abstract
	for _, path := range v.paths {
		if strings.HasPrefix(path, "Values"+separator) { // a scalar or null has no fields, so the execution can fail here
			r.into.add(path + separator + kindKey)
		}
		found = append(found, r.below(path, name))
	}
	if v.fields != nil {
		item := v.fields[name]
		if r.mutable {
			item = item.forget()
		}
		found = append(found, item)
	}
	if len(found) == 0 {
		return abstract{}
	}
	out := found[0]
	for _, other := range found[1:] {
		out = join(out, other)
	}
	return out
}

// below returns what is at a name below a path.
func (r *reader) below(path, name string) abstract {
	switch {
	case strings.ContainsAny(name, separator+kindKey), strings.Count(path, separator) >= maxPathKeys, valuesMethod(name):
		r.charge(path)
		return abstract{}
	case path == "Template" && name == "Name":
		r.out.named = true
		return abstract{known: r.name}
	case path == "Template" && name == "BasePath":
		return abstract{known: r.basePath}
	case path == "":
		return abstract{paths: []string{name}}
	}
	return abstract{paths: []string{path + separator + name}}
}

// valuesMethod reports whether the type of `.Values` has a method of this name, which reads everything below.
func valuesMethod(name string) bool {
	switch name {
	case "YAML", "Table", "AsMap", "Encode", "PathValue":
		return true
	}
	return false
}

// item returns an item of a list.
func (r *reader) item(v abstract, i int) abstract {
	for _, path := range v.paths {
		r.charge(path)
	}
	v.paths = nil
	return r.field(v, "#"+strconv.Itoa(i))
}

// consume marks values as read.
func (r *reader) consume(values ...abstract) {
	for _, v := range values {
		for _, path := range v.paths {
			r.charge(path)
		}
		for _, item := range v.fields {
			r.consume(item)
		}
	}
}

// charge marks a path as read with everything below it.
func (r *reader) charge(path string) {
	first, rest, _ := strings.Cut(path, separator)
	second, _, _ := strings.Cut(rest, separator)
	switch first {
	case "Values", "Release":
		r.into.add(path)
	case "Capabilities":
		switch second {
		case "KubeVersion", "APIVersions":
			r.into.add(first + separator + second)
		case "HelmVersion":
		default:
			r.into.all = true
		}
	case "Chart":
		r.into.all = r.into.all || !constantOfChart(second)
	case "Files": // the program determines them
	case "Template": // and the file
		r.out.named = true
	case "", "Subcharts":
		r.into.all, r.out.named = true, true
	default: // a scope has no other keys
	}
}

// constantOfChart reports whether the program determines this field of `.Chart`. The values select dependencies, and `sortAlpha` changes
// lists of strings.
func constantOfChart(field string) bool {
	switch field {
	case "Name", "Version", "AppVersion", "Description", "Type", "KubeVersion", "APIVersion", "Home", "Icon", "Condition", "Tags", "Deprecated", "Annotations", "IsRoot":
		return true
	}
	return false
}
