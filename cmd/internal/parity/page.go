package main

import (
	"fmt"
	"slices"
	"strings"
)

// title returns the heading of a part.
func title(name string) string {
	return map[string]string{
		"helm3": "Helm 3", "helm4": "Helm 4", "kustomize": "Kustomize", "flux": "Flux", "argocd": "Argo CD",
	}[name]
}

const head = `# Parity

<!-- Written by make parity from testdata/parity/results.json. Change cmd/internal/parity instead. -->

"Re-implementing Argo CD's rendering is a losing battle" is a fair objection to a tool that renders
what Argo CD, Flux, Helm and Kustomize render. Sluice does not re-implement them: it links Helm's
template engine and Kustomize's library, in the versions that Flux and Argo CD ship
([rendering](rendering.md#versions)), and has code of its own for what lies around them: values,
placements, generators, lists of sources. This page says how well that works: on charts and
repositories that others wrote, object by object, with **every difference and its cause**.

`

const method = `## How it is compared

` + "`make parity`" + ` renders each chart, Kustomize root and repository of the corpus with Sluice and with the
other tool, decodes both outputs, and compares objects of the same kind, namespace and name with the
types of their values: ` + "`3` is neither `3.0` nor `\"3\"`" + `. Order and style of the YAML do not count. Test
hooks, which no branch has, are left out on both sides. Nothing is fetched.

- **equal**, **different**: objects.
- **refused**: charts, roots or Applications that the tool renders and Sluice refuses.
- **not compared**: the same units, if neither side or only one of them can have the input.

Charts are named by version and the digest of their archive; repositories by the id that Git gives the
files that were compared. The repository of Sluice has figures and names only.
[TestResults](../cmd/internal/parity/parity_test.go) compares this page with the results and accepts no
difference without a cause; with the corpus, it renders some rows again. The tests in
[renderer](../renderer/equality_test.go), [tools/gitops](../tools/gitops/import_flux_test.go) and
[tools/gitops/argocd](../tools/gitops/argocd/import_test.go) compare more: fixtures for each field,
random charts, components, and [Helmfile](../tools/gitops/helmfile_test.go), of which the corpus has no
repository.

`

const others = `## Where others are better

| you want | use |
|---|---|
| a diff against what runs in the cluster now | ` + "`argocd app diff`, `flux diff`, `helm diff`" + `. Sluice compares commits, and ` + "`lookup`" + ` returns nothing |
| images and chart versions discovered in registries | Kargo, Argo CD Image Updater, Flux's image automation |
| traffic that shifts step by step | Argo Rollouts, Flagger |
| Jsonnet, config management plugins, Kustomize plugins | Argo CD. Sluice refuses them by name |
| charts with random output, as they are | Helm. Sluice asks for a fixed value, or keeps the one of the branch (` + "`unstable: keep`" + `) |
| one chart, once | ` + "`helm template`" + `: it starts faster than Sluice |

[Why Sluice](why-sluice.md#comparison) compares features.
`

// page returns docs/parity.md.
func (r *Results) page() string {
	var b strings.Builder
	b.WriteString(head)
	r.summary(&b)
	b.WriteString(method)
	for _, p := range r.sorted() {
		p.write(&b)
	}
	r.writeTimes(&b)
	b.WriteString(others)
	return b.String()
}

