package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
)

const (
	openGroups   = 24      // groups whose objects a browser parses at once; those of later ones wait for the script
	openObjects  = 200     // objects that a browser parses at once
	treeObjects  = 1500    // objects that the tree lists; the script adds those of larger reports
	contextRoom  = 1 << 20 // bytes of context that can be expanded
	contextLines = 20      // on each side of a hunk
	shownLines   = 4000    // of one object
	maxFindings  = 500
	maxCautions  = 50 // of one kind
)

// view is what the template fills in.
type view struct {
	Review   *report.Review
	Policy   string
	CSS      template.CSS
	JS       template.JS
	Shared   string // the way to the folder of Files; "": the style and the script are in the page
	Title    string
	Words    string // of the verdict
	Detail   string
	Headline string
	Command  string

	Cautions []cautionView
	Withheld []messageView
	Errors   []string
	Findings []findingView
	MoreFindings,
	MoreCautions int
	Resolved int
	Notes    []string
	Warnings []string
	Apps     []*appView // sections: an app, or several apps with equal changes
	AppCount int
	Prefix   string // of the ids of elements: a page may have several reports
	Cut      int    // groups that the page leaves out
	Leaves   bool   // the tree lists objects
	NoEffect bool   // every changed file is read

	Unclaimed, Inert           []diff.File
	UnclaimedWords, InertWords string

	Environments, Kinds, Risks []string
}

type messageView struct{ Label, Text string }

type cautionView struct {
	Risk    diff.Risk
	Words   string
	Title   string
	App     string
	Others  int // other apps with the same change
	Where   string
	Message string
	ID      string // of the object; "" if a cluster or an environment is meant, and then Title, App and Where too
}

type findingView struct {
	*report.FindingGroup
	Places []string
	More   int
	Target string // ID of the object, "" if it does not change
	Docs   string
}

type appView struct {
	ID      string
	Name    string
	Risk    diff.Risk
	Summary string
	Count   int // objects, each once
	Held    int // targets withheld
	Groups  []*groupView
}

type groupView struct {
	ID       string
	App      string
	Risk     diff.Risk
	Where    string
	Envs     string // separated by a space
	Counts   string
	Summary  string
	Apps     []string // of a change that is the same on several apps
	Place    string   // that all of them come from
	Varies   string
	Example  string
	Clusters []string
	Since    string // new, changed
	Count    int    // objects, each once
	Objects  []*objectView
	Quiet    []*objectView // only noise
	Deferred bool
}

// newView prepares a review for the template.
func newView(r *report.Review) *view { return newViewIn(r, "") }

// newViewIn is newView for one of several reports in a page. The ids of its elements begin with prefix.
func newViewIn(r *report.Review, prefix string) *view {
	v := &view{
		Review: r, Prefix: prefix, Title: "Sluice: " + r.Fleet, Headline: report.Scope(r),
		Command: report.Command(r),
	}
	_, v.Words = report.VerdictWords(r)
	v.Detail = report.VerdictDetail(r)
	for _, g := range report.Alike(report.GroupMessages(r.Errors)) {
		v.Errors = append(v.Errors, g.Line(contextLines))
	}
	for _, g := range report.GroupMessages(r.Warnings) {
		v.Warnings = append(v.Warnings, g.Line(contextLines))
	}
	for _, g := range report.GroupMessages(r.Findings.Notes) {
		v.Notes = append(v.Notes, g.Line(contextLines))
	}
	v.Resolved = len(r.Findings.Resolved)
	ids := map[string]string{} // app and object → element
	if r.Changes != nil {
		v.changes(r, ids)
	}
	v.findings(r, ids)
	return v
}

