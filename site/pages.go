package site

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/internal/design"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site/index"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed site.css
var siteCSS string

//go:embed site.js
var siteJS string

// policy is the content security policy of every page: nothing from another host, no inline script or style.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'"

// Policy returns the content security policy that a server sends with every page.
func Policy() string { return policy + "; frame-ancestors 'none'" }

// Assets returns the files that all pages share, by name.
func Assets() map[string][]byte {
	return map[string][]byte{"style.css": []byte(design.CSS() + siteCSS), "site.js": []byte(design.Script(siteJS))}
}

// Page is one HTML page. Path is relative to the folder of the pages, with slashes.
type Page struct {
	Path  string
	Title string

	template string
	data     any        // what the template fills in
	make     func() any // in place of data, for pages of which there can be many
}

// content returns what the template fills in.
func (p *Page) content() any {
	if p.make != nil {
		return p.make()
	}
	return p.data
}

// Pages renders the pages of a fleet. Its methods are safe for concurrent use.
type Pages struct {
	fleet     *Fleet
	templates map[string]*template.Template
	pages     map[string]Page
	order     []string
	live      bool
	written   []Change        // that WriteChanges writes, apart from comparisons
	reported  map[string]bool // their paths, and those of comparisons
	compare   int             // as in Options
	compared  map[string]int  // by environment: newest states of which any two have a report
}

// Options change how pages are made.
type Options struct {
	Live    bool // pages follow a server's events, search there, and compare any two states
	Reports int  // static pages: states of each environment, from the newest, whose report is written; see WriteChanges
	// static pages: states of each environment, from the newest, of which any two are compared; see WriteChanges
	Compare int
}

// NewPages prepares the pages of a fleet.
func NewPages(f *Fleet, o Options) (*Pages, error) {
	p := &Pages{
		fleet: f, templates: map[string]*template.Template{}, pages: map[string]Page{}, live: o.Live,
		reported: map[string]bool{}, compare: o.Compare, compared: map[string]int{},
	}
	p.written = p.changes(o.Reports)
	for _, c := range p.written {
		p.reported[c.Path()] = true
	}
	for _, name := range []string{
		"overview", "promotions", "clusters", "cluster", "app", "conformance", "history",
		"search", "merge-requests", "merge-request", "version", "catalog", "kubernetes",
	} {
		t, err := template.New("layout.html").Funcs(functions(p)).ParseFS(templateFiles, "templates/layout.html",
			"templates/parts.html", "templates/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("template of pages: %w", err)
		}
		p.templates[name] = t
	}
	labels := newLabels(f)
	p.add(Page{Path: "index.html", Title: "Overview", template: "overview", data: newOverview(f, labels, choice{})})
	p.add(Page{Path: "promotions.html", Title: "Promotions", template: "promotions", data: newPromotions(f)})
	p.add(Page{
		Path: "clusters.html", Title: "Clusters", template: "clusters", data: &clusterList{Fleet: f, Labels: labels},
	})
	p.add(Page{Path: "conformance.html", Title: "Conformance", template: "conformance", data: newConformance(f)})
	p.add(Page{Path: "history.html", Title: "History", template: "history", data: newHistory(f)})
	if f.Versions != nil {
		p.add(Page{Path: kubernetesPath, Title: "Kubernetes", template: "kubernetes", data: newKubernetes(f)})
	}
	if len(f.Catalog) > 0 {
		p.add(Page{Path: catalogPath, Title: "Catalog", template: "catalog", data: newCatalog(f)})
	}
	found := newSearch(f)
	p.add(Page{Path: searchPath, Title: "Search", template: "search", data: found})
	if f.Reviews {
		p.add(Page{
			Path: mergeRequestsPath, Title: "Merge requests", template: "merge-requests",
			data: newMergeRequests(f),
		})
		for i := range f.MergeRequests {
			m := &f.MergeRequests[i]
			p.add(Page{Path: mergeRequestPath(m.Number), Title: m.Title, template: "merge-request", data: m})
		}
	}
	for _, a := range f.Apps {
		p.add(Page{Path: appPath(a), Title: a.Name, template: "app", data: newAppView(f, a)})
	}
	for _, c := range f.Clusters {
		p.add(Page{Path: clusterPath(c), Title: c.Name, template: "cluster", data: newClusterView(c)})
	}
	for _, l := range labels {
		for _, v := range l.Values {
			p.add(Page{Path: v.Path(), Title: v.String(), template: "overview", make: func() any {
				return newOverview(f.only(v), labels, v)
			}})
		}
	}
	for _, r := range found.Rows {
		if one := (Fact{r.Kind, r.Text}); one.Kind == index.Image || one.Kind == index.Chart {
			p.add(Page{Path: versionPath(one), Title: one.Text, template: "version", make: func() any {
				return newVersion(f, one, found.Rows)
			}})
		}
	}
	return p, nil
}

