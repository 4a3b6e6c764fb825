package report

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// FindingGroup is one message of one rule, with every object that it concerns.
type FindingGroup struct {
	*Finding // the first one
	Breaches []Breach

	at map[[4]string]int // in Breaches, by object, app, path and file
}

// Breach is one object that breaks a rule, in all environments.
type Breach struct {
	Object, App, Path, File string
	Where                   []string // prod/eu-1a, staging (40); or as the changes name the same clusters: class=edge (12)

	clusters map[string]bool
}

// GroupFindings groups findings of equal rule and severity whose message and hint are equal apart from the names of the
// app, of the object and of its namespace. In the message and the hint of several objects, NAME stands for a name in
// which they differ. Groups are ordered by severity, then by rule; environments and objects keep their order. Clusters
// of which a change is named as a whole have that name; c may be nil.
func GroupFindings(list []Finding, c *diff.ChangeSet) []*FindingGroup {
	type key struct {
		rule, message, hint, docs string
		severity                  Severity
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, bySeverity)
	find := map[key]*FindingGroup{}
	var out []*FindingGroup
	for i := range sorted {
		f := &sorted[i]
		own := ownNames(f.App, &diff.ObjectChange{ID: f.Object})
		k := key{f.Rule, neutral(own, f.Message), neutral(own, f.Hint), f.Docs, f.Severity}
		g := find[k]
		if g == nil {
			g = &FindingGroup{Finding: f, at: map[[4]string]int{}}
			find[k] = g
			out = append(out, g)
		}
		if g.Message != f.Message || g.Hint != f.Hint {
			both := *g.Finding
			both.Message, both.Hint = k.message, k.hint
			g.Finding = &both
		}
		g.add(f)
	}
	if c != nil {
		names := namesOf(c)
		for _, g := range out {
			for i := range g.Breaches {
				if b := &g.Breaches[i]; len(b.clusters) > 1 {
					if text := names[b.App+clusterKey(slices.Collect(maps.Keys(b.clusters)))]; text != "" {
						b.Where = []string{text}
					}
				}
			}
		}
	}
	return out
}

// namesOf returns the names that a change set has for the clusters of its groups and apps, by app and clusters.
func namesOf(c *diff.ChangeSet) map[string]string {
	out := map[string]string{}
	all := map[string][]string{}
	for i := range c.Groups {
		g := &c.Groups[i]
		out[g.App+clusterKey(g.Clusters)] = patterns(g.Where, maxWhere)
		all[g.App] = append(all[g.App], g.Clusters...)
	}
	for i := range c.Apps {
		if a := &c.Apps[i]; len(a.Where) > 0 {
			out[a.Name+clusterKey(all[a.Name])] = patterns(a.Where, maxWhere)
		}
	}
	return out
}

// clusterKey identifies a set of clusters.
func clusterKey(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return "\x00" + string(sum[:])
}

func (g *FindingGroup) add(f *Finding) {
	b := Breach{App: f.App, Path: f.Path, File: fileLine(f)}
	if f.Object.Kind != "" {
		b.Object = diff.Title(f.Object)
	}
	key := [4]string{b.Object, b.App, b.Path, b.File}
	i, ok := g.at[key]
	if !ok {
		i = len(g.Breaches)
		b.clusters = map[string]bool{}
		g.at[key], g.Breaches = i, append(g.Breaches, b)
	}
	for _, name := range f.Clusters {
		g.Breaches[i].clusters[name] = true
	}
	if len(f.Clusters) == 0 {
		return
	}
	if at := places(f.Environment, f.Clusters); !slices.Contains(g.Breaches[i].Where, at) {
		g.Breaches[i].Where = append(g.Breaches[i].Where, at)
	}
}

// breaches is the number of objects of several groups.
func breaches(list []*FindingGroup) int {
	n := 0
	for _, g := range list {
		n += len(g.Breaches)
	}
	return n
}

// subject names what a group concerns: `Deployment web/web` of `web` on `prod (80), staging (40)`. Of many objects
// it names the first ones, and the clusters once if they are the same.
func (g *FindingGroup) subject(name naming, most int) string {
	first := &g.Breaches[0]
	if len(g.Breaches) == 1 {
		return first.text(name)
	}
	where := strings.Join(first.Where, ", ")
	once := where != "" && !slices.ContainsFunc(g.Breaches, func(b Breach) bool {
		return strings.Join(b.Where, ", ") != where
	})
	var parts []string
	for i := range g.Breaches[:min(most, len(g.Breaches))] {
		b := g.Breaches[i]
		if once {
			b.Where = nil
		}
		parts = append(parts, b.text(name))
	}
	out := Count(len(g.Breaches), "object")
	if once {
		out += " on " + name(where)
	}
	out += ": " + strings.Join(parts, "; ")
	if rest := len(g.Breaches) - len(parts); rest > 0 {
		out += "; and " + Number(rest) + " more"
	}
	return out
}

