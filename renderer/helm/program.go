package helm

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"text/template"
)

// Helm's engine parses all templates for each rendering. This file does the same work with templates that are parsed
// once per chart, with the same order, names, scopes, options and functions. After an error, Render calls Helm's
// engine, whose message it reports.

// unit is a template with what it is executed with.
type unit struct {
	text  []byte // of the chart's file, which renderings share
	dot   any    // the scope, with the type that Helm gives it
	begin func() // sets `.Template` in the scope
}

// partial reports whether a template only defines other templates.
func partial(name string) bool { return strings.HasPrefix(path.Base(name), "_") }

// eachScope calls a function for a scope and those of the subcharts.
func eachScope(scope map[string]any, visit func(map[string]any)) {
	if scope == nil {
		return
	}
	visit(scope)
	below, _ := scope["Subcharts"].(map[string]any)
	for _, sub := range below {
		inner, _ := sub.(map[string]any)
		eachScope(inner, visit)
	}
}

// order sorts names as Helm does: more directories first, then by name, both descending.
func order(units map[string]unit) []string {
	names := make([]string, 0, len(units))
	for name := range units {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(b, "/"), strings.Count(a, "/")), cmp.Compare(b, a))
	})
	return names
}

// program is the parsed templates of a chart with one selection of subcharts. It is safe for concurrent use.
type program struct {
	names     []string // of all templates, in the order in which Helm parses and executes them
	texts     [][]byte
	functions template.FuncMap
	base      *template.Template // nil: the templates do not parse
	err       error
}

func parse(names []string, units map[string]unit, functions template.FuncMap) *program {
	p := &program{names: names, functions: functions}
	base := template.New("gotpl").Option("missingkey=zero").Funcs(functions)
	for _, name := range names {
		p.texts = append(p.texts, units[name].text)
		if p.err == nil {
			_, p.err = base.New(name).Parse(string(units[name].text))
		}
	}
	p.base = base
	return p
}

// of reports whether the program is that of templates: the same names with the same files.
func (p *program) of(names []string, units map[string]unit) bool {
	if !slices.Equal(names, p.names) {
		return false
	}
	for i, name := range names {
		if text := units[name].text; len(text) != len(p.texts[i]) || len(text) > 0 && &text[0] != &p.texts[i][0] {
			return false
		}
	}
	return true
}

// programs keeps the parsed templates of a chart for some selections of subcharts. It is safe for concurrent use.
type programs struct {
	mu    sync.Mutex
	known []*program // the most recent one last
}

// maxPrograms is the number of selections of subcharts of which the templates are kept.
const maxPrograms = 16

func (p *programs) of(in *prepared) *program {
	units := in.units
	names := order(units)
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.known, func(known *program) bool { return known.of(names, units) }); i >= 0 {
		return p.known[i]
	}
	if len(p.known) == maxPrograms {
		p.known = slices.Delete(p.known, 0, 1)
	}
	made := parse(names, units, in.functions())
	p.known = append(p.known, made)
	return made
}

// run executes the templates and returns the text of each file that is no partial.
func (p *program) run(units map[string]unit, o Options) (texts map[string]string, unstable bool, err error) {
	if p.err != nil {
		return nil, false, p.err
	}
	clone, err := p.base.Clone()
	if err != nil {
		return nil, false, err
	}
	e := &execution{probe: o.Probe, depth: map[string]int{}}
	b := bind(clone.Funcs(e.watched(p.functions)), e)
	texts = make(map[string]string, len(units))
	total := 0
	for _, name := range p.names {
		if partial(name) {
			continue
		}
		u := units[name]
		u.begin()
		var out strings.Builder
		if err := b.templates.ExecuteTemplate(&out, name, u.dot); err != nil {
			return nil, false, err
		}
		texts[name] = withoutNoValue(out.String())
		if total += len(texts[name]); o.MaxOutput > 0 && total > o.MaxOutput {
			return nil, false, &tooMuchText{o.MaxOutput}
		}
	}
	return texts, e.unstable, nil
}

// tooMuchText is the error of templates that produce more text than the limit.
type tooMuchText struct{ limit int }

func (e *tooMuchText) Error() string {
	return fmt.Sprintf("the templates produce more than %d MiB of text", e.limit>>20)
}

// maxIncludes limits the nesting of calls of one template, as Helm does.
const maxIncludes = 1000

// execution is what the templates of one rendering have in common. One goroutine uses it.
type execution struct {
	probe    bool
	unstable bool // a volatile function was called
	depth    map[string]int
}

// bound is a set of templates whose `include` and `tpl` refer to the set itself. One goroutine uses it.
type bound struct {
	templates *template.Template
	execution *execution // texts of tpl share it
}

// bind gives templates their own functions. The templates must be a clone that nothing else uses.
func bind(templates *template.Template, e *execution) *bound {
	b := &bound{templates, e}
	templates.Option("missingkey=zero") // a clone loses it: https://github.com/golang/go/issues/43022
	templates.Funcs(template.FuncMap{"include": b.include, "tpl": b.tpl})
	return b
}

func (b *bound) include(name string, data any) (string, error) {
	depth := b.execution.depth
	if depth[name] > maxIncludes {
		return "", fmt.Errorf("template %s includes itself without end", name)
	}
	depth[name]++
	var out strings.Builder
	err := b.templates.ExecuteTemplate(&out, name, data)
	depth[name]--
	return out.String(), err
}

// tpl renders a text that can use, and add to, the templates around it.
func (b *bound) tpl(text string, data any) (string, error) {
	if !strings.Contains(text, "{{") {
		return withoutNoValue(text), nil
	}
	clone, err := b.templates.Clone()
	if err != nil {
		return "", err
	}
	inner, err := bind(clone, b.execution).templates.New(b.templates.Name()).Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := inner.Execute(&out, data); err != nil {
		return "", err
	}
	return withoutNoValue(out.String()), nil
}

// withoutNoValue removes what text/template writes for a missing key of a map whose values have no zero value.
func withoutNoValue(text string) string { return strings.ReplaceAll(text, "<no value>", "") }
