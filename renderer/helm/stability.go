package helm

import (
	"path"
	"slices"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chart"
)

// volatile reports whether a template function can return a different result each time it is called: Sprig's random, key,
// salt and time functions, and its date functions that default to the current time.
func volatile(name string) bool {
	switch name {
	case "randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes", "randInt", "shuffle", "uuidv4", "bcrypt", "htpasswd", "encryptAES",
		"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
		"now", "ago", "durationRound", "date", "dateInZone", "date_in_zone", "dateModify", "date_modify", "htmlDate", "htmlDateInZone":
		return true
	}
	return false
}

// fixedTime replaces `now` in a probe: a time that differs from the present in every unit.
const fixedTime = `(toDate "2006-01-02T15:04:05Z" "2001-07-05T03:17:41Z")`

// analysis describes which volatile functions the templates of a chart can reach. It is computed once per chart, and only if an execution has
// called one, or if Helm's engine has rendered, which does not tell.
type analysis struct {
	reaches  bool                        // a rendered file can reach a volatile function
	usesTpl  bool                        // values can contain templates
	nowUsers map[*chart.File]*chart.File // templates that call `now`, and their copies with fixedTime
}

type node struct {
	volatile, dynamic bool
	calls             []string
}

func (c *Chart) analyse() *analysis {
	c.analysisOnce.Do(func() {
		a := &analysis{nowUsers: map[*chart.File]*chart.File{}}
		g := grapher{analysis: a, nodes: map[string]*node{}}
		g.chart(c.chart, c.chart.ChartFullPath())
		a.reaches = g.reaches()
		c.analysis = a
	})
	return c.analysis
}

type grapher struct {
	analysis *analysis
	nodes    map[string]*node
	roots    []string
}

func (g *grapher) chart(c *chart.Chart, prefix string) {
	for _, f := range c.Templates {
		name := path.Join(prefix, f.Name)
		g.file(name, f)
		if !strings.HasPrefix(path.Base(name), "_") {
			g.roots = append(g.roots, name)
		}
	}
	for _, sub := range c.Dependencies() {
		g.chart(sub, path.Join(prefix, "charts", sub.Name()))
	}
}

func (g *grapher) file(name string, f *chart.File) {
	trees := map[string]*parse.Tree{}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(string(f.Data), "", "", trees); err != nil {
		return // the rendering reports the error
	}
	var times []int
	for defined, t := range trees {
		n := g.nodes[defined]
		if n == nil { // templates with the same name share a node
			n = &node{}
			g.nodes[defined] = n
		}
		if t.Root != nil {
			inspect(t.Root, walker{g.analysis, n, &times}.visit)
		}
	}
	if len(times) > 0 {
		g.analysis.nowUsers[f] = &chart.File{Name: f.Name, Data: replaceNow(f.Data, times)}
	}
}

func replaceNow(data []byte, at []int) []byte {
	slices.Sort(at)
	var out []byte
	last := 0
	for _, i := range at {
		if i < last || i+len("now") > len(data) || string(data[i:i+len("now")]) != "now" {
			continue
		}
		out = append(out, data[last:i]...)
		out = append(out, fixedTime...)
		last = i + len("now")
	}
	return append(out, data[last:]...)
}

func (g *grapher) reaches() bool {
	seen := map[string]bool{}
	var visit func(name string) bool
	visit = func(name string) bool {
		n := g.nodes[name]
		if n == nil || seen[name] {
			return false
		}
		seen[name] = true
		if n.volatile || n.dynamic && g.any() {
			return true
		}
		return slices.ContainsFunc(n.calls, visit)
	}
	return slices.ContainsFunc(g.roots, visit)
}

// any reports whether any template is volatile. It is the answer for an include whose name is computed.
func (g *grapher) any() bool {
	for _, n := range g.nodes {
		if n.volatile {
			return true
		}
	}
	return false
}

type walker struct {
	analysis *analysis
	node     *node
	times    *[]int
}

func (w walker) visit(n parse.Node) {
	switch x := n.(type) {
	case *parse.TemplateNode:
		w.node.calls = append(w.node.calls, x.Name)
	case *parse.CommandNode:
		w.command(x)
	case *parse.IdentifierNode:
		w.identifier(x)
	}
}

func (w walker) command(c *parse.CommandNode) {
	id, ok := c.Args[0].(*parse.IdentifierNode)
	if !ok || id.Ident != "include" {
		return
	}
	if name, ok := includedName(c); ok {
		w.node.calls = append(w.node.calls, name)
	} else {
		w.node.dynamic = true
	}
}

func includedName(c *parse.CommandNode) (string, bool) {
	if len(c.Args) < 2 {
		return "", false
	}
	s, ok := c.Args[1].(*parse.StringNode)
	if !ok {
		return "", false
	}
	return s.Text, true
}

func (w walker) identifier(id *parse.IdentifierNode) {
	switch {
	case id.Ident == "now":
		*w.times = append(*w.times, int(id.Pos))
		w.node.volatile = true
	case volatile(id.Ident):
		w.node.volatile = true
	case id.Ident == "tpl":
		w.analysis.usesTpl = true
	}
}

// probe replaces `now` by fixedTime in the templates of a copied chart.
func (a *analysis) probe(work *chart.Chart) {
	work.Templates = slices.Clone(work.Templates)
	for i, f := range work.Templates {
		if other, ok := a.nowUsers[f]; ok {
			work.Templates[i] = other
		}
	}
	for _, sub := range work.Dependencies() {
		a.probe(sub)
	}
}

// mayBeUnstable reports whether two renderings by Helm's engine can differ.
func (a *analysis) mayBeUnstable() bool { return a.reaches || a.usesTpl }
