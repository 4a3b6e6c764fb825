package helm

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Helm's engine parses all templates for each rendering. This file does the same work with templates that are parsed
// once per chart, with the same order, names, scopes, options and functions. Only successful results are used. After
// any error, Render calls Helm's engine, so that messages are Helm's own and a difference cannot refuse a chart.

// program is the parsed templates of a chart with one selection of subcharts. It is safe for concurrent use.
type program struct {
	names     []string // of all templates, in the order in which Helm parses and executes them
	base      *template.Template
	toWatch   template.FuncMap
	instances sync.Pool // of *bound; unused instances are freed

	marks    map[*byte]mark
	branches map[string]map[*parse.ListNode]int // the marked branches of each file, with their blocks

	used      atomic.Bool
	number    uint64 // of the program in Results
	readsOnce sync.Once
	reads     *programReads // nil: no result can be reused
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

func newProgram(units map[string]unit) (*program, error) {
	all := functions()
	p := &program{
		names: order(units), base: template.New("gotpl").Option("missingkey=zero").Funcs(all), toWatch: toWatch(all),
		marks: map[*byte]mark{}, branches: map[string]map[*parse.ListNode]int{},
	}
	for _, name := range p.names {
		if _, err := p.base.New(name).Parse(string(units[name].file.Data)); err != nil {
			return nil, err
		}
	}
	for _, name := range p.names {
		if t := p.base.Lookup(name); !partial(name) && t != nil && t.Tree != nil {
			p.branches[name] = markBranches(name, t.Root, p.marks)
		}
	}
	return p, nil
}

// reuse returns what finds and keeps the results of files, or nil. The first rendering of a program does without, because the analysis costs
// more than it saves if no second one follows.
func (p *program) reuse(results *Results, units map[string]unit) *reuse {
	if results == nil || !p.used.Swap(true) {
		return nil
	}
	p.readsOnce.Do(func() { p.reads, p.number = p.analyse(units), results.number() })
	if p.reads == nil {
		return nil
	}
	return &reuse{results, p, p.reads.ofFiles}
}

// run executes the templates whose results cannot be reused. It does not use the instance again after an error or a panic.
func (p *program) run(in prepared, results *reuse, maxOutput int) (*outputs, error) {
	instance, ok := p.instances.Get().(*bound)
	if !ok {
		clone, err := p.base.Clone()
		if err != nil {
			return nil, err
		}
		e := &execution{marks: p.marks, depth: map[string]int{}}
		instance = bind(clone.Funcs(e.watched(p.toWatch)), e)
	}
	e := instance.execution
	e.start(in, results)
	out := newOutputs(maxOutput, len(in.units))
	for _, name := range p.names {
		if partial(name) {
			continue
		}
		u := in.units[name]
		e.visit(u, chartutil.Values{"Name": name, "BasePath": u.basePath})
		reads := results.file(name, e)
		if reads != nil {
			if known, ok := results.find(reads, u); ok {
				if err := out.add(name, known); err != nil {
					return nil, err
				}
				continue
			}
		}
		e.file(name, u, reads)
		text := &writer{execution: e}
		if err := instance.templates.ExecuteTemplate(text, name, u.scope); err != nil {
			return nil, err
		}
		if err := out.text(name, withoutNoValue(text.String())); err != nil {
			return nil, err
		}
		if reads != nil {
			results.keep(reads, u, e, out.files[name])
		}
		if e.changed {
			e.memo = memo{}
		}
		e.settle()
	}
	out.unstable = e.volatile
	e.end()
	p.instances.Put(instance)
	return out, nil
}

// parsedCharts caches the programs of a chart. It is safe for concurrent use.
type parsedCharts struct {
	mu       sync.Mutex
	programs map[string]*program               // nil if the templates do not parse
	numbers  map[*chart.File]int               // of the templates, for keys
	shown    map[*chart.File]any               // Helm's `.Files` by the first file of a chart
	sums     map[*chart.File][sha256.Size]byte // of CRDs
	names    map[templateOf]string             // of the templates
}

// maxPrograms is the number of cached selections of subcharts.
const maxPrograms = 16

// program returns the parsed templates; nil if they do not parse.
func (c *Chart) program(in prepared) *program {
	if in.selection == nil {
		return c.parsed.program(in.units)
	}
	in.selection.mu.Lock()
	defer in.selection.mu.Unlock()
	known, ok := in.selection.programs[in.probe]
	if !ok {
		known = c.parsed.program(in.units)
		in.selection.programs[in.probe] = known
	}
	return known
}

// program returns the parsed templates; nil if they do not parse.
func (p *parsedCharts) program(units map[string]unit) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.key(units)
	if known, ok := p.programs[key]; ok {
		return known
	}
	if p.programs == nil || len(p.programs) >= maxPrograms {
		p.programs = map[string]*program{}
	}
	made, err := newProgram(units)
	if err != nil { // Helm's engine reports it
		made = nil
	}
	p.programs[key] = made
	return made
}

