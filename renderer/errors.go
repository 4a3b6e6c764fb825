package renderer

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/helm"
)

// InputError describes a mistake in a bundle. Every error of Engine.Render is an InputError, except ErrHeavy and the
// context's errors. Its text is safe to show: parts of it come from charts and manifests, so it is escaped and
// shortened.
type InputError struct {
	// in the repository, or `chart NAME VERSION: FILE` for one in a packed chart; empty if unknown
	File         string
	Line, Column int        // 0 if unknown
	Message      string     // up to 20 lines
	Values       [][]string // paths of the values that a schema refuses, in the order of the message
}

// Error returns FILE:LINE:COLUMN: message.
func (e *InputError) Error() string {
	if e.File == "" {
		return e.Message
	}
	var out strings.Builder
	out.WriteString(e.File)
	for _, n := range []int{e.Line, e.Column} {
		if n > 0 {
			out.WriteString(":" + strconv.Itoa(n))
		}
	}
	return out.String() + ": " + e.Message
}

// LightBytes is the limit of the YAML of a light bundle's objects.
const LightBytes = 64 << 10

// ErrHeavy means that the rendering of a light bundle has more than LightBytes.
var ErrHeavy = errors.New("the rendering is too large for a light bundle")

// Limits of the text of an error.
const (
	errorLines = 20
	errorWidth = 1600 // characters of a line: Kustomize's explanations are the longest
	errorPath  = 500  // characters of a file's name or of a value's path
	maxValues  = 100  // paths of values
)

// inputError makes the error of a source safe to show. It returns ErrHeavy and errors of a context unchanged.
func inputError(err error) error {
	if err == nil || errors.Is(err, ErrHeavy) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*InputError](err); ok {
		return e.safe()
	}
	return (&InputError{Message: err.Error()}).safe()
}

// safe returns a copy that is safe to show.
func (e *InputError) safe() *InputError {
	out := &InputError{
		File:    safetext.Brief(e.File, errorPath),
		Line:    max(e.Line, 0),
		Column:  max(e.Column, 0),
		Message: safetext.Message(e.Message, errorLines, errorWidth),
	}
	for _, path := range e.Values[:min(len(e.Values), maxValues)] {
		parts := make([]string, 0, len(path))
		for _, p := range path[:min(len(path), errorPath)] {
			parts = append(parts, safetext.Brief(p, errorPath))
		}
		out.Values = append(out.Values, parts)
	}
	return out
}

// helmError returns an error of a chart with its position in the repository.
func (s *HelmSource) helmError(chart string, err error) error {
	if e, ok := errors.AsType[*helm.TemplateError](err); ok {
		out := &InputError{File: s.sourceName(chart, e.Template), Line: e.Line, Column: e.Column, Message: e.Message}
		if e.Refused {
			out.Message += " (the template refuses these values)"
		}
		if file, line, ok := strings.Cut(e.Caller, ":"); ok {
			out.Message += " (called from " + s.sourceName(chart, file) + ":" + line + ")"
		}
		if e.Template == "" {
			out.File = s.Chart.Name
		}
		return out
	}
	if e, ok := errors.AsType[*helm.SchemaError](err); ok {
		out := &InputError{File: s.Chart.Name, Message: e.Error()}
		for i := range e.Failures {
			if e.Failures[i].Path != nil {
				out.Values = append(out.Values, e.Failures[i].Path)
			}
		}
		return out
	}
	return err
}
