// Package chartvalues finds out which values a chart can read, from the text of its files and without rendering it.
//
// It errs on one side: a value that it calls unread is one that nothing in the chart can read. Whatever reads values by
// names that only rendering knows, such as `index .Values $name`, makes every value count as read.
//
// Chart is pure: it depends on nothing but its files, and it runs no template.
//
// The package is not API: it can change in every release.
package chartvalues

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// File is one file of a chart, with its slash path inside the chart's folder.
type File struct {
	Path string
	Data []byte
}

// Chart is what a chart reads. It does not change, and is safe for concurrent use.
type Chart struct {
	Name string
	root node
	text string // of values.yaml, whose comments describe values too
	tpl  bool   // values can be templates
}

// node is a key of the values. An entire key may have any keys below it.
type node struct {
	entire bool
	below  map[string]*node
}

func (n *node) child(key string) *node {
	if n.below == nil {
		n.below = map[string]*node{}
	}
	c := n.below[key]
	if c == nil {
		c = &node{}
		n.below[key] = c
	}
	return c
}

// add adds a path whose value is read with all that is in it.
func (n *node) add(at ...string) {
	for _, key := range at {
		n = n.child(key)
	}
	n.entire = true
}

// New analyses a chart. It returns nil if it cannot tell what the chart reads.
func New(files []File) *Chart {
	c := &Chart{}
	type definition struct{ file, name string } // a template may be defined in several files
	templates, defined := map[definition]*parse.Tree{}, map[string]bool{}
	incomplete := false // a dependency is not among the files
	for _, f := range files {
		dir, base := path.Split(f.Path)
		switch {
		case strings.HasSuffix(base, ".tgz") && strings.HasPrefix(dir, "charts/"):
			incomplete = true
		case f.Path == "Chart.yaml" || f.Path == "requirements.yaml":
			if !c.declared(f.Data, files, &incomplete) {
				return nil
			}
		case f.Path == "values.yaml":
			c.text = string(f.Data)
			var values any
			if yaml.Unmarshal(f.Data, &values) != nil {
				return nil
			}
			if m, ok := values.(map[string]any); ok && len(m) > 0 {
				addDefaults(&c.root, m)
			}
		case f.Path == "values.schema.json":
			var schema any
			if yaml.Unmarshal(f.Data, &schema) != nil {
				return nil
			}
			addSchema(&c.root, schema)
		case strings.Contains("/"+dir, "/templates/"):
			set := map[string]*parse.Tree{}
			t := parse.New(f.Path)
			t.Mode = parse.SkipFuncCheck
			if _, err := t.Parse(string(f.Data), "", "", set); err != nil {
				if strings.HasPrefix(f.Path, "templates/tests/") || !isTemplate(base) {
					continue
				}
				return nil
			}
			for name, tree := range set {
				defined[name] = true
				templates[definition{f.Path, name}] = tree
			}
		}
	}
	w := &walker{into: &c.root, defined: defined, incomplete: incomplete}
	for at, t := range templates {
		if w.inner = 0; at.file != at.name {
			w.inner = 1 // the dot of a definition is what it is called with
		}
		if t.Root != nil {
			w.list(t.Root)
		}
	}
	if c.tpl = w.tpl; c.tpl {
		for _, f := range files {
			if text := f.Path != "README.md" && !strings.Contains("/"+f.Path, "/templates/"); text {
				w.text(string(f.Data))
			}
		}
	}
	c.root.child("global").entire = true
	c.root.child("tags").entire = true
	c.root.child("exports").entire = true
	if w.everything {
		c.root.entire = true
	}
	return c
}

func isTemplate(base string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".tpl", ".txt"}, path.Ext(base))
}

// declared adds what Chart.yaml says: the dependencies, whose values are below their names, and their conditions.
func (c *Chart) declared(data []byte, files []File, incomplete *bool) bool {
	var about struct {
		Name         string `yaml:"name"`
		Dependencies []struct {
			Name         string   `yaml:"name"`
			Alias        string   `yaml:"alias"`
			Condition    string   `yaml:"condition"`
			ImportValues []any    `yaml:"import-values"`
			Tags         []string `yaml:"tags"`
		} `yaml:"dependencies"`
	}
	if yaml.Unmarshal(data, &about) != nil {
		return false
	}
	if about.Name != "" {
		c.Name = about.Name
	}
	for _, d := range about.Dependencies {
		c.root.add(d.Name)
		if d.Alias != "" {
			c.root.add(d.Alias)
		}
		for condition := range strings.SplitSeq(d.Condition, ",") {
			if condition = strings.TrimSpace(condition); condition != "" {
				c.root.add(strings.Split(condition, ".")...)
			}
		}
		for _, v := range d.ImportValues {
			if m, ok := v.(map[string]any); ok {
				if parent, ok := m["parent"].(string); ok && parent != "." {
					c.root.add(strings.Split(parent, ".")...)
					continue
				}
			}
			c.root.entire = true // the keys are those of another chart
		}
		if !slices.ContainsFunc(files, func(f File) bool { return strings.HasPrefix(f.Path, "charts/"+d.Name+"/") }) {
			*incomplete = true
		}
	}
	for _, f := range files { // charts in charts/ need no entry
		if rest, ok := strings.CutPrefix(f.Path, "charts/"); ok {
			if name, _, ok := strings.Cut(rest, "/"); ok {
				c.root.add(name)
			}
		}
	}
	return true
}

