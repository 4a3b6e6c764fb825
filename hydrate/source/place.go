package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/renderer"
)

// Place is the position in the repository that causes an error. Line and Column count from 1; 0 is unknown.
type Place struct {
	File         string
	Line, Column int
}

// String returns FILE:LINE:COLUMN, without unknown parts.
func (p Place) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// PlacedError is an error of a target with the file to change. The message begins with the exact position, which
// differs from Place if it is inside a packed chart.
type PlacedError struct {
	Place

	message string
	err     error
}

// Error returns the message, which begins with the position.
func (e *PlacedError) Error() string { return e.message }

// Unwrap returns the error of the renderer.
func (e *PlacedError) Unwrap() error { return e.err }

// PlaceOf returns the place of an error; the zero Place if the error has none.
func PlaceOf(err error) Place {
	if placed, ok := errors.AsType[*PlacedError](err); ok {
		return placed.Place
	}
	if file, ok := errors.AsType[*fleet.FileError](err); ok {
		return Place{file.File, file.Line, file.Column}
	}
	return Place{}
}

// Locate adds a place in the repository to an error of the renderer: the template, the layer that sets a value that a
// schema refuses, or, for a packed chart, the line of the app's file that names the chart. Other errors stay as they
// are.
func (t *Target) Locate(err error) error {
	input, ok := errors.AsType[*renderer.InputError](err)
	if !ok {
		return err
	}
	out := &PlacedError{Place: Place{input.File, input.Line, input.Column}, message: err.Error(), err: err}
	if len(input.Values) > 0 {
		if at, text := t.locateValues(input); at != (Place{}) {
			out.Place, out.message = at, at.String()+": "+text
			return out
		}
	}
	if _, err := t.view.contents.files.now().Entry(input.File); input.File == "" || err != nil {
		out.Place = t.sourcePlace(input.File)
	}
	return out
}

// sourcePlace returns the position in the app's file of the source with a chart, or of the first source.
func (t *Target) sourcePlace(chart string) Place {
	if i := t.Imported(); i != nil {
		return Place{File: i.File, Line: i.Line}
	}
	index := max(slices.IndexFunc(t.Sources, func(s fleet.Source) bool {
		return s.Helm != nil && strings.HasPrefix(strings.TrimPrefix(chart, "chart "), chartName(s.Helm))
	}), 0)
	if p := PlaceOf(t.SourceError(index, errors.New("not shown"))); p.File != "" {
		return p
	}
	return Place{File: t.App.File}
}

// chartName returns the name of the chart in errors of the renderer.
func chartName(h *fleet.HelmSource) string {
	if h.Chart == "" {
		return h.Path
	}
	return chartRef(h).String()
}

// locateValues finds the layer that sets each value that a schema refuses. It returns the first of these positions,
// and the message with a position for each value.
func (t *Target) locateValues(input *renderer.InputError) (Place, string) {
	lines := strings.Split(input.Message, "\n")
	var first Place
	next := min(1, len(lines)-1) // after the first line, which is about no value
	for _, keys := range input.Values {
		name := strings.Join(keys, ".")
		var at Place
		for _, extra := range refusedKeys(lines[next:], aboutValue(name)) {
			if at = t.valuePlace(input.File, strings.Join(append(slices.Clone(keys), extra), ".")); at != (Place{}) {
				break
			}
		}
		if at == (Place{}) {
			at = t.valuePlace(input.File, name)
		}
		if at == (Place{}) {
			continue
		}
		if first == (Place{}) {
			first = at
		}
		for i := next; i < len(lines); i++ { // the message lists the values in this order, one per line
			if strings.Contains(lines[i], aboutValue(name)) {
				lines[i] += " (set at " + at.String() + ")"
				next = i + 1
				break
			}
		}
	}
	return first, strings.Join(lines, "\n")
}

// aboutValue is what the lines of a message about a value contain before the reason.
func aboutValue(name string) string {
	if name == "" { // all values
		return ": "
	}
	return ": " + name + ": "
}

// refusedKeys returns the keys that a schema does not allow in a value: that is about them, not about the mapping. The
// first of the lines about the value decides.
func refusedKeys(lines []string, about string) []string {
	for _, line := range lines {
		_, text, ok := strings.Cut(line, about)
		if !ok {
			continue
		}
		list, ok := strings.CutPrefix(text, "additional properties ")
		if !ok {
			return nil
		}
		if list, ok = strings.CutSuffix(list, " not allowed"); !ok {
			return nil
		}
		var out []string
		for key := range strings.SplitSeq(list, ", ") {
			out = append(out, strings.Trim(key, "'"))
		}
		return out
	}
	return nil
}

// valuePlace returns the position that sets a value of a chart; for a mapping, that of one of the values below it,
// which the fleet sets if it sets one.
// Defaults of a packed chart have no position in the repository.
func (t *Target) valuePlace(chart, name string) Place {
	for _, src := range t.Sources {
		if src.Helm == nil || chartName(src.Helm) != chart {
			continue
		}
		var defaults explain.Defaults
		if src.Helm.Chart == "" {
			// if the chart has no default, another layer may set the value
			if own, err := t.view.contents.defaults(src.Helm); err == nil && len(own.Data) > 0 {
				defaults = own
			}
		}
		chains, err := explain.Values(t.view.Fleet, t.Target, src.Name, name, defaults)
		if err != nil || len(chains) == 0 {
			continue // this source does not set it
		}
		winner := func(c explain.Chain) explain.Origin { return c.Origins[len(c.Origins)-1] }
		i := max(slices.IndexFunc(chains, func(c explain.Chain) bool { return winner(c).File != defaults.File }), 0)
		o := winner(chains[i])
		return Place{o.File, o.Line, o.Column}
	}
	return Place{}
}
