package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// failureLines is the number of lines printed of one message. -o json has all of them.
const (
	failureLines = 12
	failureWidth = 400 // characters of one line
)

// printFailures prints each distinct cause once, with the number of failed targets and the first of them.
func printFailures(w io.Writer, failures []hydrate.Failure, indent string) {
	var messages []string
	targets := map[string][]string{}
	for _, f := range failures {
		message := strings.TrimSpace(f.Message)
		if targets[message] == nil {
			messages = append(messages, message)
		}
		targets[message] = append(targets[message], f.Cluster+"/"+f.App)
	}
	for _, message := range messages {
		on := targets[message]
		text := strings.ReplaceAll(safetext.Message(message, failureLines, failureWidth), "\n", "\n"+indent+"    ")
		if len(on) == 1 {
			fmt.Fprintf(w, "%sfailed  %s: %s\n", indent, safetext.Line(on[0]), text)
			continue
		}
		fmt.Fprintf(w, "%sfailed  %s: %s\n", indent, count(len(on), "target"), text)
		fmt.Fprintf(w, "%s    on %s\n", indent, safetext.Line(some(on)))
	}
}

// printViolations prints each distinct violation once with its clusters, and the next step once for each rule. -o
// json has all.
func printViolations(w io.Writer, list []hydrate.Violation) {
	const limit = 20
	var order []hydrate.Violation
	index := map[[5]string]int{}
	for _, v := range list {
		key := [...]string{v.Rule, v.App, v.Object, v.Path, v.Message}
		i, known := index[key]
		if !known {
			index[key] = len(order)
			v.Clusters = slices.Clone(v.Clusters)
			order = append(order, v)
			continue
		}
		order[i].Clusters = append(order[i].Clusters, v.Clusters...)
	}
	slices.SortStableFunc(order, func(a, b hydrate.Violation) int { return strings.Compare(a.Rule, b.Rule) })
	hint := ""
	for _, v := range order[:min(limit, len(order))] {
		fmt.Fprintf(w, "refused %s: %s of app %s on %s: %s\n", safetext.Line(v.Rule), safetext.Line(v.Object), v.App,
			some(v.Clusters), safetext.Line(v.Message))
		if v.Hint != "" && v.Hint != hint {
			hint = v.Hint
			fmt.Fprintf(w, "    %s\n", safetext.Line(hint))
		}
	}
	if more := len(order) - limit; more > 0 {
		fmt.Fprintf(w, "refused %s more: -o json lists them\n", count(more, "violation"))
	}
}

// printNotes prints the first notes, each once with the number of its clusters. -o json has all.
func printNotes(w io.Writer, notes []hydrate.Note, indent string) {
	const limit = 20
	for _, n := range notes[:min(limit, len(notes))] {
		fmt.Fprintf(w, "%snote    %s\n", indent, strings.ReplaceAll(safetext.Message(n.String(), failureLines,
			failureWidth), "\n", "\n"+indent+"        "))
	}
	if more := len(notes) - limit; more > 0 {
		fmt.Fprintf(w, "%snote    %s more: -o json lists them\n", indent, count(more, "note"))
	}
}
