package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// failureLines is how many lines of one message are printed. -o json has all of them.
const (
	failureLines = 12
	failureWidth = 400 // characters of one line
)

// printFailures prints each distinct cause once, with the number of targets that it stops and the first of them.
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

// printNotes prints each distinct note once, with how often it occurs.
func printNotes(w io.Writer, notes []string, indent string) {
	var order []string
	times := map[string]int{}
	for _, n := range notes {
		if times[n] == 0 {
			order = append(order, n)
		}
		times[n]++
	}
	for _, n := range order {
		more := ""
		if times[n] > 1 {
			more = fmt.Sprintf(" (%d times)", times[n])
		}
		fmt.Fprintf(w, "%snote    %s%s\n", indent, safetext.Message(n, failureLines, failureWidth), more)
	}
}
