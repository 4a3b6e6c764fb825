package cli

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer"
)

// errorDocument is the one document on standard output of a command with --output json that failed before it wrote its
// own. docs/cli.md describes it.
type errorDocument struct {
	Error errorEntry `json:"error"`
}

// errorEntry is one error. Line and Column count from 1; 0 is unknown.
type errorEntry struct {
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Hint    string `json:"hint,omitempty"` // the next step
	// all mistakes of the fleet or of its policy, if there are several; the entry itself is the first
	Problems []errorEntry `json:"problems,omitempty"`
}

// written is standard output. It knows whether a command wrote anything to it.
type written struct {
	io.Writer
	any bool
}

func (w *written) Write(data []byte) (int, error) {
	w.any = w.any || len(data) > 0
	return w.Writer.Write(data)
}

// printErrorDocument writes an error to standard output in the format of --output, if that is a form of JSON and the
// command has not written its document yet: there is never a second one.
func printErrorDocument(out *written, command *cobra.Command, args []string, err error) error {
	c := common{output: errorFormat(command, args)}
	if out.any || !c.structured() {
		return nil
	}
	return c.encode(out, errorDocument{errorOf(err)})
}

// errorFormat returns the value of --output of a call, also of one whose flags are wrong; "" if the command has no
// JSON. The YAML of verbs whose default it is are manifests, which others apply: their errors are no YAML.
func errorFormat(command *cobra.Command, args []string) string {
	flag := command.Flags().Lookup("output")
	if flag == nil {
		return ""
	}
	format := flag.Value.String()
	if !flag.Changed { // parsing ended before it
		format = formatIn(args)
	}
	if !strings.Contains(flag.Usage, "json") || format == flag.DefValue {
		return ""
	}
	return format
}

// formatIn returns the value of --output in the words of a call.
func formatIn(args []string) string {
	for i, word := range args {
		if word == "--" {
			break
		}
		if word == "-o" || word == "--output" {
			return strings.Join(args[i+1:min(i+2, len(args))], "")
		}
		for _, prefix := range []string{"--output=", "-o=", "-o"} {
			if value, ok := strings.CutPrefix(word, prefix); ok {
				return value
			}
		}
	}
	return ""
}

// errorOf describes an error.
func errorOf(err error) errorEntry {
	var list []errorEntry
	if problems, ok := errors.AsType[fleet.Problems](err); ok {
		for _, p := range problems {
			if p.Severity == fleet.SeverityError {
				list = append(list, errorEntry{
					Message: p.Message, File: p.File, Line: p.Line, Column: p.Column, Hint: p.Hint,
				})
			}
		}
	} else if problems, ok := errors.AsType[policy.Problems](err); ok {
		for _, p := range problems {
			list = append(list, errorAt(errorEntry{File: p.File, Line: p.Line, Column: p.Column}, p.Message))
		}
	}
	if len(list) > 0 {
		out := list[0]
		if len(list) > 1 {
			out.Problems = list
		}
		return out
	}
	if errors.Is(err, context.Canceled) {
		return errorEntry{Message: "interrupted"}
	}
	text := distinct(err)
	if strings.TrimSpace(text) == "" {
		return errorEntry{Message: "the command failed", Hint: "standard error has the reason"}
	}
	var at errorEntry
	if e, ok := errors.AsType[*fleet.FileError](err); ok {
		at = errorEntry{File: e.File, Line: e.Line, Column: e.Column}
	} else if e, ok := errors.AsType[*renderer.InputError](err); ok {
		at = errorEntry{File: e.File, Line: e.Line, Column: e.Column}
	}
	return errorAt(at, text)
}

// placePattern matches FILE:LINE:COL: in front of a message. A host with a port is no file.
var placePattern = regexp.MustCompile(`^([^\s:]+\.(?:ya?ml|json|tpl|gotmpl|rego|lock|toml|txt)):(?:(\d+):)?(?:(\d+):)? `)

// errorAt takes the place in front of a message and the next step behind it, in parentheses, out of the message. A
// place that is already known stays.
func errorAt(at errorEntry, text string) errorEntry {
	if m := placePattern.FindStringSubmatch(text); m != nil && (at.File == "" || at.File == m[1]) {
		text = text[len(m[0]):]
		if at.File == "" {
			at.File = m[1]
			at.Line, _ = strconv.Atoi(m[2]) // 0 without one
			at.Column, _ = strconv.Atoi(m[3])
		}
	}
	at.Message = text
	if before, hint, ok := parenthesis(text); ok {
		at.Message, at.Hint = before, hint
	}
	return at
}

// parenthesis cuts the parenthesis that ends a text.
func parenthesis(text string) (before, inside string, ok bool) {
	if !strings.HasSuffix(text, ")") || strings.Contains(text, "\n") {
		return text, "", false
	}
	depth := 0
	for i := len(text) - 1; i >= 0; i-- {
		switch text[i] {
		case ')':
			depth++
		case '(':
			depth--
		}
		if depth == 0 {
			before = strings.TrimSpace(text[:i])
			return before, text[i+1 : len(text)-1], before != "" && text[i-1] == ' '
		}
	}
	return text, "", false
}