func (r *Results) sorted() []Part {
	order := []string{"helm3", "helm4", "kustomize", "flux", "argocd"}
	out := slices.Clone(r.Parts)
	slices.SortFunc(out, func(a, b Part) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
	return out
}

// total adds the rows up.
func (p Part) total() Row {
	var out Row
	for _, row := range p.Rows {
		out.Units, out.Equal, out.Different = out.Units+row.Units, out.Equal+row.Equal, out.Different+row.Different
		out.Refused += row.Refused
		out.NotCompared = append(out.NotCompared, row.NotCompared...)
	}
	return out
}

func (row Row) skipped() int {
	n := 0
	for _, reason := range row.NotCompared {
		n += reason.Count
	}
	return n
}

func (r *Results) summary(b *strings.Builder) {
	b.WriteString("| compared with | compared | equal | different | refused | not compared | run |\n|---|---|---|---|---|---|---|\n")
	for _, p := range r.sorted() {
		t := p.total()
		fmt.Fprintf(b, "| [%s](#%s) | %s %s | %s | %s | %d | %d | %s, Sluice `%s` |\n", p.Tool,
			strings.ReplaceAll(strings.ToLower(title(p.Name)), " ", "-"), grouped(t.Units), p.units(), grouped(t.Equal),
			grouped(t.Different), t.Refused, t.skipped(), p.Date, p.Commit)
	}
	b.WriteString("\nDifferences and refusals by their cause:\n\n")
	for _, p := range r.sorted() {
		for _, reason := range p.causes() {
			fmt.Fprintf(b, "- %s, %d: %s\n", title(p.Name), reason.Count, reason.Cause)
		}
	}
	b.WriteString("\n")
}

// causes counts the differences of a part by cause, most first.
func (p Part) causes() []Reason {
	var all Row
	for _, row := range p.Rows {
		for _, d := range row.Differences {
			all.skip(d.Count, d.Cause)
		}
	}
	slices.SortStableFunc(all.NotCompared, func(a, b Reason) int { return b.Count - a.Count })
	return all.NotCompared
}

// units is what a part compares.
func (p Part) units() string {
	switch p.Name {
	case "helm3", "helm4":
		return "renderings"
	case "kustomize":
		return "roots"
	}
	return "apps"
}

// grouped writes a number with commas.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func (p Part) write(b *strings.Builder) {
	fmt.Fprintf(b, "## %s\n\nCompared with %s on %s. The call:\n%s.\n\n", title(p.Name), p.Tool, p.Date, p.Call)
	fmt.Fprintf(b, "| source | content | %s | equal | different | refused | not compared |\n|---|---|---|---|---|---|---|\n", p.units())
	for _, row := range p.Rows {
		fmt.Fprintf(b, "| %s | `%s` | %d | %s | %d | %d | %d |\n", row.Source, row.ID, row.Units, grouped(row.Equal),
			row.Different, row.Refused, row.skipped())
	}
	b.WriteString("\n")
	p.differences(b)
	p.reasons(b)
}

func (p Part) differences(b *strings.Builder) {
	first := true
	for _, row := range p.Rows {
		for _, d := range row.Differences {
			if first {
				b.WriteString("| difference | where | cause |\n|---|---|---|\n")
				first = false
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", cell(d.What), row.Source, cell(d.Cause))
		}
	}
	if first {
		b.WriteString("No difference.\n")
	}
	b.WriteString("\n")
}

// reasons lists why units are not compared, over all rows.
func (p Part) reasons(b *strings.Builder) {
	var all Row
	for _, row := range p.Rows {
		for _, reason := range row.NotCompared {
			all.skip(reason.Count, reason.Cause)
		}
	}
	if len(all.NotCompared) == 0 {
		return
	}
	slices.SortStableFunc(all.NotCompared, func(a, b Reason) int { return b.Count - a.Count })
	b.WriteString("| not compared | because |\n|---|---|\n")
	for _, reason := range all.NotCompared {
		fmt.Fprintf(b, "| %d | %s |\n", reason.Count, cell(reason.Cause))
	}
	b.WriteString("\n")
}

// cell escapes a text for a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func (r *Results) writeTimes(b *strings.Builder) {
	b.WriteString("## Time and memory\n\n")
	if len(r.Times) == 0 {
		b.WriteString("Not measured yet: run `make parity`.\n\n")
		return
	}
	t := r.Times[0]
	fmt.Fprintf(b, `Processor time, user and system, of all processes: median, and least to most of the rounds. It is
comparable on a machine that does other work too, where seconds are not. Memory is that of the largest
process. Sluice renders all of a row in one call, with as many render processes as the machine has
processors, checks the output for randomness, and writes a file for each object. Nothing is cached
before. The other tools have the settings that cost them least: offline, and no plugins.
%s; %s, Sluice %s. %s repeats it.

`, t.Machine, t.Date, "`"+t.Commit+"`", "`make parity ONLY=time`")
	b.WriteString("| task | Sluice | the other tool | ratio | memory of Sluice | of the other |\n|---|---|---|---|---|---|\n")
	for _, t := range r.Times {
		fmt.Fprintf(b, "| %s | %s | %s: %s | %.1f × | %d MiB | %d MiB |\n", t.Task, t.Sluice, t.Tool, t.Other,
			float64(t.Other.Median)/float64(t.Sluice.Median), t.Sluice.MiB, t.Other.MiB)
	}
	b.WriteString(`
Where a chart is rendered once, Sluice saves little processor time and needs more memory than one
process of the other tool. The gain comes with many clusters: Sluice parses a template once for all.
[Performance](../README.md#performance) has large fleets, and [sizing](sizing.md) the service. Argo CD's
and Flux's controllers are not measured: they render in a cluster, beside other work.

`)
}

// String is the median with the spread, in seconds.
func (m Measure) String() string {
	return fmt.Sprintf("%.1f s (%.1f–%.1f)", float64(m.Median)/1e3, float64(m.Least)/1e3, float64(m.Most)/1e3)
}
