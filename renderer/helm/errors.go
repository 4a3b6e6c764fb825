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
	first := templatePlace.FindStringSubmatch(text[:min(len(text), maxTemplateError)])
	if first == nil {
		return &TemplateError{Message: text}
	}
	const refusal = "execution error at "
	if strings.HasPrefix(text, refusal) { // what follows the place is the chart's own text
		return &TemplateError{Template: first[1], Line: number(first[2]), Column: number(first[3]), Message: strings.TrimPrefix(text[strings.Index(text, first[0]):], first[0]), Refused: true}
	}
	tail := text[max(0, len(text)-maxTemplateError):] // templates that call each other without end repeat the place a thousand times
	places := templatePlace.FindAllStringSubmatchIndex(tail, -1)
	for len(places) > 1 && tail[places[len(places)-1][2]:places[len(places)-1][3]] == "gotpl" {
		places = places[:len(places)-1]
	}
	if len(places) == 0 {
		return &TemplateError{Template: first[1], Line: number(first[2]), Message: text}
	}
	last := places[len(places)-1]
	out := &TemplateError{Template: tail[last[2]:last[3]], Line: number(tail[last[4]:last[5]]), Message: tail[last[1]:]}
	if last[6] >= 0 {
		out.Column = number(tail[last[6]:last[7]])
	}
	if caller := first[1] + ":" + first[2]; caller != out.Template+":"+tail[last[4]:last[5]] {
		out.Caller = caller
	}
	return out
}

func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil { // none, or more than a line number has
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
	var out strings.Builder
	out.WriteString("values do not fit values.schema.json (an app can say `schema: skip`):")
	for i := range e.Failures {
		f := &e.Failures[i]
		out.WriteString("\n" + f.Chart + ": ")
		if f.Path != nil {
			out.WriteString(strings.Join(f.Path, ".") + ": ")
		}
		out.WriteString(f.Message)
	}
	return out.String()
}