func (p *Pages) add(one Page) {
	p.pages[one.Path] = one
	p.order = append(p.order, one.Path)
}

// EnvironmentPath is the path of what people see of an environment: its section on the page of promotions.
func EnvironmentPath(environment string) string {
	return "promotions.html#env-" + fileName(environment)
}

func appPath(a *App) string         { return "apps/" + a.file + ".html" }
func clusterPath(c *Cluster) string { return "clusters/" + c.file + ".html" }

// Change returns the change whose page has a path.
func (p *Pages) Change(path string) (Change, bool) { return p.fleet.Change(path) }

// All lists the paths of the pages: the overview first.
func (p *Pages) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, path := range p.order {
			if !yield(path) {
				return
			}
		}
	}
}

// frame is what the layout fills in around a page.
type frame struct {
	Page
	Fleet  *Fleet
	Policy string
	Root   string // the way from the page to the folder of the pages: "" or "../"
	Live   bool
	Data   any
}

// Render returns a page by its path, and reports whether there is one.
func (p *Pages) Render(path string) ([]byte, bool, error) {
	one, ok := p.pages[path]
	if !ok {
		return nil, false, nil
	}
	var out bytes.Buffer
	f := frame{
		Page: one, Fleet: p.fleet, Policy: policy, Root: strings.Repeat("../", strings.Count(path, "/")),
		Live: p.live, Data: one.content(),
	}
	if err := p.templates[one.template].Execute(&out, f); err != nil {
		return nil, true, fmt.Errorf("page %s: %w", path, err)
	}
	return out.Bytes(), true, nil
}

// functions are those of the templates. show escapes what a reader cannot see; html/template escapes markup.
func functions(p *Pages) template.FuncMap {
	f := p.fleet
	return template.FuncMap{
		"mark":      design.Mark,
		"show":      safetext.Line,
		"count":     count,
		"number":    number,
		"short":     func(hash string) string { return safetext.Line(hash[:min(len(hash), shortHash)]) },
		"stamp":     func(t time.Time) string { return t.UTC().Format(stampForm) },
		"iso":       func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"ago":       func(t time.Time) string { return ago(f.Made.Sub(t)) },
		"span":      span,
		"list":      func(l []string) string { return safetext.Line(strings.Join(l, ", ")) },
		"some":      some,
		"shell":     shell,
		"app":       appPath,
		"cluster":   clusterPath,
		"appNamed":  func(name string) string { return "apps/" + fileName(name) + ".html" },
		"onCluster": func(name string) string { return "clusters/" + fileName(name) + ".html" },
		"state":     stateOf,
		"charts": func(version string) []Fact {
			var out []Fact
			for text := range strings.SplitSeq(version, ", ") {
				out = append(out, Fact{index.Chart, text})
			}
			return out
		},
		"image":       func(text string) Fact { return Fact{index.Image, text} },
		"charted":     func(text string) Fact { return Fact{index.Chart, text} },
		"fact":        func(kind index.Kind, text string) Fact { return Fact{kind, text} },
		"versionPage": p.versionPage,
		"textPage": func(text string) string {
			return cmp.Or(p.versionPage(Fact{index.Image, text}), p.versionPage(Fact{index.Chart, text}))
		},
		"labelPage": func(label, value string) string {
			path := choice{Label: label, Value: value}.Path()
			if _, ok := p.pages[path]; !ok {
				return ""
			}
			return path
		},
		"health":   healthOf,
		"healthy":  healthWord,
		"ofApp":    appHealth,
		"command":  func(words ...string) command { return newCommand(words...) },
		"dict":     dict,
		"anchor":   fileName,
		"plus":     func(a, b int) int { return a + b },
		"percent":  func(part, of int) int { return part * 100 / max(1, of) },
		"nav":      func() []link { return navigation(f) },
		"pieces":   pieces,
		"dated":    dated,
		"upToDate": upToDate,
		"report": func(e *Environment, h Event) string {
			if path := changePath(e, h); p.live || p.reported[path] {
				return path
			}
			return ""
		},
		"eventID": func(environment, commit string) string {
			return "e-" + fileName(environment) + "-" + fileName(commit[:min(len(commit), shortHash)])
		},
		"reportOf": func(h Event) string {
			for _, e := range f.Environments {
				if path := changePath(e, h); e.Name == h.Environment && (p.live || p.reported[path]) {
					return path
				}
			}
			return ""
		},
		"comparedStates": p.comparedStates,
		"folderOf":       func(e *Environment) string { return changesFolder + "/" + fileName(e.Name) + "/" },
		"between": func(e *Environment, before, after string) string {
			return Change{Environment: e.Name, Before: before, After: after}.Path()
		},
		"next": func(e *Environment) string {
			if c, ok := e.next(); ok && (p.live || p.reported[c.Path()]) {
				return c.Path()
			}
			return ""
		},
		"requestPath":  mergeRequestPath,
		"reportPath":   ReportPath,
		"verdictClass": verdictClass,
		"timeOrNone":   func(t time.Time) bool { return !t.IsZero() },
	}
}