// addDefaults adds the keys of a chart's own values. One without keys of its own may have any.
func addDefaults(n *node, v any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		n.entire = true
		return
	}
	for key, item := range m {
		addDefaults(n.child(key), item)
	}
}

// addSchema adds the keys that a JSON schema declares. What it says beyond properties leaves all keys open.
func addSchema(n *node, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		n.entire = true
		return
	}
	for key := range m {
		if slices.Contains([]string{"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"}, key) {
			n.entire = true
		}
	}
	if _, open := m["additionalProperties"].(map[string]any); open {
		n.entire = true
	}
	properties, ok := m["properties"].(map[string]any)
	if !ok {
		return
	}
	for key, item := range properties {
		c := n.child(key)
		if sub, ok := item.(map[string]any); ok && sub["properties"] != nil {
			addSchema(c, sub)
			continue
		}
		c.entire = true
	}
}

// walker collects what templates read.
type walker struct {
	into       *node
	defined    map[string]bool
	incomplete bool
	everything bool
	tpl        bool
	inner      int // more than 0 where the dot is not the root
}

// dumps are functions that print all of what they are given.
func dumps() []string {
	return []string{"toYaml", "toJson", "toPrettyJson", "mustToYaml", "mustToJson", "toRawJson", "toToml"}
}

func (w *walker) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		w.node(n)
	}
}

func (w *walker) node(n parse.Node) {
	switch n := n.(type) {
	case *parse.ActionNode:
		w.node(n.Pipe)
	case *parse.IfNode:
		w.branch(&n.BranchNode)
	case *parse.RangeNode:
		w.branch(&n.BranchNode)
	case *parse.WithNode:
		w.branch(&n.BranchNode)
	case *parse.ListNode:
		w.list(n)
	case *parse.TemplateNode:
		w.calls(n.Name)
		if n.Pipe != nil {
			w.node(n.Pipe)
		}
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for i, c := range n.Cmds {
			w.command(c, n.Cmds[:i])
		}
	case *parse.CommandNode:
		w.command(n, nil)
	case *parse.FieldNode:
		w.chain(n.Ident)
	case *parse.VariableNode:
		w.chain(n.Ident[1:])
	case *parse.ChainNode:
		// (index $x "a").Values.b, (.Values).b: the fields below an expression
		if f, ok := n.Node.(*parse.PipeNode); !ok || !isValues(f) {
			w.node(n.Node)
			w.chain(n.Field)
			return
		}
		w.into.add(n.Field...)
	case *parse.StringNode:
		switch {
		case n.Text == "Values": // index . "Values"
			w.everything = true
		case strings.Contains(n.Text, "{{"):
			w.text(n.Text)
		}
	}
}

// isValues reports whether a pipe is .Values or $.Values alone.
func isValues(p *parse.PipeNode) bool {
	if p == nil || len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 || len(p.Decl) > 0 {
		return false
	}
	return isValuesNode(p.Cmds[0].Args[0])
}

func isValuesNode(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.FieldNode:
		return n.Ident[len(n.Ident)-1] == "Values"
	case *parse.VariableNode:
		return len(n.Ident) > 1 && n.Ident[len(n.Ident)-1] == "Values"
	case *parse.PipeNode:
		return isValues(n)
	}
	return false
}

func (w *walker) branch(b *parse.BranchNode) {
	w.node(b.Pipe)
	if b.NodeType != parse.NodeIf {
		w.inner++
	}
	w.list(b.List)
	if b.NodeType != parse.NodeIf {
		w.inner--
	}
	w.list(b.ElseList)
}

// inText matches .Values in a template that only rendering parses.
var inText = regexp.MustCompile(`\.Values\b(?:\.(\w[\w.-]*))?`)

// text adds what a template reads that is a value, a string or a file of the chart.
func (w *walker) text(text string) {
	if !strings.Contains(text, "{{") {
		return
	}
	for _, m := range inText.FindAllStringSubmatch(text, -1) {
		if m[1] == "" {
			w.everything = true
			return
		}
		w.into.add(strings.Split(strings.TrimRight(m[1], "."), ".")...)
	}
}

// chain adds .Values.a.b, also where .Values is a field of something: of $, of a dictionary, of a subchart.
func (w *walker) chain(ident []string) {
	i := slices.Index(ident, "Values")
	if i < 0 {
		return
	}
	rest := ident[i+1:]
	if len(rest) == 0 || slices.Contains([]string{"AsMap", "Table", "PathValue", "YAML", "Encode"}, rest[0]) {
		w.everything = true
		return
	}
	w.into.add(rest...)
}

