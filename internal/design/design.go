// Package design holds the parts that all pages of Sluice share, so that reports and the pages of a fleet look alike: the
// base style sheet (colours in light and dark, type, header, panels, badges) and the mark. The package is a leaf and knows
// no page.
package design

import (
	_ "embed" // for the style sheet and the mark
	"html/template"
)

//go:embed base.css
var base string

//go:embed mark.svg
var mark string

// CSS returns the base style sheet. A page appends its own rules.
func CSS() string { return base }

// Mark returns the logo beside the name in the header, an SVG element.
func Mark() template.HTML { return template.HTML(mark) } //nolint:gosec // our own file