// versionPage returns the page of an image, or of a version or path of a source; "" if there is none.
func (p *Pages) versionPage(f Fact) string {
	path := versionPath(f)
	if _, ok := p.pages[path]; !ok {
		return ""
	}
	return path
}

const shortHash = 10

type link struct{ Path, Name, Key string }

func navigation(f *Fleet) []link {
	out := []link{
		{"index.html", "Overview", "o"},
		{"promotions.html", "Promotions", "p"},
		{mergeRequestsPath, "Merge requests", "m"},
		{"clusters.html", "Clusters", "c"},
		{kubernetesPath, "Kubernetes", "k"},
		{"conformance.html", "Conformance", "f"},
		{"history.html", "History", "h"},
		{catalogPath, "Catalog", "a"},
		{"search.html", "Search", "s"},
	}
	if f.Versions == nil {
		out = slices.DeleteFunc(out, func(l link) bool { return l.Path == kubernetesPath })
	}
	if len(f.Catalog) == 0 {
		out = slices.DeleteFunc(out, func(l link) bool { return l.Path == catalogPath })
	}
	if !f.Reviews {
		out = slices.DeleteFunc(out, func(l link) bool { return l.Path == mergeRequestsPath })
	}
	return out
}

// dict passes several values to a template.
func dict(pairs ...any) (map[string]any, error) {
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is not a name", pairs[i])
		}
		out[key] = pairs[i+1]
	}
	return out, nil
}

// command is an action as somebody would give it: on a terminal, and in a comment of a merge request.
type command struct{ Terminal, Chat string }

// newCommand joins words to a command; chat says the same to the service.
func newCommand(words ...string) command {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shell(w)
	}
	text := strings.Join(quoted, " ")
	return command{Terminal: "sluice " + text, Chat: "/sluice " + text}
}

// shell quotes a word for a shell if that is necessary. Placeholders in capitals stay as they are.
func shell(w string) string {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+") == "" {
		return w
	}
	return "'" + strings.ReplaceAll(safetext.Line(w), "'", `'\''`) + "'"
}

// verdict is a state in a word, with the class of its colour and a sentence.
type verdict struct{ Word, Class, Why string }

// stateOf says how an environment stands.
func stateOf(e *Environment) verdict {
	switch {
	case e.Tip == "":
		return verdict{"not hydrated", "none", "its branch does not exist yet"}
	case e.Foreign != "":
		return verdict{"foreign commit", "bad", e.Foreign}
	}
	if v, stopped := stopped(e.Status); stopped {
		return v
	}
	behind, unplanned := 0, 0
	for _, c := range e.Clusters {
		if c.Trouble != "" {
			behind++
			if !c.Planned {
				unplanned++
			}
		}
	}
	switch {
	case unplanned == 1:
		return verdict{"differs", "bad", "1 cluster does not hold what the environment branch holds"}
	case unplanned > 1:
		return verdict{"differs", "bad", count(unplanned, "cluster") + " do not hold what the environment branch holds"}
	case behind > 0:
		return verdict{"rolling out", "move", fmt.Sprintf("%d of %s up to date", len(e.Clusters)-behind,
			count(len(e.Clusters), "cluster"))}
	case e.Status != nil && len(e.Status.Decision.Record.Holds) > 0:
		return verdict{"held back", "warn", e.Status.Decision.Record.Holds[0].String()}
	case e.Status != nil && e.Status.Decision.WaitsFor != "":
		return verdict{"waiting", "wait", e.Status.Decision.WaitsFor}
	}
	for _, g := range e.Upstream {
		if g.Behind > 0 {
			return verdict{"behind " + g.Environment, "move", ""}
		}
	}
	return verdict{"up to date", "ok", ""}
}

// stopped says what stops an environment: a halt, a red gate or a freeze.
func stopped(s *promote.Status) (verdict, bool) {
	if s == nil {
		return verdict{}, false
	}
	d := &s.Decision
	if h := d.Record.Halt; h != nil {
		return verdict{"halted", "bad", "by " + cmp.Or(h.By, "Sluice") + ": " + h.Reason}, true
	}
	for _, g := range slices.Concat(d.Gates, d.WaveGates) {
		if g.State == rollout.Red {
			return verdict{"blocked", "bad", g.Name + ": " + g.Reason}, true
		}
	}
	for _, f := range d.Freezes {
		if f.Target == "" {
			return verdict{"frozen", "warn", f.String()}, true
		}
	}
	return verdict{}, false
}