// place is the file in which all objects of a group break the rule; "" if there are several or it is not known.
func (g *FindingGroup) place() string {
	for i := range g.Breaches {
		if g.Breaches[i].File != g.Breaches[0].File {
			return ""
		}
	}
	return g.Breaches[0].File
}

func (b *Breach) text(name naming) string {
	var out []string
	if b.Object != "" {
		out = append(out, name(b.Object))
	}
	if b.App != "" {
		out = append(out, "of "+name(b.App))
	}
	if len(b.Where) > 0 {
		out = append(out, "on "+name(strings.Join(b.Where, ", ")))
	}
	return strings.Join(out, " ")
}

// Words names the object, its app, the clusters and the file of a breach.
func (b *Breach) Words() string {
	out := b.text(func(s string) string { return s })
	if b.File != "" {
		out += " in " + b.File
	}
	return out
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
func byRule(list []*FindingGroup) string {
	n := map[string]int{}
	var rules []string
	for _, g := range list {
		if n[g.Rule] == 0 {
			rules = append(rules, g.Rule)
		}
		n[g.Rule] += len(g.Breaches)
	}
	const most, name = 6, 60
	var parts []string
	rest := breaches(list)
	for i, r := range rules {
		if i == most {
			parts = append(parts, Number(rest)+" of "+Count(len(rules)-i, "other rule"))
			break
		}
		parts = append(parts, Number(n[r])+" of "+code(safetext.Shorten(r, name)))
		rest -= n[r]
	}
	return strings.Join(parts, ", ")
}

// Docs returns the address of a rule's page, "" if it has none.
func Docs(r *Review, f *Finding) string {
	if f.Docs != "" || r.Links.Docs == "" {
		return f.Docs
	}
	return strings.TrimSuffix(r.Links.Docs, "/") + "/" + f.Rule
}

// MessageGroup is one message with the places in files that it is about.
type MessageGroup struct {
	Text  string
	Files []string // clusters/eu.yaml:12
	Alike int      // other messages that differ only in names
}

// Alike unites messages that differ only in names, if there are more than a few. The united message has the positions
// of all.
func Alike(list []*MessageGroup) []*MessageGroup {
	return united(list, func(g *MessageGroup) string { return unnamed(g.Text) },
		func(first *MessageGroup, others []*MessageGroup) {
			first.Alike = len(others)
			for _, g := range others {
				for _, file := range g.Files {
					if !slices.Contains(first.Files, file) {
						first.Files = append(first.Files, file)
					}
				}
			}
		})
}

// filePosition matches the FILE:LINE:COL that a message begins with.
var filePosition = regexp.MustCompile(`^([^\s:]+\.[A-Za-z]+(?::\d+){0,2}): `)

// GroupMessages groups messages that differ only in their position, in the order of their first occurrence.
func GroupMessages(list []string) []*MessageGroup {
	find := map[string]*MessageGroup{}
	var out []*MessageGroup
	for _, m := range list {
		file, text := "", strings.TrimSpace(m)
		if at := filePosition.FindStringSubmatch(text); at != nil {
			file, text = at[1], text[len(at[0]):]
		}
		g := find[text]
		if g == nil {
			g = &MessageGroup{Text: text}
			find[text] = g
			out = append(out, g)
		}
		if file != "" && !slices.Contains(g.Files, file) {
			g.Files = append(g.Files, file)
		}
	}
	return out
}

// Line writes a group on one line: position: message (and 3 more files: …).
func (g *MessageGroup) Line(most int) string {
	if len(g.Files) == 0 {
		return g.Text + g.alike()
	}
	out := g.Files[0] + ": " + g.Text
	if rest := g.Files[1:]; len(rest) > 0 {
		shown := rest[:min(most, len(rest))]
		out += " (also " + strings.Join(shown, ", ")
		if len(rest) > len(shown) {
			out += " and " + Number(len(rest)-len(shown)) + " more"
		}
		out += ")"
	}
	return out + g.alike()
}

func (g *MessageGroup) alike() string {
	if g.Alike == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %s that %s only in names)", Count(g.Alike, "other message"), differs(g.Alike))
}