func (v *view) changes(r *report.Review, ids map[string]string) {
	c := r.Changes
	for _, g := range report.GroupWithheld(c.Withheld) {
		v.Withheld = append(v.Withheld, messageView{
			Label: g.Label(safetext.Line),
			Text:  safetext.Message(g.Message, contextLines, 500),
		})
	}
	b := &builder{
		view: v, fold: report.NewFolder(), ids: ids, apps: map[string]*appView{}, since: map[string]string{},
		anchors: map[*diff.ObjectChange]string{}, groups: map[*diff.ObjectChange]*diff.Group{},
	}
	if r.Since != nil {
		for _, id := range r.Since.New {
			b.since[id] = "new"
		}
		for _, id := range r.Since.Changed {
			b.since[id] = "changed"
		}
	}
	for i := range c.Apps {
		b.app(&c.Apps[i])
	}
	objects := b.entries(c.Groups, 0)
	declarations := slices.Clone(c.Declarations)
	for i := range declarations {
		declarations[i].Summary = "declaration: " + declarations[i].Summary
	}
	objects += b.entries(declarations, len(c.Groups))
	v.AppCount = appCount(c)
	v.Unclaimed, v.Inert = report.FilesOf(c, false), report.FilesOf(c, true)
	v.UnclaimedWords, v.InertWords = report.UnclaimedWords(len(v.Unclaimed)), report.InertWords(len(v.Inert))
	v.NoEffect = len(v.Unclaimed) == 0
	v.Apps = slices.DeleteFunc(v.Apps, func(a *appView) bool { return len(a.Groups) == 0 && a.Held == 0 })
	v.Leaves = objects <= treeObjects
	v.Environments, v.Kinds = b.environments.sorted(), b.kinds.sorted()
	slices.SortStableFunc(v.Environments, func(x, y string) int {
		return cmp.Compare(slices.Index(c.Environments, x), slices.Index(c.Environments, y))
	})
	for _, risk := range []diff.Risk{diff.RiskCritical, diff.RiskHigh, diff.RiskMedium, diff.RiskLow, diff.RiskNone} {
		if b.risks[risk] {
			v.Risks = append(v.Risks, string(risk))
		}
	}
	v.cautions(c, b)
}

// appCount is the number of apps that change or are withheld.
func appCount(c *diff.ChangeSet) int {
	apps := set{}
	for i := range c.Groups {
		apps.add(c.Groups[i].App)
	}
	for i := range c.Declarations {
		apps.add(c.Declarations[i].App)
	}
	for i := range c.Apps {
		if c.Apps[i].Withheld > 0 {
			apps.add(c.Apps[i].Name)
		}
	}
	return len(apps)
}

func (v *view) cautions(c *diff.ChangeSet, b *builder) {
	for _, g := range report.GroupLosses(c) {
		v.Cautions = append(v.Cautions, cautionView{
			Risk: g.Risk, Words: report.EffectWords(g.Name),
			Message: g.Text(func(name string) string { return name }),
		})
	}
	for _, one := range report.Cautions(c, maxCautions) {
		for _, i := range one.Items {
			v.Cautions = append(v.Cautions, cautionView{
				Risk: one.Risk, Words: report.EffectWords(one.Name), Title: i.Object.Title(), App: i.Group.App, Others: i.Others,
				Where:   diff.Patterns(i.Group.Where),
				Message: i.Message, ID: b.anchors[i.Object],
			})
		}
		v.MoreCautions += one.Rest()
	}
}

func (v *view) findings(r *report.Review, ids map[string]string) {
	list := report.GroupFindings(r.Findings.Introduced, r.Changes)
	v.MoreFindings = max(0, len(list)-maxFindings)
	for _, g := range list[:min(maxFindings, len(list))] {
		f := findingView{FindingGroup: g, Docs: report.Docs(r, g.Finding)}
		const most = 5
		for i := range g.Breaches {
			b := &g.Breaches[i]
			if f.Target == "" {
				f.Target = ids[b.App+"\x00"+b.Object]
			}
			if i < most {
				f.Places = append(f.Places, breachText(b))
			}
		}
		f.More = max(0, len(g.Breaches)-most)
		v.Findings = append(v.Findings, f)
	}
}

func breachText(b *report.Breach) string {
	var parts []string
	for _, p := range [][2]string{
		{"", b.Object},
		{"of ", b.App},
		{"on ", strings.Join(b.Where, ", ")},
		{"at ", b.Path},
		{"in ", b.File},
	} {
		if p[1] != "" {
			parts = append(parts, p[0]+p[1])
		}
	}
	return strings.Join(parts, " ")
}

