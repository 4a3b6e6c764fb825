package helm

import (
	"regexp"
	"strconv"
	"strings"
)

// TemplateError is what a template reports: a mistake in it, or its refusal of the values with `fail` or `required`.
type TemplateError struct {
	Template     string // its name in Helm, CHART/templates/FILE; empty if Helm names none
	Line, Column int    // 0 if unknown
	Message      string // as the chart wrote it: neither escaped nor bounded
	Caller       string // TEMPLATE:LINE of the rendered file, if the place is in a helper
	Refused      bool   // `fail` or `required`
}

// Error gives TEMPLATE:LINE:COLUMN: message.
func (e *TemplateError) Error() string {
	var out strings.Builder
	if e.Template != "" {
		out.WriteString(e.Template)
		for _, n := range []int{e.Line, e.Column} {
			if n > 0 {
				out.WriteString(":" + strconv.Itoa(n))
			}
		}
		out.WriteString(": ")
	}
	out.WriteString(e.Message)
	if e.Refused {
		out.WriteString(" (the template refuses these values)")
	}
	if e.Caller != "" {
		out.WriteString(" (called from " + e.Caller + ")")
	}
	return out.String()
}

// templatePlace finds where text/template and Helm say that an error is. `gotpl` is text that `tpl` renders.
var templatePlace = regexp.MustCompile(`(?:template: |(?:execution|parse) error at \()([^\s:()]+):(\d+)(?::(\d+))?(?:\): |: )(?:executing "[^"]*" )?`)

const maxTemplateError = 64 << 10 // bytes of an error that are searched for places

// templateError reads the place of an error from its text: Helm's engine gives no structure. The innermost place is the
// error's; the outermost is its caller.
func templateError(err error) *TemplateError {
	text := err.Error()
	head := text[:min(len(text), maxTemplateError)]
	places := templatePlace.FindAllStringSubmatchIndex(head, -1)
	refused := strings.HasPrefix(head, "execution error at ")
	if refused && len(places) > 1 { // what follows is the chart's own text
		places = places[:1]
	}
	for len(places) > 1 && head[places[len(places)-1][2]:places[len(places)-1][3]] == "gotpl" {
		places = places[:len(places)-1]
	}
	if len(places) == 0 {
		return &TemplateError{Message: text}
	}
	last := places[len(places)-1]
	out := &TemplateError{Template: head[last[2]:last[3]], Line: number(head, last[4], last[5]), Column: number(head, last[6], last[7]), Message: text[last[1]:], Refused: refused}
	if first := places[0]; len(places) > 1 {
		out.Caller = head[first[2]:first[3]] + ":" + head[first[4]:first[5]]
	}
	return out
}

func number(s string, from, to int) int {
	if from < 0 {
		return 0
	}
	n, err := strconv.Atoi(s[from:to])
	if err != nil { // more digits than a line number has
		return 0
	}
	return n
}

// SchemaError says which values a chart's values.schema.json refuses.
type SchemaError struct {
	Failures []SchemaFailure
}

// SchemaFailure is one value that does not fit, or a schema that cannot be used.
type SchemaFailure struct {
	Chart   string   // the chart whose schema it is
	Path    []string // of the value in the release's values; nil if the schema itself is at fault
	Message string
}

// Error lists the failures, one a line.
func (e *SchemaError) Error() string {
	out := "values do not fit values.schema.json (an app can say `schema: skip`):"
	for i := range e.Failures {
		f := &e.Failures[i]
		out += "\n" + f.Chart + ": "
		if f.Path != nil {
			out += strings.Join(f.Path, ".") + ": "
		}
		out += f.Message
	}
	return out
}
