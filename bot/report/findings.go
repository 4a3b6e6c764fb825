package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// findingGroup is one message of one rule, with every object that it concerns.
type findingGroup struct {
	*Finding // the first one
	breaches []breach
}

// breach is one object that breaks a rule, in all environments.
type breach struct {
	object, app, path, file string
	where                   []string // prod/eu-1a, staging (40)
}

// groupFindings groups findings of equal rule, severity, message and hint. Groups are ordered by severity, then by
// rule; environments and objects keep their order.
func groupFindings(list []Finding) []*findingGroup {
	type key struct {
		rule, message, hint, docs string
		severity                  Severity
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, bySeverity)
	find := map[key]*findingGroup{}
	var out []*findingGroup
	for i := range sorted {
		f := &sorted[i]
		k := key{f.Rule, f.Message, f.Hint, f.Docs, f.Severity}
		g := find[k]
		if g == nil {
			g = &findingGroup{Finding: f}
			find[k] = g
			out = append(out, g)
		}
		g.add(f)
	}
	return out
}

func (g *findingGroup) add(f *Finding) {
	b := breach{app: f.App, path: f.Path, file: fileLine(f)}
	if f.Object.Kind != "" {
		b.object = diff.Title(f.Object)
	}
	i := slices.IndexFunc(g.breaches, func(o breach) bool {
		return o.object == b.object && o.app == b.app && o.path == b.path && o.file == b.file
	})
	if i < 0 {
		i = len(g.breaches)
		g.breaches = append(g.breaches, b)
	}
	if len(f.Clusters) == 0 {
		return
	}
	if at := places(f.Environment, f.Clusters); !slices.Contains(g.breaches[i].where, at) {
		g.breaches[i].where = append(g.breaches[i].where, at)
	}
}

// total is the number of objects of several groups.
func breaches(list []*findingGroup) int {
	n := 0
	for _, g := range list {
		n += len(g.breaches)
	}
	return n
}

// subject names what a group concerns: `Deployment web/web` of `web` on `prod (80), staging (40)`. Of many objects
// it names the first ones.
func (g *findingGroup) subject(name naming, most int) string {
	if len(g.breaches) == 1 {
		return g.breaches[0].text(name)
	}
	var parts []string
	for i := range g.breaches[:min(most, len(g.breaches))] {
		parts = append(parts, g.breaches[i].text(name))
	}
	if rest := len(g.breaches) - len(parts); rest > 0 {
		return count(len(g.breaches), "object") + ": " + strings.Join(parts, "; ") + "; and " + number(rest) + " more"
	}
	return count(len(g.breaches), "object") + ": " + strings.Join(parts, "; ")
}

func (b *breach) text(name naming) string {
	var out []string
	if b.object != "" {
		out = append(out, name(b.object))
	}
	if b.app != "" {
		out = append(out, "of "+name(b.app))
	}
	if len(b.where) > 0 {
		out = append(out, "on "+name(strings.Join(b.where, ", ")))
	}
	return strings.Join(out, " ")
}

func fileLine(f *Finding) string {
	if f.File == "" || f.Line <= 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

func bySeverity(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), cmp.Compare(a.Rule, b.Rule))
}

// byRule counts groups by rule: `12 of image-tag, 3 of schema`.
func byRule(list []*findingGroup) string {
	n := map[string]int{}
	var rules []string
	for _, g := range list {
		if n[g.Rule] == 0 {
			rules = append(rules, g.Rule)
		}
		n[g.Rule] += len(g.breaches)
	}
	const most, name = 6, 60
	var parts []string
	rest := breaches(list)
	for i, r := range rules {
		if i == most {
			parts = append(parts, number(rest)+" of "+count(len(rules)-i, "other rule"))
			break
		}
		parts = append(parts, number(n[r])+" of "+code(safetext.Shorten(r, name)))
		rest -= n[r]
	}
	return strings.Join(parts, ", ")
}

// docsOf returns the address of a rule's page, "" if it has none.
func docsOf(r *Review, f *Finding) string {
	if f.Docs != "" || r.Links.Docs == "" {
		return f.Docs
	}
	return strings.TrimSuffix(r.Links.Docs, "/") + "/" + f.Rule
}

// messageGroup is one message with the places in files that it is about.
type messageGroup struct {
	text  string
	files []string // clusters/eu.yaml:12
}

// filePosition matches the FILE:LINE:COL that a message begins with.
var filePosition = regexp.MustCompile(`^([^\s:]+\.[A-Za-z]+(?::\d+){0,2}): `)

// groupMessages groups messages that differ only in their position, in the order of their first occurrence.
func groupMessages(list []string) []*messageGroup {
	find := map[string]*messageGroup{}
	var out []*messageGroup
	for _, m := range list {
		file, text := "", strings.TrimSpace(m)
		if at := filePosition.FindStringSubmatch(text); at != nil {
			file, text = at[1], text[len(at[0]):]
		}
		g := find[text]
		if g == nil {
			g = &messageGroup{text: text}
			find[text] = g
			out = append(out, g)
		}
		if file != "" && !slices.Contains(g.files, file) {
			g.files = append(g.files, file)
		}
	}
	return out
}

// line writes a group on one line: position: message (and 3 more files: …).
func (g *messageGroup) line(most int) string {
	if len(g.files) == 0 {
		return g.text
	}
	out := g.files[0] + ": " + g.text
	if rest := g.files[1:]; len(rest) > 0 {
		shown := rest[:min(most, len(rest))]
		out += " (also " + strings.Join(shown, ", ")
		if len(rest) > len(shown) {
			out += " and " + number(len(rest)-len(shown)) + " more"
		}
		out += ")"
	}
	return out
}
