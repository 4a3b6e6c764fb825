package helm

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/secret"
)

// TemplateError is an error of a template: a mistake in it, or a refusal of the values by `fail` or `required`.
type TemplateError struct {
	Template     string // CHART/templates/FILE; empty if unknown
	Line, Column int    // 0 if unknown
	Message      string // the chart's text, neither escaped nor shortened
	Caller       string // TEMPLATE:LINE of the rendered file, if the error is in a helper
	Refused      bool   // by `fail` or `required`
}

// Error returns TEMPLATE:LINE:COLUMN: message.
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

// templatePlace matches the place of an error as text/template and Helm print it. `gotpl` is the name of text that
// `tpl` renders.
var templatePlace = regexp.MustCompile(`(?:template: |(?:execution|parse) error at \()([^\s:()]+):(\d+)(?::(\d+))?(?:\): |: )(?:executing "[^"]*" )?`)

const maxTemplateError = 64 << 10 // bytes of an error that are searched for places

// templateError parses the position of an error from its text, because Helm's engine returns no typed errors. The
// innermost position is that of the error; the outermost is its caller.
func templateError(err error) *TemplateError {
	text := err.Error()
	first := templatePlace.FindStringSubmatch(text[:min(len(text), maxTemplateError)])
	if first == nil {
		return &TemplateError{Message: text}
	}
	const refusal = "execution error at "
	if strings.HasPrefix(text, refusal) { // the rest is the chart's own text
		return &TemplateError{
			Template: first[1], Line: number(first[2]), Column: number(first[3]),
			Message: strings.TrimPrefix(text[strings.Index(text, first[0]):], first[0]), Refused: true,
		}
	}
	tail := text[max(0, len(text)-maxTemplateError):] // an endless recursion repeats the place a thousand times
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
	if err != nil { // empty, or too long
		return 0
	}
	return n
}

// SchemaError lists the values that a chart's values.schema.json refuses.
type SchemaError struct {
	Failures []SchemaFailure
}

// SchemaFailure is an invalid value or an unusable schema.
type SchemaFailure struct {
	Chart   string   // the chart of the schema
	Path    []string // of the value in the release's values; nil if the schema itself is wrong
	Message string
}

// Error returns one line for each failure.
func (e *SchemaError) Error() string {
	var out strings.Builder
	out.WriteString("values do not fit values.schema.json (an app can say `schema: skip`):")
	for i := range e.Failures {
		f := &e.Failures[i]
		out.WriteString("\n" + f.Chart + ": ")
		if len(f.Path) > 0 {
			out.WriteString(strings.Join(f.Path, ".") + ": ")
		}
		out.WriteString(f.Message)
	}
	return out.String()
}

// Bytes from which a secret is replaced in errors: where it stands alone, and anywhere. Shorter ones can be a part of
// the name of a template, without which nobody finds the error.
const (
	shortestSecret = 4
	shortestPart   = 8
)

// withoutSecrets replaces the values of a release that are secrets, and their encodings, in a TemplateError or a
// SchemaError. `fail` can quote them, and a schema that refuses a value does.
func withoutSecrets(err error, values map[string]any) error {
	template, isTemplate := errors.AsType[*TemplateError](err)
	schema, isSchema := errors.AsType[*SchemaError](err)
	if !isTemplate && !isSchema {
		return err
	}
	masks := map[string]string{}
	secret.Each("", values, func(value string) {
		if len(value) < shortestSecret {
			return
		}
		mask, quoted := maskOf(value), strconv.Quote(value)
		encoded := base64.StdEncoding.EncodeToString([]byte(value))
		for _, form := range []string{value, quoted[1 : len(quoted)-1], encoded} {
			masks[form] = mask
		}
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= shortestPart && len(line) < len(value) {
				masks[line] = mask
			}
		}
	})
	forms := slices.SortedFunc(maps.Keys(masks), func(a, b string) int { // a value may contain another one
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(forms))
	var alone []string
	for _, form := range forms {
		if len(form) < shortestPart {
			alone = append(alone, form)
			continue
		}
		pairs = append(pairs, form, masks[form])
	}
	replacer := strings.NewReplacer(pairs...)
	masked := func(text string) string {
		text = replacer.Replace(text)
		for _, form := range alone {
			text = replaceAlone(text, form, masks[form])
		}
		return secret.ReplaceTokens(text, maskOf)
	}
	if isTemplate {
		template.Message = masked(template.Message)
	}
	if isSchema {
		for i := range schema.Failures {
			schema.Failures[i].Message = masked(schema.Failures[i].Message)
		}
	}
	return err
}

// replaceAlone replaces a word of a text where it is no part of a longer word, a path or a name.
func replaceAlone(text, word, by string) string {
	letter := func(text string) bool {
		return text != "" && (text[0] >= 'a' && text[0] <= 'z' || text[0] >= 'A' && text[0] <= 'Z' ||
			text[0] >= '0' && text[0] <= '9' || text[0] == '_')
	}
	joins := func(text string) bool { return text != "" && strings.IndexByte("-./", text[0]) >= 0 }
	var out strings.Builder
	for {
		i := strings.Index(text, word)
		if i < 0 {
			return out.String() + text
		}
		end := i + len(word)
		out.WriteString(text[:i])
		last := out.String()
		last, rest := last[max(0, len(last)-1):], text[end:]
		if letter(last) || joins(last) || letter(rest) || joins(rest) && letter(rest[1:]) {
			out.WriteString(word)
		} else {
			out.WriteString(by)
		}
		text = rest
	}
}

// maskOf stands for a value in an error. It has no fingerprint, because a rendering depends on no key.
func maskOf(value string) string {
	if strings.HasPrefix(value, "‹masked ") {
		return value
	}
	return fmt.Sprintf("‹masked %d bytes›", len(value))
}