// builder makes the views of apps, groups and objects, in the order of the change set.
type builder struct {
	view         *view
	fold         *report.Folder
	ids          map[string]string
	apps         map[string]*appView
	since        map[string]string
	anchors      map[*diff.ObjectChange]string // of folded objects too
	groups       map[*diff.ObjectChange]*diff.Group
	environments set
	kinds        set
	risks        map[diff.Risk]bool
	context      int // bytes
	objects      int // so far
}

type set map[string]bool

func (s *set) add(text string) {
	if *s == nil {
		*s = set{}
	}
	(*s)[text] = true
}

func (s set) sorted() []string {
	out := make([]string, 0, len(s))
	for text := range s {
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (b *builder) app(a *diff.App) *appView {
	out := &appView{
		ID: fmt.Sprintf("%sa%d", b.view.Prefix, len(b.view.Apps)), Name: a.Name, Risk: a.Risk,
		Summary: a.Summary, Held: a.Withheld,
	}
	b.apps[a.Name] = out
	b.view.Apps = append(b.view.Apps, out)
	return out
}

// entries adds groups, those of equal changes of several apps once, and returns the number of their objects. first is
// the number of the first group in the page.
func (b *builder) entries(groups []diff.Group, first int) int {
	objects := 0
	list, at := make([]*diff.Group, len(groups)), make(map[*diff.Group]int, len(groups))
	for i := range groups {
		list[i], at[&groups[i]] = &groups[i], first+i
	}
	for _, e := range report.Entries(list) {
		objects += b.entry(e, at[e.Group])
	}
	return objects
}

// of returns the section of an entry: that of its app, or one of all its apps before that of the first.
func (b *builder) of(e *report.Entry) *appView {
	app := b.apps[e.App]
	if app == nil {
		app = b.app(&diff.App{Name: e.App, Risk: e.Risk})
	}
	if len(e.Others) == 0 {
		return app
	}
	name := strings.Join(e.Apps(), "\x00")
	if b.apps[name] != nil {
		return b.apps[name]
	}
	all := b.app(&diff.App{Name: report.Count(len(e.Apps()), "app"), Risk: e.Risk})
	b.apps[name] = all
	b.view.Apps = b.view.Apps[:len(b.view.Apps)-1]
	b.view.Apps = slices.Insert(b.view.Apps, slices.Index(b.view.Apps, app), all)
	return all
}

// entry adds an entry and returns the number of its objects.
func (b *builder) entry(e *report.Entry, n int) int {
	g, app := e.Group, b.of(e)
	out := &groupView{
		ID: b.view.Prefix + "g" + strconv.Itoa(n), App: app.Name, Risk: g.Risk, Where: diff.Patterns(g.Where),
		Counts: report.GroupCounts(g), Summary: g.Summary, Example: g.Example,
		Clusters: g.Clusters, Varies: strings.Join(g.Varies, ", "), Since: e.Since(b.since), Count: len(g.Objects),
	}
	if len(e.Others) > 0 {
		out.Apps = e.Apps()
		if place := e.Place(); place != nil {
			out.Place = place.String()
		}
	}
	b.objects += len(g.Objects)
	out.Deferred = n >= openGroups || b.objects > openObjects
	for _, environment := range g.Environments {
		b.environments.add(environment)
	}
	out.Envs = strings.Join(g.Environments, " ")
	for i, o := range b.fold.FoldEntry(e) {
		id := fmt.Sprintf("%so%d-%d", b.view.Prefix, n, i)
		out.Objects = append(out.Objects, b.object(g, o, id))
		for _, other := range o.Elsewhere {
			b.anchor(other.App, other.ObjectChange, id)
		}
	}
	for i := range g.Objects {
		if o := &g.Objects[i]; o.OnlyNoise() {
			out.Quiet = append(out.Quiet, &objectView{Title: o.Title(), Noise: noiseOf(o), Rolls: o.Rolls})
		}
	}
	app.Groups = append(app.Groups, out)
	app.Count += len(g.Objects)
	return len(g.Objects)
}