// calls notes that a template is included. One that is not among the files may read anything.
func (w *walker) calls(name string) {
	if !w.defined[name] {
		w.everything = true
	}
}

func (w *walker) command(c *parse.CommandNode, before []*parse.CommandNode) {
	args := c.Args
	name := ""
	if id, ok := args[0].(*parse.IdentifierNode); ok {
		name, args = id.Ident, args[1:]
	}
	switch {
	case name == "include" || name == "template":
		if len(args) > 0 {
			if s, ok := args[0].(*parse.StringNode); ok {
				w.calls(s.Text)
				args = args[1:]
			} else if w.incomplete {
				w.everything = true
			}
		}
	case name == "tpl":
		w.tpl = true
	case slices.Contains([]string{"index", "get", "hasKey", "dig"}, name) && len(args) > 1 && w.constant(name, args):
		return
	case slices.Contains(dumps(), name):
		for _, a := range args {
			w.dumped(a)
		}
		if len(args) == 0 && len(before) > 0 && len(before[len(before)-1].Args) == 1 {
			w.dumped(before[len(before)-1].Args[0])
		}
	}
	for _, a := range args {
		w.node(a)
	}
}

// constant adds the path of `index .Values "a" "b"`, `get .Values "a"` and `hasKey .Values "a"`.
func (w *walker) constant(name string, args []parse.Node) bool {
	if name == "dig" || !isValuesNode(args[0]) {
		return false
	}
	var at []string
	for _, a := range args[1:] {
		s, ok := a.(*parse.StringNode)
		if !ok {
			break
		}
		at = append(at, s.Text)
	}
	if len(at) == 0 {
		return false
	}
	w.into.add(at...)
	for _, a := range args[1+len(at):] {
		w.node(a)
	}
	return true
}

// dumped notes that all of a value is printed: of $, that is everything.
func (w *walker) dumped(n parse.Node) {
	switch n := n.(type) {
	case *parse.VariableNode:
		if len(n.Ident) == 1 && n.Ident[0] == "$" {
			w.everything = true
		}
	case *parse.DotNode:
		w.everything = w.everything || w.inner == 0
	}
}

// Unread is a value that nothing in a chart reads.
type Unread struct {
	Path    []string
	Similar string // a key beside it that the chart reads; "" if there is none
}

// Unread returns the values that no template of the chart reads, that its values.yaml and its schema do not declare,
// and that configure no dependency. Of a value that is unread as a whole it returns nothing below.
func (c *Chart) Unread(values map[string]any) []Unread {
	if c == nil || c.root.entire || c.tpl && hasTemplates(values) {
		return nil
	}
	var out []Unread
	c.unread(&c.root, values, nil, &out)
	slices.SortFunc(out, func(a, b Unread) int { return slices.Compare(a.Path, b.Path) })
	return out
}

func hasTemplates(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "{{") && strings.Contains(v, "Values")
	case map[string]any:
		for _, item := range v {
			if hasTemplates(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasTemplates)
	}
	return false
}

func (c *Chart) unread(n *node, values map[string]any, at []string, out *[]Unread) {
	if n.entire {
		return
	}
	for key, value := range values {
		here := append(slices.Clone(at), key)
		if below, ok := n.below[key]; ok {
			if m, ok := value.(map[string]any); ok {
				c.unread(below, m, here, out)
			}
			continue
		}
		if value == nil || c.mentions(key) {
			continue
		}
		*out = append(*out, Unread{Path: here, Similar: similar(key, n)})
	}
}

// mentions reports whether values.yaml has the key anywhere, such as in a comment that shows how to set it.
func (c *Chart) mentions(key string) bool {
	part := func(b byte) bool {
		return b == '_' || b == '-' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
	}
	for from := 0; key != ""; {
		i := strings.Index(c.text[from:], key)
		if i < 0 {
			return false
		}
		i += from
		from = i + len(key)
		if (i == 0 || !part(c.text[i-1]) && c.text[i-1] != '.') && (from == len(c.text) || !part(c.text[from])) {
			return true
		}
	}
	return false
}

// similar returns the key that was probably meant: nearly the same one, or one that begins with the other.
func similar(key string, n *node) string {
	const shortest, least = 3, 4
	if len(key) < shortest {
		return ""
	}
	var known []string
	for name := range n.below {
		known = append(known, name)
	}
	slices.Sort(known)
	if name := nearest.Name(key, known); name != "" {
		return name
	}
	lower := strings.ToLower(key)
	for _, name := range known {
		other := strings.ToLower(name)
		if min(len(lower), len(other)) >= least && (strings.HasPrefix(other, lower) || strings.HasPrefix(lower, other)) {
			return name
		}
	}
	return ""
}