// key identifies a selection of subcharts: the names of the templates with the number of each file. The files of a
// Chart live as long as the Chart.
func (p *parsedCharts) key(units map[string]unit) string {
	if p.numbers == nil {
		p.numbers = map[*chart.File]int{}
	}
	var out strings.Builder
	for _, name := range order(units) {
		f := units[name].file
		n, ok := p.numbers[f]
		if !ok {
			n = len(p.numbers)
			p.numbers[f] = n
		}
		out.WriteString(name)
		out.WriteByte(0)
		out.WriteString(strconv.Itoa(n))
		out.WriteByte(0)
	}
	return out.String()
}

// files returns the value of Helm's `.Files` for one rendering, which can change the map: mergo merges maps of all kinds.
func (p *parsedCharts) files(files []*chart.File) any {
	shared := reflect.ValueOf(p.allFiles(files))
	out := reflect.MakeMapWithSize(shared.Type(), shared.Len())
	for at := shared.MapRange(); at.Next(); {
		out.SetMapIndex(at.Key(), at.Value())
	}
	return out.Interface()
}

// allFiles returns the value of Helm's `.Files`, which renderings share. Its type is not exported, so a template passes it to a function.
func (p *parsedCharts) allFiles(files []*chart.File) any {
	var first *chart.File
	if len(files) > 0 {
		first = files[0]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.shown[first]; ok {
		return known
	}
	var out any
	take := func(v any) string {
		out = v
		return ""
	}
	probe := &chart.Chart{Metadata: &chart.Metadata{Name: "files"}, Files: files, Templates: []*chart.File{{Name: "templates/take", Data: []byte("{{ call .Values.take .Files }}")}}}
	if _, err := (engine.Engine{}).Render(probe, chartutil.Values{"Values": chartutil.Values{"take": take}}); err != nil {
		panic(fmt.Errorf("helm's engine gives no .Files: %w", err)) // Render recovers, and TestFilesAreHelms fails first
	}
	if p.shown == nil {
		p.shown = map[*chart.File]any{}
	}
	p.shown[first] = out
	return out
}

// maxIncludes limits the nesting of calls of one template, as Helm does.
const maxIncludes = 1000

// bound is a set of templates whose `include` and `tpl` refer to the set itself. One goroutine at a time uses it.
type bound struct {
	templates *template.Template
	execution *execution        // nested texts share it
	texts     map[string]*bound // by the text that `tpl` rendered
	text      *template.Template
}

// maxTexts is the number of `tpl` texts that an instance keeps parsed: each has a copy of the index of templates.
const maxTexts = 64

// bind gives templates their own functions. The templates must be a clone that nothing else uses.
func bind(templates *template.Template, e *execution) *bound {
	b := &bound{templates: templates, execution: e}
	templates.Option("missingkey=zero") // a clone loses it: https://github.com/golang/go/issues/43022
	templates.Funcs(template.FuncMap{"include": b.include, "tpl": b.tpl})
	return b
}

func (b *bound) include(name string, data any) (string, error) {
	if b.text != nil { // texts of values can define templates of the same name
		return b.execute(name, data)
	}
	return b.execution.once(name, data, func() (string, error) { return b.execute(name, data) })
}

func (b *bound) execute(name string, data any) (string, error) {
	e := b.execution
	if e.depth[name] > maxIncludes {
		return "", fmt.Errorf("template %s includes itself without end", name)
	}
	e.depth[name]++
	e.nesting++
	e.deepest = max(e.deepest, e.nesting)
	out := &writer{execution: e}
	err := b.templates.ExecuteTemplate(out, name, data)
	e.depth[name]--
	e.nesting--
	return out.String(), err
}

// tpl renders a text that can use, and add to, the templates around it.
func (b *bound) tpl(text string, data any) (string, error) {
	if !strings.Contains(text, "{{") {
		return withoutNoValue(text), nil
	}
	b.execution.evaluated = true
	inner, err := b.parse(text)
	if err != nil {
		return "", err
	}
	out := &writer{execution: b.execution}
	if err := inner.text.Execute(out, data); err != nil {
		return "", err
	}
	return withoutNoValue(out.String()), nil
}

func (b *bound) parse(text string) (*bound, error) {
	if known, ok := b.texts[text]; ok {
		return known, nil
	}
	clone, err := b.templates.Clone()
	if err != nil {
		return nil, err
	}
	inner := bind(clone, b.execution)
	if inner.text, err = clone.New(b.templates.Name()).Parse(text); err != nil {
		return nil, err
	}
	if b.execution.texts < maxTexts {
		if b.texts == nil {
			b.texts = map[string]*bound{}
		}
		b.texts[text] = inner
		b.execution.texts++
	}
	return inner, nil
}

// withoutNoValue removes what text/template writes for a missing key of a map whose values have no zero value.
func withoutNoValue(text string) string { return strings.ReplaceAll(text, "<no value>", "") }
